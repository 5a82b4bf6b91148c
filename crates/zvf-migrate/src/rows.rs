//! Standalone arrays: values of objects and groups, members of groups, tables, names.
//!
//! Old stores have one byte per row that states whether its value is present. New ones use the fill
//! value for absent rows, which must not occur in a present row: the default of the type if it is
//! unused.

use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_metadata::arrays::{ArrayAttributes as _, Rows as Doc};
use zvf_metadata::{Dtype, DtypeKind, FillValue, Object};
use zvf_model::{Parametric, RowAttribute, is_fill_row};
use zvf_store::{Build, DenseArray, DensePlan, RowPlan, Rows, Store, fill_item};

/// Writes values by object, or by group.
pub(crate) async fn values(
    dense: &DenseArray,
    values: &RowAttribute,
    of_groups: bool,
    build: &Build,
    path: &str,
) -> Result<()> {
    let (dtype, rows) = (values.dtype(), dense.len());
    let mut free = candidates(dtype);
    let usual = free.first().cloned();
    let mut any_absent = false;
    for range in batches(rows, BATCH) {
        let some = values.range(range).await?;
        any_absent |= !some.absent_rows().is_empty();
        let present = (0..some.column().len()).filter(|row| some.is_present(*row));
        let present: Vec<&[u8]> = present.map(|row| some.column().row(row)).collect();
        free.retain(|(_, item)| !present.iter().any(|row| is_fill_row(dtype, row, item)));
    }
    let fill = match (any_absent, free.first()) {
        (true, None) => {
            let error = Error::new(
                Class::Unsupported,
                "values of the type",
                "a value that no present row has, to mean absence",
                "all in use",
            );
            return Err(error.at_key(path));
        }
        (true, found) => found.cloned(),
        (false, _) => usual.clone(),
    };
    // Without absent rows, the default may be an actual value; also, types without candidates have
    // no default.
    let says_absence =
        any_absent || (!of_groups && usual.is_some() && free.first() == usual.as_ref());
    let shape = dense.shape().to_vec();
    let columns = (shape.len() > 1).then_some(u64::from(values.width()));
    let mut doc = Doc::parse(dense.attributes().clone()).at_key(path)?;
    let name = doc.name.clone().unwrap_or_else(|| values.name().to_owned());
    let new = match of_groups {
        true => Doc::group_attribute(&name, dtype, shape),
        false => Doc::object_attribute(&name, dtype, shape),
    };
    doc = Doc { extras: doc.extras, ..new };
    doc.fill_sentinel_meaning = says_absence.then(|| ABSENT.to_owned());
    let plan = match (&fill, of_groups && !any_absent) {
        (Some((fill, _)), false) => DensePlan::object_attribute(dtype, columns, fill.clone()),
        _ => DensePlan { columns, ..DensePlan::new(dtype) },
    };
    let mut sink = build.dense(path, DensePlan { attributes: doc.to_attributes(), ..plan })?;
    // A row of this width was read if one is absent; otherwise a document may state any width.
    let absent =
        fill.filter(|_| any_absent).map(|(_, item)| item.repeat(usize_from_u32(values.width())));
    for range in batches(rows, BATCH) {
        let some = values.range(range).await?;
        if some.absent_rows().is_empty() {
            sink.push(some.column().bytes())?;
            continue;
        }
        for row in 0..some.column().len() {
            match &absent {
                Some(absent) if !some.is_present(row) => sink.push(absent)?,
                _ => sink.push(some.column().row(row))?,
            }
        }
    }
    sink.finish(|_| ()).await?;
    Ok(())
}

/// Copies rows of variable length.
pub(crate) async fn rows(from: &Rows, build: &Build, path: &str) -> Result<()> {
    let plan = RowPlan { attributes: from.attributes().clone(), ..RowPlan::default() };
    let mut sink = build.rows(path, plan)?;
    for range in batches(from.count().await?, BATCH) {
        for row in from.range(range).await? {
            sink.push(&row)?;
        }
    }
    sink.finish(|_| ()).await?;
    Ok(())
}

/// Copies a table of numbers.
pub(crate) async fn table(from: &DenseArray, build: &Build, path: &str) -> Result<()> {
    let columns = from.shape().get(1..).filter(|columns| !columns.is_empty());
    // Compared with the limit of a chunk when the array is begun.
    let columns =
        columns.map(|columns| columns.iter().fold(1, |all: u64, n| all.saturating_mul(*n)));
    let attributes = from.attributes().clone();
    let plan = DensePlan { columns, attributes, ..DensePlan::new(from.dtype()) };
    let mut sink = build.dense(path, plan)?;
    for range in batches(from.len(), BATCH) {
        sink.push(&from.rows(range).await?)?;
    }
    sink.finish(|_| ()).await?;
    Ok(())
}

/// Writes the names of parametric objects.
pub(crate) async fn names(store: &Store, build: &Build, path: &str) -> Result<()> {
    let Some(parametric) = Parametric::open(store).await? else { return Ok(()) };
    let shapes = parametric.shapes().await?;
    let mut attributes = Object::new();
    attributes.insert("zv_array".to_owned(), "parametric_names".into());
    attributes.insert("num_objects".to_owned(), to_u64(shapes.len()).into());
    let mut sink = build.rows(path, RowPlan { attributes, ..RowPlan::default() })?;
    for shape in shapes {
        sink.push(shape.name.as_bytes())?;
    }
    sink.finish(|_| ()).await?;
    Ok(())
}

/// Returns an absent row.
///
/// # Errors
///
/// [`Class::LimitExceeded`] when it is larger than any row of a valid store: documents may state
/// any size.
pub(crate) fn absent_row(dtype: Dtype, width: u32) -> Result<Vec<u8>> {
    let bytes = dtype.size.saturating_mul(width.into()); // compared with the cap
    if bytes > MAX_ABSENT_ROW_BYTES {
        return Err(Error::new(
            Class::LimitExceeded,
            "bytes of an absent row",
            Expected::AtMost(MAX_ABSENT_ROW_BYTES.into()),
            bytes,
        ));
    }
    let usual = candidates(dtype).into_iter().next();
    let item = usual.map_or_else(|| vec![0; saturating_usize(dtype.size)], |(_, item)| item);
    Ok(item.repeat(usize_from_u32(width)))
}

/// Returns the values that may mean absence, each as a document and as a row; the default first.
fn candidates(dtype: Dtype) -> Vec<(FillValue, Vec<u8>)> {
    let unused_bits = || 64 - 8 * dtype.size; // integers have 1, 2, 4 or 8 bytes
    let tried = if dtype.size == 1 { ALL_OF_A_BYTE } else { MAX_CANDIDATES };
    let fills: Vec<FillValue> = match dtype.kind {
        DtypeKind::Float => {
            [f64::NAN, f64::NEG_INFINITY, f64::INFINITY].map(FillValue::float).to_vec()
        }
        DtypeKind::Int => {
            let lowest = i64::MIN >> unused_bits();
            (lowest..).zip(0..tried).map(|(n, _)| FillValue::int(n)).collect()
        }
        DtypeKind::UInt => {
            let highest = u64::MAX >> unused_bits();
            (0..tried).map(|i| FillValue::uint(highest - i)).collect()
        }
        DtypeKind::Text if dtype.size > MAX_ABSENT_ROW_BYTES => Vec::new(), // documents may state any size
        DtypeKind::Text => ["", "\u{fffd}"].map(FillValue::text).to_vec(),
        DtypeKind::Bool => Vec::new(), // each of its values may occur
    };
    let items = fills.into_iter().map(|fill| {
        let item = fill_item(fill.fill(), dtype).into_vec();
        (fill, item)
    });
    items.collect()
}

/// Divides the rows `0..rows` into ranges of at most `size`, which is not 0.
pub(crate) fn batches(rows: u64, size: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let starts = std::iter::successors(Some(0_u64), move |start| start.checked_add(size));
    starts
        .take_while(move |start| *start < rows)
        .map(move |start| start..start + size.min(rows - start))
}

const ABSENT: &str = "absent";
/// The number of rows that are read at once.
const BATCH: u64 = 65_536;
/// The number of candidate values of wide types.
const MAX_CANDIDATES: u64 = 8;
const ALL_OF_A_BYTE: u64 = 256;
/// The largest absent row in bytes.
const MAX_ABSENT_ROW_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_fill_value_is_the_first_candidate() {
        #[rustfmt::skip]
        let table: [(&str, &str, &[u8]); 9] = [
            ("float32", "NaN",  &[0, 0, 0xc0, 0x7f]),
            ("float16", "NaN",  &[0, 0x7e]),
            ("int8",    "-128", &[0x80]),
            ("int16",   "-32768", &[0, 0x80]),
            ("int64",   "-9223372036854775808", &[0, 0, 0, 0, 0, 0, 0, 0x80]),
            ("uint8",   "255",  &[0xff]),
            ("uint32",  "4294967295", &[0xff; 4]),
            ("uint64",  "18446744073709551615", &[0xff; 8]),
            ("<U2",     "",     &[0; 8]),
        ];
        for (name, _, item) in table {
            let dtype = name.parse::<Dtype>().unwrap();
            assert_eq!(candidates(dtype)[0].1, item, "{name}");
            assert!(is_fill_row(dtype, &[item, item].concat(), item), "{name}");
        }
        assert!(candidates("bool".parse::<Dtype>().unwrap()).is_empty());
        assert_eq!(absent_row("bool".parse::<Dtype>().unwrap(), 2).unwrap(), [0, 0]);
        assert_eq!(absent_row("int8".parse::<Dtype>().unwrap(), 2).unwrap(), [0x80, 0x80]);
        let bytes = candidates("uint8".parse::<Dtype>().unwrap());
        assert_eq!((bytes.len(), bytes[255].1[0]), (256, 0));
    }

    #[test]
    fn rows_that_read_as_absent() {
        let float = Dtype::FLOAT32;
        let nan = f32::NAN.to_le_bytes();
        assert!(is_fill_row(float, &[1, 0, 0xc0, 0xff], &nan)); // another NaN
        assert!(!is_fill_row(float, &[0, 0, 0, 0, 0, 0, 0xc0, 0x7f], &nan));
        assert!(is_fill_row("float16".parse::<Dtype>().unwrap(), &[1, 0x7c], &[0, 0x7e]));
        assert!(!is_fill_row("uint16".parse::<Dtype>().unwrap(), &[1, 0x7c], &[0, 0x7e]));
    }

    #[test]
    fn rows_go_by_batches() {
        assert_eq!(batches(0, 4).count(), 0);
        assert_eq!(batches(9, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..9]);
        let last = batches(u64::MAX, 1 << 63).last();
        assert_eq!(last, Some(1 << 63..u64::MAX));
    }

    #[test]
    fn absent_rows_of_any_stated_width_are_refused() {
        let float = "float64".parse::<Dtype>().unwrap();
        assert_eq!(absent_row(float, 1 << 17).unwrap().len(), 1 << 20);
        for (name, width) in
            [("float64", (1 << 17) + 1), ("float64", u32::MAX), ("<U4294967295", u32::MAX)]
        {
            let error = absent_row(name.parse::<Dtype>().unwrap(), width).unwrap_err();
            assert_eq!(error.class(), Class::LimitExceeded, "{name} {width}");
        }
    }
}

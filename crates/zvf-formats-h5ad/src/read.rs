//! Reader of h5ad: the cells of `AnnData` with their positions, in an HDF5 file.
//!
//! ```text
//! obsm/spatial          positions; or X_spatial, spatial_fov; or the array that the options name
//! obs/NAME              an attribute: numbers, booleans, text, categories, nullable numbers and booleans
//! obs/_index            names of the cells: recorded, so that they can be written back
//! X, layers, var, uns   not read
//! ```
//!
//! Positions may be a data frame with a column for each axis. The whole table of cells is held in memory, within the
//! memory limit; genes are not read. The attribute `obs_row` is the number of the cell, so that rows can be matched
//! again.
//!
//! The crate `hdf5-pure` reads the file without a C library. Shapes are checked against the memory limit before it
//! allocates, external links are not followed, and a panic in it is reported as a broken file.

mod columns;
mod file;

use serde_json::{Value as Json, json};
use zvf_error::{Result, format_count};
use zvf_format::Class;
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_formats::{
    Bytes, FileReader, MAX_AXES, ReadOptions, UINT32, WholeGeometry, new_column, point_kind,
};
use zvf_metadata::DtypeKind;
use zvf_model::{Column, Field, Kind};

use crate::read::columns::read_column;
use crate::read::file::{H5, Node, spot};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let file = H5::open(bytes, options.memory)?;
    let kind = point_kind(options, NAME)?;
    spot("obsm").ensure(kind == Kind::PointCloud, Class::Unsupported, "a point_cloud", kind)?;
    let obs = Obs::read(&file)?;
    let (positions, key) = read_positions(&file, obs.rows, options)?;
    let (mut left_out, mut column_notes) = (Vec::new(), Vec::new());
    let mut fields = Vec::new();
    for name in &obs.columns {
        if options.columns.fields.as_ref().is_some_and(|names| !names.contains(name)) {
            continue;
        }
        match read_column(&file, &format!("obs/{name}"), name, obs.rows)? {
            Some((field, note)) => {
                fields.push(field);
                column_notes.extend(note);
            }
            None => left_out.push(format!("obs/{name}: neither numbers nor text nor categories")),
        }
    }
    let adds_obs_row = options.columns.fields.is_none()
        && fields.iter().all(|field: &Field| *field.name != *"obs_row");
    if adds_obs_row {
        let rows = u32::try_from(obs.rows).ok();
        let rows =
            spot("obs").need(rows, Class::LimitExceeded, "fewer than 2^32 rows", obs.rows)?;
        let row_numbers = (0..rows).flat_map(u32::to_le_bytes).collect();
        fields.push(Field::new("obs_row", new_column(UINT32, 1, row_numbers)?));
    }
    left_out.extend(list_left_out(&file, &key));
    let nan_count = count_nan_rows(&positions);
    if nan_count > 0 {
        let cells = format_count(nan_count, "cell");
        column_notes.push(format!("{cells} without a position: it is NaN"));
    }
    let mut geometry = WholeGeometry::new(kind, positions, fields)?;
    geometry.header.records.push(("h5ad".to_owned(), obs.to_record(&key)));
    geometry.header.left_out = left_out;
    geometry.header.notes = column_notes;
    geometry.into_reader("h5ad", options)
}

/// The table of cells, `obs`.
struct Obs {
    rows: usize,
    columns: Vec<String>,
    names: Vec<String>,
}

impl Obs {
    fn read(file: &H5) -> Result<Self> {
        match file.find_node("obs")? {
            Node::Group => {}
            Node::Dataset => {
                let bad = "one array of records, as anndata before 0.7 wrote it".to_owned();
                let expected = "a group; read and write it with a newer anndata";
                return spot("obs").refuse(Class::Unsupported, expected, bad);
            }
            Node::Missing => {
                return spot("obs").refuse(Class::NotFound, "a table of cells", "none");
            }
        }
        let index = file.text_attribute("obs", "_index")?.unwrap_or_else(|| "_index".to_owned());
        let columns = file.list_attribute("obs", "column-order")?;
        let path = format!("obs/{index}");
        let names = file.read_texts(&path)?;
        Ok(Self { rows: names.len(), columns, names })
    }

    fn to_record(&self, key: &str) -> Json {
        let bytes = self.names.iter().map(String::len).sum::<usize>();
        let names = (bytes <= MAX_NAMES_BYTES).then_some(&self.names);
        json!({ "spatial_key": key, "obs_names": names })
    }
}

/// Reads the positions. Returns them and their key in `obsm`.
fn read_positions(file: &H5, rows: usize, options: &ReadOptions) -> Result<(Column, String)> {
    let keys = file.members("obsm")?;
    let requested = options.columns.positions.first();
    let names: Vec<&str> = match requested {
        Some(requested) => vec![requested.as_str()],
        None => SPATIAL_KEYS.to_vec(),
    };
    // `members` omits external links, so each name is looked up.
    let mut key = None;
    for name in &names {
        if key.is_none() && file.find_node(&format!("obsm/{name}"))? != Node::Missing {
            key = Some((*name).to_owned());
        }
    }
    let Some(key) = &key else {
        for name in &names {
            if let Some(target) = file.find_external_link(name)? {
                let expected = "positions in this file; links out of it are not followed";
                let found = format!("a link to {target:?}");
                return spot(&format!("obsm/{name}")).refuse(Class::Unsupported, expected, found);
            }
        }
        let expected = match requested {
            Some(requested) => format!("obsm/{requested}"),
            None => "obsm/spatial; name another one as the column of positions".to_owned(),
        };
        return spot("obsm").refuse(Class::NotFound, &expected, keys.join(", "));
    };
    let path = format!("obsm/{key}");
    if file.find_node(&path)? == Node::Group {
        let positions = read_frame(file, &path, rows)?;
        return Ok((positions, key.clone()));
    }
    let shape = file.shape(&path)?;
    let [row_count, width] = shape.as_slice() else {
        let expected = "an array of two dimensions";
        return spot(&path).refuse(Class::BadShape, expected, format_args!("{shape:?}"));
    };
    let axes = usize::try_from(*width).ok().filter(|axes| (1..=MAX_AXES).contains(axes));
    let expected = format_args!("from 1 to {MAX_AXES} axes");
    let axes = spot(&path).need(axes, Class::BadShape, expected, width)?;
    if usize::try_from(*row_count) != Ok(rows) {
        let expected = format!("{rows} rows, as obs has");
        return spot(&path).refuse(Class::CountMismatch, &expected, row_count);
    }
    let Some(dtype) = file.number_type(&path)?.filter(|dtype| dtype.kind != DtypeKind::Bool) else {
        return spot(&path).refuse(Class::Unsupported, "numbers", "another type");
    };
    let bytes = file.read_bytes(&path, dtype)?;
    Ok((new_column(dtype, index_u32(axes), bytes)?, key.clone()))
}

/// Reads positions from a data frame with a column for each axis.
fn read_frame(file: &H5, path: &str, rows: usize) -> Result<Column> {
    let names = file.list_attribute(path, "column-order")?;
    let mut columns = Vec::new();
    for name in &names {
        let inner = format!("{path}/{name}");
        match read_column(file, &inner, name, rows)? {
            Some((field, _)) if field.categories.is_none() => columns.push(field.column),
            _ => {
                return spot(&inner).refuse(Class::Unsupported, "numbers", "another type");
            }
        }
    }
    let dtype = columns.first().map(Column::dtype);
    let dtype = spot(path).need(dtype, Class::BadShape, "columns of positions", "none")?;
    if columns.len() > MAX_AXES || columns.iter().any(|column| column.dtype() != dtype) {
        let expected = format!("up to {MAX_AXES} columns of one type");
        return spot(path).refuse(Class::BadShape, &expected, names.join(", "));
    }
    let bytes = (0..rows)
        .flat_map(|row| columns.iter().flat_map(move |column| column.row(row).to_vec()))
        .collect();
    new_column(dtype, index_u32(columns.len()), bytes)
}

/// Lists what the file holds and the reader drops.
fn list_left_out(file: &H5, key: &str) -> Vec<String> {
    let mut notes = Vec::new();
    for (path, what) in [
        ("X", "the matrix of genes"),
        ("layers", "layers"),
        ("uns", "unstructured data"),
        ("obsp", "distances of cells"),
    ] {
        notes.extend(describe_left_out(path, what, file.find_node(path), || file.members(path)));
    }
    notes.extend(describe_other_positions(file.members("obsm"), key));
    notes
}

/// Counts the rows with a coordinate that is NaN.
fn count_nan_rows(positions: &Column) -> usize {
    let width = usize_from_u32(positions.width());
    let is_nan =
        |row: &usize| (0..width).any(|axis| positions.float(*row, axis).is_some_and(f64::is_nan));
    (0..positions.len()).filter(is_nan).count()
}

/// Returns a note about the data under a path, if there are any. Unreadable data are noted with their error.
fn describe_left_out(
    path: &str,
    what: &str,
    node: Result<Node>,
    members: impl FnOnce() -> Result<Vec<String>>,
) -> Option<String> {
    let fault = match node {
        Ok(Node::Missing) => return None,
        Ok(Node::Dataset) => None,
        Ok(Node::Group) => match members() {
            Ok(members) if members.is_empty() => return None,
            Ok(_) => None,
            Err(error) => Some(error),
        },
        Err(error) => Some(error),
    };
    Some(match fault {
        None => format!("{path}: {what}"),
        Some(error) => format!("{path}: {what}, which cannot be read: {error}"),
    })
}

/// Returns a note about the positions with other keys than `key`, if there are any.
fn describe_other_positions(members: Result<Vec<String>>, key: &str) -> Option<String> {
    match members {
        Ok(mut members) => {
            members.retain(|member| member != key);
            (!members.is_empty()).then(|| format!("obsm: {}", members.join(", ")))
        }
        Err(error) => Some(format!("obsm: other positions, which cannot be listed: {error}")),
    }
}

pub(crate) const NAME: &str = "h5ad";
/// The default keys of positions, in lookup order.
const SPATIAL_KEYS: [&str; 3] = ["spatial", "X_spatial", "spatial_fov"];
/// Limit of the cell names in the record.
const MAX_NAMES_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests;

//! `FlatGeobuf`: features one after the other, with an R-tree over their boxes in front.
//!
//! ```text
//! 66 67 62 03 66 67 62 xx    magic, version 3
//! header                     u32 bytes, a FlatBuffer: kind, columns, CRS, count, width of the tree
//! tree                       nodes of 4 f64 and u64, the root first; none where its width or the count is 0
//! features                   u32 bytes, a FlatBuffer each
//! ```
//!
//! Features come in the order of the file, which is that of the tree where there is one. With a box the tree is
//! walked and only features that meet the box are read; without a tree the boxes of all are compared. Types stay;
//! a value that is not there is missing.

pub(crate) mod buffer;
mod feature;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;

use self::buffer::Table;
use self::feature::{BadFeature, FgbColumn, read_cells, read_shape};
use super::crs;
use super::features::{Columns, FLOAT64, Rows, Seen, Shape};
use super::geojson::with_units;
use super::input::Bytes;
use super::roles::axes;
use super::source::{Numbers, Source};
use super::values::column;
use super::{Bounds, Header, Piece, ReadOptions, Reader};
use crate::ConvertError;
use crate::error::Place;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let mut source = Source::open(bytes, options.memory)?;
    let said = FgbHeader::read(&mut source)?;
    let found = match &options.bounds {
        Some(bounds) if said.node_width > 0 && said.count > 0 => {
            Some(said.search(&mut source, bounds)?)
        }
        _ => None,
    };
    let walk = Walk { at: said.features_at, number: 0, found: found.map(Vec::into_iter) };
    let (first, left_out) = first_pass(&mut source, &said, walk.clone(), options)?;
    let (kind, other_kinds) = first.seen.choose(options, NAME)?;
    let axis_count = match first.seen.axes {
        0 if said.has_z => 3,
        0 => 2,
        axes => axes,
    };
    let width = u32::try_from(axis_count).unwrap_or(2);
    let mut columns = first.columns;
    let unit = said.unit();
    let header = Header {
        objects: true,
        object_fields: columns.take(0)?,
        other_kinds,
        vertices: Some(first.seen.vertices),
        crs: said.crs.clone(),
        records: vec![("geo".to_owned(), said.record.clone())],
        left_out,
        ..Header::new(kind, axes(width), column(FLOAT64, width, Vec::new())?)
    };
    let rows = Rows::new(kind, axis_count, columns, options.batch_rows.max(1));
    let bounds = options.bounds.clone();
    let places = first.places;
    let mut pieces = Pieces { source, said, walk, rows, shape: Shape::default(), places, bounds };
    Ok(Reader::from_steps(with_units(header, unit), move || pieces.step()))
}

/// What the header says.
#[derive(Clone, Debug)]
struct FgbHeader {
    kind: u8,
    has_z: bool,
    columns: Vec<FgbColumn>,
    count: u64, // 0 where it is not known
    node_width: u16,
    crs: Option<Json>,
    wkt: Option<String>,
    record: Json,
    tree_at: u64,
    features_at: u64,
}

impl FgbHeader {
    fn read(source: &mut Source) -> Result<Self, ConvertError> {
        let magic = source.read(0, source.len().min(8), "the magic")?;
        let show = || format!("{magic:02x?}");
        match magic.as_slice() {
            [b'f', b'g', b'b', 3, b'f', b'g', b'b', _] => {}
            [b'f', b'g', b'b', 0..=31, b'f', b'g', b'b', _] => {
                return Err(source
                    .bad(Class::UnsupportedVersion, Place::Byte(3), "version 3", show())
                    .into());
            }
            _ => {
                return Err(source
                    .bad(Class::BadMagic, Place::Byte(0), "fgb, 3, fgb", show())
                    .into());
            }
        }
        let size = u64::from(Numbers(&source.read(8, 4, "the size of the header")?).u32(0));
        if size > MAX_HEADER_BYTES {
            let expected = format!("a header of at most {MAX_HEADER_BYTES} bytes");
            return Err(source
                .bad(Class::LimitExceeded, Place::Byte(8), expected, size.to_string())
                .into());
        }
        let raw = source.read(12, size, "the header")?;
        let header = Self::parse(&raw).map_err(|bad| fault(source, 12, bad))?;
        header.locate_features(source, size + 12)
    }

    fn parse(raw: &[u8]) -> Result<Self, BadFeature> {
        let root = Table::root(raw)?;
        let mut columns = Vec::new();
        for one in root.tables(7)? {
            let one = one?;
            columns.push(FgbColumn { name: one.text(0)?.unwrap_or_default(), kind: one.u8(1)? });
        }
        let (mut crs, mut wkt) = (None, None);
        if let Some(said) = root.table(10)? {
            let (org, code) = (said.text(0)?, said.i32(1)?);
            let text = said.text(5)?.filter(|text| !text.is_empty());
            let code = text.or((code != 0).then(|| code.to_string()));
            wkt = said.text(4)?.filter(|text| !text.is_empty());
            let org = org.unwrap_or_else(|| "EPSG".to_owned());
            crs = code.map(|code| format!("{org}:{code}")).or_else(|| wkt.clone()).map(Json::from);
        }
        let text = |number| root.text(number);
        let record = json!({
            "format": "flatgeobuf", "name": text(0)?, "title": text(11)?, "description": text(12)?,
            "metadata": text(13)?, "wkt": wkt,
        });
        Ok(Self {
            kind: root.u8(2)?,
            has_z: root.u8(3)? != 0,
            columns,
            count: root.u64(8)?,
            node_width: root.u16(9, 16)?,
            crs,
            wkt,
            record,
            tree_at: 0,
            features_at: 0,
        })
    }

    /// Finds where the tree and the features begin.
    fn locate_features(self, source: &Source, at: u64) -> Result<Self, ConvertError> {
        let bad = |class, expected: String, found: String| {
            Err(source.bad(class, Place::Byte(12), expected, found).into())
        };
        if self.node_width == 1 {
            return bad(
                Class::OutOfBounds,
                "nodes of 0, or of 2 or more".to_owned(),
                "1".to_owned(),
            );
        }
        // A sum that is too large is no file.
        let nodes = self.levels().iter().fold(0_u64, |sum, level| sum.saturating_add(*level));
        let end = nodes.checked_mul(NODE_BYTES).and_then(|bytes| bytes.checked_add(at));
        let least = self.count.checked_mul(4);
        let fits = end.zip(least).and_then(|(end, least)| end.checked_add(least));
        match (fits, end) {
            (Some(fits), Some(end)) if fits <= source.len() => {
                Ok(Self { tree_at: at, features_at: end, ..self })
            }
            _ => {
                let expected = format!("{} features and the tree over them", self.count);
                bad(Class::Truncated, expected, format!("{} bytes", source.len()))
            }
        }
    }

    /// Nodes of each level of the tree, leaves first; none without a tree.
    fn levels(&self) -> Vec<u64> {
        if self.node_width == 0 || self.count == 0 {
            return Vec::new();
        }
        let mut levels = vec![self.count];
        let mut count = self.count;
        loop {
            count = count.div_ceil(u64::from(self.node_width));
            levels.push(count);
            if count <= 1 {
                return levels;
            }
        }
    }

    fn unit(&self) -> Option<&'static str> {
        let by_text = self.wkt.as_ref().and_then(|wkt| crs::unit(&Json::from(wkt.as_str())));
        by_text.or_else(|| self.crs.as_ref().and_then(crs::unit))
    }

    /// Where the features lie that meet the box, in order.
    fn search(&self, source: &mut Source, bounds: &Bounds) -> Result<Vec<u64>, ConvertError> {
        let levels = self.levels();
        let mut starts = vec![0; levels.len()]; // of each level, in nodes; the root is the first of all
        let mut start = 0;
        for (at, level) in levels.iter().enumerate().rev() {
            if let Some(slot) = starts.get_mut(at) {
                *slot = start;
            }
            start += level;
        }
        let mut found = Vec::new();
        let top = levels.len().saturating_sub(1); // without a tree there are no levels
        let mut open = vec![(top, 0_u64, 1_u64)]; // level, first node in it, nodes
        while let Some((level, first, count)) = open.pop() {
            let start = starts.get(level).copied().unwrap_or(0);
            let at = self.tree_at + (start + first) * NODE_BYTES;
            let raw = source.read(at, count * NODE_BYTES, "nodes of the tree")?;
            for (number, node) in (0..).zip(raw.chunks_exact(40)) {
                let n = Numbers(node);
                let meets = |axis: usize| {
                    let (min, max) = (bounds.min.get(axis), bounds.max.get(axis));
                    min.is_none_or(|min| *min <= n.f64(16 + axis * 8))
                        && max.is_none_or(|max| n.f64(axis * 8) <= *max)
                };
                if !(meets(0) && meets(1)) {
                    continue;
                }
                let to = n.u64(32);
                let place = || Place::Byte(at + number * NODE_BYTES);
                if level == 0 {
                    let inside = self.features_at.checked_add(to).filter(|at| *at < source.len());
                    let Some(inside) = inside else {
                        let bad = source.bad(
                            Class::OutOfBounds,
                            place(),
                            "a feature in the file",
                            to.to_string(),
                        );
                        return Err(bad.into());
                    };
                    found.push(inside);
                    continue;
                }
                let (below, nodes) =
                    (starts.get(level - 1).copied(), levels.get(level - 1).copied());
                let first = below.and_then(|below| to.checked_sub(below));
                let (Some(first), Some(nodes)) =
                    (first.filter(|first| Some(*first) < nodes), nodes)
                else {
                    let expected = "a node of the next level";
                    return Err(source
                        .bad(Class::OutOfBounds, place(), expected, to.to_string())
                        .into());
                };
                if open.len() > MAX_OPEN_NODES {
                    let bad = source.bad(
                        Class::LimitExceeded,
                        place(),
                        "a tree",
                        "nodes named again and again",
                    );
                    return Err(bad.into());
                }
                open.push((level - 1, first, u64::from(self.node_width).min(nodes - first)));
            }
        }
        found.sort_unstable();
        let before = found.len();
        found.dedup();
        if found.len() != before {
            let bad = source.bad(
                Class::Duplicate,
                Place::Byte(self.tree_at),
                "each feature once",
                "one twice",
            );
            return Err(bad.into());
        }
        Ok(found)
    }
}

fn fault(source: &Source, at: u64, bad: BadFeature) -> ConvertError {
    let place = Place::Byte(at.saturating_add(to_u64(bad.at)));
    source.bad(bad.class, place, bad.expected, bad.found).into()
}

/// Which features are still to come.
#[derive(Clone, Debug)]
struct Walk {
    at: u64,
    number: u64,
    /// Those that a search found, instead of all.
    found: Option<std::vec::IntoIter<u64>>,
}

impl Walk {
    /// The bytes of the next feature and where they lie.
    fn next(
        &mut self,
        source: &mut Source,
        said: &FgbHeader,
    ) -> Result<Option<(u64, Vec<u8>)>, ConvertError> {
        if let Some(found) = &mut self.found {
            match found.next() {
                Some(at) => self.at = at,
                None => return Ok(None),
            }
        } else if self.at >= source.len() {
            if said.count != 0 && self.number != said.count {
                let expected = format!("{} features", said.count);
                let found = self.number.to_string();
                return Err(source
                    .bad(Class::Truncated, Place::Byte(self.at), expected, found)
                    .into());
            }
            return Ok(None);
        } else if said.count != 0 && self.number == said.count {
            let expected = format!("the end after {} features", said.count);
            return Err(source.bad(Class::Trailing, Place::Byte(self.at), expected, "more").into());
        }
        let size = u64::from(Numbers(&source.read(self.at, 4, "the size of a feature")?).u32(0));
        let at = self.at + 4;
        let raw = source.read(at, size, "a feature")?;
        self.at = at + size;
        self.number += 1;
        Ok(Some((at, raw)))
    }
}

/// What the first pass finds.
struct FirstPass {
    seen: Seen,
    columns: Columns,
    places: Vec<Option<usize>>, // of the columns of the file among those that are read
}

fn first_pass(
    source: &mut Source,
    said: &FgbHeader,
    mut walk: Walk,
    options: &ReadOptions,
) -> Result<(FirstPass, Vec<String>), ConvertError> {
    let mut columns = Columns::new(options.memory, NAME);
    let (mut places, mut notes) = (Vec::new(), Vec::new());
    for one in &said.columns {
        let wanted =
            options.columns.fields.as_ref().is_none_or(|wanted| wanted.contains(&one.name));
        places.push(match one.dtype().filter(|_| wanted) {
            Some(dtype) => Some(columns.declare(&one.name, dtype)?),
            None => {
                notes.push(format!("column {:?}", one.name));
                None
            }
        });
    }
    let (mut seen, mut shape, mut nowhere) = (Seen::default(), Shape::default(), 0_u64);
    while let Some((at, raw)) = walk.next(source, said)? {
        let root = Table::root(&raw).map_err(|stray| fault(source, at, stray.into()))?;
        read_shape(&root, said.kind, &mut shape).map_err(|bad| fault(source, at, bad))?;
        if !is_inside(&shape, options.bounds.as_ref()) {
            continue;
        }
        if !seen.add(&shape) {
            let expected = format!("positions of {} numbers, as before", seen.axes);
            return Err(source
                .bad(Class::BadShape, Place::Byte(at), expected, shape.axes.to_string())
                .into());
        }
        nowhere += u64::from(shape.parts.is_empty());
        let mut room = Ok(());
        let done = read_cells(&root, &said.columns, |number, cell| {
            if let (Some(Some(at)), Ok(())) = (places.get(number), &room) {
                room = columns.note(*at, &cell);
            }
            Ok(())
        });
        done.map_err(|bad| fault(source, at, bad))?;
        room?;
        columns.end_row();
    }
    notes.extend(columns.settle());
    if nowhere > 0 {
        notes.push(format!("{nowhere} features have no place: objects without vertices"));
    }
    Ok((FirstPass { seen, columns, places }, notes))
}

/// Whether the box of a shape meets that one.
fn is_inside(shape: &Shape, bounds: Option<&Bounds>) -> bool {
    let Some(bounds) = bounds else { return true };
    let axes = shape.axes.max(1);
    (0..axes.min(bounds.min.len())).all(|axis| {
        let values = shape.positions.iter().skip(axis).step_by(axes);
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
        bounds.min.get(axis).is_none_or(|min| *min <= high)
            && bounds.max.get(axis).is_none_or(|max| low <= *max)
    }) && !shape.parts.is_empty()
}

/// A file in the course of being read.
struct Pieces {
    source: Source,
    said: FgbHeader,
    walk: Walk,
    rows: Rows,
    shape: Shape,
    places: Vec<Option<usize>>,
    bounds: Option<Bounds>,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        loop {
            if let Some(piece) = self.rows.pop() {
                return Ok(Some(piece));
            }
            let Some((at, raw)) = self.walk.next(&mut self.source, &self.said)? else {
                self.rows.end_batch()?;
                return Ok(self.rows.pop());
            };
            let root = Table::root(&raw).map_err(|stray| fault(&self.source, at, stray.into()))?;
            read_shape(&root, self.said.kind, &mut self.shape)
                .map_err(|bad| fault(&self.source, at, bad))?;
            if !is_inside(&self.shape, self.bounds.as_ref()) {
                continue;
            }
            let row = self.rows.row();
            let (columns, places) = (&mut self.rows.columns, &self.places);
            let done = read_cells(&root, &self.said.columns, |number, cell| {
                if let Some(Some(at)) = places.get(number) {
                    columns.push(*at, row, &cell);
                }
                Ok(())
            });
            done.map_err(|bad| fault(&self.source, at, bad))?;
            self.rows.push(&self.shape)?;
        }
    }
}

const NAME: &str = "FlatGeobuf";
const MAX_HEADER_BYTES: u64 = 64 << 20;
const NODE_BYTES: u64 = 40;
/// Nodes that wait in a search: a tree has far fewer.
const MAX_OPEN_NODES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::stock_files::{check_broken, check_features, folder, read_all};
    use crate::read::{Bounds, Polygons, ReadOptions};

    fn options() -> ReadOptions {
        ReadOptions { polygons: Polygons::Rings, ..ReadOptions::default() }
    }

    #[test]
    fn files_of_others_have_their_features() {
        check_features("flatgeobuf", &options());
        check_features("flatgeobuf", &ReadOptions { batch_rows: 2, ..options() });
    }

    #[test]
    fn broken_files_are_refused() {
        check_broken("flatgeobuf", &options());
    }

    #[test]
    fn a_box_finds_what_all_features_have_in_it() {
        let path = folder("flatgeobuf").join("tree.fgb");
        let all = read_all(&path, &options()).unwrap();
        let numbers: Vec<f64> =
            all.positions.as_chunks::<8>().0.iter().map(|raw| f64::from_le_bytes(*raw)).collect();
        let middle = |axis: usize, share: usize| {
            let mut values: Vec<f64> = numbers.iter().skip(axis).step_by(2).copied().collect();
            values.sort_by(f64::total_cmp);
            values[values.len() * share / 10]
        };
        let bounds =
            Bounds { min: vec![middle(0, 2), middle(1, 3)], max: vec![middle(0, 6), middle(1, 8)] };
        let wanted = numbers.chunks(2).filter(|point| bounds.contains(point)).count();
        let some =
            read_all(&path, &ReadOptions { bounds: Some(bounds.clone()), ..options() }).unwrap();
        assert!(wanted > 0 && wanted < all.rows, "{wanted} of {}", all.rows);
        assert_eq!((some.rows, some.objects.len()), (wanted, wanted));
        let broken = folder("flatgeobuf").join("broken/tree_offset.fgb");
        let error = read_all(&broken, &ReadOptions { bounds: Some(bounds), ..options() }).err();
        assert_eq!(error.map(|error| error.class()), Some(zvf_format::Class::OutOfBounds));
    }
}

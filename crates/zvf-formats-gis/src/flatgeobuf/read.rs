//! `FlatGeobuf`: a sequence of features, with a packed R-tree over their bounding boxes in front.
//!
//! ```text
//! 66 67 62 03 66 67 62 xx    magic, version 3
//! header                     u32 bytes, a FlatBuffer: kind, columns, CRS, count, width of the tree
//! tree                       nodes of 4 f64 and u64, the root first; none where its width or the count is 0
//! features                   u32 bytes, a FlatBuffer each
//! ```
//!
//! Features are read in the order of the file, which is the order of the tree if there is one. With a query box, the tree is
//! searched and only features that intersect the box are read; without a tree, the boxes of all features are compared.
//! Types are kept. An absent value is missing.

pub(crate) mod feature;

use serde_json::{Value as Json, json};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{
    ByteFault, Bytes, Extents, FeatureInfo, FeatureShape, FeatureSource, FeatureTarget, FilePlace,
    FileReader, FlatTable, RandomFile, ReadOptions, RecordNumbers, crs,
};

use crate::flatgeobuf::read::feature::{FgbColumn, read_cells, read_shape};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let mut source = RandomFile::open(bytes, options.memory)?;
    let header = FgbHeader::read(&mut source)?;
    let offsets = match &options.bounds {
        Some(bounds) if header.node_width > 0 && header.count > 0 => {
            Some(header.search_tree(&mut source, bounds)?)
        }
        _ => None,
    };
    let mut target = FeatureTarget::new(options, NAME);
    let (indices, left_out) = declare_columns(&mut target, &header, options)?;
    let (at, bounds) = (header.features_at, options.bounds.clone());
    let features =
        FgbFeatures { source, header, indices, left_out, bounds, offsets, at, number: 0 };
    target.into_reader(features, options)
}

/// The features of a file, or those in a box.
struct FgbFeatures {
    source: RandomFile,
    header: FgbHeader,
    indices: Vec<Option<usize>>, // of the columns, those that are read
    left_out: Vec<String>,
    bounds: Option<Extents>,
    offsets: Option<Vec<u64>>, // of the features to read; `None` for all of them
    at: u64,                   // of the next feature
    number: usize,             // of features read
}

impl FeatureSource for FgbFeatures {
    fn read_next(&mut self, to: &mut FeatureTarget) -> Result<bool> {
        let Some((at, raw)) = self.read_raw()? else { return Ok(false) };
        let Self { source, header, indices, .. } = self;
        let refuse = |bad| convert_error(source, at, bad);
        let root = FlatTable::from_buffer(&raw).map_err(|stray| refuse(stray.into()))?;
        read_shape(&root, header.kind, &mut to.shape).map_err(refuse)?;
        if !intersects_bounds(&to.shape, self.bounds.as_ref()) {
            return Ok(true);
        }
        let mut set = Ok(());
        let cells = read_cells(&root, &header.columns, |number, cell| {
            if let (Some(at), Ok(())) = (indices[number], &set) {
                set = to.set(at, &cell);
            }
        });
        cells.map_err(refuse)?;
        set?;
        let spot = source.spot_at(at);
        to.end_feature(|class, expected, found| spot.error(class, expected, found))?;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<()> {
        (self.at, self.number) = (self.header.features_at, 0);
        Ok(())
    }

    fn describe(&self) -> FeatureInfo {
        FeatureInfo {
            crs: self.header.crs.clone(),
            unit: self.header.unit(),
            record: self.header.record.clone(),
            has_z: self.header.has_z,
            left_out: self.left_out.clone(),
        }
    }
}

/// The header of a file.
struct FgbHeader {
    kind: u8,
    has_z: bool,
    columns: Vec<FgbColumn>,
    count: u64, // of features; 0 if not known
    node_width: u16,
    crs: Option<Json>,
    wkt: Option<String>,
    record: Json,
    tree_at: u64,
    features_at: u64,
}

impl FgbHeader {
    fn read(source: &mut RandomFile) -> Result<Self> {
        let magic = source.read(0, source.len().min(8), "the magic")?;
        let show = || format!("{magic:02x?}");
        match magic.as_slice() {
            [b'f', b'g', b'b', 3, b'f', b'g', b'b', _] => {}
            [b'f', b'g', b'b', 0..=31, b'f', b'g', b'b', _] => {
                return source.spot_at(3).refuse(Class::UnsupportedVersion, "version 3", show());
            }
            _ => {
                return source.spot_at(0).refuse(Class::BadMagic, "fgb, 3, fgb", show());
            }
        }
        let size = RecordNumbers::new(&source.read(8, 4, "the size of the header")?).u32(0);
        let size = u64::from(size);
        let expected = format_args!("a header of at most {MAX_HEADER_BYTES} bytes");
        source.spot_at(8).ensure(size <= MAX_HEADER_BYTES, Class::LimitExceeded, expected, size)?;
        let raw = source.read(12, size, "the header")?;
        let header = Self::parse(&raw).map_err(|bad| convert_error(source, 12, bad))?;
        header.locate_features(source, size + 12)
    }

    fn parse(raw: &[u8]) -> Result<Self, ByteFault> {
        let root = FlatTable::from_buffer(raw)?;
        let mut columns = Vec::new();
        for column in root.tables(7)? {
            let column = column?;
            let Some(name) = column.text(0)? else {
                return Err(ByteFault::new(Class::NotFound, "a name for each column", "none"));
            };
            columns.push(FgbColumn { name, kind: column.u8(1)? });
        }
        let (mut crs, mut wkt) = (None, None);
        if let Some(crs_table) = root.table(10)? {
            let (org, code) = (crs_table.text(0)?, crs_table.i32(1)?);
            let text = crs_table.text(5)?.filter(|text| !text.is_empty());
            let code = text.or((code != 0).then(|| code.to_string()));
            wkt = crs_table.text(4)?.filter(|text| !text.is_empty());
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

    /// Sets the offsets of the tree, which is `at`, and of the features.
    fn locate_features(self, source: &RandomFile, at: u64) -> Result<Self> {
        let spot = source.spot_at(12);
        spot.ensure(self.node_width != 1, Class::OutOfBounds, "nodes of 0, or of 2 or more", "1")?;
        // A saturated sum exceeds the length of every file.
        let nodes = self.levels().iter().fold(0_u64, |sum, level| sum.saturating_add(*level));
        let end = nodes.checked_mul(NODE_BYTES).and_then(|bytes| bytes.checked_add(at));
        let min_bytes = self.count.checked_mul(4);
        let min_len = end.zip(min_bytes).and_then(|(end, bytes)| end.checked_add(bytes));
        match (min_len, end) {
            (Some(min_len), Some(end)) if min_len <= source.len() => {
                Ok(Self { tree_at: at, features_at: end, ..self })
            }
            _ => {
                let expected = format!("{} features and the tree over them", self.count);
                spot.refuse(Class::Truncated, expected, format!("{} bytes", source.len()))
            }
        }
    }

    /// Returns the number of nodes on each level of the tree, leaves first. Empty without a tree.
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
        let by_text = self.wkt.as_ref().and_then(|wkt| crs::find_unit(&Json::from(wkt.as_str())));
        by_text.or_else(|| self.crs.as_ref().and_then(crs::find_unit))
    }

    /// Searches the tree, which must exist, for features that intersect the box. Returns their offsets in order.
    fn search_tree(&self, source: &mut RandomFile, bounds: &Extents) -> Result<Vec<u64>> {
        let levels = self.levels();
        let mut starts = vec![0; levels.len()]; // first node of each level; the root is node 0
        let mut start = 0;
        for (at, level) in levels.iter().enumerate().rev() {
            starts[at] = start;
            start += level;
        }
        let mut offsets = Vec::new();
        let mut open = vec![(levels.len() - 1, 0_u64, 1_u64)]; // level, first node in it, nodes
        while let Some((level, first, count)) = open.pop() {
            let at = self.tree_at + (starts[level] + first) * NODE_BYTES;
            let raw = source.read(at, count * NODE_BYTES, "nodes of the tree")?;
            for (number, node) in (0..).zip(raw.chunks_exact(40)) {
                let n = RecordNumbers::new(node);
                let intersects = |axis: usize| {
                    let (min, max) = (bounds.min.get(axis), bounds.max.get(axis));
                    min.is_none_or(|min| *min <= n.f64(16 + axis * 8))
                        && max.is_none_or(|max| n.f64(axis * 8) <= *max)
                };
                if !(intersects(0) && intersects(1)) {
                    continue;
                }
                let to = n.u64(32);
                let place = || FilePlace::Byte(at + number * NODE_BYTES);
                if level == 0 {
                    let offset = self.features_at.checked_add(to).filter(|at| *at < source.len());
                    let Some(offset) = offset else {
                        let expected = "a feature in the file";
                        return source.spot(place()).refuse(Class::OutOfBounds, expected, to);
                    };
                    offsets.push(offset);
                    continue;
                }
                let nodes = levels[level - 1];
                let first = to.checked_sub(starts[level - 1]).filter(|first| *first < nodes);
                let expected = "a node of the next level";
                let first = source.spot(place()).need(first, Class::OutOfBounds, expected, to)?;
                if open.len() > MAX_OPEN_NODES {
                    let found = "nodes named again and again";
                    return source.spot(place()).refuse(Class::LimitExceeded, "a tree", found);
                }
                open.push((level - 1, first, u64::from(self.node_width).min(nodes - first)));
            }
        }
        offsets.sort_unstable();
        let before = offsets.len();
        offsets.dedup();
        if offsets.len() != before {
            let expected = "each feature once";
            return source.spot_at(self.tree_at).refuse(Class::Duplicate, expected, "one twice");
        }
        Ok(offsets)
    }
}

fn convert_error(source: &RandomFile, at: u64, bad: ByteFault) -> Error {
    source.spot_at(at + to_u64(bad.at)).fault(bad)
}

impl FgbFeatures {
    /// Reads the next feature: its offset and its bytes.
    fn read_raw(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let Self { source, header, offsets, at, number, .. } = self;
        let count = header.count;
        let is_last = count != 0 && to_u64(*number) == count;
        if let Some(offsets) = offsets {
            match offsets.get(*number) {
                Some(offset) => *at = *offset,
                None => return Ok(None),
            }
        } else if *at >= source.len() {
            let (holds, expected) = (count == 0 || is_last, format_args!("{count} features"));
            source.spot_at(*at).ensure(holds, Class::Truncated, expected, number)?;
            return Ok(None);
        } else if is_last {
            let expected = format_args!("the end after {count} features");
            return source.spot_at(*at).refuse(Class::Trailing, expected, "more");
        }
        let size = RecordNumbers::new(&source.read(*at, 4, "the size of a feature")?).u32(0);
        let start = *at + 4;
        let raw = source.read(start, size.into(), "a feature")?;
        *at = start + u64::from(size);
        *number += 1;
        Ok(Some((start, raw)))
    }
}

/// Declares the columns that are read. Returns their indices, and what is not read.
fn declare_columns(
    target: &mut FeatureTarget,
    header: &FgbHeader,
    options: &ReadOptions,
) -> Result<(Vec<Option<usize>>, Vec<String>)> {
    let (mut indices, mut left_out) = (Vec::new(), Vec::new());
    for column in &header.columns {
        let name = &column.name;
        let is_selected = options.columns.fields.as_ref().is_none_or(|names| names.contains(name));
        indices.push(match column.dtype().filter(|_| is_selected) {
            Some(_) if target.columns.contains(name) => {
                left_out.push(format!("column {name:?}: another one has its name"));
                None
            }
            Some(dtype) => Some(target.columns.declare(name, dtype)?),
            None => {
                left_out.push(format!("column {name:?}"));
                None
            }
        });
    }
    Ok((indices, left_out))
}

/// Checks whether the bounding box of a shape intersects `bounds`. An empty shape does not.
fn intersects_bounds(shape: &FeatureShape, bounds: Option<&Extents>) -> bool {
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

const NAME: &str = "FlatGeobuf";
const MAX_HEADER_BYTES: u64 = 64 << 20;
const NODE_BYTES: u64 = 40;
/// Nodes on the stack of a search. A valid tree has far fewer.
const MAX_OPEN_NODES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use zvf_formats::{Extents, Polygons, ReadOptions};

    use crate::shared::golden::{Collected, check_files, folder};

    fn options() -> ReadOptions {
        ReadOptions { polygons: Polygons::Rings, ..ReadOptions::default() }
    }

    #[test]
    fn reads_files_of_gdal() {
        check_files("flatgeobuf", &options());
    }

    #[test]
    fn a_box_selects_the_features_that_lie_in_it() {
        let path = folder("flatgeobuf").join("tree.fgb");
        let all = Collected::read(&path, &options()).unwrap();
        let numbers = &all.positions;
        let middle = |axis: usize, share: usize| {
            let mut values: Vec<f64> = numbers.iter().skip(axis).step_by(2).copied().collect();
            values.sort_by(f64::total_cmp);
            values[values.len() * share / 10]
        };
        let bounds = Extents {
            min: vec![middle(0, 2), middle(1, 3)],
            max: vec![middle(0, 6), middle(1, 8)],
        };
        let inside = numbers.chunks(2).filter(|point| bounds.contains(point)).count();
        let some =
            Collected::read(&path, &ReadOptions { bounds: Some(bounds.clone()), ..options() })
                .unwrap();
        assert!(inside > 0 && inside < all.rows(), "{inside} of {}", all.rows());
        assert_eq!((some.rows(), some.objects.len()), (inside, inside));
        let broken = folder("flatgeobuf").join("broken/tree_offset.fgb");
        let error =
            Collected::read(&broken, &ReadOptions { bounds: Some(bounds), ..options() }).err();
        assert_eq!(error.map(|error| error.class()), Some(zvf_format::Class::OutOfBounds));
    }
}

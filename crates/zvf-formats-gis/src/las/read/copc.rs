//! Reader of COPC: LAZ whose chunks are the nodes of an octree, filtered by a box and a spacing.
//!
//! ```text
//! VLR copc 1       at byte 429: centre 3 f64, half side f64, spacing f64, root page u64 u64, times f64 f64
//! EVLR copc 1000   pages of entries, 32 bytes each: level, x, y, z i32; offset u64; bytes i32; points i32
//! ```
//!
//! An entry of -1 points refers to a child page, one of 0 points is an empty node. Each point is in one node. The
//! spacing of level n is spacing / 2^n; a level of detail is the union of all levels down to it.

use std::collections::HashSet;

use serde_json::json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{Bytes, Extents, FilePlace, FileReader, RandomFile, ReadOptions, RecordNumbers};

use crate::las::read::chunks::{Chunk, Compression};
use crate::las::read::header::LasHeader;
use crate::las::read::points::PointReader;
use crate::las::read::read_points;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let mut source = RandomFile::open(bytes, options.memory)?;
    let las = LasHeader::read(&mut source)?;
    let octree = Octree::read(&las, &mut source)?;
    let compression = Compression::read(&las, &mut source)?;
    let nodes = octree.read_nodes(&mut source, options)?;
    let reads_all = options.bounds.is_none() && options.resolution.is_none();
    let sum = nodes.iter().map(|node| node.points).sum::<u64>();
    if reads_all && sum != las.count {
        let expected = format!("nodes of {} points, as the header counts", las.count);
        return source.spot("EVLR copc 1000").refuse(Class::CountMismatch, expected, sum);
    }
    let points = PointReader::from_chunks(compression, nodes);
    let Octree { corner, side, spacing, .. } = octree;
    let record = json!({ "corner": corner, "side": side, "spacing": spacing });
    read_points(&las, source, points, options, Some(record))
}

/// The cube, the spacing and the root page of an octree.
struct Octree {
    corner: [f64; 3],
    side: f64,
    spacing: f64,
    root: (u64, u64), // offset and bytes of the root page
}

/// A cell of an octree: level, x, y, z.
type CellKey = [i32; 4];

impl Octree {
    fn read(las: &LasHeader, source: &mut RandomFile) -> Result<Self> {
        let place = "VLR copc 1";
        let first = las.records.first().filter(|record| record.user == "copc" && record.id == 1);
        let Some((at, len)) = first.map(|record| (record.at, record.len)) else {
            let hint = "read it as LAZ";
            let expected = "the record of COPC first";
            return source.spot(place).hint(hint).refuse(Class::NotFound, expected, "another");
        };
        let expected = format_args!("{INFO_BYTES} bytes");
        source.spot(place).ensure(len >= INFO_BYTES, Class::Truncated, expected, len)?;
        let raw = source.read(at, INFO_BYTES, "the record of COPC")?;
        let n = RecordNumbers::new(&raw);
        let (centre, half, spacing) = ([n.f64(0), n.f64(8), n.f64(16)], n.f64(24), n.f64(32));
        let is_cube = centre.iter().all(|x| x.is_finite()) && half.is_finite() && half > 0.0;
        if !is_cube || !spacing.is_finite() || spacing <= 0.0 {
            let found = format!("centre {centre:?}, half side {half}, spacing {spacing}");
            return source.spot(place).refuse(Class::OutOfBounds, "a cube and a spacing", found);
        }
        let corner = centre.map(|x| x - half);
        Ok(Self { corner, side: half * 2.0, spacing, root: (n.u64(40), n.u64(48)) })
    }

    /// Returns the coarsest level whose spacing reaches the requested resolution.
    fn deepest_level(&self, options: &ReadOptions) -> i32 {
        let Some(resolution) = options.resolution.filter(|spacing| *spacing > 0.0) else {
            return MAX_LEVEL;
        };
        (0..MAX_LEVEL)
            .find(|level| self.spacing / 2_f64.powi(*level) <= resolution)
            .unwrap_or(MAX_LEVEL)
    }

    fn is_selected(&self, key: CellKey, deepest: i32, bounds: Option<&Extents>) -> bool {
        let [level, x, y, z] = key;
        let side = self.side / 2_f64.powi(level);
        let mut corner = self.corner;
        for (low, cell) in corner.iter_mut().zip([x, y, z]) {
            *low += f64::from(cell) * side;
        }
        level <= deepest && bounds.is_none_or(|bounds| bounds.meets_cube(corner, side))
    }

    /// Reads the pages, and returns the selected nodes in file order.
    fn read_nodes(&self, source: &mut RandomFile, options: &ReadOptions) -> Result<Vec<Chunk>> {
        let mut pages = vec![self.root];
        let (mut visited_pages, mut keys) = (HashSet::new(), HashSet::new());
        let mut nodes = Vec::new();
        let deepest = self.deepest_level(options);
        let bounds = options.bounds.as_ref();
        while let Some((at, len)) = pages.pop() {
            let spot = source.spot_at(at);
            let expected = "each page of the octree once";
            spot.ensure(visited_pages.insert(at), Class::Duplicate, expected, "one twice")?;
            let is_inside = at.checked_add(len).is_some_and(|end| end <= source.len());
            let expected = format_args!("a page of {len} bytes");
            spot.ensure(is_inside, Class::Truncated, expected, "the end")?;
            let expected = format_args!("a page of entries of {ENTRY_BYTES} bytes");
            spot.ensure(len % ENTRY_BYTES == 0, Class::Misaligned, expected, len)?;
            let raw = source.read(at, len, "a page of the octree")?;
            for (number, entry) in (0..).zip(raw.chunks_exact(32)) {
                let n = RecordNumbers::new(entry);
                let place = FilePlace::Byte(at + ENTRY_BYTES * number); // the page is in the file
                let entry = PageEntry {
                    key: [0, 4, 8, 12].map(|at| n.i32(at)),
                    at: n.u64(16),
                    bytes: n.i32(24),
                    points: n.i32(28),
                };
                let bytes = entry.check(source, &place)?;
                if entry.points >= 0 && !keys.insert(entry.key) {
                    let found = format!("{} twice", entry.name());
                    return source.spot(place).refuse(Class::Duplicate, "each key once", found);
                }
                if !self.is_selected(entry.key, deepest, bounds) {
                    continue;
                }
                match u64::try_from(entry.points) {
                    Err(_) => pages.push((entry.at, bytes)),
                    Ok(0) => {}
                    Ok(points) => nodes.push(Chunk { at: entry.at, bytes, points }),
                }
            }
        }
        nodes.sort_by_key(|node| node.at);
        Ok(nodes)
    }
}

/// An entry of a page of the octree.
#[derive(Clone, Copy)]
struct PageEntry {
    key: CellKey,
    at: u64,
    bytes: i32,
    points: i32,
}

impl PageEntry {
    fn name(&self) -> String {
        let [level, x, y, z] = self.key;
        format!("{level}-{x}-{y}-{z}")
    }

    /// Checks the entry, and returns the bytes of its chunk or page; 0 for an empty node, which has none.
    fn check(&self, source: &RandomFile, place: &FilePlace) -> Result<u64> {
        let spot = source.spot(place);
        let [level, cells @ ..] = self.key;
        let side = if (0..=MAX_LEVEL).contains(&level) { 1_i64 << level } else { 0 };
        if cells.iter().any(|cell| !(0..side).contains(&i64::from(*cell))) {
            return spot.refuse(Class::OutOfBounds, "a cell of the level", self.name());
        }
        if self.points == 0 {
            return Ok(0);
        }
        let bytes = u64::try_from(self.bytes).ok().filter(|_| self.points >= -1);
        let found = format_args!("{} points in {} bytes", self.points, self.bytes);
        let expected = "counts of 0 or more, or -1 for a page";
        let bytes = spot.need(bytes, Class::Negative, expected, found)?;
        if self.at.checked_add(bytes).is_none_or(|end| end > source.len()) {
            let found = format!("{bytes} bytes from {}", self.at);
            return spot.refuse(Class::OutOfBounds, "a node in the file", found);
        }
        Ok(bytes)
    }
}

const INFO_BYTES: u64 = 160;
const ENTRY_BYTES: u64 = 32;
const MAX_LEVEL: i32 = 30;

#[cfg(test)]
mod tests {

    use zvf_formats::{Extents, Input, ReadOptions};

    use crate::COPC;
    use crate::shared::golden::{Collected, check_broken, check_good, folder, read_expected};
    use crate::shared::open;

    #[test]
    fn reads_stock_files() {
        check_good("copc", &ReadOptions::default());
    }

    #[test]
    fn refuses_broken_files() {
        check_broken("copc", |path| {
            let mut reader = open(Input::path(path), Some(&COPC), &ReadOptions::default())?;
            reader.try_for_each(|piece| piece.map(drop))
        });
    }

    #[test]
    fn filters_nodes_by_box_and_spacing() {
        for (name, facts) in read_expected("copc")["files"].as_object().unwrap() {
            let numbers = |side: &str| serde_json::from_value(facts["box"][side].clone()).unwrap();
            let bounds = Some(Extents { min: numbers("min"), max: numbers("max") });
            let options = ReadOptions { bounds, ..ReadOptions::default() };
            let all = Collected::read(&folder("copc").join(name), &options).unwrap();
            assert_eq!(facts["box"]["points_inside"], all.rows(), "{name}");
            let coarse = ReadOptions { resolution: Some(1e9), ..ReadOptions::default() };
            let top = Collected::read(&folder("copc").join(name), &coarse).unwrap();
            let full =
                Collected::read(&folder("copc").join(name), &ReadOptions::default()).unwrap();
            assert!(top.rows() < full.rows(), "{name}: {} of {}", top.rows(), full.rows());
        }
    }
}

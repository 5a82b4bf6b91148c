//! Attributes of objects that are computed from their vertices while a file is read.
//!
//! ```text
//! length         of the path, in the unit of positions
//! endpoints      two attributes, start and end: the first and the last vertex
//! orientation    the unit vector from start to end; zero if they are the same place
//! tortuosity     the length divided by the distance from start to end; 1 if start and end are the same place
//! vertex_count   number of vertices
//! ```
//!
//! Sums are `float64`; values are `float32`, as zarr-vectors-tools writes them. An object may come in several runs with
//! others between them. Its state is kept until the file ends or says that the object is complete. The endpoints of an
//! object without vertices are NaN.

use std::collections::BTreeMap;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{nearest_f32, saturating_usize};
use zvf_metadata::Dtype;
use zvf_model::flow::Piece;
use zvf_model::{Batch, Column, Field, ObjectId};

use crate::dtypes::UINT32;
use crate::error::Spot;
use crate::read::values::new_column;
use crate::read::{FileReader, Measure, ReadOptions};

/// An attribute of objects: its name, type and width, and the bytes of a row.
type PathAttribute = (&'static str, Dtype, u32, fn(&Path) -> Vec<u8>);

impl Measure {
    /// Returns its attributes, of positions with this many axes.
    fn attributes(self, axes: u32) -> Vec<PathAttribute> {
        let float = Dtype::FLOAT32;
        match self {
            Self::Length => vec![("length", float, 1, |path| to_floats(&[path.length]))],
            Self::Endpoints => vec![
                ("start", float, axes, |path| to_floats(&path.start)),
                ("end", float, axes, |path| to_floats(&path.end)),
            ],
            Self::Orientation => {
                vec![("orientation", float, axes, |path| to_floats(&orientation(path)))]
            }
            Self::Tortuosity => {
                vec![("tortuosity", float, 1, |path| to_floats(&[tortuosity(path)]))]
            }
            Self::VertexCount => {
                vec![("vertex_count", UINT32, 1, |path| path.vertices.to_le_bytes().to_vec())]
            }
        }
    }
}

/// Encodes numbers as `float32`.
fn to_floats(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| nearest_f32(*x).to_le_bytes()).collect()
}

/// Adds the measures in the options to the objects of a reader.
pub(crate) fn add_measures(
    reader: FileReader,
    format: &'static str,
    options: &ReadOptions,
) -> Result<FileReader> {
    if options.measures.is_empty() {
        return Ok(reader);
    }
    let mut measures = Vec::new();
    for measure in &options.measures {
        if !measures.contains(measure) {
            measures.push(*measure);
        }
    }
    let mut header = reader.header().clone();
    let spot = |place: &'static str| Spot::new(format, place);
    if !header.kind.is_chain() || !header.objects {
        let expected = "lines, polylines or streamlines, whose vertices are in order";
        let found = header.kind;
        return spot("what is computed of objects").refuse(Class::InvalidArgument, expected, found);
    }
    let axes = header.positions.width();
    let measures = measures.into_iter().flat_map(|measure| measure.attributes(axes));
    let attributes: Vec<PathAttribute> = measures.collect();
    for (name, dtype, width, _) in &attributes {
        if header.object_fields.iter().any(|field| *field.name == **name) {
            let found = format!("{name:?} in the file already");
            let here = spot("attributes of objects")
                .hint("leave it out of --object-attr: that of the file is read");
            return here.refuse(Class::InvalidArgument, "each name once", found);
        }
        header.object_fields.push(Field::new(*name, new_column(*dtype, *width, Vec::new())?));
    }
    let notes = reader.notes.clone();
    let pieces = MeasuringReader {
        reader,
        format,
        attributes,
        axes: axes as usize,
        paths: BTreeMap::new(),
        max_paths: saturating_usize(options.memory / PATH_BYTES).max(1),
        batch_rows: options.batch_rows.max(1),
    };
    Ok(FileReader::new(header, pieces).with_notes(notes))
}

/// The path of an object so far.
struct Path {
    start: Vec<f64>,
    end: Vec<f64>,
    length: f64,
    vertices: u32,
}

impl Path {
    /// Returns a path without vertices, whose ends are NaN.
    fn new(axes: usize) -> Self {
        let nan = vec![f64::NAN; axes];
        Self { start: nan.clone(), end: nan, length: 0.0, vertices: 0 }
    }
}

/// A reader that computes attributes of objects from the pieces of another one.
struct MeasuringReader {
    reader: FileReader,
    format: &'static str,
    attributes: Vec<PathAttribute>,
    axes: usize,
    paths: BTreeMap<i64, Path>, // of objects that may be incomplete
    max_paths: usize,
    batch_rows: usize,
}

impl Iterator for MeasuringReader {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next() {
            Some(Ok(Piece::Vertices(batch))) => {
                Some(self.add_vertices(&batch).map(|()| Piece::Vertices(batch)))
            }
            Some(Ok(Piece::Objects { ids, fields })) => Some(self.finish_objects(ids, fields)),
            Some(piece) => Some(piece),
            None => {
                let ids: Vec<ObjectId> =
                    self.paths.keys().take(self.batch_rows).map(|id| ObjectId(*id)).collect();
                (!ids.is_empty()).then(|| self.finish_objects(ids, Vec::new()))
            }
        }
    }
}

impl MeasuringReader {
    /// Adds the vertices of a batch to the paths.
    fn add_vertices(&mut self, batch: &Batch) -> Result<()> {
        let positions = batch.positions();
        for part in batch.parts().iter().filter(|part| !part.rows.is_empty()) {
            let path = self.paths.entry(part.object.0).or_insert_with(|| Path::new(self.axes));
            let count = u32::try_from(part.rows.len()).ok();
            let Some(vertices) = count.and_then(|count| path.vertices.checked_add(count)) else {
                let place = format!("object {}", part.object.0);
                let expected = "fewer than 2^32 vertices to measure";
                let spot = Spot::new(self.format, place);
                return spot.refuse(Class::LimitExceeded, expected, "more");
            };
            for (row, before) in part.rows.zip(path.vertices..) {
                let at = position(positions, row, self.axes);
                match before {
                    0 => path.start.clone_from(&at),
                    _ => path.length += distance(&path.end, &at),
                }
                path.end = at;
            }
            path.vertices = vertices;
        }
        if self.paths.len() > self.max_paths {
            let found = format!("more than {} that may go on", self.max_paths);
            let expected = "objects one after the other, or few enough for memory";
            let spot = Spot::new(self.format, "objects").hint("give more memory: --memory-limit");
            return spot.refuse(Class::LimitExceeded, expected, found);
        }
        Ok(())
    }

    /// Removes the paths of complete objects and adds their measures to `fields`.
    fn finish_objects(&mut self, ids: Vec<ObjectId>, mut fields: Vec<Field>) -> Result<Piece> {
        let path = |id: &ObjectId| self.paths.remove(&id.0).unwrap_or_else(|| Path::new(self.axes));
        let paths: Vec<Path> = ids.iter().map(path).collect();
        for (name, dtype, width, row) in &self.attributes {
            let bytes = paths.iter().flat_map(row).collect();
            fields.push(Field::new(*name, new_column(*dtype, *width, bytes)?));
        }
        Ok(Piece::Objects { ids, fields })
    }
}

fn orientation(path: &Path) -> Vec<f64> {
    let chord = distance(&path.start, &path.end);
    let unit = |(start, end): (&f64, &f64)| {
        if chord > SAME_PLACE_DISTANCE { (end - start) / chord } else { 0.0 }
    };
    path.start.iter().zip(&path.end).map(unit).collect()
}

fn tortuosity(path: &Path) -> f64 {
    let chord = distance(&path.start, &path.end);
    if chord > SAME_PLACE_DISTANCE { path.length / chord } else { 1.0 }
}

fn position(positions: &Column, row: usize, axes: usize) -> Vec<f64> {
    (0..axes).map(|axis| positions.float(row, axis).unwrap_or(f64::NAN)).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (b - a) * (b - a)).sum::<f64>().sqrt()
}

/// Distance up to which two ends count as the same point.
const SAME_PLACE_DISTANCE: f64 = 1e-12;
/// Approximate size of a path in memory: two positions of three axes, two numbers, and the map entry.
const PATH_BYTES: u64 = 200;

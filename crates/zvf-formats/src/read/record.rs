//! Builders of batches of vertices and of all pieces, and the size of blocks of records.

use zvf_error::Result;
use zvf_model::flow::{Header, Piece};
use zvf_model::{Batch, Kind, ObjectId, Parts};

use crate::read::polygon::Corners;
use crate::read::values::{NamedValues, Values, empty_fields, take_fields};
use crate::read::{FileReader, ReadOptions};

/// Builder of vertices with their attributes and objects, taken batch by batch.
#[derive(Debug)]
pub struct VertexBuilder {
    kind: Kind,
    /// The positions of the current batch.
    pub positions: Values,
    /// The attributes of the current batch.
    pub fields: Vec<NamedValues>,
    owners: Owners,
    rows: usize,
}

/// The objects of the vertices.
#[derive(Debug)]
enum Owners {
    None,
    /// The object of each vertex.
    Each(Vec<Option<ObjectId>>),
    /// Runs of vertices of one object.
    Runs {
        offsets: Vec<usize>,
        objects: Vec<ObjectId>,
        starts: Vec<bool>,
        last: Option<(ObjectId, i64)>,
    },
}

impl VertexBuilder {
    /// Creates a builder of vertices of `kind`. If `owned`, vertices belong to objects: in runs if the kind is a chain.
    pub fn new(kind: Kind, positions: Values, fields: Vec<NamedValues>, owned: bool) -> Self {
        let owners = match owned {
            true if kind.is_chain() => {
                let (offsets, objects, starts) = Default::default();
                Owners::Runs { offsets, objects, starts, last: None }
            }
            true => Owners::Each(Vec::new()),
            false => Owners::None,
        };
        Self { kind, positions, fields, owners, rows: 0 }
    }

    /// Returns the header of a file with such vertices.
    pub fn header(&mut self, axes: Vec<String>) -> Result<Header> {
        Ok(Header {
            fields: empty_fields(&self.fields)?,
            objects: !matches!(self.owners, Owners::None),
            ..Header::new(self.kind, axes, self.positions.take()?)
        })
    }

    /// Ends a row whose values were pushed. A new run starts when `object` or `part` changes, and a new line of the object
    /// when `part` does.
    pub fn end_row(&mut self, object: Option<ObjectId>, part: i64) {
        self.end_rows(1, object, part);
    }

    /// Ends `count` rows of one run.
    pub fn end_rows(&mut self, count: usize, object: Option<ObjectId>, part: i64) {
        match &mut self.owners {
            Owners::None => {}
            Owners::Each(objects) => objects.extend(std::iter::repeat_n(object, count)),
            Owners::Runs { offsets, objects, starts, last } => {
                let run = (object.unwrap_or(ObjectId(0)), part);
                // A run that continues from the batch before becomes another run of its object.
                if *last != Some(run) || offsets.is_empty() {
                    offsets.push(self.rows);
                    objects.push(run.0);
                    starts.push(last.is_some_and(|(_, last)| last != part));
                    *last = Some(run);
                }
            }
        }
        self.rows += count;
    }

    /// Checks whether the last row of the current batch belongs to `object`.
    pub fn has_open_run(&self, object: ObjectId) -> bool {
        match &self.owners {
            Owners::None => false,
            Owners::Each(objects) => objects.last() == Some(&Some(object)),
            Owners::Runs { objects, .. } => objects.last() == Some(&object),
        }
    }

    /// Removes values that were pushed since the last row ended.
    pub fn drop_open_row(&mut self) {
        self.positions.truncate(self.rows);
        for field in &mut self.fields {
            field.values.truncate(self.rows);
        }
    }

    /// Returns the kind of geometry.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of rows in the current batch.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the current batch as a piece.
    pub fn take(&mut self) -> Result<Piece> {
        self.take_batch().map(Piece::Vertices)
    }

    /// Takes the current batch.
    pub fn take_batch(&mut self) -> Result<Batch> {
        let batch = Batch::new(self.kind, self.positions.take()?);
        let fields = take_fields(&mut self.fields)?;
        let batch = fields.into_iter().try_fold(batch, Batch::with_field)?;
        let rows = std::mem::take(&mut self.rows);
        Ok(match &mut self.owners {
            Owners::None => batch,
            Owners::Each(objects) => batch.with_vertex_objects(std::mem::take(objects))?,
            Owners::Runs { offsets, objects, starts, .. } => {
                offsets.push(rows);
                if objects.is_empty() {
                    offsets.clear();
                    offsets.push(0);
                }
                let parts = Parts::new(std::mem::take(offsets), std::mem::take(objects))
                    .and_then(|parts| parts.with_starts(std::mem::take(starts)));
                batch.with_parts(parts?)?
            }
        })
    }
}

/// Builder of the pieces of a file: batches of vertices come before the elements and the objects that
/// they complete.
pub struct PieceBuilder {
    /// The vertices of the current batch.
    pub vertices: VertexBuilder,
    /// The edges or faces.
    pub corners: Corners,
    /// Their attributes.
    pub corner_fields: Vec<NamedValues>,
    /// The objects that are complete.
    pub ids: Vec<ObjectId>,
    /// Their attributes.
    pub object_fields: Vec<NamedValues>,
    /// The piece after all others.
    pub last: Option<Piece>,
    /// The rows of a batch.
    pub batch_rows: usize,
}

impl PieceBuilder {
    /// Creates a builder of batches of the size in the options.
    pub fn new(vertices: VertexBuilder, options: &ReadOptions) -> Self {
        let corners = Corners::new(options.polygons);
        let (corner_fields, ids, object_fields) = Default::default();
        let batch_rows = options.batch_rows.max(1);
        Self { vertices, corners, corner_fields, ids, object_fields, last: None, batch_rows }
    }

    /// Returns a reader of the pieces. `step` adds the next part of the file, and returns `false` at its end.
    pub fn into_reader(
        mut self,
        header: Header,
        mut step: impl FnMut(&mut Self) -> Result<bool> + Send + 'static,
    ) -> FileReader {
        let mut is_at_end = false;
        FileReader::from_steps(header, move || {
            while !is_at_end
                && [self.vertices.rows(), self.corners.rows(), self.ids.len()]
                    .iter()
                    .all(|rows| *rows < self.batch_rows)
            {
                is_at_end = !step(&mut self)?;
            }
            self.take()
        })
    }

    /// Ends an object. One without vertices is an empty run, which keeps its place among the others.
    pub fn end_object(&mut self, id: ObjectId) {
        if !self.vertices.has_open_run(id) {
            self.vertices.end_rows(0, Some(id), 0);
        }
        self.ids.push(id);
    }

    /// Returns how many vertices the current batch lacks.
    pub const fn room(&self) -> usize {
        self.batch_rows - self.vertices.rows()
    }

    fn take(&mut self) -> Result<Option<Piece>> {
        if self.vertices.rows() > 0 {
            return self.vertices.take().map(Some);
        }
        if self.corners.rows() > 0 {
            return self.corners.take(&mut self.corner_fields).map(Some);
        }
        if self.ids.is_empty() {
            return Ok(self.last.take());
        }
        let ids = std::mem::take(&mut self.ids);
        Ok(Some(Piece::Objects { ids, fields: take_fields(&mut self.object_fields)? }))
    }
}

/// Returns the number of records of `stride` bytes in a block: at most `max_rows`, and 4 MiB.
pub fn block_rows(stride: usize, max_rows: usize) -> usize {
    BLOCK_BYTES.checked_div(stride).unwrap_or(1).clamp(1, max_rows.max(1))
}

/// Size of a block of records.
const BLOCK_BYTES: usize = 4 << 20;

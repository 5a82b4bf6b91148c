//! Writer of geometry as features, for formats of rows with a geometry and attributes.
//!
//! ```text
//! points without an object, or of objects without attributes    a feature each, with its attributes
//! points of objects with attributes                             a feature an object
//! chains                                                        a feature an object, a line a part
//! ```
//!
//! Where an attribute is called `object`, the ids of objects are `object_id`.
//!
//! A feature needs its complete object, so everything is collected until the file ends, under the memory limit;
//! points that are a feature each are passed on batch by batch.

use std::collections::HashMap;
use std::ops::Range;

use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_model::flow::{FlowReport, Header, Loss, Piece};
use zvf_model::{Batch, Column, Field, Kind, ObjectId};

use crate::capabilities::{Attributes, Capabilities, IdSupport, POSITIONS_ONLY, UnitSupport};
use crate::read::features::{FeatureShape, PartKind};
use crate::table::arrange_rows;
use crate::write::chains::Chains;
use crate::write::collected_input::CollectedInput;
use crate::write::{CollectedPieces, FormatOptions, OpenedWriter, PieceWriter};

/// A writer of the features of one format.
pub trait FeatureSink {
    /// Adds a feature: its geometry, and row `row` of the attributes.
    fn write(&mut self, shape: &FeatureShape, fields: &[Field], row: usize) -> Result<()>;
    /// Ends the file; adds what its values lost.
    fn end(self: Box<Self>, losses: &mut Vec<Loss>) -> Result<()>;
}

/// A writer that turns pieces into features for a sink.
pub struct FeatureWriter<'a> {
    sink: Box<dyn FeatureSink + 'a>,
    collected: Option<Box<CollectedObjects>>, // where an object is a feature, and not a vertex
    has_owners: bool,                         // features of vertices have their objects
    report: FlowReport,
}

/// The pieces of objects, and the rows of each of their parts in order.
struct CollectedObjects {
    pieces: CollectedPieces,
    chains: Chains,
    runs: Vec<(ObjectId, Range<usize>)>,
}

impl CollectedObjects {
    fn push(&mut self, piece: Piece) -> Result<()> {
        if let Piece::Vertices(batch) = &piece {
            let before = self.pieces.len();
            let kind = batch.kind();
            for run in self.chains.take_runs(batch) {
                let rows = before + run.rows.start..before + run.rows.end;
                match self.runs.last_mut().filter(|_| run.continues && kind == Kind::Polyline) {
                    Some((_, last)) => last.end = rows.end,
                    None if kind == Kind::Line => {
                        let starts = rows.clone().step_by(2);
                        let segment = |start| (run.object, start..rows.end.min(start + 2));
                        self.runs.extend(starts.map(segment));
                    }
                    None => self.runs.push((run.object, rows)),
                }
            }
        }
        self.pieces.push(piece)
    }
}

impl<'a> FeatureWriter<'a> {
    /// Opens a writer that collects at most the memory of the options. `begin` begins the file, and
    /// returns its sink with losses; it gets the attributes of each feature, without rows.
    pub fn open<S: FeatureSink + 'a>(
        header: &Header,
        options: &FormatOptions,
        format: &'static str,
        begin: impl FnOnce(&[Field]) -> Result<(S, Vec<Loss>)>,
    ) -> OpenedWriter<'a> {
        let objects = is_by_object(header);
        let mut fields = if objects { header.object_fields.clone() } else { header.fields.clone() };
        if header.objects && !(objects && has_id(header)) {
            fields.push(object_field(&fields, std::iter::empty())?);
        }
        let (sink, losses) = begin(&fields)?;
        let collected = objects.then(|| {
            let pieces = CollectedPieces::new(header, options, format);
            Box::new(CollectedObjects { pieces, chains: Chains::default(), runs: Vec::new() })
        });
        let report = FlowReport { losses, ..FlowReport::default() };
        Ok(Box::new(Self { sink: Box::new(sink), collected, has_owners: header.objects, report }))
    }

    fn write_points(&mut self, batch: &Batch) -> Result<()> {
        let mut fields = batch.fields().to_vec();
        if self.has_owners {
            let owners = batch.vertex_objects();
            let owner = |row: usize| owners.and_then(|owners| owners[row]);
            let ids = (0..batch.len()).map(|row| owner(row).map_or(-1, |id| id.0));
            fields.push(object_field(&fields, ids)?);
        }
        let mut shape = FeatureShape::default();
        for row in 0..batch.len() {
            shape.clear();
            add_positions(batch, row..row + 1, PartKind::Point, &mut shape);
            self.sink.write(&shape, &fields, row)?;
        }
        self.report.vertices += to_u64(batch.len());
        Ok(())
    }

    fn write_objects(&mut self, collected: CollectedObjects) -> Result<()> {
        let CollectedObjects { pieces, runs: all_runs, .. } = collected;
        let CollectedInput { header, batch, objects, object_fields, .. } = pieces.finish()?;
        let mut runs: HashMap<ObjectId, Vec<Range<usize>>> = HashMap::new();
        let mut order = objects.clone();
        let mut rows: HashMap<ObjectId, usize> = HashMap::new();
        for (row, id) in objects.into_iter().enumerate() {
            rows.entry(id).or_insert(row);
        }
        for (id, range) in all_runs {
            let object_runs = runs.entry(id).or_default();
            if object_runs.is_empty() && !rows.contains_key(&id) {
                order.push(id);
            }
            object_runs.push(range);
        }
        let kind = if batch.kind().is_chain() { PartKind::Line } else { PartKind::Point };
        let rows: Vec<Option<usize>> = order.iter().map(|id| rows.get(id).copied()).collect();
        let mut fields: Vec<Field> =
            object_fields.iter().map(|field| arrange_field(field, &rows)).collect();
        if !has_id(&header) {
            fields.push(object_field(&fields, order.iter().map(|id| id.0))?);
        }
        let mut shape = FeatureShape::default();
        for (number, id) in order.iter().enumerate() {
            shape.clear();
            shape.axes = usize_from_u32(batch.positions().width());
            for range in runs.get(id).into_iter().flatten() {
                add_positions(&batch, range.clone(), kind, &mut shape);
            }
            self.sink.write(&shape, &fields, number)?;
        }
        self.report.vertices = to_u64(batch.len());
        self.report.objects = to_u64(order.len());
        Ok(())
    }
}

/// Returns whether each object is a feature, instead of each vertex.
fn is_by_object(header: &Header) -> bool {
    header.kind.is_chain() || (header.objects && !header.object_fields.is_empty())
}

/// Returns why an attribute is dropped: it belongs neither to features nor to elements.
pub(crate) fn refuse(header: &Header, scope: &str, _: &Field) -> Option<&'static str> {
    let feature_scope = if is_by_object(header) { "object" } else { "vertex" };
    (scope != feature_scope && scope != "element").then_some("a feature has one value")
}

impl PieceWriter for FeatureWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        match (&mut self.collected, piece) {
            (Some(all), piece) => all.push(piece),
            (None, Piece::Vertices(batch)) => self.write_points(&batch),
            (None, _) => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        if let Some(all) = self.collected.take() {
            self.write_objects(*all)?;
        }
        self.sink.end(&mut self.report.losses)?;
        Ok(self.report)
    }
}

/// Returns whether an attribute of objects is their id.
fn has_id(header: &Header) -> bool {
    header.id_field.is_some() || header.object_fields.iter().any(|field| *field.name == *"id")
}

/// Creates an attribute of the object ids, with a name that none of `fields` has.
fn object_field(fields: &[Field], ids: impl Iterator<Item = i64>) -> Result<Field> {
    let name = free_name("object", "object_id", |name| fields.iter().any(|f| *f.name == *name));
    let bytes: Vec<u8> = ids.flat_map(i64::to_le_bytes).collect();
    let column = Column::new(zvf_metadata::Dtype::INT64, 1, bytes.into());
    Ok(Field::new(name, column.map_err(crate::read::values::column_error)?))
}

/// Returns `name`, or `other` if that is taken, with underscores appended until it is free.
pub fn free_name(name: &str, other: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut found = name.to_owned();
    while is_taken(&found) {
        found = if found == name { other.to_owned() } else { found + "_" };
    }
    found
}

/// Returns some rows of a field, without a value where there is no row.
pub fn arrange_field(field: &Field, rows: &[Option<usize>]) -> Field {
    let mut value = vec![0; saturating_usize(field.column.dtype().size)];
    if let Some(code) = field.categories.as_ref().and_then(zvf_model::Categories::missing_code) {
        value.iter_mut().zip(code.to_le_bytes()).for_each(|(slot, byte)| *slot = byte);
    }
    let missing = value.repeat(usize_from_u32(field.column.width()));
    field.with_column(arrange_rows(&field.column, rows.iter().copied(), &missing))
}

fn add_positions(batch: &Batch, rows: Range<usize>, kind: PartKind, shape: &mut FeatureShape) {
    let positions = batch.positions();
    shape.axes = usize_from_u32(positions.width());
    for row in rows.clone() {
        shape
            .positions
            .extend((0..shape.axes).map(|axis| positions.float(row, axis).unwrap_or(f64::NAN)));
    }
    match kind {
        PartKind::Point => rows.for_each(|_| shape.end_part(kind, 1)),
        PartKind::Line | PartKind::Ring => shape.end_part(kind, rows.len()),
    }
}

/// Features: one row per point or line, with attributes as columns.
pub const FEATURES: Capabilities = Capabilities {
    kinds: &[Kind::PointCloud, Kind::Polyline, Kind::Streamline, Kind::Line],
    axes: (2, 3),
    positions: Attributes::Types(&["float32", "float64"]),
    vertex_attributes: Attributes::All,
    object_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    units: UnitSupport::Any,
    streams_in: false,
    refusal: refuse,
    ..POSITIONS_ONLY
};

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Categories, Value};

    use super::*;

    #[test]
    fn every_value_of_a_missing_row_is_missing() {
        for dtype in ["uint8", "int32", "int64"] {
            let column = Column::empty(dtype.parse::<Dtype>().unwrap(), 3).unwrap();
            let labels = Categories::new(vec![Value::from("a")], Some(9));
            let field = Field::new("label", column).with_categories(labels);
            let row = arrange_field(&field, &[None]);
            assert_eq!(row.column.len(), 1, "{dtype}");
            for at in 0..3 {
                assert_eq!(row.value(0, at).unwrap(), Value::Null, "{dtype}");
            }
        }
    }
}

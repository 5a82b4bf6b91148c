//! The passes over the features of a file: kinds and types first, then pieces.

use std::collections::VecDeque;

use serde_json::Value as Json;
use zvf_error::{Error, Result, format_count};
use zvf_format::Class;
use zvf_format::num::index_u32;
use zvf_model::flow::{Header, Piece};
use zvf_model::{Kind, ObjectId};

use crate::dtypes::FLOAT64;
use crate::read::features::{FeatureCell, FeatureColumns, FeatureShape, GeometrySummary, PartKind};
use crate::read::record::VertexBuilder;
use crate::read::roles::default_axes;
use crate::read::values::{Values, new_column};
use crate::read::{FileReader, ReadOptions};

/// A file of features, which is read from front to back more than once.
pub trait FeatureSource: Send + 'static {
    /// Reads the next features into `to`, and returns `false` after the last one.
    fn read_next(&mut self, to: &mut FeatureTarget) -> Result<bool>;

    /// Goes back to the first feature.
    fn rewind(&mut self) -> Result<()>;

    /// Describes the file, once all features were read.
    fn describe(&self) -> FeatureInfo;
}

/// The coordinates of a file of features, and what is not read.
#[derive(Default)]
pub struct FeatureInfo {
    /// The coordinate reference system, as the file states it.
    pub crs: Option<Json>,
    /// The unit of lengths.
    pub unit: Option<&'static str>,
    /// What a writer of the same format needs.
    pub record: Json,
    /// Whether a file without positions has three axes instead of two.
    pub has_z: bool,
    /// The parts of the file that are not read.
    pub left_out: Vec<String>,
}

/// The destination of features: the types of their attributes, or pieces.
pub struct FeatureTarget {
    /// The attributes.
    pub columns: FeatureColumns,
    /// The geometry of the current feature.
    pub shape: FeatureShape,
    pass: Pass,
    summary: GeometrySummary,
    empty_features: u64,
    vertices: VertexBuilder,
    parts: i64, // so far
    ids: Vec<ObjectId>,
    next_id: i64,
    ready: VecDeque<Piece>,
    batch_rows: usize,
    format: &'static str,
}

/// The part of the features that a pass reads.
#[derive(Clone, Copy)]
enum Pass {
    /// Kinds, axes and types.
    Types,
    /// The texts of columns that mix text with other values.
    Labels,
    /// Everything.
    Rows,
}

impl FeatureTarget {
    /// Creates the target of a file of `format`.
    pub fn new(options: &ReadOptions, format: &'static str) -> Self {
        Self {
            columns: FeatureColumns::new(options.memory, format),
            shape: FeatureShape::default(),
            pass: Pass::Types,
            summary: GeometrySummary::default(),
            empty_features: 0,
            vertices: build_vertices(Kind::PointCloud, 0), // until the kind is known
            parts: 0,
            ids: Vec::new(),
            next_id: 0,
            ready: VecDeque::new(),
            batch_rows: options.batch_rows.max(1),
            format,
        }
    }

    /// Returns whether only kinds, axes and types are read.
    pub const fn is_first_pass(&self) -> bool {
        matches!(self.pass, Pass::Types)
    }

    /// Sets an attribute of the current feature.
    pub fn set(&mut self, at: usize, cell: &FeatureCell<'_>) -> Result<()> {
        match self.pass {
            Pass::Types => self.columns.record_form(at, cell),
            Pass::Labels => self.columns.relabel(at, cell),
            Pass::Rows => {
                self.columns.push(at, self.ids.len(), cell);
                Ok(())
            }
        }
    }

    /// Ends the current feature, whose shape and attributes were set. Refuses one with other axes
    /// than those before. Parts of another kind than the one read are skipped.
    pub fn end_feature(
        &mut self,
        input_error: impl FnOnce(Class, String, usize) -> Error,
    ) -> Result<()> {
        match self.pass {
            Pass::Types => {
                if !self.summary.add(&self.shape) {
                    let expected = format!("positions of {} numbers, as before", self.summary.axes);
                    return Err(input_error(Class::BadShape, expected, self.shape.axes));
                }
                self.empty_features += u64::from(self.shape.parts.is_empty());
                self.columns.end_rows(1);
                Ok(())
            }
            Pass::Labels => Ok(()),
            Pass::Rows => self.push_shape(),
        }
    }

    fn push_shape(&mut self) -> Result<()> {
        let id = ObjectId(self.next_id);
        self.next_id += 1;
        for (part, coordinates) in self.shape.parts_with_coordinates() {
            if (part.kind == PartKind::Point) == self.vertices.kind().is_chain() {
                continue;
            }
            for x in coordinates {
                self.vertices.positions.push_bytes(&x.to_le_bytes());
            }
            self.vertices.end_rows(part.len, Some(id), self.parts);
            self.parts += 1;
        }
        self.ids.push(id);
        if self.vertices.rows() >= self.batch_rows || self.ids.len() >= self.batch_rows {
            self.end_batch()?;
        }
        Ok(())
    }

    /// Ends the batch and makes its pieces.
    fn end_batch(&mut self) -> Result<()> {
        if self.vertices.rows() > 0 {
            self.ready.push_back(self.vertices.take()?);
        }
        let ids = std::mem::take(&mut self.ids);
        let fields = self.columns.take(ids.len())?;
        if !ids.is_empty() {
            self.ready.push_back(Piece::Objects { ids, fields });
        }
        Ok(())
    }

    /// Reads all of `source` for the header, and returns a reader that reads it again for the
    /// pieces.
    pub fn into_reader(
        mut self,
        mut source: impl FeatureSource,
        options: &ReadOptions,
    ) -> Result<FileReader> {
        while source.read_next(&mut self)? {}
        let mut notes = self.columns.choose_types();
        if self.empty_features > 0 {
            let count = format_count(self.empty_features, "feature");
            notes.push(format!("{count} without a geometry: objects without vertices"));
        }
        let info = source.describe();
        source.rewind()?;
        if self.columns.is_mixed() {
            self.pass = Pass::Labels;
            while source.read_next(&mut self)? {}
            source.rewind()?;
        }
        let (kind, other_kinds) = self.summary.choose(options, self.format)?;
        let axes = match self.summary.axes {
            0 => 2 + usize::from(info.has_z),
            axes => axes,
        };
        let width = index_u32(axes); // 2 or 3
        let header = Header {
            objects: true,
            object_fields: self.columns.take(0)?,
            other_kinds,
            vertices: Some(self.summary.vertices),
            crs: info.crs,
            records: vec![("geo".to_owned(), info.record)],
            left_out: info.left_out,
            notes,
            ..Header::new(kind, default_axes(width), new_column(FLOAT64, width, Vec::new())?)
        };
        self.pass = Pass::Rows;
        self.vertices = build_vertices(kind, width);
        Ok(FileReader::from_steps(with_units(header, info.unit), move || {
            loop {
                if let Some(piece) = self.ready.pop_front() {
                    return Ok(Some(piece));
                }
                if !source.read_next(&mut self)? {
                    self.end_batch()?;
                    return Ok(self.ready.pop_front());
                }
            }
        }))
    }
}

fn build_vertices(kind: Kind, width: u32) -> VertexBuilder {
    VertexBuilder::new(kind, Values::new(FLOAT64, width), Vec::new(), true)
}

/// Sets the unit of all axes; a height is in metres where the unit is degrees.
pub fn with_units(mut header: Header, unit: Option<&'static str>) -> Header {
    if let Some(unit) = unit {
        let units = (0..header.axes.len()).map(|axis| match (unit, axis) {
            ("degree", 2..) => Some("meter".to_owned()),
            _ => Some(unit.to_owned()),
        });
        header.units = units.collect();
    }
    header
}

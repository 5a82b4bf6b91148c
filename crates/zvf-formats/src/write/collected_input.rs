//! The complete input of one kind, for writers that encode it when the file ends.

use zvf_error::Result;
use zvf_format::num::{nearest_f32, to_u64};
use zvf_model::flow::{FlowReport, Group, Header, Loss};
use zvf_model::{Batch, Column, Elements, Field, ObjectId, Value};

use crate::elements::{fan, neighbours};
use crate::table::{field_value, value_places, vertex_owners};
use crate::write::{FormatOptions, find_record};

/// The complete input of one kind.
pub struct CollectedInput {
    /// What is known of all pieces.
    pub header: Header,
    /// The vertices with their attributes and elements.
    pub batch: Batch,
    /// The object of each row of `object_fields`.
    pub objects: Vec<ObjectId>,
    /// The attributes of objects.
    pub object_fields: Vec<Field>,
    /// Groups of objects.
    pub groups: Vec<Group>,
    /// The attributes of groups.
    pub group_fields: Vec<Field>,
    /// The options of the writer.
    pub options: FormatOptions,
}

impl CollectedInput {
    /// Returns the report of a file that holds everything but what `losses` lists.
    pub fn report(&self, losses: Vec<Loss>) -> FlowReport {
        FlowReport {
            vertices: to_u64(self.batch.len()),
            objects: to_u64(self.object_ids().len()),
            elements: to_u64(self.batch.elements().map_or(0, Elements::len)),
            losses,
        }
    }

    /// Returns the position of a vertex in three dimensions.
    pub fn point(&self, row: usize) -> [f64; 3] {
        let positions = self.batch.positions();
        [0, 1, 2].map(|axis| positions.float(row, axis).unwrap_or(0.0)) // points of a plane lie at z = 0
    }

    /// Returns the object of each vertex, or `None` where the input has no objects.
    pub fn owners(&self) -> Option<Vec<Option<ObjectId>>> {
        vertex_owners(&self.batch)
    }

    /// Returns the ids of all objects: those of `objects`, then the others in the order of their vertices.
    pub fn object_ids(&self) -> Vec<ObjectId> {
        let mut listed = std::collections::HashSet::new();
        let mut ids: Vec<ObjectId> =
            self.objects.iter().copied().filter(|id| listed.insert(*id)).collect();
        for owner in self.owners().into_iter().flatten().flatten() {
            if listed.insert(owner) {
                ids.push(owner);
            }
        }
        ids
    }

    /// Returns the row of an object in `object_fields`.
    pub fn object_row(&self, id: ObjectId) -> Option<usize> {
        self.objects.iter().position(|object| *object == id)
    }

    /// Returns the faces as triangle fans, with the row of each face.
    pub fn triangles(&self) -> Vec<([usize; 3], usize)> {
        let faces = self.batch.elements().into_iter().flat_map(Elements::iter).enumerate();
        faces.flat_map(|(at, face)| fan(face).map(move |corners| (corners, at))).collect()
    }

    /// Returns the edges: elements of two vertices with their rows, or neighbours within the parts of chains.
    pub fn edges(&self) -> Vec<([usize; 2], Option<usize>)> {
        if let Some(elements) = self.batch.elements().filter(|elements| elements.width() == 2) {
            let edges = elements.iter().filter_map(|row| row.first_chunk().copied());
            return edges.zip((0..).map(Some)).collect();
        }
        neighbours(&self.batch).map(|edge| (edge, None)).collect()
    }

    /// Returns the attributes of elements.
    pub fn element_fields(&self) -> &[Field] {
        self.batch.elements().map_or(&[], Elements::fields)
    }

    /// Returns the header record of the reader of `format`.
    pub fn record(&self, format: &str) -> &serde_json::Value {
        find_record(&self.header, format)
    }
}

/// Returns a value of a field as text. A missing value is empty.
pub fn format_value(field: &Field, row: usize, c: usize) -> Result<String> {
    Ok(match field_value(field, row, c)? {
        Value::Null => String::new(),
        Value::Float(x) => format_number(x),
        value => value.to_string(),
    })
}

/// Formats a number as the shortest text that parses to the same number; NaN and infinities as C spells them.
pub fn format_number(x: f64) -> String {
    match x {
        x if x.is_nan() => "nan".to_owned(),
        x if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
        x => x.to_string(),
    }
}

/// Formats a coordinate in its own type, so that `float32` has no digits of `float64`.
pub fn format_coordinate(column: &Column, row: usize, axis: usize) -> String {
    let x = column.float(row, axis).unwrap_or(0.0);
    if column.dtype() == zvf_metadata::Dtype::FLOAT32 && x.is_finite() {
        return nearest_f32(x).to_string();
    }
    format_number(x)
}

/// Converts a column to `float32`, little-endian.
pub fn to_f32_bytes(column: &Column) -> Vec<u8> {
    let value = |(row, c)| nearest_f32(column.float(row, c).unwrap_or(f64::NAN)).to_le_bytes();
    value_places(column).flat_map(value).collect()
}

//! Chains, graphs and skeletons as precomputed skeletons: one complete segment per object.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::num::{index_u32, nearest_f32};
use zvf_model::{Batch, Kind, LevelReader};
use zvf_query::{Columns, Reader};

use super::attributes::Attribute;
use super::segments::read_object;
use super::space::{Space, coordinate};
use crate::encode::encode_skeleton;

/// The skeletons of a level.
#[derive(Debug)]
pub(crate) struct Skeletons {
    kind: Kind,
    level: LevelReader,
    attributes: Vec<Attribute>,
}

impl Skeletons {
    pub(crate) async fn new(kind: Kind, level: LevelReader) -> Result<Self> {
        let mut attributes = Attribute::of_vertices(&level).await?;
        attributes.retain(Attribute::is_number);
        // Readers expect the radius first.
        attributes.sort_by_key(|attribute| attribute.name != "radius");
        Ok(Self { kind, level, attributes })
    }

    pub(crate) fn info(&self, space: &Space) -> Result<Json> {
        let attributes = self.attributes.iter().map(|attribute| {
            json!({"id": attribute.name, "data_type": attribute.stored_type().0,
                "num_components": attribute.width})
        });
        Ok(json!({
            "@type": "neuroglancer_skeletons",
            "transform": space.transform()?,
            "vertex_attributes": attributes.collect::<Vec<_>>(),
            "segment_properties": "segment_properties",
        }))
    }

    pub(crate) async fn object(&self, reader: &Reader, id: u64) -> Result<Option<Bytes>> {
        let names = self.attributes.iter().map(|attribute| attribute.name.clone()).collect();
        let found = read_object(reader, &self.level, self.kind, id, Columns::Named(names)).await?;
        Ok(found.map(|batch| self.encode(&batch)).transpose()?.map(Bytes::from))
    }

    fn encode(&self, batch: &Batch) -> Result<Vec<u8>> {
        let rows = 0..batch.len();
        let position =
            |row| [0, 1, 2].map(|axis| nearest_f32(coordinate(batch.positions(), row, axis)));
        let positions: Vec<f32> = rows.clone().flat_map(position).collect();
        let mut values = Vec::with_capacity(self.attributes.len());
        for attribute in &self.attributes {
            let mut bytes = Vec::new();
            let field = batch.field(&attribute.name);
            for row in rows.clone() {
                for at in 0..attribute.width {
                    match field {
                        Some(field) => attribute.push(&field.column, row, at, &mut bytes)?,
                        None => bytes.extend(std::iter::repeat_n(0, attribute.stored_type().1)),
                    }
                }
            }
            values.push(bytes);
        }
        Ok(encode_skeleton(&positions, &edges(batch), &values)?)
    }
}

/// Returns links of two vertices, or pairs of consecutive vertices in the parts of chains. An
/// answer has fewer than 2^32 rows.
fn edges(batch: &Batch) -> Vec<[u32; 2]> {
    match batch.elements().filter(|elements| elements.width() == 2) {
        Some(elements) => elements.iter().map(|link| [link[0], link[1]].map(index_u32)).collect(),
        None => {
            let parts = batch.parts().iter();
            let steps = parts.flat_map(|part| part.rows.clone().zip(part.rows.skip(1)));
            steps.map(|(from, to)| [from, to].map(index_u32)).collect()
        }
    }
}

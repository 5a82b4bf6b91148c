//! Records of annotations: positions, properties and related ids, and the lists of records that
//! viewers read.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::num::{mix_bits, nearest_f32};
use zvf_model::{Column, Kind, LevelReader};

use super::attributes::{Attribute, Property};
use super::relations::Relations;
use super::space::{Space, coordinate};
use crate::encode::encode_annotations;

/// The contents of the records of a folder.
#[derive(Debug)]
pub(crate) struct RecordSchema {
    kind: Kind,
    pub(crate) attributes: Vec<Attribute>,
    properties: Vec<Property>,
    pub(crate) relations: Relations,
}

impl RecordSchema {
    pub(crate) async fn new(
        kind: Kind,
        level: &LevelReader,
        attributes: Vec<Attribute>,
    ) -> Result<Self> {
        let properties = Property::list(&attributes)?;
        let relations = Relations::new(kind, level).await?;
        Ok(Self { kind, attributes, properties, relations })
    }

    /// Returns the `info` of a folder between two corners, in the unit of the store.
    pub(crate) fn info(
        &self,
        space: &Space,
        (low, high): (&[f64], &[f64]),
        grids: &[Json],
    ) -> Json {
        let shift = |corner: &[f64]| -> Vec<f64> {
            corner.iter().zip(space.offset()).map(|(x, offset)| x + offset).collect()
        };
        let mut properties: Vec<Json> = self.properties.iter().map(Property::describe).collect();
        let kind = match self.kind {
            Kind::PointCloud => {
                let text = "level of detail";
                properties.push(json!({"id": LEVEL, "type": "uint8", "description": text}));
                "POINT"
            }
            Kind::Line => "LINE",
            Kind::Polyline | Kind::Streamline | Kind::Graph | Kind::Skeleton | Kind::Mesh | _ => {
                "POLYLINE"
            }
        };
        json!({
            "@type": "neuroglancer_annotations_v1",
            "dimensions": space.dimensions(),
            "lower_bound": shift(low),
            "upper_bound": shift(high),
            "annotation_type": kind,
            "properties": properties,
            "relationships": self.relations.describe(),
            "by_id": {"key": "by_id"},
            "spatial": grids,
        })
    }

    /// Appends the positions of vertices, and the values of the attributes in a row of their
    /// columns; zeros for a missing column.
    pub(crate) fn push<'a>(
        &self,
        space: &Space,
        (positions, vertices): (&Column, &[usize]),
        (column, row): (impl Fn(usize) -> Option<&'a Column>, usize),
        record: &mut Vec<u8>,
    ) -> Result<()> {
        for vertex in vertices {
            for (axis, offset) in space.offset().iter().enumerate() {
                let x = coordinate(positions, *vertex, axis) + offset;
                record.extend(nearest_f32(x).to_le_bytes());
            }
        }
        for property in &self.properties {
            let attribute = &self.attributes[property.attribute];
            property.push(attribute, column(property.attribute), row, record)?;
        }
        Ok(())
    }
}

/// Returns records as a list in a reproducible random order, each once; `None` if there are none.
pub(crate) fn list_records(mut records: Vec<(u64, Vec<u8>)>) -> Option<Bytes> {
    records.sort_by_key(|(id, _)| mix_bits(*id));
    records.dedup_by_key(|(id, _)| *id);
    (!records.is_empty()).then(|| encode_annotations(&records).into())
}

/// The property that holds the level of a point.
const LEVEL: &str = "zvf_level";

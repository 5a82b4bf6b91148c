//! Draco files: a stream of a mesh or of points.
//!
//! Colours are read as `colors`, normals as `normals`, texture coordinates as `tex_coord`, others as `attribute_ID`. The
//! edgebreaker and kd-tree encodings do not keep the order of points, which `left_out` states.

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::draco::{Caps, Meaning};
use zvf_formats::{Bytes, FileReader, ReadOptions, WholeFile, WholeGeometry, draco, number_column};
use zvf_metadata::Dtype;
use zvf_model::{Field, Kind};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let file = WholeFile::read(bytes, options)?;
    let limits = Caps::from_memory(options.memory);
    let stream = draco::decode(&file.bytes, &limits).map_err(|fault| {
        file.spot_at(fault.byte).error(fault.class, fault.expected, fault.found)
    })?;
    let mut positions = None;
    let mut fields: Vec<Field> = Vec::new();
    for attribute in stream.attributes {
        let name = match attribute.meaning {
            Meaning::Position if positions.is_none() => {
                positions = Some(attribute.values);
                continue;
            }
            Meaning::Color => "colors".to_owned(),
            Meaning::Normal => "normals".to_owned(),
            Meaning::TextureCoordinate => "tex_coord".to_owned(),
            Meaning::Position | Meaning::Generic => format!("attribute_{}", attribute.id),
        };
        let is_taken = fields.iter().any(|field| *field.name == *name);
        let name = if is_taken { format!("{name}_{}", attribute.id) } else { name };
        fields.push(Field::new(name, attribute.values));
    }
    let expected = "an attribute of positions";
    let positions = file.spot("the stream").need(positions, Class::NotFound, expected, "none")?;
    let kind = if stream.faces.is_some() { Kind::Mesh } else { Kind::PointCloud };
    let mut geometry = WholeGeometry::new(kind, positions, fields)?;
    if let Some(faces) = stream.faces {
        let flat = faces.as_flattened();
        let rows = number_column(Dtype::INT64, 3, flat, |point| i64::from(*point).to_le_bytes())?;
        geometry.elements = Some((rows, Vec::new()));
    }
    if !stream.keeps_order {
        geometry.header.left_out.push("the order in which points were given".to_owned());
    }
    geometry.into_reader("Draco", options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden;

    #[test]
    fn reads_golden_files() {
        golden::check_files("draco", &ReadOptions::default());
    }
}

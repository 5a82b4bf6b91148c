//! The image of streamlines, from the header record of their format.

use serde_json::Value as Json;

use crate::read::Header;

/// An image: the transform and the number of its voxels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Image {
    /// The transform from voxels to mm of the world.
    pub(super) affine: Option<[[f64; 4]; 4]>,
    /// Voxels on each axis.
    pub(super) dimensions: Option<[i64; 3]>,
}

impl Image {
    /// Reads the records of TRX or TRK, or else the space of the header.
    pub(super) fn from_header(header: &Header) -> Self {
        let record = |name: &str| header.records.iter().find(|(key, _)| key == name);
        let records = ["trx", "trk"].into_iter().filter_map(record);
        let mut image = Self::default();
        for (_, record) in records {
            let affine = record.get("voxel_to_rasmm").and_then(parse_matrix);
            let dimensions = record.get("dimensions").and_then(Json::as_array);
            let dimensions = dimensions.and_then(|numbers| {
                let numbers: Option<Vec<i64>> = numbers.iter().map(Json::as_i64).collect();
                numbers?.try_into().ok()
            });
            image.affine = image.affine.or(affine);
            image.dimensions = image.dimensions.or(dimensions);
        }
        let space_affine = header.space.as_ref().and_then(|space| space.affine);
        Self { affine: image.affine.or(space_affine), ..image }
    }
}

fn parse_matrix(value: &Json) -> Option<[[f64; 4]; 4]> {
    let row = |row: &Json| -> Option<[f64; 4]> {
        let numbers: Option<Vec<f64>> = row.as_array()?.iter().map(Json::as_f64).collect();
        numbers?.try_into().ok()
    };
    let rows: Option<Vec<[f64; 4]>> = value.as_array()?.iter().map(row).collect();
    rows?.try_into().ok()
}

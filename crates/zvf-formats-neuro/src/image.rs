//! The image of streamlines, as the header record of their format states it.

use serde_json::{Map, Value as Json, json};
use zvf_model::flow::{Header, Loss};

/// Sets the image of streamlines.
pub fn set_image(header: &mut Header, image: &Map<String, Json>) {
    let keys = ["voxel_to_rasmm", "dimensions"];
    let fields = keys.map(|key| (key.to_owned(), image.get(key).cloned().unwrap_or_default()));
    let fields: Map<String, Json> = fields.into_iter().collect();
    let is_image = |name: &str| RECORDS.contains(&name);
    if !header.records.iter().any(|(name, _)| is_image(name)) {
        header.records.push(("trk".to_owned(), json!({})));
    }
    for (_, record) in header.records.iter_mut().filter(|(name, _)| is_image(name)) {
        if let Some(record) = record.as_object_mut() {
            record.extend(fields.clone());
        }
    }
}

/// The records of headers that have an image.
const RECORDS: [&str; 2] = ["trx", "trk"];

/// An image: the transform and the number of its voxels.
#[derive(Default)]
pub(crate) struct Image {
    /// The transform from voxels to mm of the world.
    pub(crate) affine: Option<[[f64; 4]; 4]>,
    /// Voxels on each axis.
    pub(crate) dimensions: Option<[i64; 3]>,
}

/// Returns the loss of a `format` whose image nothing states.
pub(crate) fn find_missing_image(header: &Header, format: &str) -> Option<Loss> {
    Image::from_header(header).affine.is_none().then(|| {
        Loss::new(format!(
            "no image is known: {format} gets one of 1 mm voxels from the origin on, and programs that check it refuse \
             streamlines outside; name an image with --reference"
        ))
    })
}

impl Image {
    /// Reads the records of TRX or TRK, or else the space of the header.
    pub(crate) fn from_header(header: &Header) -> Self {
        let record = |name: &str| header.records.iter().find(|(key, _)| key == name);
        let records = RECORDS.into_iter().filter_map(record);
        let mut image = Self::default();
        for (_, record) in records {
            let affine = parse_matrix(&record["voxel_to_rasmm"]);
            let dimensions = record["dimensions"].as_array();
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

/// Parses a matrix, nested or flat.
pub(crate) fn parse_matrix(value: &Json) -> Option<[[f64; 4]; 4]> {
    let flat =
        |row: &Json| -> Option<Vec<f64>> { row.as_array()?.iter().map(Json::as_f64).collect() };
    let rows: Vec<f64> = match flat(value) {
        Some(numbers) => numbers,
        None => value.as_array()?.iter().map(flat).collect::<Option<Vec<_>>>()?.concat(),
    };
    let (rows, rest) = rows.as_chunks::<4>();
    <[[f64; 4]; 4]>::try_from(rows.to_vec()).ok().filter(|_| rest.is_empty())
}

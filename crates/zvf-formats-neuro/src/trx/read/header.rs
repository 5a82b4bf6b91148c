//! Parser of `header.json`: the counts and the image of a TRX.

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;

use crate::image::parse_matrix;
use crate::trx::read::members::{HEADER, Members, spot};

/// The contents of `header.json`.
pub(crate) struct TrxHeader {
    pub(crate) vertices: u64,
    pub(crate) streamlines: u64,
    /// The matrix of the image of the streamlines; positions are in mm of the world already.
    pub(crate) affine: Option<[[f64; 4]; 4]>,
    pub(crate) dimensions: Option<Json>,
    /// Unknown keys.
    extra_keys: Vec<(String, Json)>,
}

impl TrxHeader {
    pub(crate) fn read(members: &Members) -> Result<Self> {
        let place = |field: &str| format!("{HEADER}, {field}");
        let Some(mut bytes) = members.read(HEADER)? else {
            return spot("the file").refuse(Class::NotFound, "a member header.json", "none");
        };
        let text = bytes.read_all(MAX_HEADER_BYTES)?;
        let json: Result<serde_json::Map<String, Json>, _> = serde_json::from_slice(&text);
        let json = json.map_err(|error| {
            let at = format!("{HEADER}, line {}", error.line());
            spot(at).error(Class::Encoding, "a JSON object", error)
        })?;
        let count = |key: &str| {
            let value = spot(place(key)).need(json.get(key), Class::NotFound, "a count", "none")?;
            spot(place(key)).need(value.as_u64(), Class::Encoding, "a whole number", value)
        };
        let (vertices, streamlines) = (count(VERTICES)?, count(STREAMLINES)?);
        let matrix = |value: &Json| {
            let found: String = value.to_string().chars().take(60).collect();
            let matrix = parse_matrix(value);
            spot(place(MATRIX)).need(matrix, Class::BadShape, "4 x 4 numbers", found)
        };
        let affine = json.get(MATRIX).map(matrix).transpose()?;
        let dimensions = json.get(DIMENSIONS).cloned();
        let known = [VERTICES, STREAMLINES, MATRIX, DIMENSIONS];
        let extra_keys = json.into_iter().filter(|(key, _)| !known.contains(&key.as_str()));
        Ok(Self { vertices, streamlines, affine, dimensions, extra_keys: extra_keys.collect() })
    }

    /// Returns the header record that the writer uses.
    pub(crate) fn record(&self) -> Json {
        let extra_keys: serde_json::Map<String, Json> = self.extra_keys.iter().cloned().collect();
        json!({
            "voxel_to_rasmm": self.affine,
            "dimensions": self.dimensions,
            "others": extra_keys,
        })
    }
}

/// Keys of the header.
const VERTICES: &str = "NB_VERTICES";
const STREAMLINES: &str = "NB_STREAMLINES";
const MATRIX: &str = "VOXEL_TO_RASMM";
const DIMENSIONS: &str = "DIMENSIONS";
const MAX_HEADER_BYTES: u64 = 16 << 20;

//! The header record `headers/las`: the metadata of a LAS file, so that it can be written back.

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_formats::RandomFile;

use crate::las::read::header::LasHeader;

/// Reads the record of a file. VLRs beyond the size limit are noted in `left_out`.
pub(crate) fn read_record(
    las: &LasHeader,
    source: &mut RandomFile,
    left_out: &mut Vec<String>,
) -> Result<Json> {
    let mut vlrs = Vec::new();
    let mut budget_bytes = MAX_RECORD_BYTES;
    for record in &las.records {
        // The writer creates these itself.
        let is_generated = matches!(
            (record.user.as_str(), record.id),
            ("laszip encoded", _) | ("LASF_Spec", 4) | ("copc", _)
        );
        if is_generated {
            continue;
        }
        if record.len > budget_bytes {
            let (user, id, len) = (&record.user, record.id, record.len);
            left_out.push(format!(
                "record {user:?} {id} of {len} bytes: kept are {MAX_RECORD_BYTES} together"
            ));
            continue;
        }
        budget_bytes -= record.len;
        let (at, len) = (record.at, record.len);
        vlrs.push(json!({
            "user_id": record.user,
            "record_id": record.id,
            "description": record.description,
            "extended": record.extended,
            "hex": encode_hex(&source.read(at, len, "a record")?),
        }));
    }
    let mut fields = Map::new();
    fields.insert("version".into(), json!(format!("1.{}", las.minor)));
    fields.insert("point_format".into(), json!(las.point_format));
    fields.insert("scales".into(), json!(las.grid.scales));
    fields.insert("offsets".into(), json!(las.grid.offsets));
    fields.insert("global_encoding".into(), json!(las.encoding));
    fields.insert("vlrs".into(), Json::Array(vlrs));
    Ok(Json::Object(fields))
}

fn encode_hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(HEX_DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Decodes hexadecimal text. Returns `None` if it is invalid.
pub(crate) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: char| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Limit of all VLRs together.
const MAX_RECORD_BYTES: u64 = 1 << 20;

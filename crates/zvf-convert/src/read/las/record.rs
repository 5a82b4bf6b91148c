//! What a LAS file says besides its points, kept for the way back: `headers/las`.

use serde_json::{Map, Value as Json, json};

use super::header::LasHeader;
use crate::ConvertError;
use crate::read::Header;
use crate::read::source::Source;

/// The record of a file, and what is left out of it.
pub(super) fn keep(
    said: &LasHeader,
    source: &mut Source,
    left_out: &mut Vec<String>,
) -> Result<Json, ConvertError> {
    let mut vlrs = Vec::new();
    let mut room = MAX_RECORD_BYTES;
    for record in &said.records {
        let own = matches!(
            (record.user.as_str(), record.id),
            ("laszip encoded", _) | ("LASF_Spec", 4) | ("copc", _)
        );
        if own {
            continue;
        }
        if record.len > room {
            let (user, id, len) = (&record.user, record.id, record.len);
            left_out.push(format!(
                "record {user:?} {id} of {len} bytes: kept are {MAX_RECORD_BYTES} together"
            ));
            continue;
        }
        room -= record.len;
        let (at, len) = (record.at, record.len);
        vlrs.push(json!({
            "user_id": record.user,
            "record_id": record.id,
            "description": record.description,
            "extended": record.extended,
            "hex": hex(&source.read(at, len, "a record")?),
        }));
    }
    let mut kept = Map::new();
    kept.insert("version".into(), json!(format!("1.{}", said.minor)));
    kept.insert("point_format".into(), json!(said.point_format));
    kept.insert("scales".into(), json!(said.scales));
    kept.insert("offsets".into(), json!(said.offsets));
    kept.insert("global_encoding".into(), json!(said.encoding));
    kept.insert("vlrs".into(), Json::Array(vlrs));
    Ok(Json::Object(kept))
}

/// The record that a file of points brought along.
pub(crate) fn record_of(header: &Header) -> Option<&Json> {
    header.records.iter().find(|(name, _)| name == "las").map(|(_, record)| record)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(HEX.get(usize::from(n)).copied().unwrap_or(b'0'));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of such text; what is no digit ends them.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    let digits = text.chars().map_while(|digit| digit.to_digit(16));
    let digits: Vec<u8> = digits.filter_map(|digit| u8::try_from(digit).ok()).collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect()
}

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Bytes of records that are kept together.
const MAX_RECORD_BYTES: u64 = 1 << 20;

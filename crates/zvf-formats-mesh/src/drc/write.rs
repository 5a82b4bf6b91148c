//! Writer of Draco: positions and faces in their order, exact or quantized to `draco.bits` bits.
//!
//! Attributes are dropped. The encoding is the sequential one, which every decoder reads.

use std::io::Write as _;

use zvf_draco::{DracoEncoder, Quantization};
use zvf_error::Error;
use zvf_format::num::nearest_f32;
use zvf_formats::{CollectedInput, Encoded, Target, cannot_hold};
use zvf_model::flow::Loss;

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let rows = 0..input.batch.len();
    let positions: Vec<f32> = rows.flat_map(|row| input.point(row).map(nearest_f32)).collect();
    let triangles = input.triangles();
    let faces: Option<Vec<[u32; 3]>> = triangles
        .iter()
        .map(|(face, _)| {
            let [a, b, c] = face.map(|row| u32::try_from(row).ok());
            Some([a?, b?, c?])
        })
        .collect();
    let Some(faces) = faces else { return Err(refuse("more than 2^32 vertices".to_owned())) };
    let mut encoder = DracoEncoder::new(&positions).map_err(|fault| refuse(fault.to_string()))?;
    if input.header.kind == zvf_model::Kind::Mesh {
        encoder = encoder.with_faces(&faces).map_err(|fault| refuse(fault.to_string()))?;
    }
    let mut losses = Vec::new();
    if let Some(option) = input.options.extra.get("draco.bits") {
        let bits = option.as_u64().and_then(|bits| u8::try_from(bits).ok());
        let Some(bits) = bits.filter(|bits| (1..=30).contains(bits)) else {
            return Err(refuse(format!("draco.bits of {option}, which are from 1 to 30")));
        };
        let grid = Quantization::from_positions(&positions, bits);
        encoder = encoder.with_quantization(grid).map_err(|fault| refuse(fault.to_string()))?;
        losses.push(Loss::new(format!("positions move by up to {}", grid.error())));
    }
    out.write_all(&encoder.encode())?;
    Ok(input.report(losses))
}

fn refuse(what: String) -> Error {
    cannot_hold("Draco", what, "write it in parts, or as PLY")
}

//! Comparison of zone maps with the payloads: rule Z1.
//!
//! ```text
//! {"chunks": [{"dataset_id", "chunk_index", "element_count", "null_count", "min_le"?, "max_le"?}, ...]}
//! ```
//!
//! Counts refer to one chunk; the extremes are its minimum and maximum element, little-endian in
//! hexadecimal. Elements that are not numbers count as null, and writers may count a fill value as
//! null as well: if there are more nulls than NaN, the extremes may be narrower than those of all
//! elements, but not wider. Missing members are not checked, and zone maps are never used for
//! queries.

use serde::Deserialize;
use zvf_error::{Error, Result, quote};
use zvf_format::num::to_u64;
use zvf_tet::TensorDtype;

use super::file::{Tensor, TensorFile};
use super::verify::{Fault, Weight};
use crate::error::in_dataset;

#[derive(Deserialize)]
struct Zones {
    #[serde(default)]
    chunks: Vec<Zone>,
}

/// The statistics of one chunk in the file.
#[derive(Debug, Deserialize)]
struct Zone {
    dataset_id: u64,
    chunk_index: Vec<u64>,
    element_count: u64,
    #[serde(default)]
    null_count: u64,
    min_le: Option<String>,
    max_le: Option<String>,
}

/// An element as a comparable number.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Comparable {
    Float(f64),
    Whole(i128),
}

impl TensorFile {
    /// Compares each zone with its chunk.
    pub(super) async fn verify_zones(&self, max_bytes: u64, faults: &mut Vec<Fault>) -> Result<()> {
        let spills = self.container().view()?.footer().map(|footer| footer.spills());
        let Some([Some(spill), ..]) = spills else { return Ok(()) };
        let end = spill.offset.saturating_add(spill.len); // too large: beyond the end
        let text = self.bytes().read(spill.offset..end).await?;
        let Ok(zones) = serde_json::from_slice::<Zones>(&text) else {
            faults.push(fault("zone maps", "a JSON object with chunks", "something else"));
            return Ok(());
        };
        for zone in &zones.chunks {
            let tensor = self.tensors().find(|tensor| u64::from(tensor.id()) == zone.dataset_id);
            let element = tensor.as_ref().and_then(Tensor::element);
            let (Some(tensor), Some(element)) = (tensor, element) else {
                faults.push(fault("zone", "a dataset of the file", "another"));
                continue;
            };
            let read =
                self.container().read_chunk(tensor.dataset(), &zone.chunk_index, max_bytes).await;
            // A chunk that cannot be read was reported, or it is missing, which the count below
            // reports.
            let found = match read {
                Ok(bytes) => zone.fault(element, &bytes),
                Err(error) if error.class() == zvf_format::Class::LimitExceeded => {
                    return Err(in_dataset(error, tensor.name()));
                }
                Err(_) => Some(("chunk_index", "a chunk that can be read")),
            };
            if let Some((what, rule)) = found {
                let place = format!("{:?}", zone.chunk_index);
                let fault = fault(what, rule, &place);
                faults.push(Fault { error: in_dataset(fault.error, tensor.name()), ..fault });
            }
        }
        Ok(())
    }
}

impl Zone {
    /// Returns the wrong member of a zone for these elements, and its rule.
    fn fault(&self, element: TensorDtype, bytes: &[u8]) -> Option<(&'static str, &'static str)> {
        let size = usize::try_from(element.size()).unwrap_or(1);
        let (mut nan, mut ends) = (0_u64, None::<(Comparable, Comparable)>);
        let mut count = 0_u64;
        for item in bytes.chunks_exact(size) {
            count += 1;
            match to_comparable(element, item) {
                None => nan += 1,
                Some(value) => {
                    let (low, high) = ends.unwrap_or((value, value));
                    let low = if value < low { value } else { low };
                    ends = Some((low, if value > high { value } else { high }));
                }
            }
        }
        if count != self.element_count {
            return Some(("element_count", "the elements of the chunk"));
        }
        if self.null_count < nan || self.null_count > count {
            return Some(("null_count", "as many as are no numbers, or more"));
        }
        let exact = self.null_count == nan;
        let parse =
            |text: &Option<String>| text.as_deref().map(|text| decode_element(element, text));
        let sides = [("min_le", parse(&self.min_le), true), ("max_le", parse(&self.max_le), false)];
        for (what, stated, least) in sides {
            let Some(stated) = stated else { continue };
            let right = match (stated, ends) {
                (Some(stated), Some((low, high))) => {
                    let end = if least { low } else { high };
                    stated == end || (!exact && low <= stated && stated <= high)
                }
                _ => false,
            };
            if !right {
                let rule = if least { "the least element" } else { "the largest element" };
                return Some((what, rule));
            }
        }
        None
    }
}

/// Decodes an element from hexadecimal digits.
fn decode_element(element: TensorDtype, text: &str) -> Option<Comparable> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = digits.iter().map(byte).collect::<Option<_>>()?;
    (to_u64(bytes.len()) == element.size()).then(|| to_comparable(element, &bytes)).flatten()
}

/// Returns the value of an element; `None` if it is not a number.
fn to_comparable(element: TensorDtype, item: &[u8]) -> Option<Comparable> {
    let mut bytes = [0_u8; 8];
    for (to, from) in bytes.iter_mut().zip(item) {
        *to = *from;
    }
    let bits = u64::from_le_bytes(bytes);
    let [a, b, c, d, ..] = bytes;
    let float = match element {
        TensorDtype::F64 => f64::from_bits(bits),
        TensorDtype::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
        TensorDtype::F16 => widen_half(u16::from_le_bytes([a, b])),
        TensorDtype::I16 => return Some(Comparable::Whole(i16::from_le_bytes([a, b]).into())),
        TensorDtype::I32 => {
            return Some(Comparable::Whole(i32::from_le_bytes([a, b, c, d]).into()));
        }
        TensorDtype::I64 => return Some(Comparable::Whole(i64::from_le_bytes(bytes).into())),
        TensorDtype::U8 | TensorDtype::U16 | TensorDtype::U32 | TensorDtype::U64 => {
            return Some(Comparable::Whole(bits.into()));
        }
    };
    (!float.is_nan()).then_some(Comparable::Float(float))
}

/// Converts a 16-bit float: sign, 5 bits of exponent, 10 of mantissa.
fn widen_half(bits: u16) -> f64 {
    let sign = u64::from(bits >> 15) << 63;
    let (exponent, mantissa) = (u64::from(bits >> 10 & 31), u64::from(bits & 1023));
    match exponent {
        // Multiples of 2^-24.
        0 => f64::from_bits(sign | (f64::from(bits & 1023) * 5.960_464_477_539_063e-8).to_bits()),
        31 => f64::from_bits(sign | 0x7ff_u64 << 52 | mantissa << 42),
        _ => f64::from_bits(sign | (exponent + 1008) << 52 | mantissa << 42),
    }
}

fn fault(what: &'static str, rule: &'static str, found: &str) -> Fault {
    let error = Error::new(zvf_format::Class::CountMismatch, what, rule, quote(found));
    Fault { rule: "Z1", weight: Weight::Error, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_values_are_converted() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x03ff, 6.097_555_160_522_461e-5),
            (0x0400, 6.103_515_625e-5),
            (0x3c00, 1.0),
            (0xc500, -5.0),
            (0x7bff, 65504.0),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(widen_half(bits), value, "{bits:x}");
        }
        assert!(widen_half(0x7e00).is_nan());
    }

    fn zone(count: u64, nulls: u64, min: Option<&str>, max: Option<&str>) -> Zone {
        Zone {
            dataset_id: 0,
            chunk_index: vec![0],
            element_count: count,
            null_count: nulls,
            min_le: min.map(str::to_owned),
            max_le: max.map(str::to_owned),
        }
    }

    #[test]
    fn each_member_is_compared_with_the_elements() {
        let floats: Vec<u8> =
            [1.5_f32, f32::NAN, -2.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let (low, high, zero) = ("000000c0", "0000c03f", "00000080");
        for (zone, member) in [
            (zone(4, 1, Some(low), Some(high)), None),
            (zone(4, 1, None, None), None),
            (zone(4, 2, Some(zero), Some(zero)), None), // another null, which may be a fill value
            (zone(5, 1, None, None), Some("element_count")),
            (zone(4, 0, None, None), Some("null_count")),
            (zone(4, 5, None, None), Some("null_count")),
            (zone(4, 1, Some(zero), Some(high)), Some("min_le")),
            (zone(4, 1, Some(low), Some(zero)), Some("max_le")),
            (zone(4, 2, Some("0000a0c0"), None), Some("min_le")), // -5
            (zone(4, 2, None, Some("0000a040")), Some("max_le")),
            (zone(4, 1, Some("zz"), None), Some("min_le")),
            (zone(4, 1, Some("0000c07f"), None), Some("min_le")), // NaN
        ] {
            assert_eq!(
                zone.fault(TensorDtype::F32, &floats).map(|(found, _)| found),
                member,
                "{zone:?}"
            );
        }
        let elements = [0xff, 0xff, 1, 0];
        assert_eq!(zone(2, 0, Some("ffff"), Some("0100")).fault(TensorDtype::I16, &elements), None);
        let fault = zone(2, 0, Some("ffff"), None).fault(TensorDtype::U16, &elements);
        assert_eq!(fault, Some(("min_le", "the least element")));
    }
}

//! Which bytes and bits of a point are which attribute.
//!
//! ```text
//! offset  0-5                                   6-10
//! 0       x, y, z: i32, to be scaled            the same
//! 12      intensity: u16                        the same
//! 14      return 3, returns 3, direction, edge  return 4, returns 4
//! 15      class 5, synthetic, key, withheld     synthetic, key, withheld, overlap, channel 2, direction, edge
//! 16      angle rank: i8                        class: u8
//! 17      user data: u8                         the same
//! 18      source: u16                           angle: i16 x 0.006 degrees
//! 20      time, colours, wave packets           source: u16; time: f64; colours, infrared, wave packets
//! ```
//!
//! Behind the standard fields come extra bytes, as their VLR says. Names are those of laspy.

use zvf_format::Class;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};

use super::header::{LasHeader, RECORD_BYTES};
use crate::ConvertError;
use crate::error::Place;
use crate::read::source::{Numbers, Source};

/// An attribute of a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LasField {
    pub(crate) name: String,
    /// Where it lies in the record.
    pub(crate) offset: usize,
    /// What is stored there.
    pub(crate) stored: Dtype,
    pub(crate) width: u32,
    pub(crate) form: Form,
    pub(crate) description: Option<String>,
    /// Whether it is one of the extra bytes.
    pub(crate) extra: bool,
}

/// What makes a value of the stored bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// They are the value.
    Plain,
    /// Some bits of a byte.
    Bits { shift: u8, bits: u8 },
    /// The stored number times the scale plus the offset, as `float64`.
    Scaled { scales: [f64; 3], offsets: [f64; 3] },
}

impl LasField {
    /// The type of its values.
    pub(crate) fn dtype(&self) -> Dtype {
        match self.form {
            Form::Scaled { .. } => FLOAT64,
            Form::Plain | Form::Bits { .. } => self.stored,
        }
    }

    /// Bytes of it in a record.
    pub(crate) fn size(&self) -> usize {
        let size = usize::try_from(self.stored.size).unwrap_or(usize::MAX);
        size.saturating_mul(usize_from_u32(self.width))
    }

    pub(crate) fn plain(name: &str, offset: usize, stored: Dtype) -> Self {
        let form = Form::Plain;
        Self {
            name: name.to_owned(),
            offset,
            stored,
            width: 1,
            form,
            description: None,
            extra: false,
        }
    }

    fn bits(name: &str, offset: usize, shift: u8, bits: u8) -> Self {
        Self { form: Form::Bits { shift, bits }, ..Self::plain(name, offset, UINT8) }
    }
}

/// The standard fields of a point format, besides x, y and z.
pub(crate) fn standard_fields(format: u8) -> Vec<LasField> {
    let mut fields = vec![LasField::plain("intensity", 12, UINT16)];
    let bits = if format < 6 { BITS_OLD } else { BITS_NEW };
    fields.extend(bits.iter().map(|(name, at, shift, n)| LasField::bits(name, *at, *shift, *n)));
    let mut at = if format < 6 {
        fields.push(LasField::plain("scan_angle_rank", 16, INT8));
        fields.push(LasField::plain("user_data", 17, UINT8));
        fields.push(LasField::plain("point_source_id", 18, UINT16));
        20
    } else {
        fields.push(LasField::plain("classification", 16, UINT8));
        fields.push(LasField::plain("user_data", 17, UINT8));
        fields.push(LasField::plain("scan_angle", 18, INT16));
        fields.push(LasField::plain("point_source_id", 20, UINT16));
        22
    };
    let groups: [(bool, &[(&str, Dtype)]); 4] = [
        (has_time(format), &[("gps_time", FLOAT64)]),
        (has_colours(format), &[("red", UINT16), ("green", UINT16), ("blue", UINT16)]),
        (matches!(format, 8 | 10), &[("nir", UINT16)]),
        (has_waves(format), &WAVES),
    ];
    for (name, dtype) in groups.into_iter().filter(|(has, _)| *has).flat_map(|(_, group)| group) {
        fields.push(LasField::plain(name, at, *dtype));
        at += saturating_usize(dtype.size);
    }
    fields
}

pub(crate) const fn has_time(format: u8) -> bool {
    !matches!(format, 0 | 2)
}

pub(crate) const fn has_colours(format: u8) -> bool {
    matches!(format, 2 | 3 | 5 | 7 | 8 | 10)
}

const fn has_waves(format: u8) -> bool {
    matches!(format, 4 | 5 | 9 | 10)
}

/// All attributes of a point, and what is to be said of them.
pub(crate) fn read_fields(
    header: &LasHeader,
    source: &mut Source,
) -> Result<(Vec<LasField>, Vec<String>), ConvertError> {
    let mut notes = Vec::new();
    let mut fields = standard_fields(header.point_format);
    let standard = RECORD_BYTES.get(usize::from(header.point_format)).copied().unwrap_or(0);
    let end = usize::from(header.record_bytes);
    let mut at = usize::from(standard);
    if let Some(record) = header.record("LASF_Spec", 4) {
        let place = || Place::Named("VLR LASF_Spec 4".to_owned());
        let (start, len) = (record.at, record.len);
        let raw = source.read(start, len, "the extra bytes")?;
        if raw.len() % EXTRA_BYTES != 0 {
            let expected = format!("descriptions of {EXTRA_BYTES} bytes");
            let found = format!("{} bytes", raw.len());
            return Err(source.bad(Class::Misaligned, place(), expected, found).into());
        }
        for described in raw.chunks_exact(EXTRA_BYTES) {
            let Some(field) = extra_field(Numbers(described), at) else {
                let kind = described.get(2).copied().unwrap_or(0);
                notes.push(format!(
                    "extra bytes of the unknown type {kind}: they and what follows stay raw"
                ));
                break;
            };
            at = at.saturating_add(field.size());
            if at > end {
                let expected = format!("extra bytes that fit a point of {end} bytes");
                let found = format!("{:?} up to byte {at}", field.name);
                return Err(source.bad(Class::CountMismatch, place(), expected, found).into());
            }
            if field.size() > 0 {
                fields.push(field);
            }
        }
    }
    if let Some(rest) = u32::try_from(end.saturating_sub(at)).ok().filter(|rest| *rest > 0) {
        let field =
            LasField { width: rest, extra: true, ..LasField::plain("ExtraBytes", at, UINT8) };
        fields.push(field);
    }
    for at in 0..fields.len() {
        let taken = |name: &str| fields.iter().take(at).any(|other| other.name == *name);
        let Some(field) = fields.get(at) else { continue };
        let free = (2..).map(|n| format!("{}_{n}", field.name)).find(|name| !taken(name));
        if let Some(new) = free.filter(|_| taken(&field.name))
            && let Some(field) = fields.get_mut(at)
        {
            notes.push(format!(
                "extra bytes {:?} are called {new:?}: the name is taken",
                field.name
            ));
            field.name = new;
        }
    }
    Ok((fields, notes))
}

/// An attribute that a description of extra bytes says; none where its type is not known.
fn extra_field(n: Numbers<'_>, offset: usize) -> Option<LasField> {
    let (kind, options) = (n.u8(2), n.u8(3));
    let description = Some(n.text(160, 32)).filter(|text| !text.is_empty());
    let field = |stored, width, form| {
        let name = n.text(4, 32);
        let name = if name.is_empty() { "ExtraBytes".to_owned() } else { name };
        Some(LasField {
            name,
            offset,
            stored,
            width,
            form,
            description: description.clone(),
            extra: true,
        })
    };
    if kind == 0 {
        return field(UINT8, u32::from(options), Form::Plain);
    }
    let one = EXTRA_TYPES.get(usize::from(kind.checked_sub(1)?) % EXTRA_TYPES.len())?;
    let width = match kind {
        1..=10 => 1,
        11..=20 => 2,
        21..=30 => 3,
        _ => return None,
    };
    let three = |at: usize| [0, 8, 16].map(|axis| n.f64(at + axis));
    let scales = if options & 8 != 0 { three(112) } else { [1.0; 3] };
    let offsets = if options & 16 != 0 { three(136) } else { [0.0; 3] };
    let form = if options & 24 != 0 { Form::Scaled { scales, offsets } } else { Form::Plain };
    field(*one, width, form)
}

const fn number(kind: DtypeKind, size: u64) -> Dtype {
    Dtype { kind, size, big_endian: false }
}

pub(crate) const UINT8: Dtype = number(DtypeKind::UInt, 1);
pub(crate) const UINT16: Dtype = number(DtypeKind::UInt, 2);
const INT8: Dtype = number(DtypeKind::Int, 1);
const INT16: Dtype = number(DtypeKind::Int, 2);
pub(crate) const FLOAT64: Dtype = number(DtypeKind::Float, 8);

/// Types of extra bytes from 1.
pub(crate) const EXTRA_TYPES: [Dtype; 10] = [
    UINT8,
    INT8,
    UINT16,
    INT16,
    number(DtypeKind::UInt, 4),
    number(DtypeKind::Int, 4),
    number(DtypeKind::UInt, 8),
    Dtype::INT64,
    Dtype::FLOAT32,
    FLOAT64,
];
/// Bytes of a description of extra bytes.
pub(crate) const EXTRA_BYTES: usize = 192;
const WAVES: [(&str, Dtype); 7] = [
    ("wavepacket_index", UINT8),
    ("wavepacket_offset", number(DtypeKind::UInt, 8)),
    ("wavepacket_size", number(DtypeKind::UInt, 4)),
    ("return_point_wave_location", Dtype::FLOAT32),
    ("x_t", Dtype::FLOAT32),
    ("y_t", Dtype::FLOAT32),
    ("z_t", Dtype::FLOAT32),
];
type BitField = (&'static str, usize, u8, u8); // name, byte, shift, bits
const BITS_OLD: &[BitField] = &[
    ("return_number", 14, 0, 3),
    ("number_of_returns", 14, 3, 3),
    ("scan_direction_flag", 14, 6, 1),
    ("edge_of_flight_line", 14, 7, 1),
    ("classification", 15, 0, 5),
    ("synthetic", 15, 5, 1),
    ("key_point", 15, 6, 1),
    ("withheld", 15, 7, 1),
];
const BITS_NEW: &[BitField] = &[
    ("return_number", 14, 0, 4),
    ("number_of_returns", 14, 4, 4),
    ("synthetic", 15, 0, 1),
    ("key_point", 15, 1, 1),
    ("withheld", 15, 2, 1),
    ("overlap", 15, 3, 1),
    ("scanner_channel", 15, 4, 2),
    ("scan_direction_flag", 15, 6, 1),
    ("edge_of_flight_line", 15, 7, 1),
];

//! Layout of a point record: the bytes and bits of each attribute.
//!
//! ```text
//! offset  0-5                                   6-10
//! 0       x, y, z: i32, unscaled                the same
//! 12      intensity: u16                        the same
//! 14      return 3, returns 3, direction, edge  return 4, returns 4
//! 15      class 5, synthetic, key, withheld     synthetic, key, withheld, overlap, channel 2, direction, edge
//! 16      angle rank: i8                        class: u8
//! 17      user data: u8                         the same
//! 18      source: u16                           angle: i16 x 0.006 degrees
//! 20      time, colours, wave packets           source: u16; time: f64; colours, infrared, wave packets
//! ```
//!
//! Extra bytes, which a VLR describes, follow the standard fields. Names are those of laspy.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{index_u32, saturating_usize, usize_from_u32};
use zvf_formats::{
    FLOAT64, INT8, INT16, INT32, RandomFile, RecordNumbers, UINT8, UINT16, UINT32, UINT64,
};
use zvf_metadata::Dtype;

use crate::las::Grid;
use crate::las::read::header::{LasHeader, RECORD_BYTES};

/// An attribute of a point.
#[derive(Clone)]
pub(crate) struct LasField {
    pub(crate) name: String,
    /// The offset in the record.
    pub(crate) offset: usize,
    /// The stored type.
    pub(crate) stored: Dtype,
    pub(crate) width: u32,
    pub(crate) form: Form,
    pub(crate) description: Option<String>,
    /// Whether it is one of the extra bytes.
    pub(crate) extra: bool,
}

/// How stored bytes decode to a value.
#[derive(Clone)]
pub(crate) enum Form {
    /// The bytes are the value.
    Plain,
    /// The value is some bits of a byte.
    Bits { shift: u8, bits: u8 },
    /// The value is the stored number times the scale plus the offset, as `float64`.
    Scaled(Grid),
}

impl LasField {
    /// Returns the type of the values.
    pub(crate) fn dtype(&self) -> Dtype {
        match self.form {
            Form::Scaled(_) => FLOAT64,
            Form::Plain | Form::Bits { .. } => self.stored,
        }
    }

    /// Returns the bytes of the field in a record.
    pub(crate) fn size(&self) -> usize {
        // At most 8 bytes each, as many as a record has.
        saturating_usize(self.stored.size) * usize_from_u32(self.width)
    }

    /// Creates a field with plain values of width 1.
    pub(crate) fn new(name: &str, offset: usize, stored: Dtype) -> Self {
        let (name, form) = (name.to_owned(), Form::Plain);
        Self { name, offset, stored, width: 1, form, description: None, extra: false }
    }

    fn from_bits(name: &str, offset: usize, shift: u8, bits: u8) -> Self {
        Self { form: Form::Bits { shift, bits }, ..Self::new(name, offset, UINT8) }
    }
}

/// Returns the standard fields of a point format, without x, y and z.
pub(crate) fn standard_fields(format: u8) -> Vec<LasField> {
    let mut fields = vec![LasField::new("intensity", 12, UINT16)];
    let bits = if format < 6 { LEGACY_BIT_FIELDS } else { BIT_FIELDS };
    let bit_fields =
        bits.iter().map(|(name, at, shift, n)| LasField::from_bits(name, *at, *shift, *n));
    fields.extend(bit_fields);
    let mut at = if format < 6 {
        fields.push(LasField::new("scan_angle_rank", 16, INT8));
        fields.push(LasField::new("user_data", 17, UINT8));
        fields.push(LasField::new("point_source_id", 18, UINT16));
        20
    } else {
        fields.push(LasField::new("classification", 16, UINT8));
        fields.push(LasField::new("user_data", 17, UINT8));
        fields.push(LasField::new("scan_angle", 18, INT16));
        fields.push(LasField::new("point_source_id", 20, UINT16));
        22
    };
    let groups: [(bool, &[(&str, Dtype)]); 4] = [
        (has_time(format), &[("gps_time", FLOAT64)]),
        (has_colours(format), &[("red", UINT16), ("green", UINT16), ("blue", UINT16)]),
        (matches!(format, 8 | 10), &[("nir", UINT16)]),
        (has_waves(format), &WAVE_FIELDS),
    ];
    for (name, dtype) in groups.into_iter().filter(|(has, _)| *has).flat_map(|(_, group)| group) {
        fields.push(LasField::new(name, at, *dtype));
        at += saturating_usize(dtype.size);
    }
    fields
}

const fn has_time(format: u8) -> bool {
    !matches!(format, 0 | 2)
}

pub(crate) const fn has_colours(format: u8) -> bool {
    matches!(format, 2 | 3 | 5 | 7 | 8 | 10)
}

const fn has_waves(format: u8) -> bool {
    matches!(format, 4 | 5 | 9 | 10)
}

/// Reads the attributes of a point, without x, y and z. Returns them with notes on unknown types and renamed fields.
pub(crate) fn read_fields(
    header: &LasHeader,
    source: &mut RandomFile,
) -> Result<(Vec<LasField>, Vec<String>)> {
    let mut notes = Vec::new();
    let mut fields = standard_fields(header.point_format);
    // The header was checked: the format is known, and its records are long enough.
    let standard = RECORD_BYTES[usize::from(header.point_format)];
    let end = usize::from(header.record_bytes);
    let mut at = usize::from(standard);
    if let Some(record) = header.record("LASF_Spec", 4) {
        let place = "VLR LASF_Spec 4";
        let raw = source.read(record.at, record.len, "the extra bytes")?;
        if raw.len() % EXTRA_BYTES != 0 {
            let expected = format!("descriptions of {EXTRA_BYTES} bytes");
            let found = format!("{} bytes", raw.len());
            return source.spot(place).refuse(Class::Misaligned, expected, found);
        }
        for description in raw.chunks_exact(EXTRA_BYTES).map(RecordNumbers::new) {
            let Some(field) = parse_extra_field(description, at) else {
                let kind = description.u8(2);
                notes.push(format!(
                    "extra bytes of the unknown type {kind}: they and what follows stay raw"
                ));
                break;
            };
            at += field.size();
            let expected = format_args!("extra bytes that fit a point of {end} bytes");
            let found = format_args!("{:?} up to byte {at}", field.name);
            source.spot(place).ensure(at <= end, Class::CountMismatch, expected, found)?;
            if field.size() > 0 {
                fields.push(field);
            }
        }
    }
    if at < end {
        let width = index_u32(end - at);
        let field = LasField { width, extra: true, ..LasField::new("ExtraBytes", at, UINT8) };
        fields.push(field);
    }
    for at in 0..fields.len() {
        let is_taken = |name: &str| fields.iter().take(at).any(|previous| previous.name == *name);
        let field = &fields[at];
        let free_name = (2..).map(|n| format!("{}_{n}", field.name)).find(|name| !is_taken(name));
        if let Some(new_name) = free_name.filter(|_| is_taken(&field.name)) {
            notes.push(format!(
                "extra bytes {:?} are called {new_name:?}: the name is taken",
                field.name
            ));
            fields[at].name = new_name;
        }
    }
    Ok((fields, notes))
}

/// Parses a description of extra bytes. Returns `None` if the type is unknown.
fn parse_extra_field(n: RecordNumbers<'_>, offset: usize) -> Option<LasField> {
    let (kind, options) = (n.u8(2), n.u8(3));
    let description = Some(n.text(160, 32)).filter(|text| !text.is_empty());
    let field = |stored, width, form| {
        let name = Some(n.text(4, 32)).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| "ExtraBytes".to_owned());
        let description = description.clone();
        Some(LasField { name, offset, stored, width, form, description, extra: true })
    };
    if kind == 0 {
        return field(UINT8, u32::from(options), Form::Plain);
    }
    let stored = EXTRA_TYPES.get(usize::from(kind.checked_sub(1)?) % EXTRA_TYPES.len())?;
    let width = match kind {
        1..=10 => 1,
        11..=20 => 2,
        21..=30 => 3,
        _ => return None,
    };
    let triple = |at: usize| [0, 8, 16].map(|axis| n.f64(at + axis));
    let scales = if options & 8 != 0 { triple(112) } else { [1.0; 3] };
    let offsets = if options & 16 != 0 { triple(136) } else { [0.0; 3] };
    let form = if options & 24 != 0 { Form::Scaled(Grid { scales, offsets }) } else { Form::Plain };
    field(*stored, width, form)
}

/// Types of extra bytes; code 1 is the first.
pub(crate) const EXTRA_TYPES: [Dtype; 10] =
    [UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, Dtype::INT64, Dtype::FLOAT32, FLOAT64];
/// Bytes of one description in the extra-bytes VLR.
const EXTRA_BYTES: usize = 192;
const WAVE_FIELDS: [(&str, Dtype); 7] = [
    ("wavepacket_index", UINT8),
    ("wavepacket_offset", UINT64),
    ("wavepacket_size", UINT32),
    ("return_point_wave_location", Dtype::FLOAT32),
    ("x_t", Dtype::FLOAT32),
    ("y_t", Dtype::FLOAT32),
    ("z_t", Dtype::FLOAT32),
];
type BitField = (&'static str, usize, u8, u8); // name, byte, shift, bits
const LEGACY_BIT_FIELDS: &[BitField] = &[
    ("return_number", 14, 0, 3),
    ("number_of_returns", 14, 3, 3),
    ("scan_direction_flag", 14, 6, 1),
    ("edge_of_flight_line", 14, 7, 1),
    ("classification", 15, 0, 5),
    ("synthetic", 15, 5, 1),
    ("key_point", 15, 6, 1),
    ("withheld", 15, 7, 1),
];
const BIT_FIELDS: &[BitField] = &[
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

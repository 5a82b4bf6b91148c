//! Encoder of the LAS header and of variable-length records.

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_formats::{cannot_hold, count_u32};

use crate::las::Grid;
use crate::las::write::LasWriter;
use crate::las::write::schema::{put_bytes, truncate_text};

/// A variable-length record, before the points (VLR) or after them (EVLR).
pub(crate) struct OutRecord {
    pub(crate) user: String,
    pub(crate) id: u16,
    pub(crate) description: String,
    pub(crate) data: Vec<u8>,
}

impl OutRecord {
    pub(crate) fn new(user: &str, id: u16, description: &str, data: Vec<u8>) -> Self {
        Self { user: user.to_owned(), id, description: description.to_owned(), data }
    }

    /// Encodes the record as a VLR, whose data are at most 65535 bytes.
    ///
    /// # Errors
    ///
    /// When it has more.
    pub(crate) fn vlr(&self) -> Result<Vec<u8>> {
        let mut raw = vec![0; 54];
        self.put_name(&mut raw);
        let data_bytes = u16::try_from(self.data.len()).map_err(|_too_long| {
            let (user, id, len) = (&self.user, self.id, self.data.len());
            let what = format!("a record {user:?} {id} of {len} bytes before the points");
            cannot_hold("LAS", what, "leave columns out")
        })?;
        put_bytes(&mut raw, 20, &data_bytes.to_le_bytes());
        put_bytes(&mut raw, 22, truncate_text(&self.description, 32));
        raw.extend_from_slice(&self.data);
        Ok(raw)
    }

    /// Encodes the record as an EVLR.
    pub(crate) fn evlr(&self) -> Vec<u8> {
        let mut raw = vec![0; 60];
        self.put_name(&mut raw);
        put_bytes(&mut raw, 20, &to_u64(self.data.len()).to_le_bytes());
        put_bytes(&mut raw, 28, truncate_text(&self.description, 32));
        raw.extend_from_slice(&self.data);
        raw
    }

    fn put_name(&self, raw: &mut [u8]) {
        put_bytes(raw, 2, truncate_text(&self.user, 16));
        put_bytes(raw, 18, &self.id.to_le_bytes());
    }
}

/// Returns the size of the header of version 1.`minor`.
pub(crate) const fn header_bytes(minor: u8) -> u16 {
    match minor {
        0..=2 => 227,
        3 => 235,
        _ => 375,
    }
}

impl LasWriter<'_> {
    /// Encodes the header. `evlrs` are the offset and the number of the records behind the points.
    pub(crate) fn encode_header(&self, grid: &Grid, evlrs: (u64, u32)) -> Result<Vec<u8>> {
        let (schema, summary) = (&self.schema, &self.summary);
        let vlrs = count_u32(self.vlrs.len(), "LAS", "records")?;
        let compressed = if self.chunks.is_some() { 0x80 } else { 0 };
        let size = header_bytes(schema.minor);
        let mut raw = vec![0; usize::from(size)];
        let fields: [(usize, &[u8]); 10] = [
            (0, b"LASF"),
            (6, &self.encoding.to_le_bytes()),
            (24, &[1, schema.minor]),
            (26, b"OTHER"),
            (58, b"zvf"),
            (94, &size.to_le_bytes()),
            (96, &self.points_at.to_le_bytes()),
            (100, &vlrs.to_le_bytes()),
            (104, &[schema.point_format | compressed]),
            (105, &schema.record_bytes.to_le_bytes()),
        ];
        fields.into_iter().for_each(|(at, bytes)| put_bytes(&mut raw, at, bytes));
        if schema.point_format < 6 {
            // The counts of versions before 1.4, for which `encode` refuses larger ones. Version 1.4 has them in 64 bits
            // below, and 0 here.
            let count_u32 = |n: u64| u32::try_from(n).unwrap_or(0).to_le_bytes();
            put_bytes(&mut raw, 107, &count_u32(summary.count));
            for (at, n) in (111..).step_by(4).zip(summary.by_return.iter().take(5)) {
                put_bytes(&mut raw, at, &count_u32(*n));
            }
        }
        let is_empty = summary.count == 0;
        let bound = |value: f64| if is_empty { 0.0 } else { value };
        for axis in 0..3 {
            let (eight, sixteen) = (axis * 8, axis * 16);
            for (at, value) in [
                (131 + eight, grid.scales[axis]),
                (155 + eight, grid.offsets[axis]),
                (179 + sixteen, bound(summary.max[axis])),
                (187 + sixteen, bound(summary.min[axis])),
            ] {
                put_bytes(&mut raw, at, &value.to_le_bytes());
            }
        }
        if schema.minor == 4 {
            put_bytes(&mut raw, 235, &evlrs.0.to_le_bytes());
            put_bytes(&mut raw, 243, &evlrs.1.to_le_bytes());
            put_bytes(&mut raw, 247, &summary.count.to_le_bytes());
            for (at, n) in (255..).step_by(8).zip(summary.by_return) {
                put_bytes(&mut raw, at, &n.to_le_bytes());
            }
        }
        Ok(raw)
    }
}

//! The header of a file in the making, and its records.

use zvf_format::num::to_u64;

use super::encode::{Grid, Summary};
use super::schema::{Schema, put};

/// A record in front of the points, or behind them.
#[derive(Clone, Debug)]
pub(super) struct OutRecord {
    pub(super) user: String,
    pub(super) id: u16,
    pub(super) description: String,
    pub(super) data: Vec<u8>,
}

impl OutRecord {
    pub(super) fn new(user: &str, id: u16, description: &str, data: Vec<u8>) -> Self {
        Self { user: user.to_owned(), id, description: description.to_owned(), data }
    }

    /// In front of the points; its data are at most 65535 bytes.
    pub(super) fn vlr(&self) -> Vec<u8> {
        let mut raw = vec![0; 54];
        self.name(&mut raw);
        put(&mut raw, 20, &u16::try_from(self.data.len()).unwrap_or(u16::MAX).to_le_bytes()); // others are EVLRs
        put(&mut raw, 22, text(&self.description, 32));
        raw.extend_from_slice(&self.data);
        raw
    }

    /// Behind the points.
    pub(super) fn evlr(&self) -> Vec<u8> {
        let mut raw = vec![0; 60];
        self.name(&mut raw);
        put(&mut raw, 20, &to_u64(self.data.len()).to_le_bytes());
        put(&mut raw, 28, text(&self.description, 32));
        raw.extend_from_slice(&self.data);
        raw
    }

    fn name(&self, raw: &mut [u8]) {
        put(raw, 2, text(&self.user, 16));
        put(raw, 18, &self.id.to_le_bytes());
    }
}

/// At most `n` bytes of text.
fn text(text: &str, n: usize) -> &[u8] {
    text.as_bytes().get(..text.len().min(n)).unwrap_or_default()
}

/// What a header is made of.
#[derive(Clone, Debug)]
pub(super) struct Head<'a> {
    pub(super) schema: &'a Schema,
    pub(super) grid: &'a Grid,
    pub(super) summary: &'a Summary,
    pub(super) encoding: u16,
    pub(super) compressed: bool,
    pub(super) vlrs: u32,
    pub(super) points_at: u32,
    /// Where records behind the points begin, and how many there are.
    pub(super) evlrs: (u64, u32),
}

/// Bytes of the header of that version.
pub(super) const fn header_bytes(minor: u8) -> u16 {
    match minor {
        0..=2 => 227,
        3 => 235,
        _ => 375,
    }
}

impl Head<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (schema, summary) = (self.schema, self.summary);
        let size = header_bytes(schema.minor);
        let mut raw = vec![0; usize::from(size)];
        put(&mut raw, 0, b"LASF");
        put(&mut raw, 6, &self.encoding.to_le_bytes());
        put(&mut raw, 24, &[1, schema.minor]);
        put(&mut raw, 26, b"OTHER");
        put(&mut raw, 58, b"zvf");
        put(&mut raw, 94, &size.to_le_bytes());
        put(&mut raw, 96, &self.points_at.to_le_bytes());
        put(&mut raw, 100, &self.vlrs.to_le_bytes());
        put(&mut raw, 104, &[schema.point_format | if self.compressed { 0x80 } else { 0 }]);
        let record_bytes = u16::try_from(schema.record_bytes).unwrap_or(u16::MAX); // the schema was checked
        put(&mut raw, 105, &record_bytes.to_le_bytes());
        if schema.point_format < 6 {
            // Versions before 1.4 are checked for it; 1.4 has the counts in 64 bits below.
            let old = |n: u64| u32::try_from(n).unwrap_or(0).to_le_bytes();
            put(&mut raw, 107, &old(summary.count));
            for (at, n) in (111..).step_by(4).zip(summary.by_return.iter().take(5)) {
                put(&mut raw, at, &old(*n));
            }
        }
        let empty = summary.count == 0;
        let bound = |value: f64| if empty { 0.0 } else { value }.to_le_bytes();
        for axis in 0..3 {
            let (eight, sixteen) = (axis * 8, axis * 16);
            let of = |values: &[f64; 3]| values.get(axis).copied().unwrap_or(0.0);
            put(&mut raw, 131 + eight, &of(&self.grid.scales).to_le_bytes());
            put(&mut raw, 155 + eight, &of(&self.grid.offsets).to_le_bytes());
            put(&mut raw, 179 + sixteen, &bound(of(&summary.max)));
            put(&mut raw, 187 + sixteen, &bound(of(&summary.min)));
        }
        if schema.minor == 4 {
            put(&mut raw, 235, &self.evlrs.0.to_le_bytes());
            put(&mut raw, 243, &self.evlrs.1.to_le_bytes());
            put(&mut raw, 247, &summary.count.to_le_bytes());
            for (at, n) in (255..).step_by(8).zip(summary.by_return) {
                put(&mut raw, at, &n.to_le_bytes());
            }
        }
        raw
    }
}

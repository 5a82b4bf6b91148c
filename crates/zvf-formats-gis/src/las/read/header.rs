//! Parser of the LAS header and its variable-length records.
//!
//! ```text
//! offset  size  field
//! 0       4     magic, LASF
//! 6       2     global encoding: bit 0 kind of GPS time, bit 4 the CRS is WKT
//! 24      2     version, 1.0 to 1.4
//! 94      2     bytes of the header: 227, 235 from 1.3, 375 in 1.4, or more
//! 96      4     offset of the points
//! 100     4     records (VLRs) between the header and the points
//! 104     1     point format; bit 7 set if points are compressed
//! 105     2     bytes of a point
//! 107     4     points; 0 in 1.4 if they need 64 bits
//! 131     48    scale and offset of x, y, z: 3 f64 and 3 f64
//! 179     48    bounds: max and min of x, of y, of z
//! 235     12    1.4: offset and count of the records (EVLRs) after the points
//! 247     8     1.4: points
//! ```

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{RandomFile, RecordNumbers};

use crate::las::Grid;

/// A parsed LAS header.
pub(crate) struct LasHeader {
    pub(crate) minor: u8,
    pub(crate) encoding: u16,
    pub(crate) points_at: u64,
    pub(crate) point_format: u8,
    pub(crate) compressed: bool,
    pub(crate) record_bytes: u16,
    pub(crate) count: u64,
    pub(crate) grid: Grid,
    /// The records before the points, then those after them.
    pub(crate) records: Vec<Record>,
}

/// A variable-length record (VLR or EVLR).
pub(crate) struct Record {
    pub(crate) user: String,
    pub(crate) id: u16,
    pub(crate) description: String,
    /// The offset of its data in the file.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// Whether it is an EVLR, after the points.
    pub(crate) extended: bool,
}

impl LasHeader {
    pub(crate) fn read(source: &mut RandomFile) -> Result<Self> {
        let start = source.read(0, source.len().min(4), "the magic")?;
        let found = format_args!("{start:02x?}");
        source.spot_at(0).ensure(start == MAGIC, Class::BadMagic, "LASF", found)?;
        let raw = source.read(0, MIN_HEADER_BYTES, "the header")?;
        let (major, minor) = (RecordNumbers::new(&raw).u8(24), RecordNumbers::new(&raw).u8(25));
        if major != 1 || minor > 4 {
            let found = format!("{major}.{minor}");
            let expected = "version 1.0 to 1.4";
            return source.spot_at(24).refuse(Class::UnsupportedVersion, expected, found);
        }
        let needed = match minor {
            0..=2 => MIN_HEADER_BYTES,
            3 => 235,
            _ => 375,
        };
        let size = u64::from(RecordNumbers::new(&raw).u16(94));
        let expected = format_args!("a header of {needed} bytes or more");
        source.spot_at(94).ensure(size >= needed, Class::BadShape, expected, size)?;
        let raw = source.read(0, size, "the header")?;
        let n = RecordNumbers::new(&raw);
        let mut header = Self {
            minor,
            encoding: n.u16(6),
            points_at: u64::from(n.u32(96)),
            point_format: n.u8(104) & 0x3f,
            compressed: n.u8(104) & 0x80 != 0,
            record_bytes: n.u16(105),
            count: u64::from(n.u32(107)),
            grid: Grid {
                scales: [131, 139, 147].map(|at| n.f64(at)),
                offsets: [155, 163, 171].map(|at| n.f64(at)),
            },
            records: Vec::new(),
        };
        header.check_points_at(source, size)?;
        header.check_format(source)?;
        header.check_scales(source)?;
        header.resolve_count(source, n)?;
        header.read_records(source, size, n.u32(100), false)?;
        let (at, count) = (n.u64(235), n.u32(243));
        if minor == 4 && count > 0 {
            if at < header.points_at || at > source.len() {
                let expected = format!("EVLRs from byte {} to {}", header.points_at, source.len());
                return source.spot_at(235).refuse(Class::OutOfBounds, expected, at);
            }
            header.read_records(source, at, count, true)?;
        }
        Ok(header)
    }

    /// Returns the first record with this user and id.
    pub(crate) fn record(&self, user: &str, id: u16) -> Option<&Record> {
        self.records.iter().find(|record| record.user == user && record.id == id)
    }

    fn check_points_at(&self, source: &RandomFile, size: u64) -> Result<()> {
        let is_inside = (size..=source.len()).contains(&self.points_at);
        let expected = format_args!("points from byte {size} to {}", source.len());
        source.spot_at(96).ensure(is_inside, Class::OutOfBounds, expected, self.points_at)
    }

    fn check_format(&self, source: &RandomFile) -> Result<()> {
        let size = RECORD_BYTES.get(usize::from(self.point_format));
        let expected = "point format 0 to 10";
        let size =
            source.spot_at(104).need(size, Class::Unsupported, expected, self.point_format)?;
        if self.point_format > 5 && self.minor < 4 {
            let found = format!("format {} in version 1.{}", self.point_format, self.minor);
            let expected = "point formats 6 to 10 in version 1.4 only";
            return source.spot_at(104).refuse(Class::Unsupported, expected, found);
        }
        if self.record_bytes < *size {
            let expected =
                format!("points of {size} bytes or more in format {}", self.point_format);
            let found = self.record_bytes.to_string();
            return source.spot_at(105).refuse(Class::BadShape, expected, found);
        }
        Ok(())
    }

    fn check_scales(&self, source: &RandomFile) -> Result<()> {
        let Grid { scales, offsets } = &self.grid;
        let are_scales = scales.iter().all(|scale| scale.is_finite() && *scale != 0.0);
        let (expected, found) = ("finite scales other than 0", format_args!("{scales:?}"));
        source.spot_at(131).ensure(are_scales, Class::OutOfBounds, expected, found)?;
        let are_offsets = offsets.iter().all(|offset| offset.is_finite());
        let (expected, found) = ("finite offsets", format_args!("{offsets:?}"));
        source.spot_at(155).ensure(are_offsets, Class::OutOfBounds, expected, found)
    }

    /// Sets the count of points from the 64-bit count of version 1.4, and checks it against the length of the file.
    fn resolve_count(&mut self, source: &RandomFile, n: RecordNumbers<'_>) -> Result<()> {
        if self.minor == 4 {
            let legacy_count = std::mem::replace(&mut self.count, n.u64(247));
            if legacy_count != 0 && legacy_count != self.count {
                let expected = format!("0 or {} points, as byte 247 says", self.count);
                let found = legacy_count.to_string();
                return source.spot_at(107).refuse(Class::CountMismatch, expected, found);
            }
        }
        if self.compressed {
            return Ok(());
        }
        let bytes = self.count.checked_mul(u64::from(self.record_bytes));
        let remaining_bytes = source.len() - self.points_at; // `check_points_at`
        if bytes.is_none_or(|bytes| bytes > remaining_bytes) {
            let at = if self.minor == 4 { 247 } else { 107 };
            let expected = format!("{} points of {} bytes", self.count, self.record_bytes);
            let found = format!("{remaining_bytes} bytes from byte {}", self.points_at);
            return source.spot_at(at).refuse(Class::Truncated, expected, found);
        }
        Ok(())
    }

    /// Reads `count` records from `at`: VLRs before the points, or EVLRs, whose heads are longer, after them.
    fn read_records(
        &mut self,
        source: &mut RandomFile,
        mut at: u64,
        count: u32,
        extended: bool,
    ) -> Result<()> {
        let (head, counted_at, name, end) = match extended {
            true => (EVLR_BYTES, 243, "EVLRs", source.len()),
            false => (VLR_BYTES, 100, "VLRs", self.points_at),
        };
        let available_bytes = end - at; // the caller checked the offset
        if u64::from(count) > available_bytes / head {
            let expected = format!("{name} in {available_bytes} bytes");
            return source.spot_at(counted_at).refuse(Class::CountMismatch, expected, count);
        }
        for _ in 0..count {
            let raw = source.read(at, head, name)?;
            let n = RecordNumbers::new(&raw);
            let (len, description) = match extended {
                true => (n.u64(20), 28),
                false => (u64::from(n.u16(20)), 22),
            };
            let (user, id) = (n.text(2, 16), n.u16(18));
            let start = at + head;
            let next = start.checked_add(len).filter(|next| *next <= end);
            let expected = format_args!("a record {user:?} {id} that ends by byte {end}");
            let found = format_args!("{len} bytes from {start}");
            let next = source.spot_at(at).need(next, Class::Truncated, expected, found)?;
            let description = n.text(description, 32);
            self.records.push(Record { user, id, description, at: start, len, extended });
            at = next;
        }
        Ok(())
    }
}

/// Bytes of the standard fields of a point, indexed by point format.
pub(crate) const RECORD_BYTES: [u16; 11] = [20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67];
pub(crate) const MAGIC: &[u8; 4] = b"LASF";
const VLR_BYTES: u64 = 54;
pub(crate) const EVLR_BYTES: u64 = 60;
const MIN_HEADER_BYTES: u64 = 227;

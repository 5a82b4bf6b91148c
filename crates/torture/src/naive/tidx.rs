//! The chunk index of a `.tet` file.

use super::{Read, Rest, require};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) dataset: i128,
    pub(crate) coordinates: Vec<i128>,
    pub(crate) offset: i128,
    pub(crate) raw: i128,
    pub(crate) stored: i128,
    pub(crate) zstd: bool,
}

/// Decodes the rows of an index that is all of `blob`, in a file whose payloads end at `payload_end`.
pub(crate) fn decode_tidx(blob: &[u8], payload_end: u64) -> Option<Read<Vec<Row>>> {
    let mut rest = Rest(blob);
    require(rest.take_bytes(4)? == b"TIDX")?;
    require(rest.take_u32()? == 1)?;
    let rows = rest.take_u64()?;
    let percent = rest.take_u16()?;
    let mut canonical = percent <= 10_000;
    canonical &= rest.take_u16()? == 0;
    rest.take_u32()?; // a limit in bytes: any value is valid
    canonical &= rest.take_u64()? == 0;
    require(rest.len() == 104 * rows)?;
    let mut value = Vec::new();
    for _ in 0..rows {
        let dataset = rest.take_u64()?;
        let coordinates = rest.take_list(8, Rest::take_u64)?;
        let (offset, raw, stored, codec) =
            (rest.take_u64()?, rest.take_u64()?, rest.take_u64()?, rest.take_u32()?);
        canonical &= rest.take_u32()? == 0;
        require(codec <= 1)?;
        require(codec == 1 || raw == stored)?;
        require(offset + stored <= i128::from(payload_end))?;
        value.push(Row { dataset, coordinates, offset, raw, stored, zstd: codec == 1 });
    }
    Some(Read { value, canonical })
}

//! Checks the sizes that Arrow files claim against the length of the file, before the Arrow crates use them.
//!
//! ```text
//! stream   messages: ff ff ff ff, i32 bytes of a FlatBuffer, the FlatBuffer, its body; 0 bytes at the end
//! file     ARROW1, then at the end: a FlatBuffer with the offsets of all blocks, its i32 size, ARROW1
//! ```

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_formats::{FilePlace, FlatTable, RandomFile, RecordNumbers, StrayOffset};

fn stray_offset(source: &RandomFile, at: u64, StrayOffset(inner): StrayOffset) -> Error {
    let found = format!("one beyond it, {inner} bytes in");
    source.spot_at(at).error(Class::OutOfBounds, "offsets in a FlatBuffer", found)
}

/// Checks the messages of a stream.
pub(crate) fn check_stream(source: &mut RandomFile) -> Result<()> {
    let (mut at, end) = (0_u64, source.len());
    while at < end {
        let head = source.read(at, 8.min(end - at), "a message")?;
        let (start, size) = locate_metadata(&head, at);
        if size == 0 {
            return Ok(());
        }
        at = check_message(source, start, size)?;
    }
    Ok(())
}

/// Returns the bytes of the body of a message, whether it is compressed, and its buffers.
fn parse_message(raw: &[u8]) -> Result<(u64, bool, &[u8]), StrayOffset> {
    let message = FlatTable::from_buffer(raw)?;
    let (body, kind, mut batch) = (message.u64(3)?, message.u8(1)?, message.table(2)?);
    if kind == 2 {
        // The record batch of a dictionary is inside its message.
        batch = batch.map(|dictionary| dictionary.table(1)).transpose()?.flatten();
    }
    let Some(batch) = batch.filter(|_| matches!(kind, 2 | 3)) else {
        return Ok((body, false, &[]));
    };
    let buffers = batch.items(2, 16)?.map_or(&[][..], |(_, buffers)| buffers);
    Ok((body, batch.table(3)?.is_some(), buffers))
}

/// Returns where the metadata of a message begins and their bytes, from the eight bytes at `at`.
fn locate_metadata(head: &[u8], at: u64) -> (u64, u64) {
    let start = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
    (at + to_u64(start), u64::from(RecordNumbers::new(head).u32(start - 4)))
}

/// Checks a message and its body. Returns the offset of the next message.
fn check_message(source: &mut RandomFile, at: u64, size: u64) -> Result<u64> {
    let raw = source.read(at, size, "the metadata of a message")?;
    let parsed = parse_message(&raw).map_err(|fault| stray_offset(source, at, fault));
    let (body, is_compressed, buffers) = parsed?;
    let start = at + size;
    let end = start.checked_add(body).filter(|end| *end <= source.len());
    let found = format_args!("{body} bytes claimed");
    let end = source.spot_at(at).need(end, Class::Truncated, "the body of a message", found)?;
    for buffer in buffers.chunks_exact(16) {
        let (offset, len) = (RecordNumbers::new(buffer).u64(0), RecordNumbers::new(buffer).u64(8));
        if offset.checked_add(len).is_none_or(|last| last > body) {
            let expected = "buffers in the body of a message";
            let found = format_args!("{len} bytes from {offset}");
            return source.spot_at(at).refuse(Class::Truncated, expected, found);
        }
        if is_compressed && len >= 8 {
            let raw = source.read(start + offset, 8, "the size of a buffer")?;
            let claimed = RecordNumbers::new(&raw).u64(0).cast_signed();
            if claimed > MAX_BUFFER_BYTES {
                let expected = format!("buffers of at most {MAX_BUFFER_BYTES} bytes");
                let place = FilePlace::Byte(start + offset);
                let fault = source.spot(place).error(Class::LimitExceeded, expected, claimed);
                return Err(fault);
            }
        }
    }
    Ok(end)
}

/// Checks the blocks of a file.
pub(crate) fn check_file(source: &mut RandomFile) -> Result<()> {
    let end = source.len().saturating_sub(10); // what a shorter file has there is no size of a footer
    let size =
        u64::from(RecordNumbers::new(&source.read(end, 4, "the size of the footer")?).u32(0));
    let expected = "a footer in the file";
    let found = format_args!("{size} bytes claimed");
    let at = source.spot_at(end).need(end.checked_sub(size), Class::Truncated, expected, found)?;
    let raw = source.read(at, size, "the footer")?;
    let footer = FlatTable::from_buffer(&raw).map_err(|fault| stray_offset(source, at, fault))?;
    for list in [2, 3] {
        let blocks = footer.items(list, 24).map_err(|fault| stray_offset(source, at, fault))?;
        for block in blocks.map(|(_, bytes)| bytes).unwrap_or_default().chunks_exact(24) {
            let n = RecordNumbers::new(block);
            let (offset, meta, body) = (n.u64(0), u64::from(n.u32(8)), n.u64(16));
            let last = offset.checked_add(meta).and_then(|last| last.checked_add(body));
            if meta < 8 || last.is_none_or(|last| last > source.len()) {
                let found = format!("{meta} and {body} bytes from {offset}");
                return source.spot_at(at).refuse(Class::Truncated, "blocks in the file", found);
            }
            let head = source.read(offset, 8, "a message")?;
            let (start, size) = locate_metadata(&head, offset);
            check_message(source, start, size)?;
        }
    }
    Ok(())
}

/// Maximum uncompressed size of a buffer.
const MAX_BUFFER_BYTES: i64 = 1 << 31;

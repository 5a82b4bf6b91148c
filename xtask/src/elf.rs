//! The size of a bare-metal program, from the section headers of its ELF file.
//!
//! ```text
//! offset  size  field of a header of 32 bits, little-endian
//! 0x20    4     offset of the section table
//! 0x2e    2     bytes per section header
//! 0x30    2     number of section headers
//! in a section header: 4 type, 8 flags, 20 size
//! ```

/// Bytes by their destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Instructions and constants: flash.
    pub(crate) code: u64,
    /// Initial values of variables: flash and memory.
    pub(crate) data: u64,
    /// Variables that start at zero: memory.
    pub(crate) zeroed: u64,
}

/// Adds up the loaded sections; returns `None` for other files.
pub(crate) fn sizes(file: &[u8]) -> Option<Sizes> {
    if !file.starts_with(b"\x7fELF\x01\x01") {
        return None;
    }
    let (table, size, count) = (word(file, 0x20)?, half(file, 0x2e)?, half(file, 0x30)?);
    let mut sizes = Sizes::default();
    for i in 0..usize::from(count) {
        let at = i.checked_mul(size.into())?.checked_add(usize::try_from(table).ok()?)?;
        let header = file.get(at..)?;
        let (kind, flags, bytes) = (word(header, 4)?, word(header, 8)?, word(header, 20)?);
        if flags & ALLOCATED == 0 {
            continue;
        }
        let sum = match (kind == NO_BITS, flags & WRITABLE != 0) {
            (true, _) => &mut sizes.zeroed,
            (false, true) => &mut sizes.data,
            (false, false) => &mut sizes.code,
        };
        *sum = sum.checked_add(bytes.into())?;
    }
    Some(sizes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

const NO_BITS: u32 = 8;
const WRITABLE: u32 = 1;
const ALLOCATED: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_what_is_loaded() {
        let mut file = [0_u8; 52 + 4 * 40];
        file[..6].copy_from_slice(b"\x7fELF\x01\x01");
        (file[0x20], file[0x2e], file[0x30]) = (52, 40, 4);
        let sections = [(1, 6, 100), (1, 3, 20), (8, 3, 7), (1, 0, 50)];
        for (at, (kind, flags, size)) in (52..).step_by(40).zip(sections) {
            (file[at + 4], file[at + 8], file[at + 20]) = (kind, flags, size);
        }
        assert_eq!(sizes(&file), Some(Sizes { code: 100, data: 20, zeroed: 7 }));
        assert_eq!(sizes(&file[..60]), None);
        assert_eq!(sizes(b"MZ"), None);
    }
}

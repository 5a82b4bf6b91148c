//! The output of the firmware.

use core::fmt::{self, Write};

use zvf_format::FormatError;
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::manifest::Manifest;

/// Decodes, visits and prints; an error means that a blob had unexpected contents.
pub(crate) fn write(out: &mut impl Write) -> fmt::Result {
    fragments(out)?;
    objects(out)?;
    refusals(out)
}

fn fragments(out: &mut impl Write) -> fmt::Result {
    let index = accepted(out, FragmentIndex::parse_strict(FRAGMENTS))?;
    writeln!(out, "fragment index, {} bytes", FRAGMENTS.len())?;
    for (f, fragment) in index.iter().enumerate() {
        write!(out, "  {f}:")?;
        match fragment {
            Fragment::Range { start, count } => write!(out, " {count} rows from {start}")?,
            Fragment::Rows(rows) => {
                for row in rows {
                    write!(out, " {}", row.get())?;
                }
            }
        }
        writeln!(out)?;
    }
    writeln!(out, "  rows end at {}", index.extent())
}

fn objects(out: &mut impl Write) -> fmt::Result {
    let manifest = accepted(out, Manifest::parse(MANIFEST, 2))?;
    writeln!(out, "manifest, {} bytes", MANIFEST.len())?;
    for reference in manifest.references() {
        write!(out, "  fragment {} of chunk", reference.fragment)?;
        for coordinate in reference.chunk {
            write!(out, " {}", coordinate.get())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Checks that every truncation of both blobs is refused.
fn refusals(out: &mut impl Write) -> fmt::Result {
    let mut refused = 0_u32;
    for cut in (0..FRAGMENTS.len()).filter_map(|n| FRAGMENTS.get(..n)) {
        refused = refused.saturating_add(FragmentIndex::parse(cut).is_err().into());
    }
    for cut in (0..MANIFEST.len()).filter_map(|n| MANIFEST.get(..n)) {
        refused = refused.saturating_add(Manifest::parse(cut, 2).is_err().into());
    }
    let cuts = FRAGMENTS.len().saturating_add(MANIFEST.len());
    writeln!(out, "{refused} of {cuts} cuts refused")?;
    if usize::try_from(refused) == Ok(cuts) { Ok(()) } else { Err(fmt::Error) }
}

fn accepted<T>(out: &mut impl Write, parsed: Result<T, FormatError>) -> Result<T, fmt::Error> {
    match parsed {
        Ok(view) => Ok(view),
        Err(error) => {
            writeln!(out, "{error}")?;
            Err(fmt::Error)
        }
    }
}

/// Rows 0 to 3; 12, 7 and 19; 20 to 27.
const FRAGMENTS: &[u8] = b"GFVZ\x01\0\0\0\x03\0\0\0\x02\0\0\0\x05\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\
    \0\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x13\0\0\0\0\0\0\0";

/// Chunk (1, -2): fragments 5, 6 and 7.
const MANIFEST: &[u8] = b"\x01\0\0\0\x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\
    \x01\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";

//! What the firmware has to say.

use core::fmt::{self, Write};

use zvf_format::{Class, Expected, FormatError, Part};

/// Decodes, walks and prints.
pub(crate) fn write(out: &mut impl Write) -> fmt::Result {
    let error =
        FormatError::new(Class::Truncated, Part::Manifest, "B", 0, Expected::Bytes(4), 0_u8);
    writeln!(out, "{error}")
}

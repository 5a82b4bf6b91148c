//! What every target that takes plain bytes does with them.

use hostile::Kind;

/// Decodes as a reader would, in both modes. Nothing may panic, and strict accepts nothing that default
/// refuses.
pub fn decode(kind: &Kind, blob: &[u8]) {
    let steps = |strict| kind.decode(blob, strict).and_then(|()| kind.decode_payloads(blob));
    let (default, strict) = (steps(false), steps(true));
    assert!(default.is_ok() || strict.is_err(), "strict accepts what default refuses");
}

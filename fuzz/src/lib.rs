//! What every target that takes plain bytes does with them.

mod store;

use hostile::Kind;
use zvf_convert::read::{self, Format, Input, Piece, ReadOptions};

pub use store::ask;

/// Decodes as a reader would, in both modes. Nothing may panic, and strict accepts nothing that default
/// refuses.
pub fn decode(kind: &Kind, blob: &[u8]) {
    let steps = |strict| kind.decode(blob, strict).and_then(|()| kind.decode_payloads(blob));
    let (default, strict) = (steps(false), steps(true));
    assert!(default.is_ok() || strict.is_err(), "strict accepts what default refuses");
}

/// Reads a file of another format to its end, or to its first fault. Nothing may panic, a column has the rows
/// of its batch, and elements name vertices that came.
pub fn read(input: Input, format: Format) {
    let Ok(reader) = read::open(input, Some(format), &ReadOptions::default()) else { return };
    let axes = reader.header().axes.len();
    let mut vertices = 0_u64;
    for piece in reader {
        match piece {
            Err(_) => return,
            Ok(Piece::Vertices(batch)) => {
                assert_eq!(batch.positions().width() as usize, axes, "axes of the header");
                for field in batch.fields() {
                    assert_eq!(field.column.len(), batch.len(), "rows of a column");
                }
                if let Some(elements) = batch.elements() {
                    assert!(
                        elements.rows().iter().all(|row| *row < batch.len()),
                        "rows of a batch"
                    );
                }
                vertices += batch.len() as u64;
            }
            Ok(Piece::Elements { rows, fields, .. }) => {
                for field in fields {
                    assert_eq!(field.column.len(), rows.len(), "rows of a column");
                }
            }
            Ok(Piece::Objects { .. } | Piece::Groups { .. }) => {}
        }
        assert!(vertices < 1 << 32, "more than any input has");
    }
}

/// Runs what never waits, as everything does that lies in memory.
pub fn now(future: impl Future<Output = ()>) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(future).poll(&mut context).is_ready(), "nothing is far away");
}

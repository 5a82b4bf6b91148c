//! Copies runs out of a tile.
//!
//! A run is contiguous in the result and strided by `stride` bytes in the tile. Contiguous runs are
//! one copy; others are copied element by element, in a separate loop per element size.

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_tet::{CopyRun, Row, Runs};

/// Copies the `runs` of a tile, which `row` describes, into the result.
pub(super) fn runs(
    (tile, row): (&[u8], &Row),
    runs: Runs,
    size: u64,
    out: &mut [u8],
) -> Result<()> {
    for run in runs {
        copy_run((tile, 0), &run, size, out).ok_or_else(|| missing_runs_error(row))?;
    }
    Ok(())
}

/// Returns the error for a tile that is too short for its runs. Plans compare lengths before, so
/// this should not happen.
pub(super) fn missing_runs_error(row: &Row) -> Error {
    let error = Error::new(Class::CountMismatch, "tile", "every run of the selection", "fewer");
    error.at_span(row.payload_offset(), row.payload_end())
}

/// Returns the bytes from the first element of a run to the end of its last; for an empty run, of one element.
pub(super) fn span_bytes(run: &CopyRun, size: u64) -> u64 {
    // The tile is compared with it.
    run.count.saturating_sub(1).saturating_mul(run.stride).saturating_add(size)
}

/// Copies one run. `tile` comes with the offset of its bytes in the whole tile. Returns `None` if
/// the run is outside of these bytes or of the result.
pub(super) fn copy_run(
    (tile, begin): (&[u8], u64),
    run: &CopyRun,
    size: u64,
    out: &mut [u8],
) -> Option<()> {
    if run.count == 0 {
        return Some(());
    }
    let from = usize::try_from(run.src.checked_sub(begin)?).ok()?;
    let from = tile.get(from..from.checked_add(usize::try_from(span_bytes(run, size)).ok()?)?)?;
    let len = usize::try_from(run.count.checked_mul(size)?).ok()?;
    let to = usize::try_from(run.dst).ok()?;
    let to = out.get_mut(to..to.checked_add(len)?)?;
    if run.is_contiguous(size) {
        to.copy_from_slice(from);
        return Some(());
    }
    // A stride that does not fit, or is 0, has only one element: its bytes were found above.
    let stride = saturating_usize(run.stride).max(1);
    match size {
        1 => gather::<1>(from, stride, to),
        2 => gather::<2>(from, stride, to),
        4 => gather::<4>(from, stride, to),
        _ => gather::<8>(from, stride, to),
    }
    Some(())
}

fn gather<const N: usize>(from: &[u8], stride: usize, to: &mut [u8]) {
    let (slots, _) = to.as_chunks_mut::<N>();
    for (slot, from) in slots.iter_mut().zip(from.chunks(stride)) {
        if let Some(element) = from.first_chunk::<N>() {
            *slot = *element;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_adjacent_and_strided_runs() {
        let tile: Vec<u8> = (0..32).collect();
        #[rustfmt::skip]
        let table = [
            // source, result, count, stride, element, skipped, expected
            (4, 0, 3, 2, 2, 0, &[4, 5, 6, 7, 8, 9][..]),
            (4, 0, 3, 8, 2, 0, &[4, 5, 12, 13, 20, 21]),
            (12, 0, 2, 8, 4, 10, &[2, 3, 4, 5, 10, 11, 12, 13]),
            (0, 1, 2, 16, 8, 0, &[0, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]),
            (3, 0, 2, 5, 1, 0, &[3, 8]),
        ];
        for (src, dst, count, stride, size, skipped, expected) in table {
            let mut result = vec![0; expected.len()];
            let run = CopyRun { src, dst, count, stride };
            assert_eq!(copy_run((&tile, skipped), &run, size, &mut result), Some(()));
            assert_eq!(result, expected, "{src} {stride}");
        }
    }

    #[test]
    fn runs_outside_are_refused() {
        let tile = [1; 32];
        #[rustfmt::skip]
        let table = [
            // source, result, count, stride, element, start of the tile
            (30, 0, 2, 2, 2, 0), // the second element past the end, adjacent
            (27, 0, 2, 4, 2, 0), // its end just past the tile, strided
            (0, 3, 2, 2, 2, 0), // past the result
            (4, 0, 1, 2, 2, 5), // before the tile
            (u64::MAX, 0, 1, 1, 1, 0),
            (0, u64::MAX, 1, 1, 1, 0),
            (0, 0, u64::MAX, u64::MAX, 8, 0),
        ];
        for (src, dst, count, stride, size, begin) in table {
            let (run, mut result) = (CopyRun { src, dst, count, stride }, [0; 6]);
            assert_eq!(
                copy_run((&tile, begin), &run, size, &mut result),
                None,
                "{src} {dst} {count}"
            );
            assert_eq!(result, [0; 6], "{src} {dst} {count}");
        }
    }
}

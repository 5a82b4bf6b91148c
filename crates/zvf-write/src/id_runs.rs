//! Ids of declared objects as runs: most stores number them consecutively, so ten million ids are
//! one run.

use rayon::slice::ParallelSliceMut as _;
use zvf_format::num::to_u64;

/// Ids in any order, as runs of consecutive ones.
#[derive(Debug, Default)]
pub(crate) struct IdRuns {
    runs: Vec<(i64, i64)>, // the first and the last of each
    count: u64,            // of ids; one that came in two runs counts twice
}

impl IdRuns {
    pub(crate) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the approximate number of bytes here and as a sorted sequence.
    pub(crate) fn bytes(&self) -> u64 {
        to_u64(self.runs.len()) * 16 + self.count * 8
    }

    /// Adds ids.
    pub(crate) fn extend(&mut self, ids: impl Iterator<Item = i64>) {
        for id in ids {
            match self.runs.last_mut() {
                Some((first, last)) if *first <= id && id <= *last => continue,
                Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
                _ => self.runs.push((id, id)),
            }
            self.count += 1;
        }
    }

    /// Iterates over them in ascending order, without duplicates.
    pub(crate) fn into_sorted(mut self) -> impl Iterator<Item = i64> {
        self.runs.par_sort_unstable();
        let mut last_so_far = None::<i64>;
        self.runs.into_iter().flat_map(move |(first, last)| {
            let start = match last_so_far {
                // The largest id has no successor: the range is empty.
                Some(before) if before >= first => before.checked_add(1),
                _ => Some(first),
            };
            last_so_far = last_so_far.max(Some(last));
            start.into_iter().flat_map(move |start| start..=last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_any_order_are_sorted_and_unique() {
        let table: [(&[i64], usize, &[i64]); 7] = [
            (&[], 0, &[]),
            (&[0, 1, 2, 3], 1, &[0, 1, 2, 3]),
            (&[5, 6, 0, 1, 2], 2, &[0, 1, 2, 5, 6]),
            (&[1, 2, 3, 2, 4], 1, &[1, 2, 3, 4]),
            (&[1, 2, 3, 9, 2, 3, 4, 5], 3, &[1, 2, 3, 4, 5, 9]),
            (&[7, 7, -1, 7], 3, &[-1, 7]),
            (&[i64::MAX, i64::MIN, i64::MAX], 3, &[i64::MIN, i64::MAX]),
        ];
        for (given, runs, expected) in table {
            let mut ids = IdRuns::default();
            ids.extend(given.iter().copied());
            assert_eq!((ids.runs.len(), ids.is_empty()), (runs, given.is_empty()), "{given:?}");
            assert_eq!(ids.into_sorted().collect::<Vec<_>>(), expected, "{given:?}");
        }
    }

    #[test]
    fn consecutive_ids_take_the_room_of_one_run_until_they_are_written() {
        let mut ids = IdRuns::default();
        ids.extend(0..1_000_000);
        ids.extend(0..1_000_000);
        assert_eq!(ids.bytes(), 16 + 8_000_000);
    }
}

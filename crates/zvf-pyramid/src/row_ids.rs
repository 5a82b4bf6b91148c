//! Ids of objects by row: most stores number them consecutively, so ten million of them are one
//! run.

use zvf_format::num::to_u64;

/// Ids by row, as runs of consecutive ids where that takes less memory.
#[derive(Clone, Debug)]
pub(crate) enum RowIds {
    /// The first row and first id of each run, and the number of rows.
    Runs {
        starts: Vec<(usize, i64)>,
        rows: usize,
    },
    List(Vec<i64>),
}

impl RowIds {
    pub(crate) const fn new() -> Self {
        Self::Runs { starts: Vec::new(), rows: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Runs { rows, .. } => *rows,
            Self::List(ids) => ids.len(),
        }
    }

    /// Returns the id of a row.
    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        match self {
            Self::List(ids) => ids.get(row).copied(),
            Self::Runs { starts, rows } => {
                let run = starts.partition_point(|(first, _)| *first <= row).checked_sub(1)?;
                let (first, id) = starts.get(run).filter(|_| row < *rows)?;
                id.checked_add_unsigned(to_u64(row - first))
            }
        }
    }

    /// Adds the id of the next row.
    pub(crate) fn push(&mut self, id: i64) {
        match self {
            Self::List(ids) => ids.push(id),
            Self::Runs { starts, rows } => {
                let continues = starts.last().is_some_and(|(first, start)| {
                    start.checked_add_unsigned(to_u64(*rows - first)) == Some(id)
                });
                if !continues {
                    starts.push((*rows, id));
                }
                *rows += 1;
                // A run takes twice as much memory as an id.
                if starts.len() > MIN_RUNS && starts.len() * 2 > *rows {
                    *self = Self::List(self.iter().collect());
                }
            }
        }
    }

    /// Iterates over the ids by row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        let (starts, rows, ids) = match self {
            Self::Runs { starts, rows } => (starts.as_slice(), *rows, &[][..]),
            Self::List(ids) => (&[][..], 0, ids.as_slice()),
        };
        let ends = starts.iter().skip(1).map(|(first, _)| *first).chain([rows]);
        let runs = starts.iter().zip(ends);
        // The last id of a run may be the largest possible one.
        let runs = runs.flat_map(|((first, id), end)| (*id..=i64::MAX).take(end - first));
        runs.chain(ids.iter().copied())
    }
}

impl Extend<i64> for RowIds {
    fn extend<T: IntoIterator<Item = i64>>(&mut self, ids: T) {
        ids.into_iter().for_each(|id| self.push(id));
    }
}

/// Up to this many runs are always stored as runs.
const MIN_RUNS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn row_ids(ids: impl IntoIterator<Item = i64>) -> RowIds {
        let mut all = RowIds::new();
        all.extend(ids);
        all
    }

    #[test]
    fn ids_are_those_that_were_added() {
        let scattered: Vec<i64> = (0..5000).map(|n| n * 7919 % 5003 - 100).collect();
        let in_parts: Vec<i64> = (0..3000).chain(10_000..12_000).chain(-5..0).collect();
        let ends = vec![i64::MAX - 1, i64::MAX, i64::MIN, i64::MIN + 1, 0, 0, 1];
        for (ids, is_list) in [
            (Vec::new(), false),
            ((0..10_000).collect(), false),
            (in_parts, false),
            (ends, false),
            (scattered, true),
        ] {
            let all = row_ids(ids.iter().copied());
            assert_eq!(matches!(all, RowIds::List(_)), is_list, "{} ids", ids.len());
            assert_eq!((all.len(), all.iter().collect::<Vec<_>>()), (ids.len(), ids.clone()));
            let by_row: Vec<i64> = (0..ids.len()).filter_map(|row| all.get(row)).collect();
            assert_eq!((by_row, all.get(ids.len())), (ids, None));
        }
    }

    #[test]
    fn consecutive_ids_are_one_run() {
        let RowIds::Runs { starts, rows } = row_ids(5..1_000_005) else { panic!("a list") };
        assert_eq!((starts, rows), (vec![(0, 5)], 1_000_000));
    }
}

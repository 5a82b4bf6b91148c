//! Sorts pairs of numbers in bounded memory.
//!
//! They map a vertex of a level to one of another level: by running number while a level is being
//! written, by chunk and row later. Data that does not fit in memory is spilled in sorted runs
//! (external sort).
//!
//! Not here: the meaning of the numbers.

use std::path::Path;

use zvf_error::{Error, Result};
use zvf_format::num::to_u64;

use crate::spill_folder::SpillFolder;
use crate::stages::{
    Destination, ExternalSorter, KWayMerge, Output, Runs, StepOutput, number_u64, sort_key_u64,
};
use crate::stop::StopFlag;

/// Accepts pairs in any order.
#[derive(Debug)]
pub struct PairSorter {
    folder: SpillFolder,
    sorter: ExternalSorter,
    count: u64,
}

/// Sorted pairs.
#[derive(Debug)]
pub struct Pairs {
    stored: StepOutput,
    count: u64,
    _file: Runs,                  // that goes away with them
    _folder: Option<SpillFolder>, // goes away with the last of its files
}

impl SpillFolder {
    /// Returns an empty list of pairs.
    pub fn sorter(&self) -> PairSorter {
        let (place, memory) = (Destination::Spill(self.clone()), self.memory());
        let sorter = ExternalSorter::new(place, PAIR, memory, &StopFlag::default());
        PairSorter { folder: self.clone(), sorter, count: 0 }
    }
}

impl PairSorter {
    /// Adds a pair.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn push(&mut self, a: u64, b: u64) -> Result<()> {
        self.count += 1;
        self.sorter.push(&[&sort_key_u64(a), &sort_key_u64(b)])
    }

    /// Sorts the pairs.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn finish(self) -> Result<Pairs> {
        let (stored, _) = self.sorter.finish()?;
        Ok(Pairs::new(stored, self.count).with_scratch(self.folder))
    }
}

impl Pairs {
    /// Returns `count` pairs that are sorted.
    pub(crate) const fn new(stored: StepOutput, count: u64) -> Self {
        Self { stored, count, _file: Runs(Vec::new()), _folder: None }
    }

    /// Returns the same pairs, whose file, if there is one, is in this folder and is removed with
    /// them.
    pub(crate) fn with_scratch(self, folder: SpillFolder) -> Self {
        let file = match &self.stored {
            StepOutput::Held(_) => Vec::new(),
            StepOutput::File(path) => vec![path.clone()],
        };
        Self { _file: Runs(file), _folder: Some(folder), ..self }
    }

    /// Writes them to a file, which another process can [open](Self::open).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use zvf_write::{SpillFolder, Pairs};
    ///
    /// let mut pairs = SpillFolder::new(None, 1 << 20).sorter();
    /// pairs.push(7, 1)?;
    /// pairs.finish()?.save(&dir.path().join("pairs"))?;
    /// let (pairs, mut found) = (Pairs::open(&dir.path().join("pairs"))?, Vec::new());
    /// pairs.for_each(|a, b| {
    ///     found.push((a, b));
    ///     Ok::<_, zvf_error::Error>(())
    /// })?;
    /// assert_eq!((pairs.len(), found), (1, vec![(7, 1)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut out = Output::create(path.to_owned(), &StopFlag::default())?;
        self.for_each(|a, b| {
            out.write(&sort_key_u64(a))?;
            out.write(&sort_key_u64(b))
        })?;
        out.finish().map(drop)
    }

    /// Opens the pairs that [`save`](Self::save) wrote. The file is not removed, and is read along
    /// with the pairs.
    ///
    /// # Errors
    ///
    /// When the file does not exist.
    pub fn open(path: &Path) -> Result<Self> {
        let size = std::fs::metadata(path).map_err(Error::scratch)?.len();
        let stored = StepOutput::File(path.to_owned());
        Ok(Self::new(stored, size / to_u64(PAIR)))
    }

    /// Returns the number of pairs; a `u64`, because most are on disk.
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Calls `visit` with every pair, in order.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails, and as `visit`.
    pub fn for_each<E: From<Error>>(
        &self,
        mut visit: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pairs = self.read()?;
        while let Some((a, b)) = pairs.head() {
            visit(a, b)?;
            pairs.advance()?;
        }
        Ok(())
    }

    /// Calls `visit` with the second numbers of pairs with the same first number here and in
    /// `other`, which has each first number once; in the order of the first numbers.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails, and as `visit`.
    pub fn merge_join<E: From<Error>>(
        &self,
        other: &Self,
        mut visit: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut left, mut right) = (self.read()?, other.read()?);
        while let (Some((a, value)), Some((b, beside))) = (left.head(), right.head()) {
            match a.cmp(&b) {
                std::cmp::Ordering::Less => left.advance()?,
                std::cmp::Ordering::Greater => right.advance()?,
                std::cmp::Ordering::Equal => {
                    visit(value, beside)?;
                    left.advance()?;
                }
            }
        }
        Ok(())
    }

    /// Reads the pairs one after the other.
    ///
    /// ```
    /// use zvf_write::SpillFolder;
    ///
    /// let mut sorter = SpillFolder::new(None, 1 << 20).sorter();
    /// sorter.push(7, 1)?;
    /// let pairs = sorter.finish()?;
    /// let mut reader = pairs.read()?;
    /// assert_eq!(reader.head(), Some((7, 1)));
    /// reader.advance()?;
    /// assert_eq!(reader.head(), None);
    /// # Ok::<(), zvf_error::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn read(&self) -> Result<PairReader> {
        Ok(PairReader(KWayMerge::open([&self.stored], PAIR, &StopFlag::default())?))
    }
}

/// Iterates over pairs.
#[derive(Debug)]
pub struct PairReader(KWayMerge);

impl PairReader {
    /// Returns the smallest remaining pair.
    pub fn head(&self) -> Option<(u64, u64)> {
        self.0.head().map(|record| (number_u64(record), number_u64(&record[8..])))
    }

    /// Moves to the next pair.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn advance(&mut self) -> Result<()> {
        self.0.advance()
    }
}

/// Bytes of a pair.
const PAIR: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Result<T> = std::result::Result<T, Error>;

    fn sort_pairs(memory: u64, input: &[(u64, u64)]) -> Pairs {
        let mut sorter = SpillFolder::new(None, memory).sorter();
        input.iter().try_for_each(|(a, b)| sorter.push(*a, *b)).unwrap();
        sorter.finish().unwrap()
    }

    fn collect_pairs(pairs: &Pairs) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let push = |a, b| {
            found.push((a, b));
            Result::Ok(())
        };
        pairs.for_each(push).unwrap();
        found
    }

    proptest! {
        #[test]
        fn sorting_in_memory_and_on_disk_is_the_same(
            input in prop::collection::vec((0_u64..40, prop_oneof![0_u64..9, Just(u64::MAX)]), 0..3000),
            names in prop::collection::btree_map(0_u64..40, any::<u64>(), 0..40),
        ) {
            let mut expected = input.clone();
            expected.sort_unstable();
            let names: Vec<(u64, u64)> = names.into_iter().collect();
            let with_name = |(a, b): &(u64, u64)| {
                names.iter().find(|(name, _)| name == a).map(|(_, name)| (*b, *name))
            };
            let joined: Vec<(u64, u64)> = expected.iter().filter_map(with_name).collect();
            for memory in [1, 1 << 20] {
                let (pairs, names) = (sort_pairs(memory, &input), sort_pairs(memory, &names));
                prop_assert_eq!(pairs.len(), input.len() as u64);
                prop_assert_eq!(pairs.is_empty(), input.is_empty());
                prop_assert_eq!(collect_pairs(&pairs), expected.clone());
                let mut found = Vec::new();
                let push = |a, b| {
                    found.push((a, b));
                    Result::Ok(())
                };
                pairs.merge_join(&names, push).unwrap();
                prop_assert_eq!(&found, &joined);
            }
        }
    }

    #[test]
    fn the_folder_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = SpillFolder::new(Some(parent.path().to_owned()), 1);
        let mut sorter = folder.sorter();
        // 1024 records are kept in memory for any limit.
        (0..2000).try_for_each(|n| sorter.push(n, 4)).unwrap();
        let pairs = sorter.finish().unwrap();
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
        drop((pairs, folder));
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}

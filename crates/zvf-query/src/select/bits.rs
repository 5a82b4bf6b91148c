//! Bitmaps of results per row.
//!
//! A word has 64 rows: conditions are combined word by word, and runs of rows are found by counting
//! zeros and ones. The bits after the last row are always 0.

/// One bit per row.
#[derive(Debug, PartialEq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Returns `len` equal bits.
    pub(crate) fn from_verdict(len: usize, verdict: bool) -> Self {
        let words = vec![if verdict { u64::MAX } else { 0 }; len.div_ceil(WORD_ROWS)];
        let mut bits = Self { words, len };
        bits.clear_tail();
        bits
    }

    /// Collects the bits one by one; stops at the first error.
    pub(crate) fn collect<E>(
        verdicts: impl ExactSizeIterator<Item = Result<bool, E>>,
    ) -> Result<Self, E> {
        let mut bits = Self::from_verdict(verdicts.len(), false);
        for (row, verdict) in verdicts.enumerate() {
            bits.words[row / WORD_ROWS] |= u64::from(verdict?) << (row % WORD_ROWS);
        }
        Ok(bits)
    }

    /// Returns the number of rows.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the words, for setting bits; none may be set past the last row.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Intersects with `other`, which has as many rows.
    pub(crate) fn intersect_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Unites with `other`, which has as many rows.
    pub(crate) fn union_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Inverts every bit.
    pub(crate) fn negate(&mut self) {
        self.words.iter_mut().for_each(|word| *word = !*word);
        self.clear_tail();
    }

    /// Calls `visit` with each run of equal bits: its first row, its length, and the bit.
    pub(crate) fn runs(&self, mut visit: impl FnMut(usize, usize, bool)) {
        let mut start = 0;
        while start < self.len {
            let verdict = self.get(start);
            let end = self.end_of_run(start, verdict);
            visit(start, end - start, verdict);
            start = end;
        }
    }

    fn get(&self, row: usize) -> bool {
        self.words[row / WORD_ROWS] >> (row % WORD_ROWS) & 1 == 1
    }

    /// Returns the first row after `start` with another bit, or the number of rows.
    fn end_of_run(&self, start: usize, verdict: bool) -> usize {
        // A bit is 1 where it differs from the run.
        let turned = |word: u64| if verdict { !word } else { word };
        let mut at = start;
        while let Some(word) = self.words.get(at / WORD_ROWS).filter(|_| at < self.len) {
            let rest = turned(*word) >> (at % WORD_ROWS);
            if rest != 0 {
                let skip = usize::try_from(rest.trailing_zeros()).unwrap_or(WORD_ROWS); // below 64
                return (at + skip).min(self.len);
            }
            at = (at / WORD_ROWS + 1) * WORD_ROWS;
        }
        self.len
    }

    fn clear_tail(&mut self) {
        let used = self.len % WORD_ROWS;
        if let Some(last) = self.words.last_mut().filter(|_| used > 0) {
            *last &= (1 << used) - 1;
        }
    }
}

/// Number of rows per word.
pub(crate) const WORD_ROWS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits(verdicts: &[bool]) -> Bits {
        Bits::collect::<()>(verdicts.iter().map(|verdict| Ok(*verdict))).unwrap()
    }

    fn runs(bits: &Bits) -> Vec<(usize, usize, bool)> {
        let mut found = Vec::new();
        bits.runs(|start, len, verdict| found.push((start, len, verdict)));
        found
    }

    #[test]
    fn runs_cross_words() {
        assert_eq!(runs(&Bits::from_verdict(0, true)), []);
        for len in [1, 63, 64, 65, 200] {
            for verdict in [true, false] {
                assert_eq!(runs(&Bits::from_verdict(len, verdict)), [(0, len, verdict)]);
            }
        }
        let mut verdicts = vec![false; 200];
        verdicts[60..131].fill(true);
        let expected = [(0, 60, false), (60, 71, true), (131, 69, false)];
        assert_eq!(runs(&bits(&verdicts)), expected);
    }

    #[test]
    fn collect_returns_the_first_error() {
        let rows = [Ok(true), Err("no"), Err("later")];
        assert_eq!(Bits::collect(rows.into_iter()), Err("no"));
    }

    proptest! {
        #[test]
        fn bits_are_verdicts(rows in prop::collection::vec(any::<[bool; 2]>(), 0..300)) {
            let (a, b): (Vec<bool>, Vec<bool>) = rows.iter().map(|[a, b]| (*a, *b)).unzip();
            let joined = |combine: fn(bool, bool) -> bool| -> Vec<bool> {
                rows.iter().map(|[a, b]| combine(*a, *b)).collect()
            };
            let (mut and, mut or, mut negated) = (bits(&a), bits(&a), bits(&a));
            and.intersect_with(&bits(&b));
            or.union_with(&bits(&b));
            negated.negate();
            prop_assert_eq!(and, bits(&joined(|a, b| a && b)));
            prop_assert_eq!(or, bits(&joined(|a, b| a || b)));
            prop_assert_eq!(&negated, &bits(&joined(|a, _| !a)));
            prop_assert_eq!(negated.len(), rows.len());
            let read_back: Vec<bool> =
                runs(&bits(&a)).iter().flat_map(|(_, len, verdict)| vec![*verdict; *len]).collect();
            prop_assert_eq!(read_back, a);
        }
    }
}

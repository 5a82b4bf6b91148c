//! Random access to fragments in constant time: a table of the number of ranges before each bitmap
//! word.
//!
//! Four bytes per 64 fragments. A look-up adds the set bits below its own bit in one word.

use alloc::vec::Vec;

use super::{Fragment, FragmentIndex};

/// Ranks of one [`FragmentIndex`], for many look-ups in it.
///
/// The table borrows nothing, so it can be stored next to the bytes. Using it with an index that it
/// was not built from is safe, but the results are meaningless.
///
/// ```
/// use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder, RankTable};
///
/// let mut builder = FragmentIndexBuilder::new();
/// builder.push_range(0, 3)?;
/// builder.push_rows(&[3, 5, 4])?;
/// builder.push_range(6, 2)?;
/// let blob = builder.encode();
/// let index = FragmentIndex::parse(&blob)?;
/// let table = RankTable::new(&index);
/// assert_eq!(table.get(&index, 2), Some(Fragment::Range { start: 6, count: 2 }));
/// assert_eq!(table.get(&index, 3), None);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RankTable {
    before: Vec<u32>, // per word of the bitmap: ranges in the words before it
}

impl RankTable {
    /// Counts the ranges of `index` in one pass.
    pub fn new(index: &FragmentIndex<'_>) -> Self {
        let words = index.bitmap.iter().scan(0_u32, |sum, word| {
            let before = *sum;
            *sum = sum.wrapping_add(word.get().count_ones()); // wraps, if ever, in the last word's
            Some(before)
        });
        Self { before: words.collect() }
    }

    /// Returns fragment `f` of `index`, or `None` past the end.
    pub fn get<'a>(&self, index: &FragmentIndex<'a>, f: u64) -> Option<Fragment<'a>> {
        let (word, bit) = index.locate(f)?;
        let before = *self.before.get(word)?;
        index.fragment_at_bit(f, word, bit, before.into())
    }
}

//! One pass over all manifests that builds the inverted index: from fragments to objects.
//!
//! ```text
//! a window        the owners of chunks side by side and every crossing   half of the budget
//! crossings       where a column of the level says the owners            up to a limit
//! for a question  the owners of some chunks, crossings that are near     the budget, or some owners a fragment
//! ```

use std::ops::Range;
use std::sync::Arc;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::manifest::BlockFragments;
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};
use zvf_store::KeyTable;

use super::Near;
use super::table::{Crossing, Owner, Table, Window};
use crate::objects::chunk_key;
use crate::{LevelReader, ObjectIndex, ObjectManifest};

/// A pass over manifests: its scope, and the owners and crossings so far.
pub(super) struct Pass<'a> {
    chunks: Arc<KeyTable>,
    axes: usize,
    chain: bool,
    scope: Scope<'a>,
    cap: u64,
    owners: Vec<(u32, Owner)>,
    crossings: Vec<Crossing>,
    full: bool,
}

/// The scope of a pass.
enum Scope<'a> {
    /// The owners of a window of chunks by position, which shrinks towards the `asked` ones when
    /// necessary, and all crossings.
    Window { places: Range<u32>, asked: Range<u32> },
    /// Only all crossings.
    Crossings,
    /// The owners of some chunks, and relevant crossings.
    Question {
        fragments: Vec<(u32, u64)>, // of each chunk, by its place in the table of chunks, ascending
        near: Option<Near<'a>>,
    },
}

impl<'a> Pass<'a> {
    /// Reads the owners of the chunks at the positions `asked`, and of as many others as fit in
    /// half of the budget together with all crossings.
    pub(super) async fn read_window(level: &LevelReader, asked: Range<u32>) -> Result<Self> {
        let chunks = level.chunks().await?.len();
        let places = 0..u32::try_from(chunks).unwrap_or(u32::MAX); // no list has as many
        let cap = level.index_cap().max(level.store().budget().max_bytes() / 2);
        Self::new(level, Scope::Window { places, asked }, cap).await
    }

    /// Reads all crossings and no owners. Stops when the table takes more than `cap` bytes.
    pub(super) async fn read_crossings(level: &LevelReader, cap: u64) -> Result<Self> {
        Self::new(level, Scope::Crossings, cap).await
    }

    /// Reads the owners of `chunks` and the crossings that are `near`. Stops when they exceed both
    /// the budget and the usual number of owners per fragment: a few blocks of a manifest can refer
    /// to each fragment again and again.
    pub(super) async fn read_some(
        level: &LevelReader,
        chunks: &[ChunkKey],
        near: Option<Near<'a>>,
    ) -> Result<Self> {
        let table = level.chunks().await?;
        let mut fragments = Vec::with_capacity(chunks.len());
        for (key, found) in chunks.iter().zip(level.fragments(chunks).await) {
            if let Some(place) = table.find(key).and_then(|place| u32::try_from(place).ok()) {
                fragments.push((place, found?.len()));
            }
        }
        fragments.sort_unstable();
        // Only compared.
        let asked = fragments.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let usual = asked.saturating_mul(USUAL_OWNERS * ENTRY);
        let cap = level.store().budget().max_bytes().max(usual);
        Self::new(level, Scope::Question { fragments, near }, cap).await
    }

    async fn new(level: &LevelReader, scope: Scope<'a>, cap: u64) -> Result<Self> {
        Ok(Self {
            chunks: level.chunks().await?,
            axes: level.axes(),
            chain: level.is_chain(),
            scope,
            cap,
            owners: Vec::new(),
            crossings: Vec::new(),
            full: false,
        })
    }

    /// Runs the pass and returns the table and its chunks; `None` if it exceeds the limit.
    pub(super) async fn run(mut self, index: &ObjectIndex) -> Result<Option<Window>> {
        if u32::try_from(index.slots()).is_err() {
            let error = Error::limit("num_objects", u32::MAX.into(), index.slots());
            return Err(error.at_array(index.path()));
        }
        index.scan_while(|manifest| self.visit(manifest).map(|()| !self.full)).await?;
        if self.full {
            return Ok(None);
        }
        let places = match self.scope {
            Scope::Window { places, .. } => places,
            Scope::Crossings | Scope::Question { .. } => 0..0,
        };
        let table = Arc::new(Table::new(self.chunks.len(), self.owners, self.crossings));
        Ok(Some(Window { places, table }))
    }

    /// Runs the pass and returns the table.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and when it exceeds the limit.
    pub(super) async fn run_or_refuse(self, index: &ObjectIndex) -> Result<Arc<Table>> {
        let cap = self.cap;
        self.run(index).await?.map(|window| window.table).ok_or_else(|| {
            Error::new(
                Class::LimitExceeded,
                "bytes of the owners of fragments",
                Expected::AtMost(cap.into()),
                "more",
            )
            .at_array(index.path())
        })
    }

    #[expect(clippy::expect_used, reason = "`run` refuses an index with more rows")]
    fn visit(&mut self, manifest: &ObjectManifest) -> Result<()> {
        let row = u32::try_from(manifest.row()).expect("the number of rows is checked by `run`");
        let mut before: Option<(ChunkKey, Option<u32>)> = None;
        for block in manifest.view().blocks().filter(|block| !block.fragments.is_empty()) {
            let key = chunk_key(block.chunk.iter().map(|c| c.get()));
            let mut place = None; // for crossings alone, only their chunks are looked up
            if !matches!(self.scope, Scope::Crossings) {
                place = match &before {
                    Some((same, place)) if *same == key => *place,
                    _ => self.place(&key),
                };
                if let Some(place) = place {
                    self.add(place, &block.fragments, row).at_chunk(&key)?;
                }
            }
            if let (true, Some((from, a))) = (self.chain, &before)
                && !self.share_face(from, &key)
                && let Some(a) = a.or_else(|| self.place(from))
                && let Some(b) = place.or_else(|| self.place(&key))
            {
                self.step(from, a, &key, b, row);
            }
            before = Some((key, place));
            if self.full {
                return Ok(());
            }
        }
        Ok(())
    }

    fn place(&self, key: &ChunkKey) -> Option<u32> {
        self.chunks.find(key).and_then(|place| u32::try_from(place).ok())
    }

    /// Returns whether chunks are equal or share a face, ignoring a leading attribute component.
    fn share_face(&self, from: &ChunkKey, to: &ChunkKey) -> bool {
        let space = from.spatial(self.axes).zip(to.spatial(self.axes));
        space.is_none_or(|(from, to)| share_face(from, to))
    }

    /// Adds the fragments of a block of the chunk at `place`.
    #[expect(clippy::expect_used, reason = "`check` refuses larger numbers of fragments")]
    fn add(&mut self, place: u32, named: &BlockFragments<'_>, row: u32) -> Result<()> {
        let mut fragments = u64::from(u32::MAX);
        if let Scope::Question { fragments: chunks, .. } = &self.scope {
            let Ok(at) = chunks.binary_search_by_key(&place, |(place, _)| *place) else {
                return Ok(());
            };
            fragments = fragments.min(chunks[at].1);
        }
        check(named, fragments)?;
        loop {
            if let Scope::Window { places, .. } = &self.scope
                && !places.contains(&place)
            {
                return Ok(());
            }
            let room = self.cap.saturating_sub(self.bytes()) / ENTRY; // none where the cap is exceeded
            if named.len() <= room {
                break;
            }
            if !self.narrow() {
                self.full = true;
                return Ok(());
            }
        }
        self.owners.extend(named.iter().map(|fragment| {
            let fragment = u32::try_from(fragment).expect("larger numbers are refused above");
            (place, Owner { fragment, row })
        }));
        Ok(())
    }

    /// Adds a step between chunks that share no face.
    fn step(&mut self, from: &ChunkKey, a: u32, to: &ChunkKey, b: u32, row: u32) {
        if let Scope::Question { near, .. } = &self.scope
            && !near.is_some_and(|near| near(from.components(), to.components()))
        {
            return;
        }
        self.crossings.push(Crossing { from: a, to: b, row });
        while self.bytes() > self.cap && !self.full {
            self.full = !self.narrow();
        }
    }

    /// Shrinks the window: to start at the first requested chunk, then by half, down to the
    /// requested chunks.
    fn narrow(&mut self) -> bool {
        let Scope::Window { places, asked } = &mut self.scope else { return false };
        let half = places.start + (places.end - places.start) / 2;
        *places = match () {
            () if places.start < asked.start => asked.start..places.end,
            () if places.end > asked.end => places.start..half.max(asked.end),
            () => return false,
        };
        self.owners.retain(|(place, _)| places.contains(place));
        true
    }

    fn bytes(&self) -> u64 {
        to_u64(self.owners.len() + self.crossings.len()) * ENTRY
    }
}

/// Returns whether chunks are equal or adjacent.
fn share_face(a: &[i64], b: &[i64]) -> bool {
    let steps = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    steps.fold(0_u64, u64::saturating_add) <= 1 // a sum that is too large is not near
}

/// Returns an error for missing fragments of a chunk.
fn check(fragments: &BlockFragments<'_>, have: u64) -> Result<()> {
    let last = match fragments {
        BlockFragments::Single(fragment) => *fragment,
        // No chunk has as many fragments as the largest number. A block without fragments was
        // skipped.
        BlockFragments::Range { start, count } => start.saturating_add(*count).saturating_sub(1),
        BlockFragments::Explicit(_) => fragments.iter().max().unwrap_or(0),
    };
    if last < have {
        return Ok(());
    }
    Err(Error::new(Class::OutOfBounds, "fragment", Expected::AtMost(i128::from(have) - 1), last))
}

/// Bytes of one owner or crossing during the pass.
const ENTRY: u64 = 12;
/// Assumed maximum of owners per fragment, on average over a query.
const USUAL_OWNERS: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_face() {
        for (a, b, face) in [
            ([0, 0], [0, 0], true),
            ([0, 0], [0, -1], true),
            ([5, 5], [6, 5], true),
            ([0, 0], [1, 1], false),
            ([0, 0], [0, 2], false),
            ([i64::MIN, i64::MIN], [i64::MAX, i64::MAX], false),
        ] {
            assert_eq!(share_face(&a, &b), face, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_window_holds_what_is_asked_for_and_what_fits_behind_it() {
        let keys = (0..8).map(|x| ChunkKey::new(&[x]).unwrap());
        let mut pass = Pass {
            chunks: Arc::new(KeyTable::new(1, keys).unwrap()),
            axes: 1,
            chain: false,
            scope: Scope::Window { places: 0..8, asked: 2..3 },
            cap: 4 * ENTRY,
            owners: Vec::new(),
            crossings: Vec::new(),
            full: false,
        };
        let mut add = |row| {
            for place in 0..8 {
                pass.add(place, &BlockFragments::Single(0), row).unwrap();
            }
            let Scope::Window { places, .. } = &pass.scope else { panic!("no window") };
            let held: Vec<u32> = pass.owners.iter().map(|(place, _)| *place).collect();
            (places.clone(), held, pass.full)
        };
        assert_eq!(add(0), (2..5, vec![2, 3, 4], false));
        assert_eq!(add(1), (2..3, vec![2; 2], false));
        assert_eq!(add(2), (2..3, vec![2; 3], false));
        assert_eq!(add(3), (2..3, vec![2; 4], false));
        assert_eq!(add(4), (2..3, vec![2; 4], true));
    }

    #[test]
    fn fragments_past_the_chunk_are_refused() {
        let list = [4.into(), 1.into()];
        for (fragments, have, expected) in [
            (BlockFragments::Single(3), 4, None),
            (BlockFragments::Single(4), 4, Some(4_u64)),
            (BlockFragments::Range { start: 2, count: 2 }, 4, None),
            (BlockFragments::Range { start: 2, count: 1 << 62 }, 4, Some((1 << 62) + 1)),
            (BlockFragments::Explicit(&list), 5, None),
            (BlockFragments::Explicit(&list), 4, Some(4)),
        ] {
            let message = expected.map(|found| {
                format!("OutOfBounds, fragment: expected at most {}, found {found}", have - 1)
            });
            assert_eq!(check(&fragments, have).err().map(|error| error.to_string()), message);
        }
    }
}

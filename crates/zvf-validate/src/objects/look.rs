//! Manifests: what each names, in the level's own table of chunks.
//!
//! ```text
//! Blob      4 bytes and blocks, as most versions store them     offsets count from its start
//! Blocks    rows of chunk and fragment, one reference each      offsets count from the first of them
//! Outside   a span of rows that are not there
//! ```

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zvf_format::key::ChunkKey;
use zvf_format::manifest::{BlockFragments, Manifest};
use zvf_format::num::{i64s_from_le, saturating_usize, to_u64};

use crate::chunks::{ChunkTable, Ends};
use crate::finding::Finding;
use crate::findings::Findings;
use crate::rules::consistency::C9;
use crate::rules::geometry::{G6, G8};
use crate::splitmix::splitmix64;

/// What manifests are compared with.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) fresh: Findings,
    pub(crate) path: String,
    pub(crate) sid_ndim: u64,
    pub(crate) chunks: Arc<ChunkTable>,
    /// How many parents each fragment has; empty when not counted.
    pub(crate) parents: Vec<u8>,
    /// Whether objects are lines of two rows.
    pub(crate) lines: bool,
    /// Whether the links that should join fragments are added up.
    pub(crate) bridges: bool,
    /// Whether the owner of each fragment is reported.
    pub(crate) claims: bool,
    /// Whether the rows that hold something are reported.
    pub(crate) names: bool,
}

/// What one row of the index is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A manifest as bytes.
    Blob(Bytes),
    /// References, each the components of a chunk and a fragment.
    Blocks(Bytes),
    /// A start and a count, of which this many rows are there.
    Outside { start: i64, count: i64, blocks: u64 },
}

/// The outcome of a run of rows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RowsLooked {
    pub(crate) found: Findings,
    /// Rows whose manifest is not the empty one.
    pub(crate) present: u64,
    /// Which rows these are, where that is asked for.
    pub(crate) named: Vec<u64>,
    /// Fragments by their number in the level, with the row that names them.
    pub(crate) claims: Vec<(usize, u64)>,
    /// Sums of the links that should be, by chunk.
    pub(crate) bridges: Vec<(usize, u64)>,
    pub(crate) bytes: u64,
}

/// Looks at the rows from `first` on; those that are not taken are none.
pub(crate) fn check_rows(sought: &Sought, rows: &[(u64, Entry)]) -> RowsLooked {
    let mut looked = RowsLooked {
        found: sought.fresh.new_empty(),
        present: 0,
        named: Vec::new(),
        claims: Vec::new(),
        bridges: Vec::new(),
        bytes: 0,
    };
    for (row, entry) in rows {
        match entry {
            Entry::Blob(blob) => looked.manifest(sought, *row, blob),
            Entry::Blocks(blocks) => looked.references(sought, *row, blocks),
            Entry::Outside { start, count, blocks } => {
                let finding = Finding::new(&C9, &sought.path).in_row(*row).with_offset(0);
                let (expected, found) =
                    (format!("inside the {blocks} blocks"), format!("{count} from {start}"));
                looked.found.add(finding.with_details("span", expected, found));
            }
        }
    }
    looked
}

/// What is known of the fragment before, while an object is followed.
#[derive(Clone, Copy)]
struct Last {
    chunk: usize,
    ends: Ends,
}

/// What an object adds up to.
#[derive(Default)]
struct Sums {
    rows: u64,
    fragments: u64,
    parents: u64,
    known: bool,
}

impl RowsLooked {
    fn manifest(&mut self, sought: &Sought, row: u64, blob: &[u8]) {
        self.bytes += to_u64(blob.len());
        if blob.is_empty() {
            let finding = Finding::new(&C9, &sought.path).in_row(row);
            self.found.add(
                finding.with_details("manifest", "an empty manifest, 4 bytes", "no bytes").lint(),
            );
            return;
        }
        if blob != EMPTY {
            self.holds_something(sought, row);
        }
        let manifest = match Manifest::parse(blob, sought.sid_ndim) {
            Ok(manifest) => manifest,
            Err(error) => {
                self.found.add(Finding::from_format(&C9, &sought.path, &error).in_row(row));
                return;
            }
        };
        let mut sums = Sums { known: true, ..Sums::default() };
        let mut last: Option<Last> = None;
        let mut at = FIRST_BLOCK;
        let mut known: Option<Option<usize>> = None;
        let mut chunk: Vec<i64> = Vec::new();
        for block in manifest.blocks() {
            let components = block.chunk.iter().map(|c| c.get());
            // One chunk after the other has the same fragments asked for: it is looked up once.
            let place = match known.filter(|_| chunk.iter().copied().eq(components.clone())) {
                Some(place) => place,
                None => {
                    chunk.clear();
                    chunk.extend(components);
                    sought.chunks.find(&chunk)
                }
            };
            known = Some(place);
            let head = to_u64(size_of_val(block.chunk)) + 1;
            if place.is_none() {
                self.no_chunk(sought, row, at, &chunk);
            }
            let fragments = &block.fragments;
            self.block(sought, row, at + head, place, fragments, &mut sums, &mut last);
            at += head + size(&block.fragments);
        }
        self.object(sought, row, &sums);
    }

    /// As [`manifest`](Self::manifest), of rows of numbers.
    fn references(&mut self, sought: &Sought, row: u64, blocks: &[u8]) {
        self.bytes += to_u64(blocks.len());
        if !blocks.is_empty() {
            self.holds_something(sought, row);
        }
        let (mut sums, mut last) = (Sums { known: true, ..Sums::default() }, None);
        let components = saturating_usize(sought.sid_ndim);
        let stride = (components + 1) * 8;
        let mut at = 0_u64;
        for reference in blocks.chunks_exact(stride) {
            let numbers: Vec<i64> = i64s_from_le(reference).collect();
            // A reference has one number more.
            let (chunk, fragment) = numbers.split_at_checked(components).unwrap_or_default();
            let place = sought.chunks.find(chunk);
            if place.is_none() {
                self.no_chunk(sought, row, at, chunk);
            }
            let behind = at + to_u64(size_of_val(chunk));
            match fragment.first().map(|fragment| u64::try_from(*fragment)) {
                Some(Ok(fragment)) => {
                    let one = BlockFragments::Single(fragment);
                    self.block(sought, row, behind, place, &one, &mut sums, &mut last);
                }
                negative => {
                    let finding = Finding::new(&C9, &sought.path).in_row(row).with_offset(behind);
                    let found = if negative.is_some() { "a negative number" } else { "nothing" };
                    self.found.add(finding.with_details("fragment", "0 or more", found));
                    (sums.known, last) = (false, None);
                }
            }
            at += to_u64(stride);
        }
        self.object(sought, row, &sums);
    }

    fn holds_something(&mut self, sought: &Sought, row: u64) {
        self.present += 1;
        if sought.names {
            self.named.push(row);
        }
    }

    fn no_chunk(&mut self, sought: &Sought, row: u64, at: u64, chunk: &[i64]) {
        let chunk = ChunkKey::new(chunk).map_or_else(|_| String::new(), |key| key.to_string());
        let finding = Finding::new(&C9, &sought.path).in_row(row).with_offset(at);
        self.found.add(finding.with_details("chunk", "a chunk of the level", chunk));
    }

    #[expect(clippy::too_many_arguments, reason = "one place of one manifest")]
    fn block(
        &mut self,
        sought: &Sought,
        row: u64,
        at: u64,
        place: Option<usize>,
        fragments: &BlockFragments<'_>,
        sums: &mut Sums,
        last: &mut Option<Last>,
    ) {
        let known = place.and_then(|place| Some((place, sought.chunks.fragments(place)?)));
        let Some((place, count)) = known else {
            sums.known = false;
            *last = None;
            return;
        };
        if let Some(over) = first_missing_fragment(fragments, count) {
            let finding = Finding::new(&C9, &sought.path).in_row(row).with_offset(at);
            self.found.add(finding.with_details(
                "fragment",
                format!("below {count}, those of its chunk"),
                over,
            ));
            sums.known = false;
            *last = None;
            return;
        }
        if !sought.claims && !sought.lines && !sought.bridges && sought.parents.is_empty() {
            return;
        }
        let ends = sought.chunks.fragment_ends(place);
        let base = sought.chunks.fragment(place, 0);
        for fragment in fragments {
            let number = base.and_then(|base| base.checked_add(saturating_usize(fragment)));
            if let Some(number) = number.filter(|_| sought.claims) {
                self.claims.push((number, row));
            }
            let here = usize::try_from(fragment).ok().and_then(|at| ends?.get(at)).copied();
            let Some(here) = here else {
                sums.known = false;
                continue;
            };
            sums.rows += u64::from(here.count);
            if here.count > 0 {
                sums.fragments += 1;
                let parents = number.and_then(|number| sought.parents.get(number));
                sums.parents += parents.map_or(0, |parents| u64::from(*parents));
                self.bridge(sought, *last, Last { chunk: place, ends: here });
                *last = Some(Last { chunk: place, ends: here });
            }
        }
    }

    /// The link that should join two fragments of a line in different chunks.
    fn bridge(&mut self, sought: &Sought, from: Option<Last>, to: Last) {
        let Some(from) = from.filter(|from| sought.bridges && from.chunk != to.chunk) else {
            return;
        };
        let hash = |chunk: usize, row: u32| sought.chunks.end(chunk, row.into());
        let sum = hash(from.chunk, from.ends.last).wrapping_add(hash(to.chunk, to.ends.first));
        self.bridges.push((from.chunk.min(to.chunk), splitmix64(sum)));
    }

    /// G6, G8: what an object must add up to.
    fn object(&mut self, sought: &Sought, row: u64, sums: &Sums) {
        if !sums.known || sums.fragments == 0 {
            return;
        }
        if sought.lines && (sums.rows != 2 || sums.fragments > 2) {
            let finding = Finding::new(&G8, &sought.path).in_row(row);
            let found = format!("{} rows in {} fragments", sums.rows, sums.fragments);
            self.found.add(finding.with_details("line", "two rows", found));
        }
        if !sought.parents.is_empty() && sums.fragments.checked_sub(sums.parents) != Some(1) {
            let finding = Finding::new(&G6, &sought.path).in_row(row);
            let found = format!(
                "{} fragments, and {} parents of their first rows",
                sums.fragments, sums.parents
            );
            self.found.add(finding.with_details("roots", "one", found));
        }
    }
}

/// The first fragment that a chunk of `count` does not have.
fn first_missing_fragment(fragments: &BlockFragments<'_>, count: u64) -> Option<u64> {
    match fragments {
        BlockFragments::Single(fragment) => Some(*fragment).filter(|fragment| *fragment >= count),
        BlockFragments::Range { start, count: n } => {
            let end = start.saturating_add(*n); // a claim, compared with the count
            (end > count).then_some((*start).max(count))
        }
        BlockFragments::Explicit(_) => fragments.iter().find(|fragment| *fragment >= count),
    }
}

/// Bytes of the fragments of a block, behind its mode.
fn size(fragments: &BlockFragments<'_>) -> u64 {
    match fragments {
        BlockFragments::Single(_) => 8,
        BlockFragments::Range { .. } => 16,
        BlockFragments::Explicit(list) => to_u64(size_of_val(*list)) + 4,
    }
}

const EMPTY: &[u8] = &[0; 4];
const FIRST_BLOCK: u64 = 4;

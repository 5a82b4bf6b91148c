//! Checks one manifest: its references, against the table of chunks of the level.
//!
//! ```text
//! Blob      4 bytes and blocks, as most versions store them     offsets count from its start
//! Blocks    rows of chunk and fragment, one reference each      offsets count from the first of them
//! Outside   a span of rows that do not exist
//! ```

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zvf_format::key::ChunkKey;
use zvf_format::manifest::{BlockFragments, Manifest};
use zvf_format::num::{i64s_from_le, mix_bits, saturating_usize, to_u64};

use crate::chunks::{ChunkTable, Ends};
use crate::finding::Finding;
use crate::findings::Findings;
use crate::rules::{C, G};

/// The checks of manifests, and the data they need.
pub(crate) struct ManifestChecks {
    pub(crate) fresh: Findings,
    pub(crate) path: String,
    pub(crate) sid_ndim: u64,
    pub(crate) chunks: Arc<ChunkTable>,
    /// How many parents each fragment has; empty when not counted.
    pub(crate) parents: Vec<u32>,
    /// Whether objects are lines of two rows.
    pub(crate) lines: bool,
    /// Whether the hashes of the links that should join fragments are summed.
    pub(crate) bridges: bool,
    /// Whether the owner of each fragment is reported.
    pub(crate) claims: bool,
    /// Whether the rows with geometry are reported.
    pub(crate) names: bool,
    /// The column with the number of vertices of each object, and its path; empty when not
    /// compared.
    pub(crate) vertex_counts: (String, Vec<u32>),
}

/// One row of the index.
pub(crate) enum Entry {
    /// A manifest as bytes.
    Blob(Bytes),
    /// References, each the components of a chunk and a fragment.
    Blocks(Bytes),
    /// A start and a count beyond the `blocks` rows that exist.
    Outside { start: i64, count: i64, blocks: u64 },
}

/// The report of a run of rows.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RowsReport {
    pub(crate) found: Findings,
    /// Rows whose manifest is not the empty one.
    pub(crate) present: u64,
    /// Number of rows without bytes.
    pub(crate) empty: u64,
    /// These rows, if requested.
    pub(crate) named: Vec<u64>,
    /// Fragments by their number in the level, with the row that names them.
    pub(crate) claims: Vec<(usize, u64)>,
    /// Sums of the hashes of expected links, by chunk.
    pub(crate) bridges: Vec<(usize, u64)>,
    pub(crate) bytes: u64,
}

/// Checks rows of the index.
pub(crate) fn check_rows(checks: &ManifestChecks, rows: &[(u64, Entry)]) -> RowsReport {
    let mut report = RowsReport { found: checks.fresh.new_empty(), ..RowsReport::default() };
    for (row, entry) in rows {
        match entry {
            Entry::Blob(blob) => report.check_manifest(checks, *row, blob),
            Entry::Blocks(blocks) => report.check_references(checks, *row, blocks),
            Entry::Outside { start, count, blocks } => {
                let (expected, found) =
                    (format!("inside the {blocks} blocks"), format!("{count} from {start}"));
                let finding = C[9].at(&checks.path).in_row(*row).with_offset(0);
                report.found.add(finding.expects("span", expected, found));
            }
        }
    }
    report
}

/// The previous fragment of an object.
#[derive(Clone, Copy)]
struct PreviousFragment {
    chunk: usize,
    ends: Ends,
}

/// Sums over the fragments of an object.
#[derive(Default)]
struct Sums {
    rows: u64,
    fragments: u64,
    parents: u64,
    is_complete: bool,
}

impl RowsReport {
    /// Checks a manifest that is a blob.
    fn check_manifest(&mut self, checks: &ManifestChecks, row: u64, blob: &[u8]) {
        self.bytes += to_u64(blob.len());
        if blob.is_empty() {
            self.empty += 1;
            let expected = "an empty manifest, 4 bytes";
            let finding = C[9].at(&checks.path);
            self.found.add(finding.expects("manifest", expected, "no bytes").in_row(row).lint());
            return;
        }
        if blob != EMPTY {
            self.count_present(checks, row);
        }
        let manifest = match Manifest::parse(blob, checks.sid_ndim) {
            Ok(manifest) => manifest,
            Err(error) => {
                self.found.add(Finding::from_format(C[9], &checks.path, &error).in_row(row));
                return;
            }
        };
        let mut sums = Sums { is_complete: true, ..Sums::default() };
        let mut last: Option<PreviousFragment> = None;
        let mut at = FIRST_BLOCK;
        let mut last_place: Option<Option<usize>> = None;
        let mut chunk: Vec<i64> = Vec::new();
        for block in manifest.blocks() {
            let components = block.chunk.iter().map(|c| c.get());
            // Consecutive blocks often name the same chunk: look it up once.
            let place = match last_place.filter(|_| chunk.iter().copied().eq(components.clone())) {
                Some(place) => place,
                None => {
                    chunk.clear();
                    chunk.extend(components);
                    checks.chunks.find(&chunk)
                }
            };
            last_place = Some(place);
            let head = to_u64(size_of_val(block.chunk)) + 1;
            if place.is_none() {
                self.report_missing_chunk(checks, row, at, &chunk);
            }
            let fragments = &block.fragments;
            self.check_block(checks, row, at + head, place, fragments, &mut sums, &mut last);
            at += head + fragments_size(&block.fragments);
        }
        self.check_sums(checks, row, &sums);
    }

    /// Checks a manifest that is rows of numbers.
    fn check_references(&mut self, checks: &ManifestChecks, row: u64, blocks: &[u8]) {
        self.bytes += to_u64(blocks.len());
        if !blocks.is_empty() {
            self.count_present(checks, row);
        }
        let (mut sums, mut last) = (Sums { is_complete: true, ..Sums::default() }, None);
        let components = saturating_usize(checks.sid_ndim); // the rank of keys, at most 8
        let stride = (components + 1) * 8;
        let mut at = 0_u64;
        for reference in blocks.chunks_exact(stride) {
            let numbers: Vec<i64> = i64s_from_le(reference).collect();
            // A reference is a chunk and one more number.
            let (chunk, fragment) = numbers.split_at_checked(components).unwrap_or_default();
            let place = checks.chunks.find(chunk);
            if place.is_none() {
                self.report_missing_chunk(checks, row, at, chunk);
            }
            let behind = at + to_u64(size_of_val(chunk));
            match fragment.first().map(|fragment| u64::try_from(*fragment)) {
                Some(Ok(fragment)) => {
                    let single = BlockFragments::Single(fragment);
                    self.check_block(checks, row, behind, place, &single, &mut sums, &mut last);
                }
                negative => {
                    let found = if negative.is_some() { "a negative number" } else { "nothing" };
                    let finding = C[9].at(&checks.path).in_row(row).with_offset(behind);
                    self.found.add(finding.expects("fragment", "0 or more", found));
                    (sums.is_complete, last) = (false, None);
                }
            }
            at += to_u64(stride);
        }
        self.check_sums(checks, row, &sums);
    }

    /// Counts a row with geometry.
    fn count_present(&mut self, checks: &ManifestChecks, row: u64) {
        self.present += 1;
        if checks.names {
            self.named.push(row);
        }
    }

    fn report_missing_chunk(&mut self, checks: &ManifestChecks, row: u64, at: u64, chunk: &[i64]) {
        let chunk = ChunkKey::new(chunk).map_or_else(|_| String::new(), |key| key.to_string());
        let finding = C[9].at(&checks.path).in_row(row).with_offset(at);
        self.found.add(finding.expects("chunk", "a chunk of the level", chunk));
    }

    #[expect(clippy::too_many_arguments, reason = "one place of one manifest")]
    fn check_block(
        &mut self,
        checks: &ManifestChecks,
        row: u64,
        at: u64,
        place: Option<usize>,
        fragments: &BlockFragments<'_>,
        sums: &mut Sums,
        last: &mut Option<PreviousFragment>,
    ) {
        let found = place.and_then(|place| Some((place, checks.chunks.fragments(place)?)));
        let Some((place, count)) = found else {
            sums.is_complete = false;
            *last = None;
            return;
        };
        if let Some(over) = fragments.first_missing(count) {
            let expected = format!("below {count}, those of its chunk");
            let finding = C[9].at(&checks.path);
            self.found.add(finding.expects("fragment", expected, over).in_row(row).with_offset(at));
            sums.is_complete = false;
            *last = None;
            return;
        }
        let counts = !checks.vertex_counts.1.is_empty();
        let sums_rows = checks.lines || checks.bridges || counts || !checks.parents.is_empty();
        if !checks.claims && !sums_rows {
            return;
        }
        if fragments.is_empty() {
            *last = None; // another line follows
        }
        let ends = checks.chunks.fragment_ends(place);
        for fragment in fragments {
            let number = checks.chunks.fragment(place, fragment);
            if let Some(number) = number.filter(|_| checks.claims) {
                self.claims.push((number, row));
            }
            let row_ends =
                usize::try_from(fragment).ok().and_then(|index| ends?.get(index)).copied();
            let Some(row_ends) = row_ends else {
                sums.is_complete = false;
                continue;
            };
            sums.rows += u64::from(row_ends.count);
            if row_ends.count > 0 {
                sums.fragments += 1;
                let parents = number.and_then(|number| checks.parents.get(number));
                // If parents are not counted, the sum is not used.
                sums.parents += parents.map_or(0, |parents| u64::from(*parents));
                self.add_bridge(checks, *last, PreviousFragment { chunk: place, ends: row_ends });
                *last = Some(PreviousFragment { chunk: place, ends: row_ends });
            }
        }
    }

    /// Adds the link that should join two fragments of a line in different chunks.
    fn add_bridge(
        &mut self,
        checks: &ManifestChecks,
        from: Option<PreviousFragment>,
        to: PreviousFragment,
    ) {
        let Some(from) = from.filter(|from| checks.bridges && from.chunk != to.chunk) else {
            return;
        };
        let hash = |chunk: usize, row: u32| checks.chunks.end(chunk, row.into());
        let sum = hash(from.chunk, from.ends.last).wrapping_add(hash(to.chunk, to.ends.first));
        self.bridges.push((from.chunk.min(to.chunk), mix_bits(sum)));
    }

    /// Checks C45, G6, G8: the sums over the fragments of an object.
    fn check_sums(&mut self, checks: &ManifestChecks, row: u64, sums: &Sums) {
        let (path, counts) = &checks.vertex_counts;
        let stated = counts.get(saturating_usize(row)).map(|count| u64::from(*count));
        if let Some(stated) = stated.filter(|stated| sums.is_complete && *stated != sums.rows) {
            let finding = C[45].at(path).in_row(row).with_offset(row * 4);
            self.found.add(finding.expects("vertex_count", sums.rows, stated));
        }
        if !sums.is_complete || sums.fragments == 0 {
            return;
        }
        if checks.lines && (sums.rows != 2 || sums.fragments > 2) {
            let found = format!("{} rows in {} fragments", sums.rows, sums.fragments);
            self.found.add(G[8].at(&checks.path).expects("line", "two rows", found).in_row(row));
        }
        if !checks.parents.is_empty() && sums.fragments.checked_sub(sums.parents) != Some(1) {
            let found = format!(
                "{} fragments, and {} parents of their first rows",
                sums.fragments, sums.parents
            );
            self.found.add(G[6].at(&checks.path).expects("roots", "one", found).in_row(row));
        }
    }
}

/// Returns the bytes of the fragments of a block, after its mode.
fn fragments_size(fragments: &BlockFragments<'_>) -> u64 {
    match fragments {
        BlockFragments::Single(_) => 8,
        BlockFragments::Range { .. } => 16,
        BlockFragments::Explicit(list) => to_u64(size_of_val(*list)) + 4,
    }
}

/// The empty manifest.
const EMPTY: &[u8] = &[0; 4];
/// Offset of the first block.
const FIRST_BLOCK: u64 = 4;

//! Links: families and their arrays, then every cell, then what only all of them show.
//!
//! ```text
//! open.rs       documents and names                           C10 to C13, C17, C37
//! segment.rs    one array that can be looked into
//! look.rs       one cell of it                                C15 to C20, C36, C41, G6, G9, G10
//! blob.rs       links across chunks of 0.6 and 0.7            C14, C16 to C18, C20
//! here          counts, copies, links between levels          C14, C19, C41
//! ```

mod blob;
mod look;
mod open;
mod segment;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::link::Store as Stored;
use zvf_format::metadata::{Family as Layout, GeometryType};
use zvf_store::Cells;

use self::look::{LinkChunk, LinkLooked, look};
use self::open::Opened;
use self::segment::{Form, Segment, Sought, Uses};
use crate::finding::Finding;
use crate::level::{Between, FamilySeen, LevelState, is_only};
use crate::num::{to_u64, to_usize};
use crate::pipeline::{Cell, batches, read};
use crate::rules::consistency::{C14, C19, C41};
use crate::rules::geometry::G6;
use crate::run::{Run, Stop};

/// Everything about the links of level `at`.
pub(crate) async fn check(run: &mut Run, levels: &mut [LevelState], at: usize) -> Result<(), Stop> {
    let Some(level) = levels.get(at) else { return Ok(()) };
    let families = open::families(run, levels, level).await?;
    let (mut seen, mut totals) = (Vec::new(), Vec::new());
    for opened in families {
        let (delta, width) = (opened.delta.0, opened.family.link_width());
        seen.push(FamilySeen { delta, width });
        let mut total = Total::new(run, level, &opened);
        for segment in &opened.segments {
            total.segment(run, levels, level, segment).await?;
        }
        if run.store.family() != Layout::C {
            total.physical = None; // counts are those of links across chunks alone
            blob::check(run, levels, level, &opened).await?;
        }
        total.settle(run, &opened);
        totals.push(total);
    }
    if let Some(level) = levels.get_mut(at) {
        level.families = seen;
        for total in totals {
            total.hand_over(level);
        }
    }
    Ok(())
}

/// What is gathered over the cells of a family.
struct Total {
    delta: Delta,
    /// Whether links between levels can be compared.
    native: bool,
    /// Rows; none where a cell could not be read.
    physical: Option<u64>,
    /// Rows by the number of chunks that their ends lie in, and by which of them the copy is of.
    copies: BTreeMap<usize, BTreeMap<usize, (u64, u64)>>,
    parents: Option<Vec<u8>>,
    /// Which rows of the level are a child, and how many of them twice.
    children: Option<Vec<u64>>,
    twice: u64,
    bridges: Option<Vec<u64>>,
    sum: u64,
    links: u64,
    /// Which rows of the level are a source.
    sources: Option<Vec<u64>>,
}

impl Total {
    fn new(run: &Run, level: &LevelState, opened: &Opened) -> Self {
        let rows = level.chunks.total_rows();
        let native = run.store.family() == Layout::C;
        let upward = native && opened.delta.0 > 0 && rows <= MOST_ROWS;
        Self {
            delta: opened.delta,
            native,
            physical: opened.whole.then_some(0),
            copies: BTreeMap::new(),
            parents: None,
            children: None,
            twice: 0,
            bridges: None,
            sum: 0,
            links: 0,
            sources: upward.then(|| vec![0; to_usize(rows.div_ceil(64))]),
        }
    }

    async fn segment(
        &mut self,
        run: &mut Run,
        levels: &[LevelState],
        level: &LevelState,
        segment: &Segment,
    ) -> Result<(), Stop> {
        let sought = Arc::new(sought(run, levels, level, segment));
        if sought.uses.child.is_some() && self.parents.is_none() && level.chunks.ends.is_some() {
            self.parents = Some(vec![0; to_usize(level.chunks.total_fragments())]);
            let rows = level.chunks.total_rows();
            self.children = (rows <= MOST_ROWS).then(|| vec![0; to_usize(rows.div_ceil(64))]);
        }
        if sought.uses.bridges && self.bridges.is_none() {
            self.bridges = Some(vec![0; level.chunks.len()]);
        }
        let keys: Vec<ChunkKey> = segment.array.keys.iter().collect();
        missing_fragments(run, level, segment, keys.len());
        let attributes = segment.attributes.iter().map(|(array, _)| &array.cells);
        let arrays: Vec<&Cells> = std::iter::once(&segment.array.cells)
            .chain(segment.fragments.as_ref().map(|array| &array.cells))
            .chain(attributes)
            .collect();
        let options = run.options.clone();
        let total = to_u64(keys.len());
        let reading = async |range: Range<usize>| {
            let keys = keys.get(range).unwrap_or_default();
            let taken: Vec<ChunkKey> =
                keys.iter().filter(|key| options.takes_cell(key)).copied().collect();
            let (cells, bytes) = read(&arrays, &taken).await?;
            Ok(((taken, cells), bytes))
        };
        let shared = Arc::clone(&sought);
        let looking = move |(keys, cells): (Vec<ChunkKey>, Vec<Vec<Cell>>)| {
            let chunks = chunks(&shared, &keys, cells);
            chunks.par_iter().map(|chunk| look(&shared, chunk)).collect::<Vec<_>>()
        };
        let takes_all = run.options.takes_all();
        let taking = |range: Range<usize>, looked: Vec<LinkLooked>| {
            for looked in looked {
                self.take(run, looked);
            }
            run.step(&sought.path, to_u64(range.end), total)
        };
        batches(keys.len(), reading, looking, taking).await?;
        if !takes_all {
            self.physical = None;
        }
        Ok(())
    }

    fn take(&mut self, run: &mut Run, looked: LinkLooked) {
        let rows = looked.rows.unwrap_or(0);
        self.physical = self.physical.zip(looked.rows).map(|(sum, rows)| sum.saturating_add(rows));
        self.links = self.links.saturating_add(rows);
        self.sum = self.sum.wrapping_add(looked.between);
        let (chunks, lead) = looked.copies;
        let (n, sum) = self.copies.entry(chunks).or_default().entry(lead).or_default();
        *n = n.saturating_add(rows);
        *sum = sum.wrapping_add(looked.sum);
        if let Some(parents) = &mut self.parents {
            for fragment in looked.followed {
                if let Some(parents) = parents.get_mut(fragment) {
                    *parents = parents.saturating_add(1);
                }
            }
        }
        if let (Some(bridges), Some((chunk, sum))) = (&mut self.bridges, looked.bridges)
            && let Some(total) = bridges.get_mut(chunk)
        {
            *total = total.wrapping_add(sum);
        }
        if let Some(children) = &mut self.children {
            let again = looked.children.into_iter().filter(|row| !set(children, *row)).count();
            self.twice = self.twice.saturating_add(to_u64(again));
        }
        if let Some(sources) = &mut self.sources {
            for row in looked.sources {
                set(sources, row);
            }
        }
        let checked = &mut run.checked;
        checked.cells = checked.cells.saturating_add(looked.cells);
        checked.bytes = checked.bytes.saturating_add(looked.bytes);
        checked.links = checked.links.saturating_add(rows);
        run.found.absorb(looked.found);
    }

    /// C14, C19, G6: counts, copies of one link, and rows with two parents.
    fn settle(&self, run: &mut Run, opened: &Opened) {
        if self.twice > 0 {
            let found = format!("{} rows that are a child twice", self.twice);
            run.add(Finding::new(&G6, &opened.path).told(
                "links",
                "one parent for each row",
                found,
            ));
        }
        let Some(physical) = self.physical else { return };
        if let Some(said) = opened.doc.num_physical_records.filter(|said| *said != physical) {
            let finding = Finding::new(&C14, &opened.path);
            run.add(finding.counted("num_physical_records", physical, said));
        }
        let duplicate = opened.family.store() == Stored::Duplicate;
        let mut logical = 0_u64;
        for (chunks, copies) in &self.copies {
            if !duplicate || *chunks == 1 || opened.delta != Delta::SAME {
                logical = copies.values().fold(logical, |sum, (n, _)| sum.saturating_add(*n));
                continue;
            }
            let (n, sum) = copies.get(&0).copied().unwrap_or_default();
            logical = logical.saturating_add(n);
            let same = |lead: usize| copies.get(&lead).copied().unwrap_or_default() == (n, sum);
            if !(0..*chunks).all(same) {
                let finding = Finding::new(&C19, &opened.path);
                let expected = format!("a copy for each of {chunks} chunks");
                run.add(finding.told("copies of a link", expected, "others, or not all"));
            }
        }
        if let Some(said) = opened.doc.num_links.filter(|said| *said != logical) {
            let finding = Finding::new(&C19, &opened.path);
            run.add(finding.counted("num_links", logical, said));
        }
    }

    fn hand_over(self, level: &mut LevelState) {
        if let Some(parents) = self.parents {
            level.linked.parents = parents;
        }
        if let Some(bridges) = self.bridges {
            level.linked.bridges = bridges;
        }
        if self.native && self.delta != Delta::SAME {
            let rows = level.chunks.total_rows();
            let orphans = self.sources.map(|sources| {
                let set = sources
                    .iter()
                    .fold(0_u64, |sum, word| sum.saturating_add(word.count_ones().into()));
                rows.saturating_sub(set)
            });
            let orphans = orphans.filter(|_| level.chunks.is_whole());
            let (delta, links, sum) = (self.delta.0, self.links, self.sum);
            level.linked.between.push(Between { delta, links, sum, orphans });
        }
    }
}

/// Sets the bit of `row`; false when it was set.
fn set(bits: &mut [u64], row: u64) -> bool {
    let bit = 1_u64.rotate_left(u32::try_from(row % 64).unwrap_or(0));
    let Some(word) = bits.get_mut(to_usize(row / 64)) else { return true };
    let fresh = *word & bit == 0;
    *word |= bit;
    fresh
}

/// C41: links within chunks, and no index of fragments over them.
fn missing_fragments(run: &mut Run, level: &LevelState, segment: &Segment, cells: usize) {
    let within = segment.family.delta() == Delta::SAME
        && match &segment.form {
            Form::Offsets(offsets) => offsets.are_zero() && segment.family.link_width() > 1,
            Form::Same => true,
            Form::Joined => false,
        };
    if within && cells > 0 && level.link_fragments.is_none() {
        let finding = Finding::new(&C41, level.path("link_fragments"));
        run.add(finding.told("node", "the fragments over the links of each chunk", "nothing"));
    }
}

fn sought(run: &Run, levels: &[LevelState], level: &LevelState, segment: &Segment) -> Sought {
    let delta = segment.family.delta();
    let number = i64::from(level.node.number()).saturating_add(delta.0.into());
    let other = levels.iter().find(|other| i64::from(other.node.number()) == number);
    // The older families put both ends under the key of the cell.
    let there = other.map(|other| Arc::clone(&other.chunks)).unwrap_or_default();
    let attributes = segment.attributes.iter().map(|(array, row)| (array.path.clone(), *row));
    Sought {
        fresh: run.found.fresh(),
        path: segment.array.path.clone(),
        family: segment.family,
        form: segment.form.clone(),
        shape: segment.shape,
        body: segment.body,
        attributes: attributes.collect(),
        fragments: segment.fragments.as_ref().map(|array| array.path.clone()),
        wants_fragments: true,
        grouped: level.node.meta().fragment_link_groups,
        here: Arc::clone(&level.chunks),
        there,
        has_there: other.is_some_and(|other| other.vertices.is_some()),
        uses: uses(run, level, segment),
    }
}

fn uses(run: &Run, level: &LevelState, segment: &Segment) -> Uses {
    let family = &segment.family;
    let Form::Offsets(offsets) = &segment.form else { return Uses::default() };
    let width = family.link_width();
    if family.delta() != Delta::SAME {
        return Uses { between: (width == 2).then_some(family.delta().0 > 0), ..Uses::default() };
    }
    let kinds = crate::level::kinds(&run.store);
    let along = [GeometryType::Line, GeometryType::Polyline, GeometryType::Streamline];
    let skeleton = is_only(&run.store, &[GeometryType::Skeleton]) && width == 2;
    // Streamed skeletons go from parent to child where a link leaves the chunk.
    let child = if family.is_directed() && !offsets.are_zero() { 1 } else { 0 };
    let once = family.store() == Stored::Canonical && !family.is_directed();
    Uses {
        child: (skeleton && level.chunks.ends.is_some()).then_some(child),
        bridges: is_only(&run.store, &along) && width == 2 && once && level.chunks.ends.is_some(),
        faces: kinds.contains(&GeometryType::Mesh) && width >= 3,
        between: None,
    }
}

/// The cells of a batch by chunk.
fn chunks(sought: &Sought, keys: &[ChunkKey], cells: Vec<Vec<Cell>>) -> Vec<LinkChunk> {
    let mut arrays = cells.into_iter().map(Vec::into_iter).collect::<Vec<_>>().into_iter();
    let mut rows = arrays.next().unwrap_or_default();
    let mut fragments = if sought.fragments.is_some() { arrays.next() } else { None };
    let mut attributes: Vec<_> = arrays.collect();
    let next = |cells: &mut std::vec::IntoIter<Cell>| cells.next().unwrap_or(Ok(None));
    keys.iter()
        .map(|key| LinkChunk {
            key: *key,
            rows: next(&mut rows),
            fragments: fragments.as_mut().map_or(Ok(None), next),
            attributes: attributes.iter_mut().map(next).collect(),
        })
        .collect()
}

/// Rows of a level for which it is remembered which are a source: 128 MiB of bits.
const MOST_ROWS: u64 = 1 << 30;

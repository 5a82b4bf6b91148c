//! Comparison of the new store with the old one, before it is published.
//!
//! ```text
//! vertices             rows of all chunks
//! links                records of each level gap, by the number of their ends; without new bridges
//! objects              rows of the index, and the ids in them
//! positions            a checksum by object, in the order of its manifest; by fragment where nothing has objects
//! groups               members of each group
//! ```
//!
//! Parts of the old store that can never be read, because they are faulty or encoded in another
//! form, are not compared: their payloads were copied.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::manifest::{Block, BlockFragments};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_model::{Groups, LevelReader, Members, ObjectIndex, Parametric};
use zvf_store::{Caching, Store};

use crate::plan::{MigrationPlan, What};
use crate::rows::batches;

/// Compares `new` with the store that `plan` is for.
///
/// # Errors
///
/// [`Class::CountMismatch`] when numbers differ, [`Class::Checksum`] when contents differ;
/// otherwise when `new` cannot be read.
pub(crate) async fn compare(plan: &MigrationPlan, new: &Store) -> Result<()> {
    for planned in &plan.levels {
        let old = &planned.reader;
        let new = LevelReader::open(new, old.level()).await?;
        let bridged =
            planned.steps.iter().any(|step| matches!(step.what, What::Links { bridges: true, .. }));
        let deltas = planned.steps.iter().filter_map(|step| {
            let What::Links { delta, bridges: false, .. } = &step.what else { return None };
            Some(*delta)
        });
        let mut sums = Sums { path: old.node().path().to_string() };
        sums.vertices(old, &new).await?;
        for delta in deltas.filter(|delta| !(bridged && *delta == Delta::SAME)) {
            sums.links(old, &new, delta).await?;
        }
        sums.objects(old, &new).await?;
        sums.groups(old.groups().await, new.groups().await).await?;
    }
    let mut sums = Sums { path: "parametric".to_owned() };
    if let Some(Some(old)) = sound(Parametric::open(&plan.store).await)? {
        let groups = match Parametric::open(new).await? {
            Some(new) => new.groups().await,
            None => Ok(None),
        };
        sums.groups(old.groups().await, groups).await?;
    }
    Ok(())
}

/// The comparison below one path.
struct Sums {
    path: String,
}

impl Sums {
    async fn vertices(&self, old: &LevelReader, new: &LevelReader) -> Result<()> {
        let Some(before) = sound(rows(old).await)? else { return Ok(()) };
        let what = "vertices of the new store";
        self.check_equal(Class::CountMismatch, what, before, rows(new).await?)
    }

    async fn links(&self, old: &LevelReader, new: &LevelReader, delta: Delta) -> Result<()> {
        let Some((width, before)) = sound(count_records(old, delta).await)? else { return Ok(()) };
        let after = match count_records(new, delta).await? {
            (found, after) if found == width || before == 0 => after,
            _ => 0, // none of that width
        };
        let what = "links of the new store, of as many ends each";
        self.check_equal(Class::CountMismatch, what, before, after)
    }

    async fn objects(&self, old: &LevelReader, new: &LevelReader) -> Result<()> {
        let Some(old_index) = sound(old.objects().await)? else { return Ok(()) };
        let new_index = new.objects().await?;
        let slots = |index: &Option<ObjectIndex>| index.as_ref().map_or(0, ObjectIndex::slots);
        let what = "objects of the new store";
        self.check_equal(Class::CountMismatch, what, slots(&old_index), slots(&new_index))?;
        let before = sound(positions(old, old_index.as_ref()).await)?;
        let Some(before) = before else { return Ok(()) };
        let after = positions(new, new_index.as_ref()).await?;
        let what = "checksum of the positions of the new store, object by object";
        self.check_equal(Class::Checksum, what, before, after)
    }

    async fn groups(
        &mut self,
        old: Result<Option<Groups>>,
        new: Result<Option<Groups>>,
    ) -> Result<()> {
        let Some(old) = sound(old)? else { return Ok(()) };
        let new = new?;
        let len = |groups: &Option<Groups>| groups.as_ref().map_or(0, Groups::len);
        self.check_equal(Class::CountMismatch, "groups of the new store", len(&old), len(&new))?;
        let (Some(old), Some(new)) = (old, new) else { return Ok(()) };
        let Some(before) = sound(members(&old).await)? else { return Ok(()) };
        let what = "checksum of the members of groups of the new store";
        self.check_equal(Class::Checksum, what, before, members(&new).await?)
    }

    fn check_equal(&self, class: Class, what: &'static str, before: u64, after: u64) -> Result<()> {
        if before == after {
            return Ok(());
        }
        Err(Error::new(class, what, before, after).at_key(&self.path))
    }
}

/// Returns what was read of the old store; `None` if it can never be read.
fn sound<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if !error.class().is_retryable() => Ok(None),
        read => read.map(Some),
    }
}

/// Returns the number of rows of vertices.
async fn rows(level: &LevelReader) -> Result<u64> {
    let keys: Vec<ChunkKey> = level.chunks().await?.iter().collect();
    let mut total = 0;
    for keys in keys.chunks(CHUNKS) {
        for rows in level.row_counts(keys).await {
            total += rows?;
        }
    }
    Ok(total)
}

/// Returns the number of ends of the records of a family, and the number of records, each counted
/// once.
async fn count_records(level: &LevelReader, delta: Delta) -> Result<(usize, u64)> {
    let mut count = 0;
    let Some(family) = level.links(delta).await? else { return Ok((0, 0)) };
    for segment in family.segments() {
        let places: Vec<usize> = (0..segment.cells().await?.len()).collect();
        for places in places.chunks(CHUNKS) {
            for cell in segment.read(places, Caching::Once).await {
                let cell = cell?;
                count += to_u64((0..cell.len()).filter(|i| cell.is_leading(*i)).count());
            }
        }
    }
    Ok((family.link_width(), count))
}

/// Returns a checksum of the positions of all objects, or of all fragments if there is no index.
async fn positions(level: &LevelReader, index: Option<&ObjectIndex>) -> Result<u64> {
    let fragments = fragment_sums(level).await?;
    let mut sum = 0_u64;
    let Some(index) = index else {
        for (chunk, sums) in &fragments {
            sum = sum.wrapping_add(combine_hashes(hash_key(chunk), sums.iter().copied()));
        }
        return Ok(sum);
    };
    for slots in batches(index.slots(), OBJECTS) {
        let slots: Vec<u64> = slots.collect();
        let ids = index.ids_of(&slots).await?;
        for (manifest, id) in index.manifests(&slots).await?.iter().zip(ids) {
            let mut parts = Vec::new();
            for block in manifest.view().blocks() {
                push_block_sums(&block, &fragments, &mut parts)?;
            }
            let id = u64::from_le_bytes(id.0.to_le_bytes());
            sum = sum.wrapping_add(combine_hashes(id, parts.into_iter()));
        }
    }
    Ok(sum)
}

/// Appends the checksums of the fragments of a block. Missing fragments count by their numbers:
/// they are missing on both sides. A range may claim any number of them, so they count as one part.
fn push_block_sums(
    block: &Block<'_>,
    fragments: &HashMap<ChunkKey, Vec<u64>>,
    parts: &mut Vec<u64>,
) -> Result<()> {
    let chunk: Vec<i64> = block.chunk.iter().map(|at| at.get()).collect();
    let chunk = ChunkKey::new(&chunk)?;
    let sums = fragments.get(&chunk).map_or(&[][..], Vec::as_slice);
    let missing = |numbers: &[u64]| combine_hashes(hash_key(&chunk), numbers.iter().copied());
    let known = to_u64(sums.len());
    match block.fragments {
        BlockFragments::Range { start, count } => {
            let end = start + count; // of a manifest that was parsed: at most `i64::MAX`
            let present = start.min(known)..end.min(known);
            parts.extend(&sums[saturating_usize(present.start)..saturating_usize(present.end)]);
            if end > known && count > 0 {
                parts.push(missing(&[start.max(known), end]));
            }
        }
        BlockFragments::Single(_) | BlockFragments::Explicit(_) => {
            parts.extend(block.fragments.iter().map(|number| {
                let found = usize::try_from(number).ok().and_then(|number| sums.get(number));
                found.copied().unwrap_or_else(|| missing(&[number]))
            }));
        }
    }
    Ok(())
}

/// Returns a checksum of the positions of each fragment, by its chunk.
async fn fragment_sums(level: &LevelReader) -> Result<HashMap<ChunkKey, Vec<u64>>> {
    let keys: Vec<ChunkKey> = level.chunks().await?.iter().collect();
    let mut all = HashMap::with_capacity(keys.len());
    for keys in keys.chunks(CHUNKS) {
        let columns = level.positions(keys, Caching::Once).await;
        let fragments = level.fragments(keys).await;
        for ((column, fragments), key) in columns.into_iter().zip(fragments).zip(keys) {
            let column = column?;
            if column.is_empty() {
                continue; // the old families store empty chunks, and the new one does not
            }
            let fragments = fragments?;
            fragments.check_rows(to_u64(column.len()))?;
            let view = fragments.view();
            let sums = view.iter().map(|fragment| {
                let rows = fragment.rows().map(saturating_usize); // of the column, as just checked
                let mut state = DefaultHasher::new();
                rows.for_each(|row| state.write(column.row(row)));
                state.finish()
            });
            all.insert(*key, sums.collect());
        }
    }
    Ok(all)
}

/// Returns a checksum of the members of all groups, in order.
async fn members(groups: &Groups) -> Result<u64> {
    let mut sum = 0;
    for numbers in batches(groups.len(), OBJECTS) {
        let numbers: Vec<u64> = numbers.collect();
        for members in groups.members(&numbers).await? {
            let ids: Vec<i64> = match members {
                Members::Ids(ids) => ids.iter().map(|id| id.0).collect(),
                Members::Range { start, stop } => vec![start, stop],
            };
            let ids = ids.iter().map(|id| u64::from_le_bytes(id.to_le_bytes()));
            sum = combine_hashes(sum, [combine_hashes(1, ids)].into_iter());
        }
    }
    Ok(sum)
}

fn hash_key(key: &ChunkKey) -> u64 {
    combine_hashes(0, key.components().iter().map(|n| u64::from_le_bytes(n.to_le_bytes())))
}

/// Returns a hash that depends on `seed`, on all `parts` and on their order.
fn combine_hashes(seed: u64, parts: impl Iterator<Item = u64>) -> u64 {
    let mut state = DefaultHasher::new();
    state.write_u64(seed);
    parts.for_each(|part| state.write_u64(part));
    state.finish()
}

/// The number of chunks that are read at once.
const CHUNKS: usize = 64;
/// The number of objects, or groups, that are read at once.
const OBJECTS: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Migrates `id` into a folder.
    async fn migrate(id: &str) -> (tempfile::TempDir, String) {
        let (old, dir) = (archives::Unpacked::new(id), tempfile::tempdir().unwrap());
        let address = dir.path().join("new.zarrvectors").to_str().unwrap().to_owned();
        let plan = MigrationPlan::build(&old.open().await).await.unwrap();
        let build = zvf_store::Build::begin(&address, Default::default()).await.unwrap();
        let report = plan.apply(&Default::default(), build, |_| ()).await.unwrap();
        assert!(report.verified, "{id}");
        (dir, address)
    }

    #[tokio::test]
    async fn differences_from_the_old_store_are_refused() {
        let faces = "suites/mesh07";
        for (source, path, message) in [
            (
                "suites/mesh06",
                None,
                Some(
                    "CountMismatch in 0, links of the new store, of as many ends each: expected 4, found 2",
                ),
            ),
            (
                "suites/mesh06_refused",
                None,
                Some("CountMismatch in 0, vertices of the new store: expected 4, found 3"),
            ),
            (faces, None, None),
            (faces, Some("0/vertices/c/0/0/0"), Some("Checksum in 0, checksum of the positions")),
        ] {
            let (_dir, address) = migrate(source).await;
            if let Some(path) = path {
                let path = std::path::Path::new(&address).join(path);
                let mut bytes = std::fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
            let old = archives::Unpacked::new(faces);
            let plan = MigrationPlan::build(&old.open().await).await.unwrap();
            let new = Store::open(&address, Default::default()).await.unwrap();
            let found = compare(&plan, &new).await.err().map(|error| error.to_string());
            match (found, message) {
                (None, None) => {}
                (Some(found), Some(message)) if found.starts_with(message) => {}
                (found, _) => panic!("{source}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_failure_that_may_pass_is_not_a_part_that_cannot_be_read() {
        let read = |class| sound::<()>(Err(Error::custom(class, "read")));
        assert_eq!(read(Class::Truncated).unwrap(), None);
        assert_eq!(read(Class::Unsupported).unwrap(), None);
        assert_eq!(read(Class::Unavailable).unwrap_err().class(), Class::Unavailable);
        assert_eq!(sound(Ok(7)).unwrap(), Some(7));
    }

    #[test]
    fn missing_fragments_of_a_range_are_one_part() {
        // One block: chunk 4, a range.
        let sums = |start: u64, count: u64| {
            let mut blob = b"\x01\0\0\0\x04\0\0\0\0\0\0\0\x01".to_vec();
            blob.extend([start, count].map(u64::to_le_bytes).as_flattened());
            let manifest = zvf_format::manifest::Manifest::parse(&blob, 1).unwrap();
            let fragments = HashMap::from([(ChunkKey::new(&[4]).unwrap(), vec![7, 8])]);
            let mut parts = Vec::new();
            for block in manifest.blocks() {
                push_block_sums(&block, &fragments, &mut parts).unwrap();
            }
            parts
        };
        assert_eq!((sums(0, 2), sums(1, 1), sums(9, 0)), (vec![7, 8], vec![8], vec![]));
        let (long, longer) = (sums(1, 1 << 62), sums(1, (1 << 62) + 1));
        assert_eq!((long.len(), long[0]), (2, 8));
        assert_ne!(long, longer);
        assert_eq!(sums(5, 1 << 62).len(), 1);
    }

    #[test]
    fn sums_depend_on_order_and_on_the_seed() {
        let sum = |seed, parts: &[u64]| combine_hashes(seed, parts.iter().copied());
        let all = [sum(0, &[]), sum(1, &[]), sum(0, &[1, 2]), sum(0, &[2, 1]), sum(0, &[1, 2, 0])];
        for (i, folded_parts) in all.iter().enumerate() {
            assert!(!all[..i].contains(folded_parts), "{all:?}");
        }
    }
}

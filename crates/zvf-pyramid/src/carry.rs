//! The objects of a level: which are kept, and their ids and attributes.
//!
//! The source is one level or several additive ones. In an additive pyramid an object belongs to
//! the level that has its geometry; another level counts only where that one has no value.
//!
//! Not here: groups (`groups`), and how kept objects are chosen (`selection`).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use zvf_error::Result;
use zvf_format::num::{saturating_i64, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::Dtype;
use zvf_model::{Column, Field, LevelReader, ObjectId, RowAttribute};
use zvf_write::KindWriter;

use crate::columns::gather;
use crate::error::unsupported_error;
use crate::row_ids::RowIds;

/// The objects of a level.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    ids: RowIds,
    at: Vec<u8>, // by row: which of the levels has its fragments, or `NO_LEVEL`
    /// The kept objects, ascending.
    pub(crate) kept_ids: Vec<i64>,
    /// The first new id, where the kept objects are numbered in the order of their ids.
    pub(crate) first: Option<usize>,
    alone: bool, // whether groups have no others
}

impl Objects {
    /// Loads the objects of `levels`, keeping all that have fragments; `None` where no level has an
    /// index.
    pub(crate) async fn load(levels: &[LevelReader]) -> Result<Option<Self>> {
        if levels.len() > usize::from(NO_LEVEL) {
            let expected = "at most 255";
            return Err(unsupported_error("levels that add to each other", expected, levels.len()));
        }
        let (mut ids, mut at, mut any) = (RowIds::new(), Vec::new(), false);
        let mut row_of_id: HashMap<i64, usize> = HashMap::new();
        for (number, level) in (0_u8..NO_LEVEL).zip(levels) {
            let Some(index) = level.objects().await? else { continue };
            any = true;
            // The number of rows of an index is limited, so this fits in memory.
            let mut row_levels = Vec::with_capacity(saturating_usize(index.slots()));
            let note = |manifest: &zvf_model::ObjectManifest| {
                row_levels.push(if manifest.is_empty() { NO_LEVEL } else { number });
                Ok(())
            };
            index.scan(note).await?;
            let row_ids = read_row_ids(level).await?;
            if levels.len() == 1 {
                (ids, at) = (row_ids, row_levels);
                break;
            }
            for (id, row_level) in row_ids.iter().zip(row_levels) {
                let row = *row_of_id.entry(id).or_insert(ids.len());
                match at.get_mut(row) {
                    None => {
                        ids.push(id);
                        at.push(row_level);
                    }
                    Some(at) if *at == NO_LEVEL => *at = row_level,
                    Some(_) if row_level == NO_LEVEL => {}
                    Some(_) => {
                        let expected = "each at one of the levels that add to each other";
                        let found = format!("object {id} at level {} again", level.level().0);
                        return Err(unsupported_error("objects", expected, found));
                    }
                }
            }
        }
        let live = || ids.iter().zip(&at).filter(|(_, at)| **at != NO_LEVEL).map(|(id, _)| id);
        let mut kept_ids = Vec::with_capacity(live().count());
        kept_ids.extend(live());
        kept_ids.sort_unstable();
        Ok(any.then_some(Self { ids, at, kept_ids, first: None, alone: false }))
    }

    /// Returns the position among the kept objects of the object of a row, if it is kept.
    pub(crate) fn place_of_row(&self, row: usize) -> Option<u64> {
        self.ids.get(row).and_then(|id| self.kept_ids.binary_search(&id).ok()).map(to_u64)
    }

    /// Returns whether objects get new numbers.
    pub(crate) const fn is_renumbered(&self) -> bool {
        self.first.is_some()
    }

    /// Returns the id that an object has at the new level.
    pub(crate) fn new_id(&self, id: i64) -> i64 {
        match (self.first, self.kept_ids.binary_search(&id)) {
            (Some(first), Ok(at)) => saturating_i64(to_u64(first + at)), // ids in memory are fewer
            _ => id,
        }
    }

    /// Restricts the selection to `kept_ids`. Other objects keep an empty index row.
    pub(crate) fn restrict_to(&self, mut kept_ids: Vec<i64>) -> Self {
        kept_ids.sort_unstable();
        Self { kept_ids, alone: true, ..self.clone() }
    }

    /// Returns whether ids or group members differ from those of the source.
    pub(crate) const fn changes_groups(&self) -> bool {
        self.is_renumbered() || self.alone
    }

    /// Returns the ids of objects without fragments.
    pub(crate) fn ids_without_fragments(&self) -> impl Iterator<Item = i64> {
        self.ids_and_levels().filter(|(_, at)| *at == NO_LEVEL).map(|(id, _)| id)
    }

    /// Returns the ids of kept objects that have fragments at the level with this position, in row
    /// order.
    pub(crate) fn kept_ids_of_level(&self, level: u8) -> Vec<i64> {
        let level_objects = self.ids_and_levels().filter(|(_, at)| *at == level);
        level_objects.map(|(id, _)| id).filter(|id| self.keeps(*id)).collect()
    }

    /// Returns the ids of all rows, with the level that has their fragments.
    fn ids_and_levels(&self) -> impl Iterator<Item = (i64, u8)> {
        self.ids.iter().zip(self.at.iter().copied())
    }

    /// Returns how many objects have fragments at the level with this position.
    pub(crate) fn count_at_level(&self, level: u8) -> usize {
        self.at.iter().filter(|at| **at == level).count()
    }

    /// Returns how many kept objects have fragments.
    pub(crate) fn count_kept_with_fragments(&self) -> usize {
        self.ids_and_levels().filter(|(id, at)| *at != NO_LEVEL && self.keeps(*id)).count()
    }

    /// Returns how many rows the index has.
    pub(crate) const fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether an object is kept.
    pub(crate) fn keeps(&self, id: i64) -> bool {
        self.kept_ids.binary_search(&id).is_ok()
    }

    /// Returns whether all objects with fragments are kept.
    pub(crate) fn keeps_all(&self) -> bool {
        self.at.iter().filter(|at| **at != NO_LEVEL).count() == self.kept_ids.len()
    }

    /// Writes all objects of `levels`, and the attributes of kept ones, to `writer`.
    pub(crate) async fn carry(
        &self,
        levels: &[LevelReader],
        source_id: &str,
        mut writer: KindWriter<'_>,
    ) -> Result<()> {
        let (mut names, mut opened): (Vec<String>, Vec<_>) = Default::default();
        let mut ids = Vec::with_capacity(levels.len());
        for level in levels {
            let attributes = level.object_attributes().await?;
            for name in attributes.iter().map(RowAttribute::name) {
                if !names.iter().any(|listed| listed == name) {
                    names.push(name.to_owned());
                }
            }
            opened.push(attributes);
            // For a single level, the rows were already loaded.
            ids.push(match levels.len() {
                1 => Cow::Borrowed(&self.ids),
                _ => Cow::Owned(read_row_ids(level).await?),
            });
        }
        if self.is_renumbered() {
            let new = self.new_ids(&self.kept_ids);
            writer.declare_objects(&new);
            if !names.iter().any(|name| *name == *source_id) {
                let bytes: Vec<u8> = self.kept_ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                let column = Column::new(Dtype::INT64, 1, bytes.into())?;
                writer.object_fields(&new, &[Field::new(source_id, column)])?;
            }
        } else {
            // Each level has a row for each object, because readers may use ids as rows.
            let mut ids = self.ids.iter().map(ObjectId).peekable();
            while ids.peek().is_some() {
                let batch: Vec<ObjectId> = ids.by_ref().take(INDEX_BATCH_ROWS).collect();
                writer.declare_objects(&batch);
            }
        }
        for name in names {
            // The first level that has a value for an object provides it.
            let mut written_ids = HashSet::new();
            for (attributes, ids) in opened.iter().zip(&ids) {
                let attribute = attributes.iter().find(|attribute| attribute.name() == name);
                let Some(attribute) = attribute else { continue }; // another level has it
                let (mut row_ids, rows) = (ids.iter(), ids.len());
                for start in (0..rows).step_by(INDEX_BATCH_ROWS) {
                    let end = rows.min(start + INDEX_BATCH_ROWS);
                    let values = attribute.range(to_u64(start)..to_u64(end)).await?;
                    let mut should_write = |id: i64, row: u32| {
                        values.is_present(usize_from_u32(row))
                            && self.keeps(id)
                            && (levels.len() == 1 || written_ids.insert(id))
                    };
                    let (rows, ids): (Vec<u32>, Vec<i64>) = (0_u32..)
                        .zip(row_ids.by_ref().take(end - start))
                        .filter(|(row, id)| should_write(*id, *row))
                        .unzip();
                    let field = attribute.field(gather(values.column(), &rows));
                    writer.object_fields(&self.new_ids(&ids), &[field])?;
                }
            }
        }
        Ok(())
    }

    fn new_ids(&self, ids: &[i64]) -> Vec<ObjectId> {
        ids.iter().map(|id| ObjectId(self.new_id(*id))).collect()
    }
}

/// Returns the ids of the index rows of a level; none if it has no index.
pub(crate) async fn read_row_ids(level: &LevelReader) -> Result<RowIds> {
    let mut all = RowIds::new();
    let Some(index) = level.objects().await? else { return Ok(all) };
    for start in (0..index.slots()).step_by(INDEX_BATCH_ROWS) {
        let end = index.slots().min(start + to_u64(INDEX_BATCH_ROWS));
        all.extend(index.ids(start..end).await?.into_iter().map(|id| id.0));
    }
    Ok(all)
}

/// Returns the ids of objects whose chains read back as they were written: reading merges two
/// consecutive runs in the same chunk.
pub(crate) async fn find_unbroken_ids(level: &LevelReader) -> Result<BTreeSet<i64>> {
    let Some(index) = level.objects().await? else { return Ok(BTreeSet::new()) };
    let mut whole = Vec::new();
    let note = |manifest: &zvf_model::ObjectManifest| {
        let (mut last, mut is_whole) = (None, !manifest.is_empty());
        for (chunk, _) in manifest.references() {
            is_whole &= last != Some(chunk);
            last = Some(chunk);
        }
        whole.push(is_whole);
        Ok(())
    };
    index.scan(note).await?;
    let ids = read_row_ids(level).await?;
    let ids = ids.iter().zip(whole);
    Ok(ids.filter(|(_, is_whole)| *is_whole).map(|(id, _)| id).collect())
}

/// Returns the ids of objects that have fragments.
pub(crate) async fn present_ids(level: &LevelReader) -> Result<BTreeSet<i64>> {
    let objects = Objects::load(std::slice::from_ref(level)).await?;
    Ok(objects.into_iter().flat_map(|objects| objects.kept_ids).collect())
}

/// Used instead of a level: the object has no fragments.
pub(crate) const NO_LEVEL: u8 = u8::MAX;
/// Index rows that are read at once.
const INDEX_BATCH_ROWS: usize = 65_536;

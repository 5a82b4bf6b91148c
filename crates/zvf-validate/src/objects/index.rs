//! The object index of a level: its document, its ids, its counts.

use std::ops::Range;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::arrays::{ArrayAttributes as _, IdForm, IndexAttrs};
use zvf_metadata::{Capability, LayoutFamily, ManifestLayout, Node};
use zvf_model::ObjectId;
use zvf_store::Rows;

use super::dense::{Table, open_numbers};
use super::manifest::Entry;
use crate::array::check_orphan_folders;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::{C, P, S};
use crate::validation::{Validation, batches};

/// An object index that can be checked.
pub(crate) struct Index {
    pub(crate) doc: IndexAttrs,
    pub(crate) manifests: Manifests,
    /// The number of valid, stored rows.
    pub(crate) rows: u64,
    pub(crate) sid_ndim: u64,
    pub(crate) has_ids: bool,
}

/// The manifests of an index, by their storage.
pub(crate) enum Manifests {
    Blobs(Rows),
    Table(Table),
}

impl Manifests {
    /// Returns their path below the root.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Blobs(rows) => rows.path().to_string(),
            Self::Table(table) => table.path(),
        }
    }

    /// Returns their number.
    pub(crate) async fn count(&self) -> Result<u64> {
        match self {
            Self::Blobs(rows) => rows.count().await,
            Self::Table(table) => Ok(table.len()),
        }
    }

    /// Reads the manifests of `rows`.
    pub(crate) async fn range(&self, rows: Range<u64>) -> Result<Vec<Entry>> {
        match self {
            Self::Blobs(blobs) => {
                Ok(blobs.range(rows).await?.into_iter().map(Entry::Blob).collect())
            }
            Self::Table(table) => table.range(rows).await,
        }
    }
}

/// Opens the object index of a level, if there is one that can be checked.
pub(crate) async fn open(run: &mut Validation, level: &mut LevelState) -> Result<Option<Index>> {
    let path = level.path("object_index");
    let Some(node) = run.node(&path).await? else { return Ok(None) };
    let doc = match node.as_deref() {
        None => return check_orphan_folders(run, &path).await.map(|()| None),
        Some(Node::Array(_)) => {
            run.add(S[15].at(&path).expects("node", "a group", "an array"));
            return Ok(None);
        }
        Some(Node::Group(group)) => IndexAttrs::parse(group.attributes.clone()),
    };
    let Some(doc) = run.parsed(&path, doc) else { return Ok(None) };
    let ids = match doc.ids() {
        Ok(ids) => ids,
        Err(error) => {
            run.add(Finding::from_metadata(S[17], &path, &error));
            return Ok(None);
        }
    };
    let rank = to_u64(level.node.key_rank());
    let sid_ndim = doc.sid_ndim.unwrap_or(rank);
    if sid_ndim != rank {
        run.add(C[24].at(&path).expects("sid_ndim", rank, sid_ndim));
        return Ok(None);
    }
    level.objects.rows = Some(doc.num_objects);
    let Some(manifests) = manifests(run, level, &doc, rank).await? else { return Ok(None) };
    let stored = run.take(C[2], &path, manifests.count().await)?;
    let Some(stored) = stored else { return Ok(None) };
    if stored != doc.num_objects {
        // An interrupted append leaves more rows than declared, and readers ignore them.
        let finding = C[24].at(&path).expects("num_objects", stored, doc.num_objects);
        run.add(if stored > doc.num_objects { finding.warning() } else { finding });
    }
    let rows = stored.min(doc.num_objects);
    let has_ids = matches!(ids, IdForm::Column { .. });
    level.objects.has_ids = has_ids;
    Ok(Some(Index { doc, manifests, rows, sid_ndim, has_ids }))
}

/// Checks C24, M21, S17: the manifests, in the layout of the existing arrays.
async fn manifests(
    run: &mut Validation,
    level: &LevelState,
    doc: &IndexAttrs,
    rank: u64,
) -> Result<Option<Manifests>> {
    let path = level.path("object_index");
    let stated = doc.layout() == Ok(Some(ManifestLayout::DenseManifestsV1));
    let dense = Table::exists(run, level).await;
    let blobs = level.path("object_index/manifests");
    let blobs_too = run.store.family() == LayoutFamily::C
        && !matches!(run.store.nodes().node(&blobs).await, Ok(None));
    if dense && (stated || !blobs_too) {
        if !stated {
            let expected = "dense_manifests_v1, by the arrays that are there";
            run.add(C[24].at(&path).expects("layout", expected, "another").warning());
        }
        run.check_announced(Capability::DenseManifests, "dense_manifests");
        return Ok(Table::open(run, level, rank).await?.map(Manifests::Table));
    }
    let mut name = "object_index";
    if stated && blobs_too {
        let expected = "vlen_manifests_v2, by the arrays that are there";
        run.add(C[24].at(&path).expects("layout", expected, "another").warning());
        name = "object_index/manifests";
    }
    let manifests = level.node.rows(name).await;
    let class = manifests.as_ref().err().map(Error::class);
    let rule = if class == Some(Class::NotFound) { C[24] } else { S[17] };
    Ok(run.take(rule, &path, manifests)?.flatten().map(Manifests::Blobs))
}

/// Checks C24: ids are unique, as many as rows, and sorted if declared so.
pub(crate) async fn ids(run: &mut Validation, level: &mut LevelState, index: &Index) -> Result<()> {
    if !index.has_ids {
        return Ok(());
    }
    let path = level.path("object_index/object_ids");
    let (what, shape) = ("the id of each row", "one axis of int64");
    let array = open_numbers(run, &path, what, shape, |axes| axes.len() == 1).await?;
    let Some(array) = array else { return Ok(()) };
    if array.len() < index.rows {
        run.add(C[24].at(&path).expects("rows", index.rows, array.len()));
        return Ok(());
    }
    let (mut all, mut last, mut descends) = (Vec::new(), None, None);
    let max_kept = run.options.max_kept_items.saturating_sub(run.ids);
    let keeps = index.rows <= max_kept;
    if keeps {
        run.ids += index.rows;
    } else {
        for rule in [C[24], C[26], P[7]] {
            run.report_too_many(rule, &path, "ids", max_kept, index.rows);
        }
    }
    if !run.work.is_reported() {
        return Ok(());
    }
    let (mut twice, mut reserved) = (None, 0_u64);
    for batch in batches(index.rows, BATCH_IDS) {
        run.step(&path, batch.start, index.rows)?;
        let bytes = run.take(C[2], &path, array.rows(batch.clone()).await)?;
        let Some(bytes) = bytes else { return Ok(()) };
        for (row, id) in batch.zip(i64s_from_le(&bytes)) {
            if keeps {
                all.push(id);
            }
            if id == ObjectId::RESERVED.0 {
                reserved += 1;
                continue;
            }
            if last.is_some_and(|last| last > id) {
                descends = descends.or(Some(row));
            }
            if last == Some(id) {
                twice = twice.or(Some((row, id)));
            }
            last = Some(id);
        }
    }
    if index.doc.object_ids_sorted == Some(true)
        && let Some(row) = descends
    {
        let (subject, found) = ("object_ids_sorted", "one below the one before");
        let finding = C[24].at(&path).in_row(row).with_offset(row * 8);
        run.add(finding.expects(subject, "ids that ascend", found));
    }
    if descends.is_some() && keeps {
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let pair = sorted.array_windows::<2>().find(|[a, b]| a == b && *a != ObjectId::RESERVED.0);
        let found = pair.and_then(|[id, _]| {
            let row = all.iter().rposition(|other| other == id)?;
            Some((to_u64(row), *id))
        });
        twice = twice.or(found);
    }
    if let Some((row, id)) = twice {
        let finding = C[24].at(&path).in_row(row).with_offset(row * 8);
        run.add(finding.expects("id", "one that no other row has", id));
    }
    if reserved > 0 {
        let found = format!("{reserved} reserved rows that were never written");
        run.add(C[44].at(&path).expects("object_ids", "an id in each row", found));
    }
    level.objects.ids = keeps.then(|| Arc::from(all));
    Ok(())
}

/// Ids that are read at once.
const BATCH_IDS: u64 = 1 << 16;

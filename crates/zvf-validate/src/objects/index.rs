//! The object index of a level: its document, its ids, its counts.

use std::ops::Range;
use std::sync::Arc;

use zvf_error::Result;
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::arrays::{IdForm, ObjectIndex};
use zvf_metadata::{Capability, Dtype, LayoutFamily, ManifestLayout, Node};
use zvf_store::Rows;

use super::dense::Table;
use super::manifest::Entry;
use crate::array::check_orphan_folders;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::consistency::{C2, C24, C26};
use crate::rules::metadata::{M20, M21};
use crate::rules::pyramid::P7;
use crate::rules::structure::{S15, S17, S18};
use crate::stop::Stop;
use crate::validation::Validation;

/// An object index that can be checked.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) doc: ObjectIndex,
    pub(crate) manifests: Manifests,
    /// Rows that count and are stored.
    pub(crate) rows: u64,
    pub(crate) sid_ndim: u64,
    pub(crate) has_ids: bool,
}

/// The manifests of an index, by their storage.
#[derive(Debug)]
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
pub(crate) async fn open(
    run: &mut Validation,
    level: &mut LevelState,
) -> Result<Option<Index>, Stop> {
    let path = level.path("object_index");
    let node = match run.store.nodes().node(&path).await {
        Ok(node) => node,
        Err(error) => return run.add_store_error(&S18, &path, &error).map(|()| None),
    };
    let doc = match node.as_deref() {
        None => return check_orphan_folders(run, &path).await.map(|()| None),
        Some(Node::Array(_)) => {
            run.add(Finding::new(&S15, &path).with_details("node", "a group", "an array"));
            return Ok(None);
        }
        Some(Node::Group(group)) => ObjectIndex::parse(group.attributes.clone()),
    };
    let ids = doc.map(|doc| (doc.ids(), doc));
    let (ids, doc) = match ids {
        Ok((Ok(ids), doc)) => (ids, doc),
        Ok((Err(error), _)) => {
            run.add(Finding::from_metadata(&S17, &path, &error));
            return Ok(None);
        }
        Err(error) => {
            run.add(Finding::from_metadata(&M20, &path, &error));
            return Ok(None);
        }
    };
    let rank = to_u64(level.node.key_rank());
    let sid_ndim = doc.sid_ndim.unwrap_or(rank);
    if sid_ndim != rank {
        run.add(Finding::new(&C24, &path).with_details("sid_ndim", rank, sid_ndim));
        return Ok(None);
    }
    level.objects.rows = Some(doc.num_objects);
    let Some(manifests) = manifests(run, level, &doc, rank).await? else { return Ok(None) };
    let stored = match manifests.count().await {
        Ok(stored) => stored,
        Err(error) => return run.add_store_error(&C2, &path, &error).map(|()| None),
    };
    if stored != doc.num_objects {
        // More rows than declared are what a torn append leaves, and readers do without them.
        let finding =
            Finding::new(&C24, &path).with_details("num_objects", stored, doc.num_objects);
        run.add(if stored > doc.num_objects { finding.warning() } else { finding });
    }
    let rows = stored.min(doc.num_objects);
    let has_ids = matches!(ids, IdForm::Column { .. });
    level.objects.has_ids = has_ids;
    Ok(Some(Index { doc, manifests, rows, sid_ndim, has_ids }))
}

/// Checks C24, M21, S17: the manifests, where the arrays that are there say they are.
async fn manifests(
    run: &mut Validation,
    level: &LevelState,
    doc: &ObjectIndex,
    rank: u64,
) -> Result<Option<Manifests>, Stop> {
    let path = level.path("object_index");
    let stated = doc.layout() == Ok(Some(ManifestLayout::DenseManifestsV1));
    let dense = Table::exists(run, level).await;
    let blobs = level.path("object_index/manifests");
    let blobs_too = run.store.family() == LayoutFamily::C
        && !matches!(run.store.nodes().node(&blobs).await, Ok(None));
    if dense && (stated || !blobs_too) {
        if !stated {
            let details = ("layout", "dense_manifests_v1, by the arrays that are there", "another");
            run.add(
                Finding::new(&C24, &path).with_details(details.0, details.1, details.2).warning(),
            );
        }
        if !run.store.root().zarr_vectors.has(Capability::DenseManifests) {
            let finding = Finding::new(&M21, "zarr.json");
            run.add(finding.with_details(
                "format_capabilities",
                "dense_manifests",
                "no word of it",
            ));
        }
        return Ok(Table::open(run, level, rank).await?.map(Manifests::Table));
    }
    let mut name = "object_index";
    if stated && blobs_too {
        let details = ("layout", "vlen_manifests_v2, by the arrays that are there", "another");
        run.add(Finding::new(&C24, &path).with_details(details.0, details.1, details.2).warning());
        name = "object_index/manifests";
    }
    match level.node.rows(name).await {
        Ok(manifests) => Ok(manifests.map(Manifests::Blobs)),
        Err(error) => {
            let rule = if error.class() == zvf_format::Class::NotFound { &C24 } else { &S17 };
            run.add_store_error(rule, &path, &error).map(|()| None)
        }
    }
}

/// Checks C24: ids are unique, as many as rows, and in order where that is declared.
pub(crate) async fn ids(
    run: &mut Validation,
    level: &mut LevelState,
    index: &Index,
) -> Result<(), Stop> {
    if !index.has_ids {
        return Ok(());
    }
    let path = level.path("object_index/object_ids");
    let array = match level.node.dense("object_index/object_ids").await {
        Ok(Some(array)) => array,
        Ok(None) => {
            let details = ("node", "the id of each row", "nothing");
            run.add(Finding::new(&C24, &path).with_details(details.0, details.1, details.2));
            return Ok(());
        }
        Err(error) => return run.add_store_error(&C2, &path, &error),
    };
    if array.dtype() != Dtype::INT64 || array.shape().len() != 1 {
        let found = format!("{} {:?}", array.dtype(), array.shape());
        run.add(Finding::new(&C24, &path).with_details("type", "one axis of int64", found));
        return Ok(());
    }
    if array.len() < index.rows {
        run.add(Finding::new(&C24, &path).with_details("rows", index.rows, array.len()));
        return Ok(());
    }
    let (mut all, mut last, mut descends, mut at) = (Vec::new(), None, None, 0_u64);
    let max_kept = run.options.max_kept_items.saturating_sub(run.ids);
    let keeps = index.rows <= max_kept;
    if keeps {
        run.ids += index.rows;
    } else {
        for rule in [&C24, &C26, &P7] {
            run.report_too_many(rule, &path, "ids", max_kept, index.rows);
        }
    }
    if !run.work.is_reported() {
        return Ok(());
    }
    let mut twice = None;
    while at < index.rows {
        run.step(&path, at, index.rows)?;
        let end = at.saturating_add(BATCH_IDS).min(index.rows); // at most the rows
        let bytes = match array.rows(at..end).await {
            Ok(bytes) => bytes,
            Err(error) => return run.add_store_error(&C2, &path, &error),
        };
        for (row, id) in (at..).zip(i64s_from_le(&bytes)) {
            if last.is_some_and(|last| last > id) {
                descends = descends.or(Some(row));
            }
            if last == Some(id) {
                twice = twice.or(Some((row, id)));
            }
            last = Some(id);
            if keeps {
                all.push(id);
            }
        }
        at = end;
    }
    if index.doc.object_ids_sorted == Some(true)
        && let Some(row) = descends
    {
        let finding = Finding::new(&C24, &path).in_row(row).with_offset(row * 8);
        run.add(finding.with_details(
            "object_ids_sorted",
            "ids that ascend",
            "one below the one before",
        ));
    }
    if descends.is_some() && keeps {
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let pair = sorted.array_windows::<2>().find(|[a, b]| a == b);
        let found = pair.and_then(|[id, _]| {
            let row = all.iter().rposition(|other| other == id)?;
            Some((to_u64(row), *id))
        });
        twice = twice.or(found);
    }
    if let Some((row, id)) = twice {
        let finding = Finding::new(&C24, &path).in_row(row).with_offset(row * 8);
        run.add(finding.with_details("id", "one that no other row has", id));
    }
    level.objects.ids = keeps.then(|| Arc::from(all));
    Ok(())
}

/// Ids that are read at once.
const BATCH_IDS: u64 = 1 << 16;

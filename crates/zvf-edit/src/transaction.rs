//! A transaction: the state of a store as of a head, with operations applied to it in memory.
//!
//! Not here: the changes of a commit (`plan`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::ZarrVectors;
use zvf_model::Kind;

use crate::arrays::Chunk;
use crate::error::{OrFail, Result, fail, refuse_if, refused, unsupported};
use crate::geometry::Geometry;
use crate::groups::Groups;
use crate::journal::Journal;
use crate::numbers::{NONE, Vid};
use crate::rebuild::RebuiltRows;
use crate::snapshot::{ROOT_BLOCK, Snapshot, doc_key, read_block, read_doc, read_member};

/// The result of an operation, for a reply.
#[derive(Debug, Default)]
pub(crate) struct OperationResult {
    /// The number of selected vertices or objects.
    pub(crate) selected: u64,
    /// The number of changed ones.
    pub(crate) changed: u64,
    /// The ids of new objects.
    pub(crate) ids: Vec<i64>,
}

impl OperationResult {
    pub(crate) fn new(selected: usize, changed: usize) -> Self {
        Self { selected: to_u64(selected), changed: to_u64(changed), ids: Vec::new() }
    }
}

/// Rows that selectors named, by kind, chunk and row: the bytes of their position, and the index among rows with the same.
type NamedRows = BTreeMap<(usize, Chunk, u32), (Vec<u8>, u32)>;

/// The vertices of names, with their kind.
pub(crate) type Named<V> = HashMap<String, (usize, Vec<V>)>;

/// A vertex of a name after a commit: its chunk and row, and the bytes of its position. The row is
/// `NONE` where only the position tells which vertex it is.
pub(crate) type NamedRow = (Chunk, u32, Vec<u8>);

/// The rows that earlier transactions named, in the state of a head.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlierNames {
    pub(crate) head: u64,
    pub(crate) rows: Named<NamedRow>,
}

/// A transaction that is not committed. Dropping it discards the changes.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) snap: Rc<Snapshot>,
    /// The folder of files that operations name.
    pub(crate) folder: PathBuf,
    pub(crate) root: Json,
    pub(crate) new_root: Json,
    /// The block `zarr_vectors` of the root document.
    pub(crate) block: ZarrVectors,
    pub(crate) kinds: Vec<Geometry>,
    pub(crate) groups: Groups,
    pub(crate) next_id: i64,
    /// The vertices of names that this transaction gave or used.
    pub(crate) named: Named<Vid>,
    pub(crate) earlier: EarlierNames,
    pub(crate) operations: Vec<Json>,
    pub(crate) read_items: BTreeSet<String>,
    pub(crate) written_items: BTreeSet<String>,
    /// The fingerprint of each selection, to compare with the same selection on another head.
    pub(crate) selections: Vec<u64>,
    pub(crate) ids: Vec<i64>,
    /// Ids that the operation did not request, which differ on another head.
    pub(crate) unrequested_ids: BTreeSet<i64>,
    /// The chunks and rows that selectors named, to find the same vertices on another head.
    pub(crate) named_rows: NamedRows,
    /// The named rows of the transaction that this one repeats on another head.
    pub(crate) replayed_rows: Option<NamedRows>,
    /// Whether the commit cannot be undone.
    pub(crate) is_irreversible: bool,
    /// The rebuilt chunks of each kind, for a vacuum.
    pub(crate) rebuilt_rows: Option<Vec<RebuiltRows>>,
}

impl Transaction {
    /// Begins a transaction at the head.
    pub(crate) fn begin(journal: &Arc<Journal>) -> Result<Self> {
        Self::begin_on(Snapshot::open(journal)?)
    }

    /// Begins a transaction at an earlier head, for reading.
    pub(crate) fn begin_at(journal: &Arc<Journal>, head: u64) -> Result<Self> {
        Self::begin_on(Snapshot::open_at(journal, head)?)
    }

    /// Begins a transaction on a snapshot.
    pub(crate) fn begin_on(snap: Snapshot) -> Result<Self> {
        let snap = Rc::new(snap);
        let journal = &snap.journal;
        let root = read_doc(&snap, "")?
            .or_fail(Class::NotFound, || format!("{}: there is no store", journal.place))?;
        let block = &root["attributes"][ROOT_BLOCK];
        if !block.is_object() {
            return refused(format!(
                "{}: this is no Zarr Vectors store; its attributes have no zarr_vectors",
                journal.place
            ));
        }
        let extension = &root["attributes"]["zvf"];
        if !extension.is_null() && !extension.is_object() {
            let text = format!("zarr.json, zvf: expected an object, found {extension}");
            return fail(Class::Encoding, text);
        }
        let kind = |listed: &Json| {
            let kind = listed.as_str().and_then(|token| token.parse::<Kind>().ok());
            kind.or_unsupported(|| format!("the kind {listed} is not edited"))
        };
        let listed = block["geometry_types"].as_array().map(Vec::as_slice).unwrap_or_default();
        let listed = listed.iter().map(kind).collect::<Result<Vec<Kind>>>()?;
        let block: ZarrVectors = read_block(&root, ROOT_BLOCK)?;
        if block.zv_version.numbers() < [0, 9, 0] {
            return unsupported(format!(
                "stores of format {} are not edited; write it again with \"zvf rewrite \
                 --format-version 0.9.2\"",
                block.zv_version
            ));
        }
        if snap.get(&doc_key("parametric"))?.is_some() {
            return unsupported("stores with parametric objects are not edited");
        }
        let axes = root["attributes"]["multiscales"][0]["axes"].as_array();
        let axes = axes.into_iter().flatten().filter_map(|axis| axis["name"].as_str());
        let axis_names: Vec<String> = axes.map(str::to_owned).collect();
        let mut kinds = Vec::new();
        for (i, kind) in listed.into_iter().enumerate() {
            let path = if i == 0 { "0".to_owned() } else { format!("0/{}", kind.token()) };
            if i > 0 && read_doc(&snap, &path)?.is_none() {
                return unsupported(format!(
                    "{path}: stores with several kinds in the reference's own form are not edited"
                ));
            }
            let opened = Geometry::open(&snap, &block, kind, &path)?;
            kinds.push(Geometry { axis_names: axis_names.clone(), ..opened });
        }
        if kinds.is_empty() {
            return unsupported(
                "the store has no kind of geometry yet; make it with \"zvf create\"",
            );
        }
        let groups = Groups::open(&snap)?;
        let highest = kinds.iter().filter_map(|kind| kind.objects.highest_id()).max();
        let stored = &root["attributes"]["zvf"]["next_id"];
        let stored = read_member(stored, Json::as_i64, || {
            format!("zarr.json, zvf.next_id: expected an id, found {stored}")
        })?;
        // Without one, no edit allocated an id yet.
        let next_id = stored.unwrap_or(0).max(highest.map_or(0, |id| id.saturating_add(1))); // none is given above the last of all
        Ok(Self {
            snap,
            folder: ".".into(),
            new_root: root.clone(),
            root,
            block,
            kinds,
            groups,
            next_id,
            named: HashMap::new(),
            earlier: EarlierNames::default(),
            operations: Vec::new(),
            read_items: BTreeSet::new(),
            written_items: BTreeSet::new(),
            selections: Vec::new(),
            ids: Vec::new(),
            unrequested_ids: BTreeSet::new(),
            named_rows: BTreeMap::new(),
            replayed_rows: None,
            is_irreversible: false,
            rebuilt_rows: None,
        })
    }

    /// Returns the index of the kind that a token names; of the first kind without one.
    pub(crate) fn find_kind(&self, token: Option<&str>) -> Result<usize> {
        let Some(token) = token else { return Ok(0) };
        let found = self.kinds.iter().position(|kind| kind.kind.token() == token);
        found.or_refused(|| format!("the store has no kind {token:?}"))
    }

    /// Finds the kind with a token, which is only left out where there is one kind.
    pub(crate) fn find_only_kind(&self, token: Option<&str>) -> Result<usize> {
        let is_unclear = self.kinds.len() > 1 && token.is_none();
        refuse_if(is_unclear, "the store has several kinds: say \"kind\"")?;
        self.find_kind(token)
    }

    /// Returns whether an item means the same on another head, unlike an unrequested id.
    pub(crate) fn is_lasting(&self, item: &str) -> bool {
        let id = item.strip_prefix("object:").and_then(|id| id.parse().ok());
        id.is_none_or(|id: i64| !self.unrequested_ids.contains(&id))
    }

    /// Finds the kind and the number of an object.
    pub(crate) fn find_object(&self, id: i64) -> Option<(usize, u32)> {
        self.kinds
            .iter()
            .enumerate()
            .find_map(|(kind, geometry)| Some((kind, geometry.find_object(id)?)))
    }

    /// Finds the kind and the number of an object, and marks it as read. Refuses an unknown id.
    pub(crate) fn need_object(&mut self, id: i64) -> Result<(usize, u32)> {
        self.read_object(id);
        self.find_object(id).or_refused(|| format!("object {id} is not there"))
    }

    /// Marks an object as read.
    pub(crate) fn read_object(&mut self, id: i64) {
        self.read_items.insert(format!("object:{id}"));
    }

    /// Marks an object as written.
    pub(crate) fn mark_object(&mut self, id: i64) {
        self.written_items.insert(format!("object:{id}"));
    }

    /// Marks the objects of vertices as written.
    pub(crate) fn mark_owners_written(&mut self, kind: usize, vertices: &[Vid]) -> Result<()> {
        let mut last = NONE;
        for v in vertices {
            let owner = self.kinds[kind].owner_of(*v)?;
            if owner == last {
                continue;
            }
            last = owner;
            if let Some(id) = self.kinds[kind].object_id(owner) {
                self.mark_object(id);
            }
        }
        Ok(())
    }

    /// Returns whether an object has or had this id.
    pub(crate) fn is_known_id(&self, id: i64) -> bool {
        self.kinds.iter().any(|kind| kind.objects.find(id).is_some())
    }

    /// Allocates an id for a new object: the requested one, or the next.
    pub(crate) fn allocate_id(&mut self, requested: Option<i64>) -> Result<i64> {
        let id = match requested {
            None => self.next_id,
            Some(id) => {
                // All ids are looked at only for an id below the next one: most files have higher ones.
                let is_above_all = || {
                    let mut highest = self.kinds.iter().map(|kind| kind.objects.highest_id());
                    highest.all(|highest| highest.is_none_or(|highest| highest < id))
                };
                if self.is_known_id(id) || (id < self.next_id && is_above_all()) {
                    return refused(format!(
                        "the id {id} was used before; leave it out, or take {} or more",
                        self.next_id
                    ));
                }
                id
            }
        };
        let next = id.checked_add(1).or_refused(|| "there is no id above".to_owned())?;
        self.next_id = self.next_id.max(next);
        match requested {
            Some(_) => self.mark_object(id),
            None => {
                self.unrequested_ids.insert(id);
            }
        }
        self.ids.push(id);
        Ok(id)
    }
}

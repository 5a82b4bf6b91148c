//! The command `diff`: compares two stores, or one store at two heads.
//!
//! Objects are matched by id. Compared are their vertices with the columns that both sides have, their links, columns
//! and groups. Vertices of ordered kinds are compared in order, those of other kinds as a multiset; points without
//! objects are one multiset. The place and the order in storage do not matter.
//!
//! Not here: differences of coarser levels and of the storage layout.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value as Json, json};

use crate::commit::open_store_journal;
use crate::error::{Result, refused};
use crate::geometry::Geometry;
use crate::groups::Group;
use crate::numbers::{NONE, Vid};
use crate::place::Place;
use crate::scalar::{ColumnType, row_json};
use crate::transaction::Transaction;

/// One side of a comparison: a store at one of its heads.
#[derive(Clone, Debug)]
pub struct Side {
    /// The place of the store.
    pub place: Place,
    /// The head; `None` for the last one.
    pub head: Option<u64>,
}

/// Compares two sides.
///
/// # Errors
///
/// When there is no such store or head, `gc` removed bytes that the head needs, or the axes differ.
pub fn diff(before: &Side, after: &Side) -> Result<Json> {
    let (mut old, mut new) = (open(before)?, open(after)?);
    let axes = |side: &Transaction| side.kinds[0].axes;
    if axes(&old) != axes(&new) {
        return refused(format!(
            "the stores have {} and {} axes; stores of the same axes are compared",
            axes(&old),
            axes(&new)
        ));
    }
    let before_content = StoreContent::read(&mut old, &new)?;
    let after_content = StoreContent::read(&mut new, &old)?;
    let mut report = compare(&before_content, &after_content);
    report["columns"] = name_differences(&column_names(&old), &column_names(&new));
    report["groups"] = group_differences(&old, &new);
    let bounds = |side: &Transaction| side.root["attributes"]["zarr_vectors"]["bounds"].clone();
    report["bounds"] = json!({"before": bounds(&old), "after": bounds(&new)});
    for (name, side, head) in [("before", before, old.snap.head), ("after", after, new.snap.head)] {
        report[name] = json!({"store": side.place.to_string(), "head": head});
    }
    let is_empty = |value: &Json| value.as_array().is_none_or(Vec::is_empty);
    let has_no_lists =
        |part: &str| report[part].as_object().is_none_or(|lists| lists.values().all(is_empty));
    let counts_none = |part: &str| report[part]["added"] == 0 && report[part]["removed"] == 0;
    let same = ["objects", "columns", "groups"].into_iter().all(has_no_lists)
        && ["vertices", "links"].into_iter().all(counts_none);
    report["same"] = json!(same);
    Ok(report)
}

fn open(side: &Side) -> Result<Transaction> {
    let journal = open_store_journal(&side.place)?;
    match side.head {
        None => Transaction::begin(&journal),
        Some(head) => Transaction::begin_at(&journal, head),
    }
}

/// The compared content of an object, or of all vertices without an object.
#[derive(Default, PartialEq)]
struct ObjectContent {
    kind: &'static str,
    vertices: Vec<Vec<u8>>,
    links: Vec<Vec<u8>>,
    values: BTreeMap<String, String>,
    groups: BTreeSet<String>,
}

/// The compared content of a store.
#[derive(Default)]
struct StoreContent {
    objects: BTreeMap<i64, ObjectContent>,
    rest: ObjectContent,
}

fn vertex_columns(kind: &Geometry) -> BTreeSet<String> {
    kind.columns.iter().map(|column| column.name.clone()).collect()
}

fn link_columns(kind: &Geometry) -> BTreeSet<String> {
    kind.links.columns.iter().map(|column| column.name.clone()).collect()
}

/// Returns the columns that a kind of both sides has on both; none for a kind of one side only.
fn shared_columns(
    kind: &Geometry,
    other: &Transaction,
    columns: fn(&Geometry) -> BTreeSet<String>,
) -> BTreeSet<String> {
    let other = other.kinds.iter().find(|other| other.kind == kind.kind);
    other.map_or_else(BTreeSet::new, |other| &columns(kind) & &columns(other))
}

impl StoreContent {
    /// Reads a store, with the columns that the other side has as well.
    fn read(store: &mut Transaction, other: &Transaction) -> Result<Self> {
        let mut content = Self::default();
        for kind in 0..store.kinds.len() {
            let vertices = store.kinds[kind].all_vertices()?;
            store.kinds[kind].load_all_values()?;
            store.kinds[kind].load_all_links()?;
            content.take_vertices(store, kind, &vertices, other)?;
        }
        for list in content.objects.values_mut().chain([&mut content.rest]) {
            list.links.sort_unstable();
        }
        Ok(content)
    }

    fn take_vertices(
        &mut self,
        store: &Transaction,
        kind: usize,
        vertices: &[Vid],
        other: &Transaction,
    ) -> Result<()> {
        let geometry = &store.kinds[kind];
        let columns = shared_columns(geometry, other, vertex_columns);
        let on_links = shared_columns(geometry, other, link_columns);
        let ids = |object: u32| geometry.object_id(object);
        for (id, number) in geometry.existing_objects() {
            self.objects.insert(id, read_object(store, kind, number, id));
        }
        for v in vertices {
            let mut fingerprint = geometry.vertex_fingerprint(*v, &columns)?;
            let parent = geometry.vertex[*v].parent;
            if parent != NONE {
                fingerprint.extend(geometry.vertex_fingerprint(parent, &columns)?);
            }
            self.object_entry(ids(geometry.vertex[*v].owner)).vertices.push(fingerprint);
        }
        if !geometry.kind.is_chain() {
            let all = self.objects.values_mut().chain([&mut self.rest]);
            all.filter(|content| content.kind == geometry.kind.token() || content.kind.is_empty())
                .for_each(|content| content.vertices.sort_unstable());
        }
        if !geometry.has_links() {
            return Ok(());
        }
        let family = &geometry.links;
        for number in family.records.alive() {
            let mut ends: Vec<Vec<u8>> = Vec::new();
            let mut owner = None;
            for v in family.records.vertices(number) {
                owner = owner.or(ids(geometry.vertex[v].owner));
                ends.push(geometry.vertex_fingerprint(v, &columns)?);
            }
            match geometry.kind == zvf_model::Kind::Mesh {
                true => rotate_to_smallest(&mut ends),
                false => ends.sort_unstable(),
            }
            let mut fingerprint = ends.concat();
            for (at, column) in family.columns.iter().enumerate() {
                if on_links.contains(&column.name) {
                    let row = family.records.value(number, at);
                    fingerprint.extend(value_bytes(&column.ty, row));
                }
            }
            self.object_entry(owner).links.push(fingerprint);
        }
        Ok(())
    }

    fn object_entry(&mut self, id: Option<i64>) -> &mut ObjectContent {
        match id {
            Some(id) => self.objects.entry(id).or_default(),
            None => &mut self.rest,
        }
    }
}

/// Rotates a face so that its smallest vertex comes first. The winding stays.
fn rotate_to_smallest(ends: &mut [Vec<u8>]) {
    let first = (0..ends.len()).min_by(|a, b| {
        let turned = |from: usize| ends[from..].iter().chain(&ends[..from]);
        turned(*a).cmp(turned(*b))
    });
    ends.rotate_left(first.unwrap_or(0)); // a face without vertices stays as it is
}

/// Reads the kind, the values and the groups of an object.
fn read_object(store: &Transaction, kind: usize, object: u32, id: i64) -> ObjectContent {
    let geometry = &store.kinds[kind];
    let mut values = BTreeMap::new();
    for column in geometry.objects.columns.iter().filter(|column| !column.is_kept()) {
        let row = column.row(object);
        if !column.is_absent(row) {
            values.insert(column.name.clone(), row_json(&column.ty, row).to_string());
        }
    }
    let groups = store.groups.with_member(id).into_iter().map(|group| store.groups.name(group));
    ObjectContent {
        kind: geometry.kind.token(),
        values,
        groups: groups.collect(),
        ..ObjectContent::default()
    }
}

impl Geometry {
    /// Returns the position of a vertex and its values in `columns` as bytes to compare.
    fn vertex_fingerprint(&self, v: Vid, columns: &BTreeSet<String>) -> Result<Vec<u8>> {
        let mut bytes: Vec<u8> =
            self.position(v).iter().flat_map(|x| x.to_bits().to_le_bytes()).collect();
        for column in self.columns.iter().filter(|column| columns.contains(&column.name)) {
            bytes.extend(value_bytes(&column.ty, &column.data.row(v)?));
        }
        Ok(bytes)
    }
}

fn value_bytes(ty: &ColumnType, row: &[u8]) -> Vec<u8> {
    match ty.categories {
        None => row.to_vec(),
        Some(_) => row_json(ty, row).to_string().into_bytes(),
    }
}

/// Returns the sizes of the multiset differences: entries added in `new`, and removed from `old`.
fn count_differences(old: &[Vec<u8>], new: &[Vec<u8>]) -> [u64; 2] {
    let mut balance: HashMap<&[u8], i64> = HashMap::new();
    for item in old {
        *balance.entry(item).or_default() -= 1;
    }
    for item in new {
        *balance.entry(item).or_default() += 1;
    }
    let sum = |sign: i64| balance.values().map(|n| (n * sign).max(0).unsigned_abs()).sum();
    [sum(1), sum(-1)]
}

fn compare(old: &StoreContent, new: &StoreContent) -> Json {
    let nothing = ObjectContent::default();
    let ids: BTreeSet<i64> = old.objects.keys().chain(new.objects.keys()).copied().collect();
    let (mut added, mut removed, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut vertices, mut links) = ([0_u64; 2], [0_u64; 2]);
    let mut sum = |a: &ObjectContent, b: &ObjectContent| {
        let (v, l) =
            (count_differences(&a.vertices, &b.vertices), count_differences(&a.links, &b.links));
        for side in 0..2 {
            vertices[side] += v[side];
            links[side] += l[side];
        }
        (v, l)
    };
    for id in ids {
        let (a, b) = (old.objects.get(&id), new.objects.get(&id));
        if a == b {
            continue;
        }
        let (is_new, is_gone) = (a.is_none(), b.is_none());
        let (a, b) = (a.unwrap_or(&nothing), b.unwrap_or(&nothing));
        let (v, l) = sum(a, b);
        if is_new || is_gone {
            if is_new {
                added.push(id)
            } else {
                removed.push(id)
            }
            continue;
        }
        let names: BTreeSet<&String> = a.values.keys().chain(b.values.keys()).collect();
        let is_other = |name: &&String| a.values.get(*name) != b.values.get(*name);
        changed.push(json!({
            "id": id, "kind": b.kind,
            "vertices": {"added": v[0], "removed": v[1], "before": a.vertices.len(), "after": b.vertices.len()},
            "links": {"added": l[0], "removed": l[1]},
            "columns": names.into_iter().filter(is_other).collect::<Vec<_>>(),
            "reordered": v == [0, 0] && a.vertices != b.vertices,
            "groups": {
                "joined": b.groups.difference(&a.groups).collect::<Vec<_>>(),
                "left": a.groups.difference(&b.groups).collect::<Vec<_>>(),
            },
        }));
    }
    sum(&old.rest, &new.rest);
    let total = |side: &StoreContent, what: fn(&ObjectContent) -> usize| -> usize {
        side.objects.values().chain([&side.rest]).map(what).sum()
    };
    let points = |content: &ObjectContent| content.vertices.len();
    let joins = |content: &ObjectContent| content.links.len();
    json!({
        "objects": {"added": added, "removed": removed, "changed": changed},
        "vertices": {"added": vertices[0], "removed": vertices[1], "before": total(old, points), "after": total(new, points)},
        "links": {"added": links[0], "removed": links[1], "before": total(old, joins), "after": total(new, joins)},
    })
}

/// Returns the columns of a side, as `scope.kind.name`.
fn column_names(side: &Transaction) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for kind in &side.kinds {
        let objects = kind.objects.columns.iter().map(|column| column.name.clone()).collect();
        let scopes = [("vertex", vertex_columns(kind)), ("link", link_columns(kind))];
        for (scope, columns) in scopes.into_iter().chain([("object", objects)]) {
            let name = |name: &String| format!("{scope}.{}.{name}", kind.kind.token());
            names.extend(columns.iter().map(name));
        }
    }
    names.extend(side.groups.columns.iter().map(|column| format!("group.{}", column.name)));
    names
}

/// Returns the names that only one side has.
fn name_differences(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Json {
    json!({"added": new - old, "removed": old - new})
}

fn group_differences(old: &Transaction, new: &Transaction) -> Json {
    type Groups = BTreeMap<String, BTreeSet<i64>>;
    let groups = |side: &Transaction| -> Groups {
        let group = |(number, group): (usize, &Group)| {
            (side.groups.name(number), group.members().collect())
        };
        side.groups.list.iter().enumerate().map(group).collect()
    };
    let (old, new) = (groups(old), groups(new));
    let names = |groups: &Groups| groups.keys().cloned().collect();
    let mut differences = name_differences(&names(&old), &names(&new));
    let is_other = |name: &&String| new.get(*name).is_some_and(|members| *members != old[*name]);
    differences["changed"] = json!(old.keys().filter(is_other).collect::<Vec<_>>());
    differences
}

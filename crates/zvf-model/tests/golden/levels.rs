//! Every level of every store: what is read by rows, by ids or from another level agrees with the whole.
//!
//! `cargo xtask conformance` compares the values themselves with those of other software.

use std::collections::{BTreeMap, BTreeSet};

use archives::{Unpacked, ids, inline, json};
use serde_json::Value;
use zvf_format::Class;
use zvf_format::key::{ChunkKey, Delta};
use zvf_model::{
    Column, LevelId, LevelReader, LinkFamily, LinkRecords, ObjectId, Parametric, VertexRow, header,
    header_names,
};
use zvf_store::{Caching, Store};

/// One level of one store, and its expected facts.
struct LevelCase {
    name: String,
    level: LevelReader,
    expected: Value,
}

impl LevelCase {
    /// Returns the chunks of the level, in numeric order.
    fn chunks(&self) -> Vec<ChunkKey> {
        inline(self.level.chunks()).unwrap().iter().collect()
    }

    /// Returns whether the vertices are Draco streams with their own order, which zarr-vectors
    /// cannot read back.
    fn is_draco(&self) -> bool {
        self.name.starts_with("ms3_draco")
    }
}

/// Checks one level and returns the number of comparisons.
type Check = fn(&LevelCase) -> usize;

/// Runs every check on every level; stores are unpacked once.
#[test]
fn every_level_agrees_with_itself() {
    let checks: [(&str, Check, usize); 9] = [
        ("positions", positions, 600),
        ("vertex attributes", attributes, 60),
        ("fragment attributes", fragment_attributes, 10),
        ("objects", objects, 900),
        ("object attributes", object_attributes, 40),
        ("owners", owners, 600),
        ("groups", groups, 40),
        ("links", links, 54),
        ("links between levels", level_links, 20),
    ];
    let mut counts = BTreeMap::new();
    for id in ids() {
        let whole = json(&format!("{id}.expected.json"));
        let unpacked = Unpacked::new(&id);
        let store = inline(unpacked.open());
        for (number, expected) in whole["reference"]["levels"].as_object().unwrap() {
            let name = format!("{id} level {number}");
            let level = inline(LevelReader::open(&store, LevelId(number.parse().unwrap())));
            let level = level.unwrap_or_else(|error| panic!("{name}: {error}"));
            let case = LevelCase { name, level, expected: expected.clone() };
            for (name, check, _) in &checks {
                *counts.entry(*name).or_insert(0) += check(&case);
            }
            geometries(&case, &whole["composite"]);
        }
        parametric(&id, &store, &whole["reference"]["parametric"]);
        let names = inline(header_names(&store)).unwrap().names;
        let headers = whole["reference"]["headers"].as_object();
        assert_eq!(names.len(), headers.map_or(0, |headers| headers.len()), "{id}");
        assert!(inline(header(&store, "nrrd")).unwrap().is_none());
    }
    for (name, _, min_count) in checks {
        assert!(counts[name] >= min_count, "{name}: {} of {min_count} and more", counts[name]);
    }
}

fn positions(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected } = case;
    let keys = case.chunks();
    let positions = inline(level.positions(&keys, Caching::Once));
    if case.is_draco() && zvf_draco::DECODES {
        // Streams have their own order: rows are counted, and attributes are refused.
        let counts = inline(level.row_counts(&keys));
        for (column, count) in positions.iter().zip(counts) {
            assert_eq!(column.as_ref().unwrap().len() as u64, count.unwrap(), "{name}");
        }
        assert!(!inline(level.keeps_order()).unwrap(), "{name}");
        return 0;
    }
    if case.is_draco() {
        let error = positions[0].as_ref().unwrap_err();
        let place = (error.class(), error.array());
        assert_eq!(place, (Class::Unsupported, Some("0/vertices")), "{error}");
        return 0;
    }
    let positions: Vec<Column> = positions.into_iter().map(Result::unwrap).collect();
    let (tiles, mut count) = (inline(level.tiles()).unwrap(), 0);
    for (column, fragments) in positions.iter().zip(inline(level.fragments(&keys))) {
        let fragments = fragments.unwrap();
        fragments.check_rows(column.len() as u64).unwrap();
        let view = fragments.view();
        let rows: Vec<u64> = view.iter().flat_map(|fragment| fragment.rows()).collect();
        assert!(!tiles || rows.iter().copied().eq(0..column.len() as u64), "{name}");
        count += rows.len();
    }
    assert_eq!(count, expected["vertices"]["count"], "{name}");
    some_rows(case, &keys, &positions);
    keys.len()
}

/// Checks that ranges of rows equal the rows of the full chunk.
fn some_rows(case: &LevelCase, keys: &[ChunkKey], positions: &[Column]) {
    let counts = inline(case.level.row_counts(keys)).into_iter().map(Result::unwrap);
    let reads: Vec<_> = keys
        .iter()
        .zip(counts)
        .map(|(key, count)| (*key, vec![count / 2..count, 0..count.min(1)]))
        .collect();
    let parts = inline(case.level.position_rows(&reads));
    for ((payload, parts), (key, ranges)) in positions.iter().zip(parts).zip(reads) {
        for (part, range) in parts.unwrap().iter().zip(ranges) {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            assert_eq!(*part, payload.slice(range), "{} {key}", case.name);
        }
    }
}

fn attributes(case: &LevelCase) -> usize {
    let Some(attributes) = case.expected["vertex_attributes"].as_object() else { return 0 };
    for (attribute, expected) in attributes {
        let context = format!("{} {attribute}", case.name);
        let reader = inline(case.level.attribute(attribute)).unwrap().unwrap();
        if expected["error"].is_null() {
            // zarr-vectors returns vectors that are declared scalar in flattened form.
            assert!(expected["ncols"] == reader.width() || reader.width() == 3, "{context}");
            continue;
        }
        let values = inline(reader.values(&case.chunks(), Caching::Once));
        let error = values.into_iter().find_map(Result::err).expect(&context);
        assert_eq!(error.class(), Class::CountMismatch, "{context}: {error}");
    }
    attributes.len()
}

fn fragment_attributes(case: &LevelCase) -> usize {
    let mut count = 0;
    for (name, _) in case.expected["fragment_attributes"].as_object().into_iter().flatten() {
        let reader = inline(case.level.fragment_attribute(name)).unwrap().unwrap();
        for key in case.chunks() {
            let written = inline(reader.values_where_written(&[key], Caching::Once)).remove(0);
            let values = inline(reader.values(&[key], Caching::Once)).remove(0).ok();
            assert_eq!(values, written.unwrap(), "{} {name} {key}", case.name);
            count += usize::from(values.is_some());
        }
    }
    count
}

fn objects(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected } = case;
    let Some(index) = inline(level.objects()).unwrap() else {
        assert!(expected["objects"].is_null(), "{name}");
        return 0;
    };
    assert_eq!(index.slots(), expected["objects"]["num_objects"].as_u64().unwrap(), "{name}");
    let rows: Vec<u64> = (0..index.slots()).collect();
    let ids = inline(index.ids(0..index.slots())).unwrap();
    assert_eq!(inline(index.ids_of(&rows)).unwrap(), ids, "{name}");
    let found: Vec<u64> = inline(index.find(&ids)).unwrap().into_iter().flatten().collect();
    assert_eq!(found, rows, "{name}");
    assert_eq!(inline(index.find(&[ObjectId(i64::MIN), ObjectId(1 << 50)])).unwrap(), [None, None]);
    let manifests = inline(index.manifests(&rows)).unwrap();
    let mut present = 0;
    inline(index.scan(|manifest| {
        present += usize::from(!manifest.is_absent());
        Ok(())
    }))
    .unwrap();
    assert_eq!(present, manifests.iter().filter(|manifest| !manifest.is_absent()).count());
    if case.is_draco() {
        return 0;
    }
    let followed = inline(level.follow(&index, &rows)).unwrap();
    for (object, manifest) in followed.objects.iter().zip(&manifests) {
        let chunk = |at: usize| *followed.chunks[at].chunk();
        let runs = object.runs.iter().map(|run| (chunk(run.chunk), run.fragment));
        assert!(runs.eq(manifest.references()), "{name} object {}", object.id);
    }
    ids.len()
}

fn owners(case: &LevelCase) -> usize {
    let LevelCase { name, level, .. } = case;
    let keys = case.chunks();
    let all = inline(level.owners(&keys, Some(&|_, _| true))).unwrap();
    let Some(index) = inline(level.objects()).unwrap() else {
        assert!(all.is_none());
        return 0;
    };
    let all = all.unwrap();
    let (mut expected, mut crossing) = (BTreeSet::new(), BTreeSet::new());
    let chain = level.kinds().iter().any(|kind| kind.is_chain());
    inline(index.scan(|manifest| {
        let mut before: Option<Vec<i64>> = None;
        for (chunk, fragment) in manifest.references() {
            expected.insert((chunk.to_string(), fragment, manifest.row()));
            let space = chunk.spatial(level.axes()).unwrap().to_vec();
            let is_distant = |before: &Vec<i64>| {
                before.iter().zip(&space).map(|(a, b)| a.abs_diff(*b)).sum::<u64>() > 1
            };
            if chain && before.as_ref().is_some_and(is_distant) {
                crossing.insert(manifest.row());
            }
            before = Some(space);
        }
        Ok(())
    }))
    .unwrap();
    let found: BTreeSet<_> = keys
        .iter()
        .zip(&all.chunks)
        .flat_map(|(key, owners)| {
            owners
                .all()
                .iter()
                .map(|owner| (key.to_string(), u64::from(owner.fragment), u64::from(owner.row)))
        })
        .collect();
    assert_eq!(found, expected, "{name}");
    assert_eq!(all.crossing, crossing.into_iter().collect::<Vec<_>>(), "{name}");
    let none = inline(level.owners(&[], Some(&|_, _| false))).unwrap().unwrap();
    assert!(none.chunks.is_empty() && none.crossing.is_empty());
    found.len()
}

fn object_attributes(case: &LevelCase) -> usize {
    let names = inline(case.level.object_attribute_names()).unwrap().names;
    let attributes = case.expected["object_attributes"].as_object();
    let expected: Vec<&String> = attributes.into_iter().flat_map(|all| all.keys()).collect();
    assert!(attributes.is_none() || names.iter().eq(expected), "{}", case.name);
    for name in &names {
        let reader = inline(case.level.object_attribute(name)).unwrap().unwrap();
        let values = inline(reader.range(0..reader.len())).unwrap();
        let backwards: Vec<u64> = (0..reader.len() + 2).rev().collect();
        let read_rows = inline(reader.rows(&backwards)).unwrap();
        for (i, row) in backwards.iter().enumerate() {
            let (context, row) = (format!("{} {name} {row}", case.name), *row as usize);
            assert_eq!(read_rows.is_present(i), values.is_present(row), "{context}");
            if values.is_present(row) {
                assert_eq!(read_rows.column().row(i), values.column().row(row), "{context}");
            }
        }
    }
    names.len()
}

fn groups(case: &LevelCase) -> usize {
    let groups = inline(case.level.groups()).unwrap();
    assert_eq!(groups.is_some(), case.expected["groups"].is_array(), "{}", case.name);
    let Some(groups) = groups else { return 0 };
    for group in 0..groups.len() {
        assert_eq!(groups.find(&groups.name(group).unwrap()), Some(group));
    }
    assert_eq!((groups.name(groups.len()), groups.find("no such group")), (None, None));
    groups.len() as usize
}

/// Returns all records of a family in order, with the number of their segment.
fn all_records(family: &LinkFamily) -> Vec<(usize, LinkRecords)> {
    let mut all = Vec::new();
    for (number, segment) in family.segments().iter().enumerate() {
        let cells = inline(segment.cells()).unwrap();
        let order = cells.cell_order();
        let records = inline(segment.read(&order, Caching::Once));
        for (place, records) in order.into_iter().zip(records) {
            let records = records.unwrap();
            assert_eq!(records.chunks(), cells.chunks(place).unwrap());
            assert_eq!(records.chunks().first(), cells.source(place).as_ref());
            all.push((number, records));
        }
    }
    all
}

/// Checks faces within the chunks of a mesh of streams; faces between chunks refer to unknown rows.
fn inner_faces(case: &LevelCase) {
    let family = inline(case.level.links(Delta::SAME));
    if !zvf_draco::DECODES {
        assert_eq!(family.unwrap_err().class(), Class::Unsupported, "{}", case.name);
        return;
    }
    let family = family.unwrap().unwrap();
    assert!(!family.is_complete(), "{}", case.name);
    let faces: usize = all_records(&family).iter().map(|(_, cell)| cell.len()).sum();
    let between = case.expected["links"]["0"]["records"]["count"].as_u64().unwrap();
    assert_eq!(faces as u64 + between, 112, "{}: faces of the mesh that was written", case.name);
}

fn links(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected } = case;
    if case.is_draco() {
        inner_faces(case);
        return 1;
    }
    let Some(families) = expected["links"].as_object() else {
        let family = inline(level.links(Delta::SAME)).unwrap();
        assert!(family.is_none_or(|family| all_records(&family).is_empty()));
        return 0;
    };
    let mut count = 0;
    for (text, expected) in families.iter().filter(|(_, family)| family.get("records").is_some()) {
        let context = format!("{name} links {text}");
        let family = inline(level.links(text.parse().unwrap())).unwrap().expect(&context);
        assert!(family.is_complete());
        let records = all_records(&family);
        let leading =
            records.iter().flat_map(|(_, cell)| (0..cell.len()).filter(|i| cell.is_leading(*i)));
        assert_eq!(leading.count(), expected["num_links"], "{context}");
        let listed = inline(level.link_attribute_names()).unwrap().names;
        for (name, _) in expected["attributes"].as_object().into_iter().flatten() {
            assert!(listed.contains(name), "{context} {name}");
        }
        assert!(inline(family.attribute("no such attribute")).unwrap().is_none());
        count += 1;
    }
    count
}

/// Checks that both levels of a link return the same links, whichever level stores the records.
fn level_links(case: &LevelCase) -> usize {
    let LevelCase { name, level, expected } = case;
    let mut checked = 0;
    for (text, expected) in expected["links"].as_object().into_iter().flatten() {
        let delta: Delta = text.parse().unwrap();
        if delta == Delta::SAME {
            continue;
        }
        let context = format!("{name} links {text}");
        let links = inline(level.level_links(delta)).unwrap().expect(&context);
        let down = inline(links.read_chunks(&case.chunks())).unwrap();
        if links.family().link_width() > 1 {
            let counts = ["records", "intra", "cross"].map(|part| expected[part]["count"].as_u64());
            let count: u64 = counts.into_iter().flatten().sum();
            assert_eq!(u64::try_from(down.len()).unwrap(), count, "{context}");
        }
        let linked = LevelId(level.level().0.checked_add_signed(delta.0).unwrap());
        let linked = inline(LevelReader::open(level.store(), linked)).unwrap();
        let reverse = inline(linked.level_links(Delta(-delta.0))).unwrap().unwrap();
        let keys: Vec<ChunkKey> = inline(linked.chunks()).unwrap().iter().collect();
        let up = inline(reverse.read_chunks(&keys)).unwrap();
        let pair = |from: &VertexRow, to: &VertexRow| {
            format!("{}/{} {}/{}", from.chunk, from.row, to.chunk, to.row)
        };
        let down: BTreeSet<String> =
            down.iter().map(|link| pair(&link.row, &link.linked_row)).collect();
        let up: BTreeSet<String> =
            up.iter().map(|link| pair(&link.linked_row, &link.row)).collect();
        assert_eq!(down, up, "{context}");
        checked += 1;
    }
    checked
}

/// Checks which geometries lie beside that of the level.
fn geometries(case: &LevelCase, expected: &Value) {
    let geometries = inline(case.level.geometries()).unwrap();
    assert_eq!(geometries.is_empty(), expected.is_null(), "{}", case.name);
    for geometry in &geometries {
        let expected = &expected[geometry.name()];
        assert!(expected.is_object(), "{}", geometry.name());
        let links = inline(geometry.links()).unwrap();
        assert_eq!(links.is_none(), expected["links"].is_null());
    }
}

/// Checks which parametric objects a store has, and the names of their attributes.
fn parametric(id: &str, store: &Store, expected: &Value) {
    let parametric = inline(Parametric::open(store)).unwrap();
    assert_eq!(parametric.is_none(), expected.is_null(), "{id}");
    let Some(parametric) = parametric else { return };
    let [objects, groups] = inline(parametric.attribute_names()).unwrap();
    for (key, names) in [("object_attributes", objects.names), ("group_attributes", groups.names)] {
        assert!(names.iter().all(|name| expected[key].get(name).is_some()), "{id}: {names:?}");
    }
}

//! Full levels: vertices and objects as the reference, with attributes, edges, faces and groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use zvf_metadata::Dtype;
use zvf_model::{
    Batch, Categories, Column, Elements, Field, Kind, LevelId, LevelReader, Members, ObjectId,
    Value,
};
use zvf_pyramid::{LevelContent, LevelReport, Reference, build_reference};
use zvf_validate::{Observer, Severity, validate_at};
use zvf_write::Writer;

use crate::additive::of_kind;
use crate::made::{floats, level, open, quick, sheet, store, values, walks};

const OBJECTS: i64 = 24;
/// The side of chunks and bins of level 0.
const BIN: f64 = 4.0;

type Bin = [i64; 3];

fn integers(values: impl IntoIterator<Item = i32>) -> Column {
    let bytes: Vec<u8> = values.into_iter().flat_map(i32::to_le_bytes).collect();
    Column::new("int32".parse::<Dtype>().unwrap(), 1, bytes.into()).unwrap()
}

/// The batch with the first coordinate as an attribute, labels, codes, and a weight of edges or faces.
fn described(batch: &Batch) -> Batch {
    let (rows, at) = (batch.len() as i32, values(batch.positions()));
    let codes = integers((0..rows).map(|row| row / 5 % 3 - 1));
    let names = ["axon", "soma"].map(Value::from).to_vec();
    let mut made = batch.clone();
    for field in [
        Field::new("x", floats(at.chunks(3).map(|at| at[0]), 1)),
        Field::new("label", integers((0..rows).map(|row| row * row % 7))),
        Field::new("part", codes).with_categories(Categories::new(names, Some(-1))),
    ] {
        made = made.with_field(field).unwrap();
    }
    if let Some(elements) = batch.elements() {
        let weight = Field::new("w", floats((0..elements.len()).map(|i| i as f64), 1));
        made = made.with_elements(elements.clone().with_field(weight).unwrap()).unwrap();
    }
    made
}

/// Attributes of objects, groups and an attribute of these.
fn with_groups(writer: &mut Writer) {
    let ids: Vec<ObjectId> = (0..OBJECTS).map(ObjectId).collect();
    let mass = Field::new("mass", floats((0..OBJECTS).map(|id| id as f64), 1));
    writer.object_fields(&ids, &[mass]).unwrap();
    writer.group(Some("few"), Members::Ids([5, 2, 9].map(ObjectId).to_vec()));
    writer.group(None, Members::Range { start: 0, stop: OBJECTS });
    writer.group_field(Field::new("side", floats([1.0, 2.0], 1)));
}

fn reference(content: LevelContent, factors: &[(f64, f64)]) -> Reference {
    let chunk_scales = vec![2; factors.len()];
    Reference { factors: factors.to_vec(), chunk_scales, seed: 7, content, ..Reference::default() }
}

async fn built(folder: &Path, batch: &Batch, reference: &Reference) -> (String, Vec<LevelReport>) {
    let objects = batch.vertex_objects().is_some() || !batch.parts().is_empty();
    let more = |writer: &mut Writer| {
        if objects {
            with_groups(writer);
        }
    };
    let address = store(folder, BIN, batch, more).await;
    let reports = build_reference(&address, reference, &quick()).await.unwrap();
    (address, reports)
}

async fn faults(address: &str) -> Vec<String> {
    let (options, observer) = (zvf_validate::Options::default(), Observer::default());
    let report = validate_at(address, Default::default(), &options, &observer).await.unwrap();
    let faults = report.findings.iter().filter(|finding| finding.severity != Severity::Note);
    faults.map(|finding| format!("{} {finding:?}", finding.rule.id)).collect()
}

/// Every file of a store by its path in it.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = crate::replacing::files(root).into_iter();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path.strip_prefix(root).unwrap().to_owned(), bytes)
    };
    paths.map(read).collect()
}

/// Something of every kind, with objects and without.
fn all() -> Vec<Batch> {
    let mut all = vec![walks(OBJECTS as usize, 50)];
    for kind in [Kind::Graph, Kind::Mesh, Kind::PointCloud, Kind::Skeleton] {
        all.push(of_kind(kind, Some(OBJECTS)));
    }
    let sheet = sheet(20);
    let owner = |row: usize| Some(ObjectId(row as i64 * OBJECTS / sheet.len() as i64));
    all.push(sheet.clone().with_vertex_objects((0..sheet.len()).map(owner).collect()).unwrap());
    all.extend([of_kind(Kind::PointCloud, None), of_kind(Kind::Graph, None), sheet]);
    all.iter().map(described).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn vertices_and_objects_are_those_of_the_reference() {
    let factors = [(1.0, 1.0), (2.0, 2.0), (2.0, 1.0)];
    for batch in all() {
        let kind = batch.kind();
        let dirs = [archives::scratch(), archives::scratch()];
        let bare = reference(LevelContent::AsReference, &factors);
        let (bare, _) = built(dirs[0].path(), &batch, &bare).await;
        let full = reference(LevelContent::Full, &factors);
        let (full, reports) = built(dirs[1].path(), &batch, &full).await;
        assert_eq!(faults(&full).await, [""; 0], "{kind}");
        let (bare, found) = (contents(Path::new(&bare)), contents(Path::new(&full)));
        let documents = ["1/zarr.json", "2/zarr.json", "3/zarr.json"];
        for (name, bytes) in &bare {
            let same = found.get(name) == Some(bytes);
            assert!(same || documents.contains(&name.to_str().unwrap()), "{kind}: {name:?}");
        }
        let more = |level: u32, family: &str| {
            let folder = Path::new(&level.to_string()).join(family);
            found.keys().any(|name| name.starts_with(&folder))
        };
        for (level, report) in (1_u32..).zip(&reports) {
            assert_eq!(report.elements > 0, kind.has_links(), "{kind} {level}");
            assert!(more(level, "vertex_attributes/part/c"), "{kind} {level}");
            assert_eq!(more(level, "links/0"), kind.has_links(), "{kind} {level}");
        }
    }
}

fn bin(at: &[f64], size: f64) -> Bin {
    [0, 1, 2].map(|axis| (at[axis] / size).floor() as i64)
}

fn bins(batch: &Batch, size: f64) -> Vec<Bin> {
    values(batch.positions()).chunks(3).map(|at| bin(at, size)).collect()
}

fn numbers(batch: &Batch, name: &str) -> Vec<f64> {
    values(&batch.field(name).unwrap().column)
}

/// The value that is there most often, the first of those that are.
fn most_often(values: &[f64]) -> f64 {
    let count = |x: &f64| values.iter().filter(|y| *y == x).count();
    let max_count = values.iter().map(count).max().unwrap();
    *values.iter().find(|x| count(x) == max_count).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_those_of_what_lies_in_a_bin() {
    for batch in all() {
        let kind = batch.kind();
        let dir = archives::scratch();
        let factors = [(1.0, 1.0), (2.0, 1.0)];
        let (address, _) =
            built(dir.path(), &batch, &reference(LevelContent::Full, &factors)).await;
        let (fine, coarse) = (level(&address, 0).await, level(&address, 1).await);
        let mut rows: BTreeMap<Bin, BTreeSet<usize>> = BTreeMap::new();
        for (row, bin) in bins(&fine, BIN).into_iter().enumerate() {
            rows.entry(bin).or_default().insert(row);
        }
        let own = bins(&coarse, BIN);
        assert_eq!(own.iter().collect::<BTreeSet<_>>(), rows.keys().collect(), "{kind}");
        // Of chains, rows come object by object; of others, as they are stored. With one object for each the order is the same.
        let stored = !kind.is_chain();
        for name in ["label", "part"] {
            let (from, to) = (numbers(&fine, name), numbers(&coarse, name));
            for (bin, found) in own.iter().zip(&to).filter(|_| stored) {
                let values: Vec<f64> = rows[bin].iter().map(|row| from[*row]).collect();
                assert_eq!(*found, most_often(&values), "{kind} {name} {bin:?}");
            }
        }
        assert_eq!(
            coarse.field("part").unwrap().categories,
            batch.field("part").unwrap().categories
        );
        // An attribute that is a coordinate stays that coordinate.
        for number in [1, 2] {
            let made = level(&address, number).await;
            let at = values(made.positions());
            for (x, at) in numbers(&made, "x").iter().zip(at.chunks(3)) {
                assert!((x - at[0]).abs() < 1e-4, "{kind} {number}: {x} {at:?}");
            }
        }
    }
}

/// The ends of elements as bins: faces from their lowest bin on, edges in any order.
fn ends(elements: &Elements, bins: &[Bin]) -> Vec<Vec<Bin>> {
    let canonical = |rows: &[usize]| {
        let mut ends: Vec<Bin> = rows.iter().map(|row| bins[*row]).collect();
        let lowest = (0..ends.len()).min_by_key(|at| ends[*at]).unwrap();
        ends.rotate_left(lowest);
        ends
    };
    elements.iter().map(canonical).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_and_faces_join_the_bins_of_their_ends() {
    for batch in all().into_iter().filter(|batch| batch.kind().has_links()) {
        let kind = batch.kind();
        let dir = archives::scratch();
        let factors = [(1.0, 1.0), (2.0, 1.0)];
        let (address, reports) =
            built(dir.path(), &batch, &reference(LevelContent::Full, &factors)).await;
        let fine = level(&address, 0).await;
        for (number, size) in [(1, BIN), (2, 2.0 * BIN)] {
            let made = level(&address, number).await;
            let elements = made.elements().unwrap();
            let found = ends(elements, &bins(&made, size));
            let once: BTreeSet<Vec<Bin>> = found.iter().cloned().collect();
            assert_eq!(once.len(), found.len(), "{kind} {number}: each once");
            assert_eq!(reports[number as usize - 1].elements, found.len() as u64, "{kind}");
            let apart = |ends: &Vec<Bin>| ends.iter().collect::<BTreeSet<_>>().len() == ends.len();
            let all: Vec<Vec<Bin>> = ends(fine.elements().unwrap(), &bins(&fine, size));
            let wanted: BTreeSet<Vec<Bin>> = all.iter().filter(|e| apart(e)).cloned().collect();
            if kind != Kind::Skeleton {
                assert_eq!(once, wanted, "{kind} {number}");
                let field = |elements: &Elements| values(&elements.fields()[0].column);
                let weights = field(fine.elements().unwrap());
                for (own, weight) in found.iter().zip(field(elements)) {
                    let same = all.iter().zip(&weights).filter(|(ends, _)| *ends == own);
                    let same: Vec<f64> = same.map(|(_, weight)| *weight).collect();
                    let mean = same.iter().sum::<f64>() / same.len() as f64;
                    assert!((mean - weight).abs() < 1e-3, "{kind} {own:?} {weight} {same:?}");
                }
                continue;
            }
            assert!(once.is_subset(&wanted), "{kind} {number}");
            let children: BTreeSet<usize> = elements.iter().map(|edge| edge[0]).collect();
            assert_eq!(children.len(), elements.len(), "one parent each");
            assert_eq!(pieces(&wanted, once.len()), pieces(&once, once.len()), "{number}");
        }
    }
}

/// How many bins are joined to none or others, and that edges make trees: as many pieces less than bins.
fn pieces(edges: &BTreeSet<Vec<Bin>>, joins: usize) -> usize {
    let mut piece: BTreeMap<Bin, Bin> = edges.iter().flatten().map(|bin| (*bin, *bin)).collect();
    for edge in edges {
        let (from, to) = (piece[&edge[0]], piece[&edge[1]]);
        piece.values_mut().filter(|piece| **piece == from).for_each(|piece| *piece = to);
    }
    let pieces = piece.values().collect::<BTreeSet<_>>().len();
    assert_eq!(piece.len() - pieces, joins, "no ring is left and nothing falls apart");
    pieces
}

async fn reader(address: &str, number: u32) -> LevelReader {
    LevelReader::open(&open(address).await, LevelId(number)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_kept_is_in_no_group_and_leaves_no_edge() {
    let batch = described(&of_kind(Kind::Graph, Some(OBJECTS)));
    let dir = archives::scratch();
    let kept = |rows: &[usize]| Some(rows.to_vec());
    let half: Vec<usize> = (0..OBJECTS as usize).filter(|row| row % 2 == 1).collect();
    let reference = Reference {
        kept: vec![kept(&half), kept(&[2, 3, 9])],
        ..reference(LevelContent::Full, &[(1.0, 2.0), (1.0, 2.0)])
    };
    let (address, reports) = built(dir.path(), &batch, &reference).await;
    assert_eq!(faults(&address).await, [""; 0]);
    for (number, few, all) in [(1, vec![5, 9], half.len()), (2, vec![9], 2)] {
        let own = reader(&address, number).await;
        let groups = own.groups().await.unwrap().unwrap();
        assert_eq!(
            [0, 1].map(|group| groups.name(group)),
            ["few", "group_1"].map(|n| Some(n.into()))
        );
        let members = groups.members(&[0, 1]).await.unwrap();
        assert_eq!(members[0], Members::Ids(few.into_iter().map(ObjectId).collect()));
        assert_eq!(members[1].len(), all as u64);
        let side = own.group_attribute("side").await.unwrap().unwrap();
        assert_eq!(values(side.range(0..2).await.unwrap().column()), [1.0, 2.0]);
    }
    // Level 2 has what objects 3 and 9 have: object 2 was gone before.
    let fine = level(&address, 0).await;
    let owners = fine.vertex_objects().unwrap();
    let own = |edge: &&[usize]| [Some(ObjectId(3)), Some(ObjectId(9))].contains(&owners[edge[0]]);
    let rows = fine.elements().unwrap().iter().filter(own).flatten().copied().collect();
    let edges = Elements::new(2, rows).unwrap();
    let wanted: BTreeSet<Vec<Bin>> = ends(&edges, &bins(&fine, BIN)).into_iter().collect();
    let wanted: BTreeSet<_> = wanted.into_iter().filter(|ends| ends[0] != ends[1]).collect();
    let made = level(&address, 2).await;
    let found = ends(made.elements().unwrap(), &bins(&made, BIN));
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
    assert!(reports[1].elements < reports[0].elements);
}

/// What is wrong at coarser levels.
async fn faults_above(address: &str) -> Vec<String> {
    faults(address).await.into_iter().filter(|fault| !fault.contains("path: \"0/")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_of_the_reference_have_sound_full_levels() {
    for id in [
        "gr2_f64",
        "gr3_links",
        "lk_w2_directed",
        "lk_w2_duplicate",
        "ln3_basic",
        "ms3_quad",
        "pc3_attr_dtypes",
        "pc3_bins_attrs",
        "pl2_negative",
        "sk3_trees",
        "sl3_streamlines",
    ] {
        let dir = archives::scratch();
        let path = archives::unpack_cached(dir.path(), id);
        let address = path.to_str().unwrap().to_owned();
        let factors = vec![(2.0, 1.0), (2.0, 1.0)];
        for (content, more) in [(LevelContent::AsReference, false), (LevelContent::Full, true)] {
            let reference = Reference { factors: factors.clone(), content, ..Reference::default() };
            build_reference(&address, &reference, &quick()).await.unwrap();
            assert_eq!(faults_above(&address).await, [""; 0], "{id} {more}");
            let fine = level(&address, 0).await;
            let made = level(&address, 1).await;
            let names = |batch: &Batch| -> BTreeSet<String> {
                batch.fields().iter().map(|field| field.name.to_string()).collect()
            };
            let wanted = if more { names(&fine) } else { BTreeSet::new() };
            assert_eq!(names(&made), wanted, "{id} {more}");
        }
    }
}

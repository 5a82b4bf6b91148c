//! Full levels: vertices and objects as in the reference, with attributes, edges, faces and groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use archives::tree;
use tempfile::TempDir;
use zvf_metadata::Dtype;
use zvf_model::{
    Batch, Categories, Column, Elements, Field, Kind, LevelId, LevelReader, Members, ObjectId,
    Value,
};
use zvf_pyramid::{LevelContent, LevelReport, Reference, build_reference};
use zvf_write::Writer;

use crate::additive::batch_of_kind;
use crate::fixtures::{floats, level, list_findings, open, sheet, store, unsynced, values, walks};

const OBJECTS: i64 = 24;
/// The side of chunks and bins of level 0.
const BIN: f64 = 4.0;

type Bin = [i64; 3];

fn integers(values: impl IntoIterator<Item = i32>) -> Column {
    let bytes: Vec<u8> = values.into_iter().flat_map(i32::to_le_bytes).collect();
    Column::new("int32".parse::<Dtype>().unwrap(), 1, bytes.into()).unwrap()
}

/// Adds the first coordinate as an attribute, labels, codes, and a weight of edges or faces.
fn with_attributes(batch: &Batch) -> Batch {
    let (rows, at) = (batch.len() as i32, values(batch.positions()));
    let codes = integers((0..rows).map(|row| row / 5 % 3 - 1));
    let names = ["axon", "soma"].map(Value::from).to_vec();
    let mut result = batch.clone();
    for field in [
        Field::new("x", floats(at.chunks(3).map(|at| at[0]), 1)),
        Field::new("label", integers((0..rows).map(|row| row * row % 7))),
        Field::new("part", codes).with_categories(Categories::new(names, Some(-1))),
    ] {
        result = result.with_field(field).unwrap();
    }
    if let Some(elements) = batch.elements() {
        let weight = Field::new("w", floats((0..elements.len()).map(|i| i as f64), 1));
        result = result.with_elements(elements.clone().with_field(weight).unwrap()).unwrap();
    }
    result
}

/// Writes attributes of objects, groups and an attribute of groups.
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

async fn build_store(batch: &Batch, reference: &Reference) -> (TempDir, String, Vec<LevelReport>) {
    let objects = batch.vertex_objects().is_some() || !batch.parts().is_empty();
    let prepare = |writer: &mut Writer| {
        if objects {
            with_groups(writer);
        }
    };
    let (dir, address) = store(BIN, batch, prepare).await;
    let reports = build_reference(&address, reference, &unsynced()).await.unwrap();
    (dir, address, reports)
}

/// Returns batches of every kind, with and without objects.
fn all_batches() -> Vec<Batch> {
    let mut batches = vec![walks(OBJECTS as usize, 50)];
    for kind in [Kind::Graph, Kind::Mesh, Kind::PointCloud, Kind::Skeleton] {
        batches.push(batch_of_kind(kind, Some(OBJECTS)));
    }
    let sheet = sheet(20);
    let owner = |row: usize| Some(ObjectId(row as i64 * OBJECTS / sheet.len() as i64));
    batches.push(sheet.clone().with_vertex_objects((0..sheet.len()).map(owner).collect()).unwrap());
    batches.extend([
        batch_of_kind(Kind::PointCloud, None),
        batch_of_kind(Kind::Graph, None),
        sheet,
    ]);
    batches.iter().map(with_attributes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn full_levels_hold_the_files_of_the_reference() {
    let factors = [(1.0, 1.0), (2.0, 2.0), (2.0, 1.0)];
    for batch in all_batches() {
        let kind = batch.kind();
        let plain = reference(LevelContent::AsReference, &factors);
        let (_plain_dir, plain, _) = build_store(&batch, &plain).await;
        let full = reference(LevelContent::Full, &factors);
        let (_full_dir, full, reports) = build_store(&batch, &full).await;
        assert_eq!(list_findings(&full).await, [""; 0], "{kind}");
        let (plain_files, full_files) = (tree(Path::new(&plain)), tree(Path::new(&full)));
        let documents = ["1/zarr.json", "2/zarr.json", "3/zarr.json"];
        for (name, bytes) in &plain_files {
            let is_same = full_files.get(name) == Some(bytes);
            assert!(is_same || documents.contains(&name.as_str()), "{kind}: {name:?}");
        }
        let has_files = |level: u32, family: &str| {
            let folder = format!("{level}/{family}/");
            full_files.keys().any(|name| name.starts_with(&folder))
        };
        for (level, report) in (1_u32..).zip(&reports) {
            assert_eq!(report.elements > 0, kind.has_links(), "{kind} {level}");
            assert!(has_files(level, "vertex_attributes/part/c"), "{kind} {level}");
            assert_eq!(has_files(level, "links/0"), kind.has_links(), "{kind} {level}");
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

/// Returns the most frequent value; of several, the first.
fn most_often(values: &[f64]) -> f64 {
    let count = |x: &f64| values.iter().filter(|y| *y == x).count();
    let max_count = values.iter().map(count).max().unwrap();
    *values.iter().find(|x| count(x) == max_count).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_summarize_the_vertices_of_each_bin() {
    for batch in all_batches() {
        let kind = batch.kind();
        let factors = [(1.0, 1.0), (2.0, 1.0)];
        let (_dir, address, _) =
            build_store(&batch, &reference(LevelContent::Full, &factors)).await;
        let (fine, coarse) = (level(&address, 0).await, level(&address, 1).await);
        let mut rows: BTreeMap<Bin, BTreeSet<usize>> = BTreeMap::new();
        for (row, bin) in bins(&fine, BIN).into_iter().enumerate() {
            rows.entry(bin).or_default().insert(row);
        }
        let coarse_bins = bins(&coarse, BIN);
        assert_eq!(coarse_bins.iter().collect::<BTreeSet<_>>(), rows.keys().collect(), "{kind}");
        // Rows of chains are in the order of objects, other rows in stored order.
        let stored = !kind.is_chain();
        for name in ["label", "part"] {
            let (from, to) = (numbers(&fine, name), numbers(&coarse, name));
            for (bin, value) in coarse_bins.iter().zip(&to).filter(|_| stored) {
                let values: Vec<f64> = rows[bin].iter().map(|row| from[*row]).collect();
                assert_eq!(*value, most_often(&values), "{kind} {name} {bin:?}");
            }
        }
        assert_eq!(
            coarse.field("part").unwrap().categories,
            batch.field("part").unwrap().categories
        );
        // The attribute that equals a coordinate still equals it.
        for number in [1, 2] {
            let coarse = level(&address, number).await;
            let at = values(coarse.positions());
            for (x, at) in numbers(&coarse, "x").iter().zip(at.chunks(3)) {
                assert!((x - at[0]).abs() < 1e-4, "{kind} {number}: {x} {at:?}");
            }
        }
    }
}

/// Returns the ends of elements as bins, each rotated to start at its lowest bin.
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
    for batch in all_batches().into_iter().filter(|batch| batch.kind().has_links()) {
        let kind = batch.kind();
        let factors = [(1.0, 1.0), (2.0, 1.0)];
        let (_dir, address, reports) =
            build_store(&batch, &reference(LevelContent::Full, &factors)).await;
        let fine = level(&address, 0).await;
        for (number, size) in [(1, BIN), (2, 2.0 * BIN)] {
            let coarse = level(&address, number).await;
            let elements = coarse.elements().unwrap();
            let actual = ends(elements, &bins(&coarse, size));
            let unique: BTreeSet<Vec<Bin>> = actual.iter().cloned().collect();
            assert_eq!(unique.len(), actual.len(), "{kind} {number}: duplicates");
            assert_eq!(reports[number as usize - 1].elements, actual.len() as u64, "{kind}");
            let distinct =
                |ends: &Vec<Bin>| ends.iter().collect::<BTreeSet<_>>().len() == ends.len();
            let fine_ends: Vec<Vec<Bin>> = ends(fine.elements().unwrap(), &bins(&fine, size));
            let expected: BTreeSet<Vec<Bin>> =
                fine_ends.iter().filter(|e| distinct(e)).cloned().collect();
            if kind != Kind::Skeleton {
                assert_eq!(unique, expected, "{kind} {number}");
                let field = |elements: &Elements| values(&elements.fields()[0].column);
                let weights = field(fine.elements().unwrap());
                for (edge, weight) in actual.iter().zip(field(elements)) {
                    let matches = fine_ends.iter().zip(&weights).filter(|(ends, _)| *ends == edge);
                    let matches: Vec<f64> = matches.map(|(_, weight)| *weight).collect();
                    let mean = matches.iter().sum::<f64>() / matches.len() as f64;
                    assert!((mean - weight).abs() < 1e-3, "{kind} {edge:?} {weight} {matches:?}");
                }
                continue;
            }
            assert!(unique.is_subset(&expected), "{kind} {number}");
            let children: BTreeSet<usize> = elements.iter().map(|edge| edge[0]).collect();
            assert_eq!(children.len(), elements.len(), "each vertex has one parent");
            assert_eq!(
                count_components(&expected, unique.len()),
                count_components(&unique, unique.len()),
                "{number}"
            );
        }
    }
}

/// Returns the number of components of the bins; checks that the edges form trees.
fn count_components(edges: &BTreeSet<Vec<Bin>>, joins: usize) -> usize {
    let mut label: BTreeMap<Bin, Bin> = edges.iter().flatten().map(|bin| (*bin, *bin)).collect();
    for edge in edges {
        let (from, to) = (label[&edge[0]], label[&edge[1]]);
        label.values_mut().filter(|label| **label == from).for_each(|label| *label = to);
    }
    let count = label.values().collect::<BTreeSet<_>>().len();
    assert_eq!(label.len() - count, joins, "edges form trees");
    count
}

async fn reader(address: &str, number: u32) -> LevelReader {
    LevelReader::open(&open(address).await, LevelId(number)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_objects_leave_no_members_and_no_edges() {
    let batch = with_attributes(&batch_of_kind(Kind::Graph, Some(OBJECTS)));
    let select = |rows: &[usize]| Some(rows.to_vec());
    let odd_rows: Vec<usize> = (0..OBJECTS as usize).filter(|row| row % 2 == 1).collect();
    let reference = Reference {
        kept: vec![select(&odd_rows), select(&[2, 3, 9])],
        ..reference(LevelContent::Full, &[(1.0, 2.0), (1.0, 2.0)])
    };
    let (_dir, address, reports) = build_store(&batch, &reference).await;
    assert_eq!(list_findings(&address).await, [""; 0]);
    for (number, few_members, all_count) in [(1, vec![5, 9], odd_rows.len()), (2, vec![9], 2)] {
        let level = reader(&address, number).await;
        let groups = level.groups().await.unwrap().unwrap();
        assert_eq!(
            [0, 1].map(|group| groups.name(group)),
            ["few", "group_1"].map(|n| Some(n.into()))
        );
        let members = groups.members(&[0, 1]).await.unwrap();
        assert_eq!(members[0], Members::Ids(few_members.into_iter().map(ObjectId).collect()));
        assert_eq!(members[1].len(), all_count as u64);
        let side = level.group_attribute("side").await.unwrap().unwrap();
        assert_eq!(values(side.range(0..2).await.unwrap().column()), [1.0, 2.0]);
    }
    // Level 2 has the edges of objects 3 and 9: object 2 was dropped at level 1.
    let fine = level(&address, 0).await;
    let owners = fine.vertex_objects().unwrap();
    let kept_ids = [Some(ObjectId(3)), Some(ObjectId(9))];
    let is_kept = |edge: &&[usize]| kept_ids.contains(&owners[edge[0]]);
    let rows = fine.elements().unwrap().iter().filter(is_kept).flatten().copied().collect();
    let edges = Elements::new(2, rows).unwrap();
    let expected: BTreeSet<Vec<Bin>> = ends(&edges, &bins(&fine, BIN)).into_iter().collect();
    let expected: BTreeSet<_> = expected.into_iter().filter(|ends| ends[0] != ends[1]).collect();
    let coarse = level(&address, 2).await;
    let actual = ends(coarse.elements().unwrap(), &bins(&coarse, BIN));
    assert_eq!(actual.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(reports[1].elements < reports[0].elements);
}

#[tokio::test(flavor = "multi_thread")]
async fn reference_stores_get_valid_full_levels() {
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
        for (content, is_full) in [(LevelContent::AsReference, false), (LevelContent::Full, true)] {
            let reference = Reference { factors: factors.clone(), content, ..Reference::default() };
            build_reference(&address, &reference, &unsynced()).await.unwrap();
            let mut above = list_findings(&address).await;
            above.retain(|finding| !finding.contains(" 0/")); // of coarser levels
            assert_eq!(above, [""; 0], "{id} {is_full}");
            let fine = level(&address, 0).await;
            let coarse = level(&address, 1).await;
            let names = |batch: &Batch| -> BTreeSet<String> {
                batch.fields().iter().map(|field| field.name.to_string()).collect()
            };
            let expected = if is_full { names(&fine) } else { BTreeSet::new() };
            assert_eq!(names(&coarse), expected, "{id} {is_full}");
        }
    }
}

//! Edges and faces: all of a level, and those in a box.

use serde_json::Value;
use zvf_model::{Batch, Bounds, Kind};
use zvf_query::{Columns, Mode, Query};

use crate::reference::{bounds, every_level, sha, sorted_sha};
use archives::inline;

/// Returns the edges or faces of zarr-vectors, by the name that fits the kind.
fn parse_reference(entry: &Value) -> Option<&Value> {
    ["edges", "faces"].into_iter().map(|name| &entry[name]).find(|reference| reference.is_object())
}

/// Returns the vertex rows of each element, as 64-bit integers.
fn numbers(batch: &Batch) -> Vec<u8> {
    let rows = batch.elements().unwrap().rows();
    rows.iter().flat_map(|row| i64::try_from(*row).unwrap().to_le_bytes()).collect()
}

/// Returns the checksum of the positions of each element, in the order of its vertices, as 64-bit
/// floats.
fn positions(batch: &Batch) -> String {
    let axes = batch.positions().width() as usize;
    let element_bytes = |element: &[usize]| -> Vec<u8> {
        let values = element
            .iter()
            .flat_map(|row| (0..axes).map(|axis| batch.positions().float(*row, axis).unwrap()));
        values.flat_map(f64::to_le_bytes).collect()
    };
    let rows: Vec<Vec<u8>> = batch.elements().unwrap().iter().map(element_bytes).collect();
    sorted_sha(rows.iter().map(Vec::as_slice))
}

/// Returns the elements of `batch` with all vertices in the box, as positions.
fn induced(batch: &Batch, bounds: &Bounds) -> String {
    let axes = batch.positions().width() as usize;
    let point = |row: &usize| -> Vec<f64> {
        (0..axes).map(|axis| batch.positions().float(*row, axis).unwrap()).collect()
    };
    let inside = |element: &&[usize]| element.iter().all(|row| bounds.contains(&point(row)));
    let rows: Vec<Vec<u8>> = batch
        .elements()
        .unwrap()
        .iter()
        .filter(inside)
        .map(|element| element.iter().flat_map(point).flat_map(f64::to_le_bytes).collect())
        .collect();
    sorted_sha(rows.iter().map(Vec::as_slice))
}

fn compare(name: &str, batch: &Batch, reference: &Value, order: bool, faults: &mut Vec<String>) {
    let found = batch.elements().unwrap().len() as u64;
    if reference["count"] != found {
        faults.push(format!("{name}: {found} elements, expected {}", reference["count"]));
    } else if found > 0 {
        if reference["positions_f64_sha256_sorted"] != positions(batch) {
            faults.push(format!("{name}: other elements"));
        }
        if order && reference["index_sha256"] != sha(numbers(batch)) {
            faults.push(format!("{name}: another order"));
        }
    }
}

/// Compares with the input of the writer if it is known, otherwise with zarr-vectors. For skeletons
/// that were streamed, are of a version before 0.8, or are cut by a box, zarr-vectors is wrong: it
/// joins vertices that are not neighbours.
#[test]
fn elements_are_those_of_the_writer_or_the_reference() {
    let (mut all, mut boxes, mut faults) = (0, 0, Vec::new());
    every_level(|case| {
        let read_all = &case.reference["read_all"];
        let Some(reference) = parse_reference(read_all) else { return };
        let query = Query::all().columns(Columns::None).at_level(case.level);
        let answer =
            inline(case.reader.run(&query)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let batch = answer.batch;
        let skeleton = batch.kind() == Kind::Skeleton;
        let order = case.reader.store().version().to_string().starts_with("0.9");
        match parse_reference(&case.truth).filter(|_| case.level.0 == 0) {
            Some(truth) => compare(&case.name, &batch, truth, false, &mut faults),
            None if case.id == "sk3_streamed" => assert_eq!(batch.elements().unwrap().len(), 93),
            None => compare(&case.name, &batch, reference, order, &mut faults),
        }
        assert_eq!(sha(batch.positions().bytes()), read_all["nodes"]["sha256"], "{}", case.name);
        all += 1;
        for entry in case.reference["bbox"].as_array().into_iter().flatten() {
            let Some(bounds) = bounds(entry) else { continue };
            let name = format!("{} {}", case.name, entry["name"]);
            let query = Query::all().in_region(bounds).mode(Mode::Inside).columns(Columns::None);
            let answer = inline(case.reader.run(&query.at_level(case.level))).unwrap();
            if positions(&answer.batch) != induced(&batch, &bounds) {
                faults.push(format!("{name}: not those of the whole level that are inside"));
            }
            if let Some(reference) = parse_reference(&entry["reference"]).filter(|_| !skeleton) {
                compare(&name, &answer.batch, reference, order, &mut faults);
            }
            boxes += 1;
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(all > 15 && boxes > 150, "{all} levels, {boxes} boxes");
}

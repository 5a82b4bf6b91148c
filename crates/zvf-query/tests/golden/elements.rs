//! Edges and faces, all of a level and those in a box.

use serde_json::Value;
use zvf_model::Batch;
use zvf_query::{Columns, Mode, Query};

use crate::told::{Case, bounds, every_level, sha, sorted_sha};
use archives::inline;

/// What the reference says of edges or faces, by a name that fits the kind.
fn told_of(entry: &Value) -> Option<&Value> {
    ["edges", "faces"].into_iter().map(|name| &entry[name]).find(|told| told.is_object())
}

/// The rows of vertices of each element, as 64-bit integers.
fn numbers(batch: &Batch) -> Vec<u8> {
    let rows = batch.elements().unwrap().rows();
    rows.iter().flat_map(|row| i64::try_from(*row).unwrap().to_le_bytes()).collect()
}

/// The sum over the positions of each element, in the order of its vertices, as floats of 64 bits.
fn positions(batch: &Batch) -> String {
    let axes = batch.positions().width() as usize;
    let one = |element: &[usize]| -> Vec<u8> {
        let values = element
            .iter()
            .flat_map(|row| (0..axes).map(|axis| batch.positions().float(*row, axis).unwrap()));
        values.flat_map(f64::to_le_bytes).collect()
    };
    let rows: Vec<Vec<u8>> = batch.elements().unwrap().iter().map(one).collect();
    sorted_sha(rows.iter().map(Vec::as_slice))
}

fn compare(case: &Case, name: &str, batch: &Batch, told: &Value, faults: &mut Vec<String>) {
    let found = batch.elements().unwrap().len() as u64;
    if told["count"] != found {
        faults.push(format!("{} {name}: {found} elements, told {}", case.name, told["count"]));
    } else if found > 0 {
        if told["positions_f64_sha256_sorted"] != positions(batch) {
            faults.push(format!("{} {name}: other elements", case.name));
        }
        if told["index_sha256"] != sha(numbers(batch)) {
            faults.push(format!("{} {name}: another order", case.name));
        }
    }
}

#[test]
fn elements_are_those_of_the_writer_or_the_reference() {
    let (mut all, mut boxes, mut faults) = (0, 0, Vec::new());
    every_level(|case| {
        let whole = &case.told["read_all"];
        let Some(reference) = told_of(whole) else { return };
        // The reference takes the direction of streamed skeletons wrongly: see the note of that store.
        let streamed = case.id == "sk3_streamed";
        let query = Query::all().columns(Columns::None).at_level(case.level);
        let answer =
            inline(case.reader.run(&query)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let truth = told_of(&case.truth).filter(|_| case.level.0 == 0);
        if streamed {
            assert_eq!(answer.batch.elements().unwrap().len(), 93);
        } else {
            match truth {
                Some(truth) if truth["agree"] == false => {
                    let found = answer.batch.elements().unwrap().len() as u64;
                    if truth["count"] != found
                        || truth["positions_f64_sha256_sorted"] != positions(&answer.batch)
                    {
                        faults.push(format!("{}: {found}, truth {truth}", case.name));
                    }
                }
                _ => compare(case, "whole", &answer.batch, reference, &mut faults),
            }
        }
        assert_eq!(
            sha(answer.batch.positions().bytes()),
            whole["nodes"]["sha256"],
            "{}",
            case.name
        );
        all += 1;
        for entry in case.told["bbox"].as_array().into_iter().flatten() {
            let (Some(bounds), false) = (bounds(entry), streamed) else { continue };
            let Some(reference) = told_of(&entry["reference"]) else { continue };
            let query = Query::within(bounds).mode(Mode::Inside).columns(Columns::None);
            let answer = inline(case.reader.run(&query.at_level(case.level))).unwrap();
            compare(case, &entry["name"].to_string(), &answer.batch, reference, &mut faults);
            boxes += 1;
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(all > 15 && boxes > 150, "{all} levels, {boxes} boxes");
}

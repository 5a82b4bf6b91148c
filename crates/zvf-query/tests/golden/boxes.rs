//! The order of answers: vertices of whole levels as they are stored, and elements in a box.
//!
//! `cargo xtask conformance` compares boxes with brute force, and elements by their positions.

use serde_json::Value;
use zvf_model::Kind;
use zvf_query::{Columns, Mode, Order, Query};

use crate::reference::{bounds, every_level, sha};
use archives::inline;

#[test]
fn chunks_by_number_then_fragments_then_rows() {
    every_level(|case| {
        let query = Query::all().order(Order::Storage).columns(Columns::None);
        let query = query.at_level(case.level);
        let answer = inline(case.reader.run(&query)).unwrap();
        let vertices = &case.reference["vertices"];
        assert!(answer.complete, "{}", case.name);
        assert_eq!(answer.batch.len() as u64, vertices["count"].as_u64().unwrap(), "{}", case.name);
        assert_eq!(sha(answer.batch.positions().bytes()), vertices["sha256"], "{}", case.name);
    });
}

/// Returns the edges or faces of zarr-vectors, by the name that fits the kind.
fn parse_reference(entry: &Value) -> Option<&Value> {
    ["edges", "faces"].into_iter().map(|name| &entry[name]).find(|reference| reference.is_object())
}

#[test]
fn elements_in_a_box_are_in_the_order_of_the_reference() {
    let mut compared = 0;
    every_level(|case| {
        // zarr-vectors joins vertices of streamed skeletons that are no neighbours.
        let is_read = parse_reference(&case.reference["read_all"]).is_some();
        if is_read && case.id == "sk3_streamed" {
            let query = Query::all().columns(Columns::None).at_level(case.level);
            let answer = inline(case.reader.run(&query)).unwrap();
            assert_eq!(answer.batch.elements().unwrap().len(), 93);
        }
        if !case.reader.store().version().to_string().starts_with("0.9") {
            return;
        }
        for entry in case.reference["bbox"].as_array().into_iter().flatten() {
            let reference = parse_reference(&entry["reference"]);
            let Some((bounds, reference)) = bounds(entry).zip(reference) else { continue };
            let query = Query::all().in_region(bounds).mode(Mode::Inside).columns(Columns::None);
            let answer = inline(case.reader.run(&query.at_level(case.level))).unwrap();
            let elements = answer.batch.elements().unwrap();
            // It also joins vertices of skeletons that are cut by a box.
            if answer.batch.kind() == Kind::Skeleton || elements.is_empty() {
                continue;
            }
            let rows = elements.rows().iter().map(|row| i64::try_from(*row).unwrap());
            let rows: Vec<u8> = rows.flat_map(i64::to_le_bytes).collect();
            assert_eq!(sha(rows), reference["index_sha256"], "{} {}", case.name, entry["name"]);
            compared += 1;
        }
    });
    assert!(compared > 20, "{compared} boxes");
}

//! Boxes: the vertices inside, by brute force.

use zvf_query::{Columns, Mode, Order, Query};

use crate::reference::{bounds, every_level, sha, sorted_sha};
use archives::inline;

#[test]
fn vertices_inside_are_those_of_brute_force() {
    let (mut boxes, mut joined) = (0, 0);
    every_level(|case| {
        for entry in case.reference["bbox"].as_array().into_iter().flatten() {
            let label = format!("{} {}", case.name, entry["name"]);
            let expected = &entry["vertices_in_box"];
            let Some(bounds) = bounds(entry) else {
                assert_eq!(expected["count"], 0, "{label}");
                continue;
            };
            let names = expected["joined_attributes"].as_array().cloned();
            let columns = names.iter().flatten().map(|name| name.as_str().unwrap().to_owned());
            let query = Query::all().in_region(bounds).mode(Mode::Crop).order(Order::Storage);
            let query = query.columns(Columns::Named(columns.collect())).at_level(case.level);
            let answer = inline(case.reader.run(&query)).unwrap_or_else(|e| panic!("{label}: {e}"));
            assert!(answer.complete, "{label}");
            let positions = answer.batch.positions();
            assert_eq!(answer.batch.len() as u64, expected["count"].as_u64().unwrap(), "{label}");
            assert_eq!(sorted_sha(positions.rows()), expected["sha256_sorted"], "{label}");
            boxes += 1;
            let Some(names) = names else { continue };
            let fields: Vec<_> = names
                .iter()
                .map(|name| answer.batch.field(name.as_str().unwrap()).unwrap())
                .collect();
            let rows: Vec<Vec<u8>> = (0..answer.batch.len())
                .map(|row| {
                    let mut bytes = positions.row(row).to_vec();
                    fields.iter().for_each(|field| bytes.extend_from_slice(field.column.row(row)));
                    bytes
                })
                .collect();
            let sum = sorted_sha(rows.iter().map(Vec::as_slice));
            assert_eq!(sum, expected["joined_sha256_sorted"], "{label}");
            joined += 1;
        }
    });
    assert!(boxes > 700 && joined > 100, "{boxes} boxes, {joined} with attributes");
}

#[test]
fn chunks_by_number_then_fragments_then_rows() {
    every_level(|case| {
        let query = Query::all().order(Order::Storage).columns(Columns::None);
        let query = query.at_level(case.level);
        let answer = inline(case.reader.run(&query)).unwrap();
        let vertices = &case.reference["vertices"];
        assert_eq!(answer.batch.len() as u64, vertices["count"].as_u64().unwrap(), "{}", case.name);
        assert_eq!(sha(answer.batch.positions().bytes()), vertices["sha256"], "{}", case.name);
    });
}

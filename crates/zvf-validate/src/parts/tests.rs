//! Parts of a validation: their kinds, and that they cover their stage.

use super::*;

#[test]
fn parts_are_of_one_stage_and_cover_it() {
    let scan = |stage, path: &str, count| Scan { stage, path: path.to_owned(), count };
    let scans = [
        scan(Stage::Cells, "0/vertices", 10),
        scan(Stage::Cells, "1/vertices", 3),
        scan(Stage::Links, "0/links", 0),
        scan(Stage::Objects, "0/object_index", 1),
    ];
    let parts = StagePart::divide(&scans, 3);
    let ranges: Vec<_> = parts.iter().map(|part| (part.stage, part.ranges.clone())).collect();
    assert_eq!(
        ranges,
        [
            (Stage::Cells, vec![(0, 0..5)]),
            (Stage::Cells, vec![(0, 5..10)]),
            (Stage::Cells, vec![(1, 0..3)]),
            (Stage::Objects, vec![(3, 0..1)]),
        ]
    );
}

//! The page of the book that has all rules is the one the table makes.

#[path = "../../examples/rules.rs"]
#[expect(dead_code, reason = "its main is of the example")]
mod rules;

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/rules.md");
    let stored = std::fs::read_to_string(path).unwrap();
    assert!(stored == rules::page(), "run `cargo xtask docs` and review the diff");
}

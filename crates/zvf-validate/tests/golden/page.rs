//! The page of the book with all rules equals the page generated from the table.

#[path = "../../examples/rules.rs"]
#[expect(dead_code, reason = "its main is of the example")]
mod rules;

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/rules.md");
    let stored = std::fs::read_to_string(path).unwrap();
    assert!(stored == rules::page(), "run `cargo xtask docs` and review the diff");
}

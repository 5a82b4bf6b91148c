//! The part that migrates golden stores of old formats, and compares the same facts.
//!
//! Every fact of the old store must hold for the new one, except for the changes of a migration:
//! the version, the layout of links, and the bridges of chains, which old writers stored without
//! the rows they join. The validator must find nothing in the new store.

use std::path::Path;

use serde_json::{Value, json};
use zvf_metadata::LayoutFamily;
use zvf_store::Store;
use zvf_validate::{Checks, Observer, validate};

use crate::corpus::{self, Golden};
use crate::golden_part;
use crate::report::Run;

/// Migrates every golden store of `folder` in an old format.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    run.goldens(folder, "migrated/", async |report, golden, path| {
        let old = corpus::open(path).await?;
        if old.family() == LayoutFamily::C {
            return Ok(());
        }
        let folder = archives::scratch();
        let new = corpus::migrate(&old, folder.path()).await?;
        let expected = expected_after_migration(golden.expected.clone(), &old);
        golden_part::check_facts(report, &Golden { expected, ..golden }, &new, true).await;
        let found = validate(&new, &Checks::default(), &Observer::default()).await?;
        let found: Vec<String> = found.findings.iter().map(ToString::to_string).collect();
        report.check("sound", found.is_empty(), found.join("; "));
        Ok(())
    })
}

/// Returns the expected facts of the new store.
fn expected_after_migration(mut expected: Value, old: &Store) -> Value {
    let reference = &mut expected["reference"];
    reference["root"]["zv_version"] = json!("0.9.2");
    remove_facts(reference, &["cross_chunk_cells"]);
    let chains = old.root().zarr_vectors.links_convention().as_str() == "implicit_sequential";
    for level in reference["levels"].as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        for (name, facts) in level.as_object_mut().into_iter().flatten() {
            match name.as_str() {
                "objects" => remove_facts(facts, &["layout"]),
                // The stored value of absent rows differs; their absence is a separate fact.
                "object_attributes" => for_each_fact(facts, |_, facts| {
                    if facts["absent_rows"].as_array().is_some_and(|rows| !rows.is_empty()) {
                        remove_facts(facts, &["sha256", "head"]);
                    }
                }),
                "links" => {
                    if chains {
                        remove_facts(facts, &["0"]);
                    }
                    for_each_fact(facts, remove_layout_facts);
                }
                _ => {}
            }
        }
    }
    expected
}

/// Removes the place and the order of the records of a family: as sets they are equal.
fn remove_layout_facts(delta: &str, facts: &mut Value) {
    remove_facts(facts, &["policy", "offset_arrays", "offsets", "num_physical_records"]);
    for_each_fact(facts, |_, facts| remove_facts(facts, &["sha256", "list"]));
    if delta != "0" {
        // The new layout does not distinguish links within one chunk.
        remove_facts(facts, &["intra", "cross"]);
    }
}

fn remove_facts(facts: &mut Value, names: &[&str]) {
    if let Some(facts) = facts.as_object_mut() {
        names.iter().for_each(|name| drop(facts.remove(*name)));
    }
}

fn for_each_fact(facts: &mut Value, change: impl Fn(&str, &mut Value)) {
    for (name, facts) in facts.as_object_mut().into_iter().flatten() {
        change(name, facts);
    }
}

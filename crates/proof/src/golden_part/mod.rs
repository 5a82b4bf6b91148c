//! The part that reads golden stores and compares every known fact.
//!
//! ```text
//! documents   root and levels                        zvf-store
//! cells       chunks, fragments, positions, columns  zvf-model
//! objects     ids, manifests, positions              zvf-model
//! links       families, records, endpoints           zvf-model
//! tables      groups, values of objects and groups   zvf-model
//! answers     whole levels, objects, groups          zvf-query
//! extras      parametric objects, headers, composites zvf-model
//! boxes       boxes                                  zvf-query, and brute force
//! ```
//!
//! The caller opens the store, so that the same facts are compared for a directory and a server.

mod answers;
pub(crate) mod boxes;
pub(crate) mod cells;
mod documents;
mod extras;
pub(crate) mod links;
pub(crate) mod objects;
pub(crate) mod tables;

use std::path::Path;

use serde_json::{Value, json};
use zvf_metadata::LayoutFamily;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_query::{Query, Reader};
use zvf_store::Store;

use crate::contents::LevelContents;
use crate::corpus::{self, Golden};
use crate::facts::{describe_each, given, members, or_error};
use crate::report::{Report, Run};
use objects::Objects;

/// Tests every golden store of `folder`, opened from a directory.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    run.goldens(folder, "", async |report, golden, path| {
        check_facts(report, &golden, &corpus::open(path).await?, true).await;
        Ok(())
    })
}

/// Compares all facts of `golden` with `store`. Facts that require a listing are left out if the
/// backend has none.
pub(crate) async fn check_facts(report: &mut Report, golden: &Golden, store: &Store, lists: bool) {
    let (reference, truth) = (&golden.expected["reference"], &golden.expected["truth"]);
    let found = describe_store(report, store, reference).await;
    report.compare_tree("", reference, &found);
    let composite = &golden.expected["composite"];
    if composite.is_object() {
        let found = async {
            let level = LevelReader::open(store, LevelId(0)).await?;
            extras::describe_composite(&LevelContents::read(level).await?, composite).await
        };
        report.compare_tree("composite", composite, &or_error(found.await));
    }
    let reader = Reader::new(store.clone());
    for (number, expected) in members(&reference["levels"]) {
        let truth = if number == "0" { truth } else { &Value::Null };
        let edges = format!("level {number} read_all.edges");
        let mut expected = expected.clone();
        if golden.disagreements.contains(&edges) {
            expected["read_all"]["edges"] = json!({"forest": expected["objects"]["num_objects"]});
        }
        for name in ["edges", "faces"] {
            if truth[name].is_object() && expected["read_all"][name].is_object() {
                expected["read_all"][name] = truth[name].clone();
            }
        }
        if let Err(error) = check_level(report, number, (&expected, truth), &reader, lists).await {
            report.fail(number, format!("{error:#}"));
        }
    }
}

/// Returns the facts of a store outside its levels.
async fn describe_store(report: &mut Report, store: &Store, expected: &Value) -> Value {
    let mut found = json!({
        "root": documents::describe_root(store),
        "levels_present": store.level_numbers(),
        "levels": given(),
        "validator": given(), // its verdicts do not concern reading
    });
    let facts = &expected["parametric"];
    if facts.is_object() {
        found["parametric"] = or_error(extras::describe_parametric(store, facts).await);
    }
    let facts = &expected["headers"];
    if facts.is_object() {
        found["headers"] = or_error(extras::describe_headers(report, store, facts).await);
    }
    let levels = describe_each(&expected["cross_chunk_cells"], async |number, deltas| {
        let level = LevelReader::open(store, LevelId(number.parse()?)).await?;
        let between = async |delta: &str, _: &Value| {
            links::describe_links_between_chunks(&level, delta).await
        };
        Ok(describe_each(deltas, between).await)
    });
    found["cross_chunk_cells"] = levels.await;
    found
}

async fn check_level(
    report: &mut Report,
    at: &str,
    (expected, truth): (&Value, &Value),
    reader: &Reader,
    lists: bool,
) -> anyhow::Result<()> {
    let number = LevelId(at.parse()?);
    let level = &LevelReader::open(reader.store(), number).await?;
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let source = Asked { reader, level: number, kind };
    let mut found = documents::describe_level(reader.store(), level.node());
    let boxes = format!("{at}/bbox");
    if !lists && reader.store().family() != LayoutFamily::C {
        report.skip("levels before 0.9 over plain HTTP: only what lies in small boxes");
        boxes::check_boxes(report, &boxes, &expected["bbox"], source, None).await;
        leave_rest(&mut found, expected);
        report.compare_tree(at, expected, &found);
        return Ok(());
    }
    add_facts(&mut found, cells::describe_chunks(level).await?);
    let contents = LevelContents::read(level.clone()).await;
    if truth["rows_agree"] == json!(false) {
        let (what, least) = (format!("{at}/vertices"), truth["vertex_count"].as_u64());
        match contents {
            Err(error) => {
                report.check(&what, error.class() == zvf_format::Class::Unsupported, error);
            }
            Ok(contents) => {
                let rows = contents.positions().len() as u64;
                let is_whole = least.is_some_and(|least| rows >= least);
                report.check(&what, is_whole, format!("{rows} rows of {least:?} vertices"));
            }
        }
        leave_rest(&mut found, expected);
        report.compare_tree(at, expected, &found);
        return Ok(());
    }
    let contents = &contents?;
    add_facts(&mut found, cells::describe_cells(contents, expected));
    let facts = (&expected["vertex_attributes"], truth);
    let columns = cells::describe_columns(report, at, facts, contents).await;
    found["vertex_attributes"] = or_error(columns);
    let facts = &expected["fragment_attributes"];
    found["fragment_attributes"] = cells::describe_fragment_columns(level, facts).await;
    let mut true_facts = json!({"rows_sha256_sorted": contents.positions().sha256_sorted()});
    if let Some(index) = level.objects().await? {
        let objects = Objects::read(&index, contents).await?;
        found["objects"] = objects.describe(&expected["objects"]);
        for name in ["objects", "objects_in_path_order"] {
            true_facts[name] = objects.describe_some(&truth[name]);
        }
    }
    if truth.is_object() {
        leave_rest(&mut true_facts, truth);
        report.compare_tree("truth", truth, &true_facts);
    }
    let attribute = async |of_groups, name: &str| match of_groups {
        true => level.group_attribute(name).await,
        false => level.object_attribute(name).await,
    };
    let tables = tables::describe_tables(expected, level.groups().await?, attribute).await;
    add_facts(&mut found, tables?);
    let facts = &expected["skeleton_by_segment"];
    found["skeleton_by_segment"] = or_error(extras::describe_segments(level, reader, facts).await);
    add_facts(&mut found, links::describe_links(contents, expected).await);
    add_facts(&mut found, answers::describe_answers(expected, source).await);
    boxes::check_boxes(report, &boxes, &expected["bbox"], source, Some(contents)).await;
    found["bbox"] = given();
    report.compare_tree(at, expected, &found);
    Ok(())
}

fn add_facts(found: &mut Value, more: Value) {
    members(&more).for_each(|(name, fact)| found[name] = fact.clone());
}

/// Leaves out the comparison of all expected facts that were not looked for.
fn leave_rest(found: &mut Value, expected: &Value) {
    for (name, _) in members(expected) {
        if found.get(name).is_none() {
            found[name] = given();
        }
    }
}

/// Who reads what.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) level: LevelId,
    pub(crate) kind: Kind,
}

impl Asked<'_> {
    /// Returns the query for everything.
    fn query(&self) -> Query {
        Query::all().of_kind(self.kind).at_level(self.level)
    }
}

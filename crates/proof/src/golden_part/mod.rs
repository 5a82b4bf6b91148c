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
mod cells;
mod documents;
mod extras;
mod links;
mod objects;
mod tables;

use std::path::Path;

use serde_json::{Value, json};
use zvf_metadata::LayoutFamily;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_query::{Query, Reader};
use zvf_store::Store;

use crate::contents::LevelContents;
use crate::corpus::{self, Golden};
use crate::facts::members;
use crate::report::{Facts, Report, Run};
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
    let mut facts = Facts::new(report, "", reference);
    documents::check_root(facts.of("root"), store);
    facts.fact("levels_present", json!(store.level_numbers()));
    let compared = check_outside_levels(&mut facts, &golden.expected["composite"], store).await;
    facts.named("beside", reference).finish(compared);
    let reader = Reader::new(store.clone());
    for (number, expected) in members(&reference["levels"]) {
        let truth = if number == "0" { truth } else { &Value::Null };
        let edges = format!("level {number} read_all.edges");
        let mut expected = expected.clone();
        if golden.disagreements.contains(&edges) {
            expected["read_all"]["edges"] = json!({"forest": expected["objects"]["num_objects"]});
        }
        let mut facts = facts.named(number, &expected);
        let compared = check_level(&mut facts, number, truth, &reader, lists).await;
        facts.finish(compared);
    }
}

/// Compares the data of a store outside its levels.
async fn check_outside_levels(
    facts: &mut Facts<'_>,
    composite: &Value,
    store: &Store,
) -> anyhow::Result<()> {
    if facts.expected["parametric"].is_object() {
        extras::check_parametric(facts.of("parametric"), store).await?;
    }
    if facts.expected["headers"].is_object() {
        extras::check_headers(facts.of("headers"), store).await?;
    }
    for (number, deltas) in members(&facts.expected["cross_chunk_cells"]) {
        let level = LevelReader::open(store, LevelId(number.parse()?)).await?;
        let facts = facts.named(format!("{number}/cross_chunk_cells"), deltas);
        links::check_links_between_chunks(facts, &level).await?;
    }
    report_uncompared_facts(facts, "store", COMPARED_OF_STORES);
    if composite.is_object() {
        let contents = LevelContents::read(LevelReader::open(store, LevelId(0)).await?).await?;
        extras::check_composite(facts.named("composite", composite), &contents).await?;
    }
    Ok(())
}

async fn check_level(
    facts: &mut Facts<'_>,
    number: &str,
    truth: &Value,
    reader: &Reader,
    lists: bool,
) -> anyhow::Result<()> {
    let number = number.parse()?;
    let node = reader.store().level(number).await?;
    documents::check_level(facts, reader.store(), &node);
    let level = &LevelReader::open(reader.store(), LevelId(number)).await?;
    // Of the kinds that the store names; or points if it names none.
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let source = Asked { reader, level: LevelId(number), kind };
    if !lists && reader.store().family() != LayoutFamily::C {
        // Without presence lists and without a listing, only single chunks can be read.
        facts.report.skip("levels before 0.9 over plain HTTP: only what lies in small boxes");
        boxes::check_small_boxes(facts.of("bbox"), source).await;
        return Ok(());
    }
    cells::check_chunks(facts, level).await?;
    let contents = LevelContents::read(level.clone()).await;
    if truth["rows_agree"] == json!(false) {
        // Draco streams, which zarr-vectors cannot read back: their positions are rounded, and the
        // vertices of faces across chunks are in several streams. The tests of queries compare the
        // decoded data. An error about the codec is equally right.
        let (mut facts, least) = (facts.of("vertices"), truth["vertex_count"].as_u64());
        match contents {
            Err(error) => facts.check(error.class() == zvf_format::Class::Unsupported, error),
            Ok(contents) => {
                let found = contents.positions().len() as u64;
                let is_whole = least.is_some_and(|least| found >= least);
                facts.check(is_whole, format!("{found} rows of {least:?} vertices"));
            }
        }
        return Ok(());
    }
    let contents = &contents?;
    cells::check_cells(facts, contents);
    cells::check_vertex_columns(facts.of("vertex_attributes"), truth, contents).await?;
    cells::check_fragment_columns(facts.of("fragment_attributes"), level).await?;
    if let Some(expected) = truth.get("rows_sha256_sorted") {
        let found = contents.positions().sha256_sorted();
        Facts::new(facts.report, "truth/rows", expected).compare(found);
    }
    if facts.expected.get("objects").is_some() {
        match level.objects().await? {
            Some(index) => {
                let found = Objects::read(&index, contents).await?;
                objects::check_objects(facts.of("objects"), &found, contents);
                objects::check_truth(Facts::new(facts.report, "truth", truth), &found, contents);
            }
            None => facts.of("objects").fail("no object index"),
        }
    }
    let attribute = async |of_groups, name: &str| match of_groups {
        true => level.group_attribute(name).await,
        false => level.object_attribute(name).await,
    };
    let compared = tables::check_tables(facts, async || level.groups().await, attribute).await;
    facts.named("tables", &Value::Null).finish(compared);
    extras::check_segments(facts.of("skeleton_by_segment"), level, reader).await?;
    links::check_links(facts, level, contents).await;
    answers::check_answers(facts, truth, source).await;
    boxes::check_boxes(facts.of("bbox"), source, contents).await;
    report_uncompared_facts(facts, "level", COMPARED);
    Ok(())
}

/// Who reads what.
#[derive(Clone, Copy, Debug)]
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

/// Reports the facts that are not compared.
fn report_uncompared_facts(facts: &mut Facts<'_>, what: &str, compared: &str) {
    let is_compared = |name: &str| compared.split_whitespace().any(|known| known == name);
    for (name, _) in members(facts.expected).filter(|(name, _)| !is_compared(name)) {
        facts.report.skip(format!("{name} of a {what}: nothing here compares it"));
    }
}

/// The facts of a whole store that are compared, and the verdicts of a validator, which do not
/// concern reading.
const COMPARED_OF_STORES: &str =
    "cross_chunk_cells headers levels levels_present parametric root validator";

/// The facts of a level that this part compares.
const COMPARED: &str = "
    bbox cells chunk_count chunks chunks_sha256 effective_bin_shape effective_chunk_shape
    fragment_attributes fragments grid group_attributes groups link_attributes links meta
    object_attributes objects read_all read_groups read_objects scale skeleton_by_segment
    translation vertex_attributes vertex_dtype vertices";

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

pub(crate) mod answers;
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
use zvf_query::Reader;
use zvf_store::Store;

use crate::contents::LevelContents;
use crate::corpus::{self, Golden};
use crate::facts::members;
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
    documents::check_root(report, &reference["root"], store);
    report.compare("levels_present", &reference["levels_present"], json!(store.level_numbers()));
    if let Err(error) = check_outside_levels(report, golden, store).await {
        report.fail("beside", format!("{error:#}"));
    }
    let reader = Reader::new(store.clone());
    for (number, expected) in members(&reference["levels"]) {
        let truth = if number == "0" { truth } else { &Value::Null };
        let edges = format!("level {number} read_all.edges");
        let mut expected = expected.clone();
        if golden.disagreements.contains(&edges) {
            expected["read_all"]["edges"] = json!({"forest": expected["objects"]["num_objects"]});
        }
        if let Err(error) = check_level(report, number, &expected, truth, &reader, lists).await {
            report.fail(number, format!("{error:#}"));
        }
    }
}

/// Compares the data of a store outside its levels.
async fn check_outside_levels(
    report: &mut Report,
    golden: &Golden,
    store: &Store,
) -> anyhow::Result<()> {
    let reference = &golden.expected["reference"];
    if reference["parametric"].is_object() {
        extras::check_parametric(report, &reference["parametric"], store).await?;
    }
    if reference["headers"].is_object() {
        extras::check_headers(report, &reference["headers"], store).await?;
    }
    for (number, deltas) in members(&reference["cross_chunk_cells"]) {
        let level = LevelReader::open(store, LevelId(number.parse()?)).await?;
        links::check_links_between_chunks(report, number, deltas, &level).await?;
    }
    report_uncompared_facts(report, "store", reference, &COMPARED_OF_STORES);
    if golden.expected["composite"].is_object() {
        let contents = LevelContents::read(LevelReader::open(store, LevelId(0)).await?).await?;
        extras::check_composite(report, &golden.expected["composite"], &contents).await?;
    }
    Ok(())
}

async fn check_level(
    report: &mut Report,
    at: &str,
    expected: &Value,
    truth: &Value,
    reader: &Reader,
    lists: bool,
) -> anyhow::Result<()> {
    let number = at.parse()?;
    let node = reader.store().level(number).await?;
    documents::check_level(report, expected, reader.store(), &node);
    let level = LevelReader::open(reader.store(), LevelId(number)).await?;
    if !lists && reader.store().family() != LayoutFamily::C {
        // Without presence lists and without a listing, only single chunks can be read.
        report.skip("levels before 0.9 over plain HTTP: only what lies in small boxes");
        for kind in kinds_to_query(&level) {
            boxes::check_small_boxes(report, at, expected, reader, kind).await;
        }
        return Ok(());
    }
    cells::check_chunks(report, at, expected, &level).await?;
    let contents = LevelContents::read(level.clone()).await;
    if truth["rows_agree"] == json!(false) {
        // Draco streams, which zarr-vectors cannot read back: their positions are rounded, and the
        // vertices of faces across chunks are in several streams. The tests of queries compare the
        // decoded data. An error about the codec is equally right.
        let (what, least) = (format!("{at}/vertices"), truth["vertex_count"].as_u64());
        match contents {
            Err(error) => {
                report.check(&what, error.class() == zvf_format::Class::Unsupported, error);
            }
            Ok(contents) => {
                let found = contents.positions().len() as u64;
                let is_whole = least.is_some_and(|least| found >= least);
                report.check(&what, is_whole, format!("{found} rows of {least:?} vertices"));
            }
        }
        return Ok(());
    }
    let contents = contents?;
    cells::check_cells(report, at, expected, &contents);
    cells::check_vertex_columns(report, at, expected, truth, &contents).await?;
    cells::check_fragment_columns(report, at, expected, &level).await?;
    if let Some(expected) = truth.get("rows_sha256_sorted") {
        report.compare("truth/rows", expected, contents.positions().sha256_sorted());
    }
    if let Some(expected) = expected.get("objects") {
        match level.objects().await? {
            Some(index) => {
                let found = Objects::read(&index, &contents).await?;
                objects::check_objects(report, at, expected, &found, &contents);
                objects::check_truth(report, truth, &found, &contents);
            }
            None => report.fail(&format!("{at}/objects"), "no object index"),
        }
    }
    if let Err(error) = tables::check_tables(report, at, expected, &level).await {
        report.fail(&format!("{at}/tables"), format!("{error:#}"));
    }
    extras::check_segments(report, at, expected, &level, reader).await?;
    links::check_links(report, at, expected, &level, &contents).await?;
    for kind in kinds_to_query(&level) {
        answers::check_answers(report, at, expected, truth, reader, kind).await;
        boxes::check_boxes(report, at, expected, reader, &contents, kind).await;
    }
    report_uncompared_facts(report, "level", expected, &COMPARED);
    Ok(())
}

/// Returns the kinds to query: those that the store names, or points if it names none.
fn kinds_to_query(level: &LevelReader) -> Vec<Kind> {
    vec![level.kinds().first().copied().unwrap_or(Kind::PointCloud)]
}

/// Reports the facts that are not compared.
fn report_uncompared_facts(report: &mut Report, what: &str, expected: &Value, compared: &[&str]) {
    for name in members(expected).map(|(name, _)| name) {
        if !compared.contains(&name) {
            report.skip(format!("{name} of a {what}: nothing here compares it"));
        }
    }
}

/// The facts of a whole store that are compared, and the verdicts of a validator, which do not
/// concern reading.
const COMPARED_OF_STORES: [&str; 7] =
    ["cross_chunk_cells", "headers", "levels", "levels_present", "parametric", "root", "validator"];

/// The facts of a level that this part compares.
const COMPARED: [&str; 26] = [
    "bbox",
    "cells",
    "chunk_count",
    "chunks",
    "chunks_sha256",
    "effective_bin_shape",
    "effective_chunk_shape",
    "fragment_attributes",
    "fragments",
    "grid",
    "group_attributes",
    "groups",
    "link_attributes",
    "links",
    "meta",
    "object_attributes",
    "objects",
    "read_all",
    "read_groups",
    "read_objects",
    "scale",
    "skeleton_by_segment",
    "translation",
    "vertex_attributes",
    "vertex_dtype",
    "vertices",
];

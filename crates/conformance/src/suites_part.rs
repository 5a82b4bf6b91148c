//! The part that reads stores of the test suites of other writers.
//!
//! One small store of each class that was once read wrongly, with the right results: the number of vertices, objects
//! and elements of each level, the width of the elements, or why it is refused; exactly the rules that it violates;
//! and, for old formats, that they migrate with the same answers.
//!
//! ```text
//! suites/EXPECTED.json   {"<store>": {"errors": [rule, ..], "levels": {"<n>": facts}}}
//! facts                  vertices, objects, elements, width; or refused: the class
//! ```

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use archives::Unpacked;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use zvf_error::Result;
use zvf_metadata::LayoutFamily;
use zvf_migrate::{Migration, Plan};
use zvf_model::{Bounds, Kind, LevelId, LevelReader};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{Build, BuildOptions, OpenOptions, Store};
use zvf_validate::{Observer, Options, Severity, validate};

use crate::corpus;
use crate::report::Report;
use crate::tally::Tally;

/// Reads every store of `folder`.
pub(crate) fn run(
    folder: &Path,
    only: Option<&str>,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let folder = folder.join("suites");
    let Ok(text) = std::fs::read_to_string(folder.join("EXPECTED.json")) else { return Ok(()) };
    let expected: Value = serde_json::from_str(&text)?;
    for (name, expected) in expected.as_object().context("EXPECTED.json is no object")? {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let unpacked =
            Unpacked::from_files(&corpus::read_archive(&folder.join(format!("{name}.tar.zst")))?);
        let mut report = Report::new(format!("suites/{name}"));
        if let Err(error) = runtime.block_on(check_store(&mut report, expected, unpacked.path())) {
            report.fail("open", format!("{error:#}"));
        }
        tally.add(report)?;
    }
    Ok(())
}

async fn check_store(report: &mut Report, expected: &Value, path: &Path) -> anyhow::Result<()> {
    let store = Store::open(&path.to_string_lossy(), OpenOptions::default()).await?;
    check_levels(report, "", &expected["levels"], &store).await?;
    let found = validate(&store, &Options::default(), &Observer::default()).await?;
    let errors = found.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let rules: BTreeSet<&str> = errors.map(|finding| finding.rule.id).collect();
    report.compare("errors", &expected["errors"], json!(rules));
    if store.family() == LayoutFamily::C {
        return Ok(());
    }
    let folder = archives::scratch();
    let address = folder.path().join("new.zarrvectors").to_string_lossy().into_owned();
    let options = BuildOptions { sync: false, ..BuildOptions::default() };
    let build = Build::begin(&address, options).await?;
    let done = Plan::build(&store).await?.apply(&Migration::default(), build, |_| ()).await?;
    report.check("verified", done.verified, "the migration did not look at what it wrote");
    let new = Store::open(&address, OpenOptions::default()).await?;
    check_levels(report, "migrated/", &expected["levels"], &new).await
}

/// Compares every level, read as a whole and by a box around it.
async fn check_levels(
    report: &mut Report,
    prefix: &str,
    expected: &Value,
    store: &Store,
) -> anyhow::Result<()> {
    let reader = Reader::new(store.clone());
    for (number, expected) in expected.as_object().context("levels are no object")? {
        let number = LevelId(number.parse()?);
        let level = LevelReader::open(store, number).await?;
        let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
        let all = Query::all().of_kind(kind).at_level(number);
        let low = vec![f64::from(f32::MIN); level.axes()];
        let high = vec![f64::from(f32::MAX); level.axes()];
        let boxed =
            Query::all().in_region(Bounds::new(&low, &high)?).of_kind(kind).at_level(number);
        for (way, query) in [
            ("all", all.clone().columns(Columns::None)),
            ("box", boxed.columns(Columns::None)),
            ("columns", all.columns(Columns::All)),
        ] {
            let expected = match &expected[way] {
                Value::Null => expected,
                specific => specific,
            };
            let facts = facts_of_answer(&level, reader.run(&query).await).await?;
            for (name, value) in expected.as_object().into_iter().flatten() {
                if !value.is_object() {
                    report.compare(
                        &format!("{prefix}{number}/{way}/{name}"),
                        value,
                        facts[name].clone(),
                    );
                }
            }
        }
    }
    Ok(())
}

/// Returns the facts of an answer.
async fn facts_of_answer(
    level: &LevelReader,
    answer: Result<zvf_query::Answer>,
) -> anyhow::Result<Value> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Ok(json!({"refused": error.class().name()})),
    };
    let objects = level.objects().await?.map(|index| index.slots());
    let elements = answer.batch.elements();
    Ok(json!({
        "vertices": answer.batch.len(),
        "objects": objects,
        "elements": elements.map(|elements| elements.len()),
        "width": elements.filter(|elements| !elements.is_empty()).map(zvf_model::Elements::width),
    }))
}

//! The part that reads stores of the test suites of other writers.
//!
//! There is one small store of each class that was once read wrongly, with the right results: the
//! number of vertices, objects and elements of each level, the width of the elements, or why it is
//! refused; exactly the rules that it violates; and, for old formats, that they migrate with the
//! same answers.
//!
//! ```text
//! suites/EXPECTED.json   {"<store>": {"errors": [rule, ..], "levels": {"<n>": facts}}}
//! facts                  vertices, objects, elements, width; or refused: the class
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use archives::Unpacked;
use serde_json::{Value, json};
use zvf_error::Result;
use zvf_metadata::LayoutFamily;
use zvf_model::{Bounds, Kind, LevelId, LevelReader};
use zvf_query::{Columns, Query, Reader};
use zvf_store::Store;
use zvf_validate::{Checks, Observer, Severity, validate};

use crate::report::{Report, Run};
use crate::{corpus, facts};

/// Reads every store of `folder`.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    let folder = folder.join("suites");
    let list = folder.join("EXPECTED.json");
    if !list.exists() {
        return Ok(());
    }
    for (name, expected) in facts::members(&corpus::read_json(&list)?) {
        if run.is_wanted(name) {
            let files = corpus::read_archive(&folder.join(format!("{name}.tar.zst")))?;
            let unpacked = Unpacked::from_files(&files);
            run.case(format!("suites/{name}"), async |report| {
                check_store(report, expected, unpacked.path()).await
            })?;
        }
    }
    Ok(())
}

async fn check_store(report: &mut Report, expected: &Value, path: &Path) -> anyhow::Result<()> {
    let store = corpus::open(path).await?;
    check_levels(report, "", &expected["levels"], &store).await?;
    let found = validate(&store, &Checks::default(), &Observer::default()).await?;
    let errors = found.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let rules: BTreeSet<&str> = errors.map(|finding| finding.rule.id).collect();
    report.compare("errors", &expected["errors"], json!(rules));
    if store.family() == LayoutFamily::C {
        return Ok(());
    }
    let folder = archives::scratch();
    let new = corpus::migrate(&store, folder.path()).await?;
    report.passed += 1; // it looked at what it wrote
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
    for (number, expected) in facts::members(expected) {
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
            let found = facts_of_answer(&level, reader.run(&query).await).await?;
            for (name, value) in facts::members(expected) {
                if !value.is_object() {
                    let what = format!("{prefix}{number}/{way}/{name}");
                    report.compare(&what, value, found[name].clone());
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

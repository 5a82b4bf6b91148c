//! The part that runs the test suites of zarr-vectors and of its tools, and reads every store they
//! write.
//!
//! The suites come with the source distributions of the packages. Each distinct store that their
//! tests leave is described by the package that wrote it (`peers/run_suites.py`), and compared
//! here:
//!
//! ```text
//! refused      whether it can be read at all
//! vertices     their number, and their positions as a set
//! elements     the number of edges or faces
//! sound        whether the validator finds errors
//! box          half of the bounds, compared with brute force
//! objects      all of them by their ids
//! migrated     stores of old formats, migrated: the same facts
//! ```
//!
//! `peers/suites.json` lists the packages whose source distributions have tests that write stores,
//! with the further packages of these tests. `peers/suite_differences.json` lists the errors of the packages, each with the reason, by the
//! text of the difference and, if that would be too general, by the store; listed differences are
//! skipped.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use zvf_metadata::LayoutFamily;
use zvf_model::{Bounds, Kind, LevelId, LevelReader};
use zvf_query::{Columns, Query, Reader};
use zvf_store::Store;

use crate::facts::{self, list};
use crate::naive::Cube;
use crate::peers;
use crate::report::{Report, Run};
use crate::{contents, corpus, validate_part};

/// Runs every suite, and reads at most `limit` stores of each; all of them when it is 0.
pub(crate) fn run(limit: usize, run: &mut Run<'_>) -> anyhow::Result<()> {
    let known_differences = corpus::read_json(&peers::script_path("suite_differences.json"))?;
    for entry in list(&corpus::read_json(&peers::script_path("suites.json"))?) {
        let [package, version] = ["package", "version"].map(|key| entry[key].as_str());
        let (package, version) = package.zip(version).context("a suite without a version")?;
        let suite = format!("{package}-{version}");
        if !run.is_wanted(&suite) {
            continue;
        }
        let requirement = format!("{package}=={version}");
        let needs = list(&entry["needs"]).filter_map(Value::as_str);
        let packages: Vec<&str> =
            [requirement.as_str(), "pytest"].into_iter().chain(needs).collect();
        let python = peers::install_python(&format!("suite-{suite}"), &packages)?;
        let folder = archives::scratch();
        let script = &mut Command::new(python);
        let script = script.arg(peers::script_path("run_suites.py")).args([package, version]);
        let output = peers::run_command(script.arg(folder.path()).arg(limit.to_string()))?;
        let stores = corpus::read_json(&folder.path().join("stores.json"))?;
        let stores = stores.as_array().context("stores.json is no list")?;
        run.print_line(&format!("suite {suite}: {}", output.trim().replace('\n', "; ")))?;
        ensure!(!stores.is_empty(), "suite {suite} left no store: its tests did not run");
        for store in stores {
            let path = store["path"].as_str().context("a store without a path")?;
            let name = path.rsplit_once("/kept/").map_or(path, |(_, name)| name);
            run.case(format!("suites/{suite}/{name}"), async |report| {
                let compared = compare_store(Path::new(path), &store["facts"]).await?;
                judge_facts(report, (&suite, name), compared, &known_differences);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// A compared fact: its name, and the difference.
type Compared = (&'static str, Option<String>);

/// Reports the compared facts; known faults of the package are skipped.
fn judge_facts(
    report: &mut Report,
    (suite, name): (&str, &str),
    compared: Vec<Compared>,
    known_differences: &Value,
) {
    for (fact, difference) in compared {
        let Some(difference) = difference else {
            report.passed += 1;
            continue;
        };
        let listed = list(known_differences).find(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            text("fact") == fact
                && suite.contains(text("suite"))
                && name.contains(text("store"))
                && difference.contains(text("contains"))
        });
        match listed.and_then(|entry| entry["why"].as_str()) {
            Some(why) => report.skip(format!("differences of the suites that are theirs: {why}")),
            None => report.fail(fact, difference),
        }
    }
}

/// Compares one store with the results of its package.
async fn compare_store(path: &Path, expected: &Value) -> anyhow::Result<Vec<Compared>> {
    let mut compared = Vec::new();
    let errors = validate_part::list_errors(path).await?;
    match expected["sound"].as_bool() {
        Some(true) if errors.is_empty() => compared.push(("sound", None)),
        Some(true) => compared.extend(errors.into_iter().map(|error| ("sound", Some(error)))),
        Some(false) => {
            let missed = "they find faults, we find none".to_owned();
            compared.push(("sound", errors.is_empty().then_some(missed)));
        }
        None => {} // their validator failed
    }
    let store = corpus::open(path).await;
    let answers = match &store {
        Ok(store) => compare_level_0(&mut compared, store, expected).await,
        Err(error) => Err(error.clone()),
    };
    match (answers, expected["refused"].as_str()) {
        (Err(ours), None) => {
            compared.push(("refused", Some(format!("we refuse: {}: {ours}", ours.class()))))
        }
        (Ok(()), Some(theirs)) => {
            compared.push(("refused", Some(format!("they refuse: {theirs}"))));
        }
        (Ok(()), None) | (Err(_), Some(_)) => compared.push(("refused", None)),
    }
    if let Ok(store) = &store
        && store.family() != LayoutFamily::C
    {
        let migrated = compare_migrated(store, expected).await;
        compared.push(("migrated", migrated.err().map(|error| format!("{error:#}"))));
    }
    Ok(compared)
}

/// Reads level 0 as a whole, by its objects and by a box.
async fn compare_level_0(
    compared: &mut Vec<Compared>,
    store: &Store,
    expected: &Value,
) -> zvf_error::Result<()> {
    let level = LevelReader::open(store, LevelId(0)).await?;
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let reader = Reader::new(store.clone());
    let all = Query::all().of_kind(kind).at_level(LevelId(0)).columns(Columns::None);
    let answer = reader.run(&all).await?;
    let points = contents::points(answer.batch.positions());
    let mut compare = |fact, theirs: &Value, found: Value| {
        let differs = !theirs.is_null() && *theirs != found;
        compared.push((fact, differs.then(|| format!("they have {theirs}, we have {found}"))));
    };
    compare("vertices", &expected["vertices"], points.len().into());
    compare("positions", &expected["positions"], digest_points(points.clone()).into());
    if let Some(elements) = answer.batch.elements() {
        compare("elements", &expected["elements"], elements.len().into());
    }
    if let Some(index) = level.objects().await? {
        let ids = index.ids(0..index.slots()).await?;
        reader.run(&Query::all().of_objects(ids).of_kind(kind).columns(Columns::None)).await?;
    }
    let [low, high] = &store.root().zarr_vectors.bounds;
    let middle: Vec<f64> = low.iter().zip(high).map(|(low, high)| low.midpoint(*high)).collect();
    if let (Ok(bounds), Kind::PointCloud) = (Bounds::new(low, &middle), kind) {
        let boxed = Query::all().in_region(bounds).of_kind(kind).columns(Columns::None);
        let found = reader.run(&boxed).await?.batch.len();
        let cube = Cube { low: low.clone(), high: middle };
        let inside = points.iter().filter(|point| cube.contains(point)).count();
        compare("box", &inside.into(), found.into());
    }
    Ok(())
}

/// Compares the same facts of the migrated store.
async fn compare_migrated(old: &Store, expected: &Value) -> anyhow::Result<()> {
    let folder = archives::scratch();
    let new = corpus::migrate(old, folder.path()).await?;
    let mut compared = Vec::new();
    compare_level_0(&mut compared, &new, expected).await?;
    match compared.into_iter().find_map(|(fact, difference)| Some((fact, difference?))) {
        Some((fact, difference)) => bail!("{fact}: {difference}"),
        None => Ok(()),
    }
}

/// Returns the digest of points in the order of their numbers; `peers/run_suites.py` computes the
/// same.
fn digest_points(mut points: Vec<Vec<f64>>) -> String {
    points.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    facts::digest(points.iter().flatten().map(|x| x.to_le_bytes()))
}

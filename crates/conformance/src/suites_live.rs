//! The part that runs the test suites of the reference and of its tools, and reads every store they write.
//!
//! The suites come with the source distributions of the packages. Each distinct store that their tests leave is
//! described by the package that wrote it (`peers/run_suites.py`), and compared here:
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
//! `peers/suite_differences.json` lists the errors of the packages, each with the reason, by the text of the difference
//! and, where that would be too general, by the store; listed differences are skipped.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use zvf_metadata::LayoutFamily;
use zvf_migrate::{Migration, Plan};
use zvf_model::{Bounds, Kind, LevelId, LevelReader};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{Build, BuildOptions, OpenOptions, Store};

use crate::contents;
use crate::naive::Cube;
use crate::peers;
use crate::report::Report;
use crate::store_facts::Refusal;
use crate::tally::Tally;
use crate::validate_part;

/// Runs every suite, and reads at most `limit` stores of each; all of them when it is 0.
pub(crate) fn run(
    limit: usize,
    only: Option<&str>,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let known_differences: Value =
        serde_json::from_str(&std::fs::read_to_string(peers::script_path(DIFFERENCES))?)?;
    for (package, version, extras) in SUITES {
        let suite = format!("{package}-{version}");
        if only.is_some_and(|only| !suite.contains(only)) {
            continue;
        }
        let requirement = format!("{package}=={version}");
        let packages = [&[requirement.as_str(), "pytest"], extras].concat();
        let python = peers::install_python(&format!("suite-{suite}"), &packages)?;
        let folder = archives::scratch();
        let script = &mut Command::new(python);
        let script = script.arg(peers::script_path("run_suites.py")).args([package, version]);
        let output = peers::run_command(script.arg(folder.path()).arg(limit.to_string()))?;
        let list: Value =
            serde_json::from_str(&std::fs::read_to_string(folder.path().join("stores.json"))?)?;
        let list = list.as_array().context("stores.json is no list")?;
        tally.print_line(&format!("suite {suite}: {}", output.trim().replace('\n', "; ")))?;
        ensure!(!list.is_empty(), "suite {suite} left no store: its tests did not run");
        for store in list {
            let path = store["path"].as_str().context("a store without a path")?;
            let name = path.rsplit_once("/kept/").map_or(path, |(_, name)| name);
            let mut findings = Vec::new();
            compare_store(&mut findings, Path::new(path), &store["facts"], runtime)?;
            tally.add(judge_facts(&suite, name, findings, &known_differences))?;
        }
    }
    Ok(())
}

/// A compared fact: its name, and the difference.
type Compared = (&'static str, Option<String>);

/// Reports the compared facts; known faults of the package are skipped.
fn judge_facts(
    suite: &str,
    name: &str,
    compared: Vec<Compared>,
    known_differences: &Value,
) -> Report {
    let mut report = Report::new(format!("suites/{suite}/{name}"));
    for (fact, difference) in compared {
        let Some(difference) = difference else {
            report.passed += 1;
            continue;
        };
        let listed = known_differences.as_array().into_iter().flatten().find(|entry| {
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
    report
}

/// Compares one store with what its package reads.
fn compare_store(
    compared: &mut Vec<Compared>,
    path: &Path,
    facts: &Value,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    let address = path.to_string_lossy().into_owned();
    let errors = validate_part::list_errors(path, runtime)?;
    match facts["sound"].as_bool() {
        Some(true) if errors.is_empty() => compared.push(("sound", None)),
        Some(true) => compared.extend(errors.into_iter().map(|error| ("sound", Some(error)))),
        Some(false) => {
            let missed = "they find faults, we find none".to_owned();
            compared.push(("sound", errors.is_empty().then_some(missed)));
        }
        None => {} // their validator failed
    }
    runtime.block_on(async {
        let store = Store::open(&address, OpenOptions::default()).await;
        let answers = match &store {
            Ok(store) => compare_level_0(compared, store, facts).await,
            Err(error) => Err(error.clone().into()),
        };
        match (answers, facts["refused"].as_str()) {
            (Err(ours), None) => compared.push(("refused", Some(format!("we refuse: {ours}")))),
            (Ok(()), Some(theirs)) => {
                compared.push(("refused", Some(format!("they refuse: {theirs}"))));
            }
            (Ok(()), None) | (Err(_), Some(_)) => compared.push(("refused", None)),
        }
        if let Ok(store) = &store
            && store.family() != LayoutFamily::C
        {
            compared.push(("migrated", compare_migrated(store, facts).await.err()));
        }
    });
    Ok(())
}

/// Reads level 0 as a whole, by its objects and by a box.
async fn compare_level_0(
    compared: &mut Vec<Compared>,
    store: &Store,
    facts: &Value,
) -> Result<(), Refusal> {
    let level = LevelReader::open(store, LevelId(0)).await?;
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let reader = Reader::new(store.clone());
    let all = Query::all().of_kind(kind).at_level(LevelId(0)).columns(Columns::None);
    let answer = reader.run(&all).await?;
    let points: Vec<Vec<f64>> = (0..answer.batch.len())
        .map(|row| contents::point_at(answer.batch.positions(), row))
        .collect();
    let mut compare = |fact, theirs: &Value, found: Value| {
        let differs = !theirs.is_null() && *theirs != found;
        compared.push((fact, differs.then(|| format!("they have {theirs}, we have {found}"))));
    };
    compare("vertices", &facts["vertices"], points.len().into());
    compare("positions", &facts["positions"], digest_points(points.clone()).into());
    if let Some(elements) = answer.batch.elements() {
        compare("elements", &facts["elements"], elements.len().into());
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
async fn compare_migrated(old: &Store, facts: &Value) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let folder = archives::scratch();
    let address = folder.path().join("new.zarrvectors").to_string_lossy().into_owned();
    let options = BuildOptions { sync: false, ..BuildOptions::default() };
    let build = Build::begin(&address, options).await.map_err(|error| text(&error))?;
    let plan = Plan::build(old).await.map_err(|error| text(&error))?;
    let done = plan.apply(&Migration::default(), build, |_| ()).await;
    let done = done.map_err(|error| text(&error))?;
    let new = Store::open(&address, OpenOptions::default()).await.map_err(|error| text(&error))?;
    let mut compared = Vec::new();
    compare_level_0(&mut compared, &new, facts).await.map_err(|error| text(&error))?;
    let differs = compared.into_iter().find_map(|(fact, difference)| Some((fact, difference?)));
    match differs {
        Some((fact, difference)) => Err(format!("{fact}: {difference}")),
        None if !done.verified => Err("it did not look at what it wrote".to_owned()),
        None => Ok(()),
    }
}

/// Returns the digest of points in the order of their numbers; `peers/run_suites.py` computes the same.
fn digest_points(mut points: Vec<Vec<f64>>) -> String {
    points.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let mut sum = Sha256::new();
    for x in points.iter().flatten() {
        sum.update(x.to_le_bytes());
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The packages whose source distributions have tests that write stores, their versions, and further packages of these
/// tests.
const SUITES: [(&str, &str, &[&str]); 4] = [
    ("zarr-vectors", "0.9.2", CORE_NEEDS),
    ("zarr-vectors", "0.2.0", CORE_NEEDS),
    ("zarr-vectors-tools", "0.3.0", TOOLS_NEED),
    ("zarr-vectors-tools", "0.2.0", TOOLS_NEED),
];
const CORE_NEEDS: &[&str] = &["obstore", "dask"];
const TOOLS_NEED: &[&str] = &[
    "anndata",
    "cloud-volume",
    "dask[distributed]",
    "laspy",
    "mapbuffer",
    "networkx",
    "nibabel",
    "plyfile",
    "pyfqmr",
    "pyyaml",
    "scipy",
    "trx-python",
];
const DIFFERENCES: &str = "suite_differences.json";

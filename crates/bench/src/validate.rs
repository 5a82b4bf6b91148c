//! Validation of whole stores: all five levels, beside the validator of zarr-vectors, in turns.
//!
//! zarr-vectors validates at level 5 in a running process; zvf opens the store first. The limit is
//! reading every file of the store, with one call each into fresh memory.
//!
//! zvf caches nothing between turns. Both sides must report the same result.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use futures_executor::block_on;
use serde_json::json;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Observer, Options, Report, validate};

use crate::clock::measure_repeated;
use crate::contest::Contender;
use crate::limit;
use crate::parts::sample_data::Points;
use crate::peer::{Environment, Other};
use crate::results::Results;
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let reference = Other::reference(bench);
    for (name, path) in list_stores(bench)? {
        let work = format!("{name}, levels 1 to 5");
        if !bench.is_selected(&work) {
            continue;
        }
        let files = limit::list_files(&path)?;
        let contenders = vec![
            Contender::new("zvf", Role::Zvf, || {
                let mut cost = Cost::default();
                let seconds = measure_repeated(|| {
                    let (report, asked) = validate_store(&path)?;
                    cost = asked;
                    ensure!(report.is_clean(), "{name}: {:?}", report.findings);
                    Ok(())
                })?;
                Ok(Turn { cost, ..Turn::from_seconds(seconds).with_count(1) })
            }),
            reference.contender(json!({"work": "validate", "path": path, "level": 5})),
            Contender::reading("reading all files", &files),
        ];
        results.contest(bench, work, contenders)?;
    }
    Ok(())
}

/// Returns the stores to validate: those of zarr-vectors, or those of zvf if there are none.
fn list_stores(bench: &Bench) -> anyhow::Result<Vec<(String, PathBuf)>> {
    if bench.alone {
        let points = Points { count: (1e6 * bench.scale) as u64, chunks: 4, shard: None };
        return Ok(vec![(
            "points".to_owned(),
            points.make_store(&bench.create_folder("validate")?)?,
        )]);
    }
    let stores = bench.stores_folder();
    if bench.own.is_none() {
        Environment::install_reference(&bench.folder)?.make_stores(&stores, bench.scale)?;
    }
    let scaled_count = |amount: f64| (amount * bench.scale) as u64;
    Ok(vec![
        (
            format!("{} points, two attributes", scaled_count(2e6)),
            stores.join("attributes.zarrvectors"),
        ),
        (format!("{} streamlines", scaled_count(2e4)), stores.join("streamlines.zarrvectors")),
    ])
}

fn validate_store(path: &Path) -> anyhow::Result<(Report, Cost)> {
    let store = block_on(Store::open(
        crate::parts::sample_data::to_address(path)?,
        OpenOptions::default(),
    ))?;
    let report = block_on(validate(&store, &Options::default(), &Observer::default()))?;
    Ok((report, Cost::from_stats(&Default::default(), &store.io_stats())))
}

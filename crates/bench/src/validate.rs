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
use zvf_validate::{Checks, Observer, validate};

use crate::contest::Contender;
use crate::data::{Points, open_store};
use crate::limit;
use crate::parts::packed::measure_cost;
use crate::peer::{Other, make_reference_stores};
use crate::results::Results;
use crate::row::{Cost, Turn};
use crate::settings::Bench;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let reference = Other::reference(results.bench);
    for (name, path) in list_stores(results.bench)? {
        let files = limit::list_files(&path)?;
        let contenders = vec![
            Contender::zvf("zvf", || measure_validation(&path)),
            reference.contender(json!({"work": "validate", "path": path, "level": 5})),
            Contender::reading("reading all files", &files),
        ];
        results.contest(format!("{name}, levels 1 to 5"), contenders)?;
    }
    Ok(())
}

/// Returns the stores to validate: those of zarr-vectors, or those of zvf if there are none.
fn list_stores(bench: &Bench) -> anyhow::Result<Vec<(String, PathBuf)>> {
    if bench.alone {
        let points = Points { count: bench.scaled(1e6), chunks: 4, shard: None };
        let store = points.make_store(&bench.create_folder("validate")?)?;
        return Ok(vec![("points".to_owned(), store)]);
    }
    let stores = make_reference_stores(bench)?;
    let store = |name: String, file| (name, stores.join(file));
    Ok(vec![
        store(format!("{} points, two attributes", bench.scaled(2e6)), "attributes.zarrvectors"),
        store(format!("{} streamlines", bench.scaled(2e4)), "streamlines.zarrvectors"),
    ])
}

/// Opens and validates a store, which must be sound.
pub(crate) fn measure_validation(path: &Path) -> anyhow::Result<Turn> {
    let turn = measure_cost(|| {
        let store = open_store(path)?.store().clone();
        let report = block_on(validate(&store, &Checks::default(), &Observer::default()))?;
        ensure!(report.is_clean(), "{}: {:?}", path.display(), report.findings);
        Ok(Cost::from_stats(&Default::default(), &store.io_stats()))
    });
    Ok(turn?.with_count(1))
}

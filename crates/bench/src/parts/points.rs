//! Points in other formats: Parquet and tables queried through DuckDB and polars, LAZ, and COPC.
//!
//! All hold the same points, with one attribute. Boxes cover 1/1000 and 1 % of the volume; a box or
//! a condition returns the coordinates of its points as arrays. Parquet and the table are sorted by
//! the chunks of the store and have statistics for row groups, so that a box reads only some of
//! them (for points, a geometry column as in GeoParquet would be slower than plain columns); DuckDB
//! has prepared statements. LAZ has no index, so it is only read whole; COPC is LAZ ordered by an
//! octree.

use std::fs;
use std::path::Path;

use futures_executor::block_on;
use serde_json::json;
use zvf_query::Query;

use crate::contest::Contender;
use crate::data::{Points, Question, make_boxes, open_store};
use crate::parts::packed::measure_queries;
use crate::peer::Other;
use crate::results::Results;
use crate::row::Role;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let count = results.bench.scaled(1e6);
    ask_peers(results, count, &["boxes", "bright", "far", "scan"])?;
    if !results.bench.quick && !results.bench.alone {
        // With ten times the points, only conditions are queried.
        ask_peers(results, 10 * count, &["bright", "far"])?;
    }
    Ok(())
}

/// Asks all contenders these questions about this many points.
fn ask_peers(results: &mut Results<'_>, count: u64, asks: &[&str]) -> anyhow::Result<()> {
    let bench = results.bench;
    let mut works = list_works()?;
    works.retain(|(title, ask, _)| {
        asks.contains(ask) && bench.is_selected(&format!("{title}, of {count} points"))
    });
    if works.is_empty() {
        return Ok(());
    }
    let folder = bench.create_folder(format!("points-{count}"))?;
    let store = Points { count, chunks: 8, shard: None }.make_store(&folder)?;
    export_numbers(&store, &folder)?;
    let packages = &["duckdb", "polars", "pyarrow", "numpy"];
    let columns = Other::new(bench, "Parquet, DuckDB", "columns", packages, &folder);
    let laz = Other::new(bench, "LAZ, laspy", "las", &["laspy[lazrs]"], &folder);
    let octree = Other::from_crate(bench, "COPC, copc-rs 0.5.0", "copc", &folder);
    let reader = open_store(&store)?;
    for (title, ask, question) in &works {
        let request =
            |work: &str, source: &str| question.request(&json!({"work": work, "source": source}));
        let column =
            |name, ask: &str, source| columns.contender_as(name, Role::Peer, request(ask, source));
        let mut contenders = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &question.queries)).with_file(&store),
            column("Parquet, DuckDB prepared", ask, "parquet")
                .with_file(folder.join("points.parquet")),
            column("a table of DuckDB, prepared", ask, "own"),
            column("Parquet, polars", &format!("polars_{ask}"), "parquet"),
        ];
        // LAZ without an index is no contender for boxes, and neither file supports conditions.
        if *ask == "scan" {
            let file = folder.join("points.laz");
            contenders.push(laz.contender(request(ask, "laz")).with_file(file));
        }
        if ["boxes", "scan"].contains(ask) {
            let file = folder.join("points.copc.laz");
            contenders.push(octree.contender(request(ask, "copc")).with_file(file));
        }
        results.contest(format!("{title}, of {count} points"), contenders)?;
    }
    Ok(())
}

/// Returns the title of each work, the request of others for it, and the question.
fn list_works() -> anyhow::Result<Vec<(&'static str, &'static str, Question)>> {
    let [bright, far] = ["intensity > 0.984375", "x < 50 and intensity > 0.90625"];
    let far_values = json!({"below": 50.0, "above": 0.90625});
    Ok(vec![
        ("a box of 1/1000", "boxes", Question::boxes(&make_boxes(1, 0.001))?),
        ("20 boxes of 1 %", "boxes", Question::boxes(&make_boxes(20, 0.01))?),
        (bright, "bright", Question::condition(bright, json!({"above": 0.984375}))?),
        (far, "far", Question::condition(far, far_values)?),
        ("all points and an attribute", "scan", Question::scan(&["intensity"])),
    ])
}

/// Exports the points as plain numbers, from which files of other formats are made.
fn export_numbers(store: &Path, folder: &Path) -> anyhow::Result<()> {
    let (positions, values) = (folder.join("positions.f32"), folder.join("intensity.f32"));
    if positions.exists() && values.exists() {
        return Ok(());
    }
    let answer = block_on(open_store(store)?.run(&Query::all()))?;
    fs::write(&positions, answer.batch.positions().bytes())?;
    if let Some(field) = answer.batch.field("intensity") {
        fs::write(&values, field.column.bytes())?;
    }
    Ok(())
}

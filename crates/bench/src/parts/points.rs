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
use serde_json::{Value, json};
use zvf_query::{Columns, Query};

use crate::contest::Contender;
use crate::parts::packed::measure_queries;
use crate::parts::sample_data::{Points, make_boxes, open_store, query_all, query_boxes};
use crate::peer::Other;
use crate::results::Results;
use crate::row::Role;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let count = results.bench.scaled(1e6);
    ask_peers(results, count, list_works()?)?;
    if results.bench.is_thorough() {
        // With ten times the points, only conditions are queried.
        let conditions = list_works()?.into_iter().filter(Work::is_condition).collect();
        ask_peers(results, 10 * count, conditions)?;
    }
    Ok(())
}

/// Queries all contenders on this many points.
fn ask_peers(results: &mut Results<'_>, count: u64, mut works: Vec<Work>) -> anyhow::Result<()> {
    let bench = results.bench;
    works.retain(|work| bench.is_selected(&work.name(count)));
    if works.is_empty() {
        return Ok(());
    }
    let folder = bench.create_folder(format!("points-{count}"))?;
    let store = Points { count, chunks: 8, shard: None }.make_store(&folder)?;
    export_numbers(&store, &folder)?;
    let packages = ["duckdb", "polars", "pyarrow", "numpy"];
    let columns = Other::new(bench, "Parquet, DuckDB", "columns", &packages, &folder);
    // Files of points are written only if a contender reads them.
    let of_files = works.iter().any(|work| !work.is_condition());
    let laz = of_files.then(|| Other::new(bench, "LAZ, laspy", "las", &["laspy[lazrs]"], &folder));
    let octrees = of_files.then(|| {
        [
            Other::from_crate(bench, "COPC, copc-rs 0.5.0", "copc", &folder),
            // Its Python package is built against the library, which no package provides.
            Other::new(bench, "COPC, PDAL", "pdal", &["pdal"], &folder),
        ]
    });
    let reader = open_store(&store)?;
    for work in &works {
        let ask = work.ask;
        let request = |work_of_peer: &str, source: &str| {
            let mut request = work.request.clone();
            request["work"] = json!(work_of_peer);
            request["source"] = json!(source);
            request
        };
        let column =
            |name, ask: &str, source| columns.contender_as(name, Role::Peer, request(ask, source));
        let mut contenders = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &work.queries)).with_file(&store),
            column("Parquet, DuckDB prepared", ask, "parquet")
                .with_file(folder.join("points.parquet")),
            column("a table of DuckDB, prepared", ask, "own"),
            column("Parquet, polars", &format!("polars_{ask}"), "parquet"),
        ];
        // LAZ without an index is no contender for boxes, and neither file supports conditions.
        if let Some(laz) = laz.as_ref().filter(|_| ask == "scan") {
            let file = folder.join("points.laz");
            contenders.push(laz.contender(request(ask, "laz")).with_file(file));
        }
        for octree in octrees.iter().flatten().filter(|_| !work.is_condition()) {
            let file = folder.join("points.copc.laz");
            contenders.push(octree.contender(request(ask, "copc")).with_file(file));
        }
        results.contest(work.name(count), contenders)?;
    }
    Ok(())
}

/// A query, in the forms for zvf and for the others.
struct Work {
    title: &'static str,
    queries: Vec<Query>,
    ask: &'static str,
    request: Value,
}

impl Work {
    /// Returns its name for `count` points.
    fn name(&self, count: u64) -> String {
        format!("{}, of {count} points", self.title)
    }

    /// Returns whether it is a condition on values.
    fn is_condition(&self) -> bool {
        matches!(self.ask, "bright" | "far")
    }
}

fn list_works() -> anyhow::Result<Vec<Work>> {
    let boxed = |title, number, volume| {
        let boxes = make_boxes(number, volume);
        let queries = query_boxes(&boxes)?;
        anyhow::Ok(Work { title, queries, ask: "boxes", request: json!({"boxes": boxes}) })
    };
    let filtered = |title: &'static str, ask, request| {
        let queries = vec![query_all().filter(title.parse()?)];
        anyhow::Ok(Work { title, queries, ask, request })
    };
    let all = Columns::Named(vec!["intensity".into()]);
    Ok(vec![
        boxed("a box of 1/1000", 1, 0.001)?,
        boxed("20 boxes of 1 %", 20, 0.01)?,
        filtered("intensity > 0.984375", "bright", json!({"above": 0.984375}))?,
        filtered(
            "x < 50 and intensity > 0.90625",
            "far",
            json!({"below": 50.0, "above": 0.90625}),
        )?,
        Work {
            title: "all points and an attribute",
            queries: vec![query_all().columns(all)],
            ask: "scan",
            request: json!({}),
        },
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

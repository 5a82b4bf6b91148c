//! Points as people keep them otherwise: Parquet asked through DuckDB, LAZ, and COPC.
//!
//! All hold the same points, with one attribute. Boxes are those of 1/1000 and of 1 % of the volume; a box
//! gives the coordinates of its points as arrays. Parquet is sorted by the chunks of the store and has
//! statistics for groups of rows, so that a box reads some of them (a column of geometries, as GeoParquet
//! has, would be slower for points than plain columns); LAZ without an index is read whole; COPC is LAZ
//! ordered by an octree.

use std::fs;
use std::path::Path;

use futures_executor::block_on;
use serde_json::json;
use zvf_query::{Columns, Query};

use crate::contest::{Contender, Role, contest};
use crate::page::Page;
use crate::parts::Bench;
use crate::parts::made::{Points, boxes, open, within};
use crate::parts::packed::turn;
use crate::peer::Other;

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    let count = (1e6 * bench.scale) as u64;
    let folder = bench.below(format!("points-{count}"))?;
    let store = Points { count, chunks: 8, shard: None }.store(&folder)?;
    export(&store, &folder)?;
    let others = [
        Other::new(bench, "Parquet, DuckDB", "columns", &["duckdb", "pyarrow", "numpy"], &folder),
        Other::new(bench, "LAZ, laspy", "las", &["laspy[lazrs]"], &folder),
        Other::built(bench, "COPC, copc-rs 0.5.0", "copc", &folder),
        // Its package for Python is built against the library, which no package brings.
        Other::new(bench, "COPC, PDAL", "pdal", &["pdal"], &folder),
    ];
    let reader = open(&store)?;
    let all = Columns::Named(vec!["intensity".into()]);
    for (work, query, ask) in [
        ("a box of 1/1000", boxes(1, 0.001), "boxes"),
        ("20 boxes of 1 %", boxes(20, 0.01), "boxes"),
        ("all points and an attribute", Vec::new(), "scan"),
    ] {
        let work = format!("{work}, of {count} points");
        if !bench.wants(&work) {
            continue;
        }
        let queries = match query.as_slice() {
            [] => Ok(vec![Query::all().columns(all.clone()).uncached()]),
            boxes => boxes.iter().map(within).collect::<anyhow::Result<Vec<_>>>(),
        }?;
        let mut contenders = vec![Contender::new("zvf", Role::Zvf, || turn(&reader, &queries))];
        let request = json!({"work": ask, "boxes": query});
        contenders.extend(others.iter().map(|other| other.contender(request.clone())));
        page.row(contest(bench, "points", work, contenders)?);
    }
    Ok(())
}

/// The points as plain numbers, for those who make files of another format of them.
fn export(store: &Path, folder: &Path) -> anyhow::Result<()> {
    let (positions, values) = (folder.join("positions.f32"), folder.join("intensity.f32"));
    if positions.exists() && values.exists() {
        return Ok(());
    }
    let answer = block_on(open(store)?.run(&Query::all()))?;
    fs::write(&positions, answer.batch.positions().bytes())?;
    if let Some(field) = answer.batch.field("intensity") {
        fs::write(&values, field.column.bytes())?;
    }
    Ok(())
}

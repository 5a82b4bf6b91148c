//! The number of requests of a query over plain HTTP, counted by the server.
//!
//! ```text
//! cold, a box of 27 cells                 one for each cell and array needed, and 6
//! cold, all of these cells in one shard   12
//! warm, the same box again                none
//! warm, the box moved by one chunk        one for each of the 9 new cells and array
//! ```

use std::fs;
use std::path::Path;

use anyhow::Context;
use zvf_model::Bounds;
use zvf_query::{Columns, Query, Reader};
use zvf_store::Store;

use super::services::Service;
use super::{open_options, upload_files};
use crate::contents;
use crate::corpus;
use crate::facts::Rows;
use crate::naive::Cube;
use crate::peers;
use crate::report::Report;

/// Counts on a server of plain files.
pub(super) async fn check_request_counts(
    report: &mut Report,
    service: &Service,
) -> anyhow::Result<()> {
    let folder = archives::scratch();
    peers::run_command(peers::reference_script("grid_stores.py")?.arg(folder.path()))?;
    let points = corpus::read_json(&folder.path().join("positions.json"))?;
    let points: Vec<Vec<f64>> = serde_json::from_value(points)?;
    for (name, arrays, columns) in [
        ("cells", 2, Columns::None),
        ("cells", 3, Columns::Named(vec!["a".to_owned()])),
        ("shard", 2, Columns::None),
        ("shard", 3, Columns::Named(vec!["a".to_owned()])),
    ] {
        let files = archives::tree(&folder.path().join(format!("{name}.zarrvectors")));
        upload_files(service, name, &files.into_iter().collect::<Vec<_>>()).await?;
        let count = RequestCount { service, name, arrays, columns };
        count.check_boxes(report, &points).await?;
    }
    Ok(())
}

struct RequestCount<'a> {
    service: &'a Service,
    name: &'a str,
    /// The number of arrays with cells for the query: vertices, fragments, and one for each column.
    arrays: u64,
    columns: Columns,
}

impl RequestCount<'_> {
    async fn check_boxes(&self, report: &mut Report, points: &[Vec<f64>]) -> anyhow::Result<()> {
        let before = self.count_served()?;
        let store =
            Store::open(&self.service.address(self.name), open_options(self.service)).await?;
        let reader = Reader::new(store);
        let sharded = self.name == "shard";
        let opened = self.count_served()? - before;
        for (what, moved, max_requests) in [
            ("cold", 0.0, if sharded { 12 } else { 27 * self.arrays + 6 }),
            ("again", 0.0, 0),
            ("moved", 10.0, if sharded { self.arrays } else { 9 * self.arrays }),
        ] {
            let cube =
                Cube { low: vec![11.0 + moved, 11.0, 11.0], high: vec![39.0 + moved, 39.0, 39.0] };
            let before = self.count_served()?;
            let query = Query::all()
                .in_region(Bounds::new(&cube.low, &cube.high)?)
                .columns(self.columns.clone());
            let answer = reader.run(&query).await?;
            let mut served = self.count_served()? - before;
            if what == "cold" {
                served += opened;
            }
            let at = format!("{}/{} arrays/{what}", self.name, self.arrays);
            let why = format!("{served} requests, at most {max_requests}");
            report.check(&at, served <= max_requests, why);
            let inside = points.iter().filter(|point| cube.contains(point));
            let rows = |point: &Vec<f64>| point.iter().flat_map(|x| x.to_le_bytes()).collect();
            let expected = Rows(inside.map(rows).collect()).sha256_sorted();
            let found = contents::points(answer.batch.positions());
            let found = Rows(found.iter().map(rows).collect()).sha256_sorted();
            report.check(&format!("{at}/answer"), found == expected, "other points");
        }
        Ok(())
    }

    /// Returns the number of requests that the server has answered, from its log.
    fn count_served(&self) -> anyhow::Result<u64> {
        let root = self.service.root.as_deref().and_then(Path::parent);
        let log = root.context("a server without a folder")?.join("access.log");
        Ok(fs::read_to_string(log)?.lines().count() as u64)
    }
}

//! A box over HTTP with 20 ms of latency: a new handle and a warm one, a folder and a packed store.
//!
//! The limit is unavoidable for any reader: one request for each cell that the box touches, sixteen
//! at a time, and no other request.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;
use tokio::runtime::Runtime;
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};

use crate::contest::Contender;
use crate::parts::packed::make_pack;
use crate::parts::sample_data::{Points, box_query, make_boxes};
use crate::peer::Other;
use crate::results::Results;
use crate::row::{Cost, Role, Turn};
use crate::server::Server;
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let folder = bench.create_folder("packed")?;
    let count = bench.scaled(1e6);
    let store = Points { count, chunks: 8, shard: None }.make_store(&folder)?;
    let sharded = Points { count, chunks: 8, shard: Some(4) }.make_store(&folder)?;
    let late = if bench.turns == 0 { Duration::ZERO } else { LATE };
    let server = Server::start(&folder, late)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let url = |path: &Path| -> anyhow::Result<String> {
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?;
        Ok(format!("{}/{name}", server.address()))
    };
    let query = box_query(&make_boxes(1, 0.001)[0])?;
    let pack = make_pack(&store)?;
    let addresses = [url(&store)?, url(&sharded)?, url(&pack)?];
    let reference = Other::reference(bench);
    for warm in [false, true] {
        let which = if warm { "a warm handle" } else { "a new handle" };
        let work = format!("a box of 1/1000 of {count} points, {which}");
        if !bench.is_selected(&work) {
            continue;
        }
        let remote = Remote { runtime: &runtime, server: &server, query: &query };
        let [folder, shards, pack] = &addresses;
        let handles = match warm {
            true => Some([
                remote.open_warm(folder)?,
                remote.open_warm(shards)?,
                remote.open_warm(pack)?,
            ]),
            false => None,
        };
        let handle = |at: usize| handles.as_ref().map(|handles| handles[at].clone());
        let ask = json!({"work": "boxes", "path": folder, "boxes": make_boxes(1, 0.001),
            "fresh": !warm, "once": true});
        let mut contenders = vec![
            Contender::zvf("zvf, file per cell", || remote.measure_query(folder, handle(0))),
            Contender::variant("zvf, in shards", || remote.measure_query(shards, handle(1))),
            Contender::variant("zvf, packed", || remote.measure_query(pack, handle(2))),
            Contender::new("one request per cell", Role::Limit, || remote.request_cells(&store)),
        ];
        if bench.turns > 0 {
            contenders.insert(3, reference.counted_contender(ask, &server));
        }
        results.contest(bench, work, contenders)?;
    }
    Ok(())
}

/// A client over HTTP.
#[derive(Clone, Copy)]
struct Remote<'a> {
    runtime: &'a Runtime,
    server: &'a Server,
    query: &'a Query,
}

impl Remote<'_> {
    fn open(&self, address: &str) -> anyhow::Result<Reader> {
        let opened = self.runtime.block_on(Store::open(address, OpenOptions::default()));
        Ok(Reader::new(opened?))
    }

    /// Opens a handle and runs the same query once; it caches no cells.
    fn open_warm(&self, address: &str) -> anyhow::Result<Reader> {
        let reader = self.open(address)?;
        self.runtime.block_on(reader.run(self.query))?;
        Ok(reader)
    }

    fn measure_query(&self, address: &str, handle: Option<Reader>) -> anyhow::Result<Turn> {
        self.server.reset();
        let start = Instant::now();
        let reader = match handle {
            Some(reader) => reader,
            None => self.open(address)?,
        };
        let answer = self.runtime.block_on(reader.run(self.query))?;
        let seconds = start.elapsed().as_secs_f64();
        let cost = self.server.cost();
        Ok(Turn { seconds, count: Some(answer.batch.len() as u64), cost })
    }

    /// Requests the cells of the box, sixteen at a time.
    fn request_cells(&self, store: &Path) -> anyhow::Result<Turn> {
        let cells: Vec<PathBuf> =
            crate::parts::packed::list_touched_cells(store, &make_boxes(1, 0.001));
        self.server.reset();
        let start = Instant::now();
        for some in cells.chunks(MAX_IN_FLIGHT) {
            std::thread::scope(|scope| -> anyhow::Result<()> {
                let asked = some.iter().map(|cell| scope.spawn(|| self.server.get(cell)));
                for thread in asked.collect::<Vec<_>>() {
                    thread.join().map_err(|_panic| anyhow::anyhow!("a request panicked"))??;
                }
                Ok(())
            })?;
        }
        let cost: Cost = self.server.cost();
        Ok(Turn { cost, ..Turn::from_seconds(start.elapsed().as_secs_f64()) })
    }
}

/// The latency of each response.
const LATE: Duration = Duration::from_millis(20);
const MAX_IN_FLIGHT: usize = 16;

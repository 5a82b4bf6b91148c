//! A box over HTTP with 20 ms of latency: a new handle and a warm one, a folder and a packed store.
//!
//! The limit is unavoidable for any reader: one request for each cell that the box touches, sixteen
//! at a time, and no other request.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};

use crate::contest::Contender;
use crate::parts::packed::{list_touched_cells, make_pack};
use crate::parts::sample_data::{Points, make_boxes, query_boxes};
use crate::peer::Other;
use crate::results::Results;
use crate::row::{Cost, Turn};
use crate::server::Server;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let (folder, count) = (bench.create_folder("packed")?, bench.scaled(1e6));
    let make = |shard| Points { count, chunks: 8, shard }.make_store(&folder);
    let (store, sharded) = (make(None)?, make(Some(4))?);
    let late = if bench.turns == 0 { Duration::ZERO } else { LATE };
    let server = Server::start(&folder, late)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let boxes = make_boxes(1, 0.001);
    let query = &query_boxes(&boxes)?[0];
    let remote = &Remote { runtime: &runtime, server: &server, query };
    let pack = make_pack(&store)?;
    let reference = Other::reference(bench);
    for warm in [false, true] {
        let which = if warm { "a warm handle" } else { "a new handle" };
        let work = format!("a box of 1/1000 of {count} points, {which}");
        if !bench.is_selected(&work) {
            continue;
        }
        let side = |path: &Path| {
            let address = server.address(path)?;
            let handle = if warm { Some(remote.open_warm(&address)?) } else { None };
            anyhow::Ok(move || remote.measure_query(&address, handle.clone()))
        };
        let mut contenders = vec![
            Contender::zvf("zvf, file per cell", side(&store)?),
            Contender::variant("zvf, in shards", side(&sharded)?),
            Contender::variant("zvf, packed", side(&pack)?),
            Contender::limit("one request per cell", || {
                remote.request_cells(&list_touched_cells(&store, &boxes))
            }),
        ];
        if bench.turns > 0 {
            let request = json!({"work": "boxes", "path": server.address(&store)?,
                "boxes": boxes, "fresh": !warm, "once": true});
            // Its requests are those since the end of the turn of the side before.
            let counted = reference.contender(request).and_then(|turn| {
                let memory = turn.cost.memory;
                Ok(turn.with_cost(Cost { memory, ..server.take_cost() }))
            });
            contenders.insert(3, counted);
        }
        results.contest(work, contenders)?;
    }
    Ok(())
}

/// A client over HTTP.
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
        self.measure(|| {
            let reader = handle.map_or_else(|| self.open(address), Ok)?;
            let answer = self.runtime.block_on(reader.run(self.query))?;
            Ok(Some(answer.batch.len() as u64))
        })
    }

    /// Requests cells, sixteen at a time.
    fn request_cells(&self, cells: &[std::path::PathBuf]) -> anyhow::Result<Turn> {
        self.measure(|| {
            for some in cells.chunks(MAX_IN_FLIGHT) {
                std::thread::scope(|scope| {
                    let asked = some.iter().map(|cell| scope.spawn(|| self.server.get(cell)));
                    let mut threads = asked.collect::<Vec<_>>().into_iter();
                    threads.try_for_each(|thread| thread.join().expect("a request panics never"))
                })?;
            }
            Ok(None)
        })
    }

    /// Measures work that returns a count, with its requests.
    fn measure(&self, work: impl FnOnce() -> anyhow::Result<Option<u64>>) -> anyhow::Result<Turn> {
        self.server.take_cost();
        let (turn, count) = Turn::measure(work)?;
        Ok(Turn { count, ..turn }.with_cost(self.server.take_cost()))
    }
}

/// The latency of each response.
const LATE: Duration = Duration::from_millis(20);
const MAX_IN_FLIGHT: usize = 16;

//! A box over HTTP with 20 ms of latency: a new handle and a warm one, a folder and a packed store.
//!
//! The limit is unavoidable for any reader: one request for each cell that the box touches, sixteen
//! at a time, and no other request.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Builder;
use zvf_query::Reader;
use zvf_store::{OpenOptions, Store};

use crate::contest::Contender;
use crate::data::{Points, Question, make_boxes};
use crate::parts::packed::{list_touched_cells, make_pack};
use crate::peer::Other;
use crate::results::Results;
use crate::row::Cost;
use crate::server::Server;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let (folder, count) = (bench.create_folder("packed")?, bench.scaled(1e6));
    let make = |shard| Points { count, chunks: 8, shard }.make_store(&folder);
    let (store, sharded) = (make(None)?, make(Some(4))?);
    let late = if bench.turns == 0 { Duration::ZERO } else { LATE };
    let server = &Server::start(&folder, late)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let boxes = make_boxes(1, 0.001);
    let question = Question::boxes(&boxes)?;
    let open = &|address: &str| {
        let opened = runtime.block_on(Store::open(address, OpenOptions::default()));
        anyhow::Ok(Reader::new(opened?))
    };
    let ask = &|reader: &Reader| {
        let answer = runtime.block_on(reader.run(&question.queries[0]))?;
        anyhow::Ok(Some(answer.batch.len() as u64))
    };
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
            // A warm handle has answered the same query once; it caches no cells.
            let handle = if warm { Some(open(&address)?) } else { None };
            handle.as_ref().map(ask).transpose()?;
            anyhow::Ok(move || {
                server.measure(|| ask(&handle.clone().map_or_else(|| open(&address), Ok)?))
            })
        };
        let mut contenders = vec![
            Contender::zvf("zvf, file per cell", side(&store)?),
            Contender::variant("zvf, in shards", side(&sharded)?),
            Contender::variant("zvf, packed", side(&pack)?),
            Contender::limit("one request per cell", || {
                let cells = list_touched_cells(&store, &boxes);
                server.measure(|| request_cells(server, &cells).map(|()| None))
            }),
        ];
        if bench.turns > 0 {
            let path = server.address(&store)?;
            let request = question.request(&json!({"path": path, "fresh": !warm, "once": true}));
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

/// Requests cells, sixteen at a time.
fn request_cells(server: &Server, cells: &[std::path::PathBuf]) -> anyhow::Result<()> {
    cells.chunks(MAX_IN_FLIGHT).try_for_each(|some| {
        thread::scope(|scope| {
            let asked = some.iter().map(|cell| scope.spawn(|| server.get(cell)));
            let mut threads = asked.collect::<Vec<_>>().into_iter();
            threads.try_for_each(|thread| thread.join().expect("a request panics never"))
        })
    })
}

/// The latency of each response.
const LATE: Duration = Duration::from_millis(20);
const MAX_IN_FLIGHT: usize = 16;

//! Streamlines in other formats: TRX, which is mapped, and FlatGeobuf through GDAL.
//!
//! All files hold the same lines. The stores of zvf have one file per cell, shards, or one mapped
//! file, as TRX has. The query of an object returns its vertices; a box returns the whole lines
//! that pass through it.

use std::fs;

use serde_json::json;

use crate::contest::Contender;
use crate::data::{Question, make_batch_store, make_boxes, make_walks, open_store};
use crate::parts::packed::{make_pack, measure_queries, open_mapped};
use crate::peer::Other;
use crate::results::Results;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(20_000.0).max(10);
    let folder = bench.create_folder(format!("lines-{count}"))?;
    // The store with one file per cell and in shards, and the same lines as plain numbers.
    let make = |name: &str, shard| {
        make_batch_store(folder.join(format!("{name}.zarrvectors")), (8, shard), || {
            let batch = make_walks(count, 100)?;
            fs::write(folder.join("positions.f32"), batch.positions().bytes())?;
            Ok(batch)
        })
    };
    let (store, sharded) = (make("lines", None)?, make("lines-in-shards", Some(4))?);
    let pack = make_pack(&store)?;
    let trx = Other::new(bench, "TRX, trx-python", "trxfile", &["trx-python"], &folder);
    let packages = &["pyogrio", "shapely", "numpy"];
    let flat = Other::new(bench, "FlatGeobuf, GDAL", "lines", packages, &folder);
    let (reader, shards, mapped) =
        (open_store(&store)?, open_store(&sharded)?, open_mapped(&pack)?);
    let some: Vec<u64> = (0..2000).map(|at| at * 7919 % count).collect();
    let (trx, flat) = ((&trx, folder.join("lines.trx")), (&flat, folder.join("lines.fgb")));
    let boxed = Question::boxes(&make_boxes(5, 0.001))?;
    for (work, question, others) in [
        ("one streamline", Question::objects(&some[1..2]), vec![&trx]),
        ("2000 streamlines", Question::objects(&some), vec![&trx]),
        ("streamlines through 5 boxes of 1/1000", boxed, vec![&flat]),
        ("all streamlines", Question::scan(&[]), vec![&trx, &flat]),
    ] {
        let queries = &question.queries;
        let measure = |reader| move || measure_queries(reader, queries);
        let mut contenders = vec![
            Contender::zvf("zvf", measure(&reader)).with_file(&store),
            Contender::variant("zvf, in shards", measure(&shards)).with_file(&sharded),
            Contender::variant("zvf, packed and mapped", measure(&mapped)).with_file(&pack),
        ];
        for (peer, file) in others {
            contenders.push(peer.contender(question.request(&json!({}))).with_file(file));
        }
        results.contest(format!("{work}, of {count}"), contenders)?;
    }
    Ok(())
}

//! Streamlines in other formats: TRX, which is mapped, and FlatGeobuf through GDAL.
//!
//! All files hold the same lines. The stores of zvf have one file per cell, shards, or one mapped
//! file, as TRX has. The query of an object returns its vertices; a box returns the whole lines
//! that pass through it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use zvf_model::ObjectId;
use zvf_query::{Columns, Query};

use crate::contest::Contender;
use crate::parts::packed::{make_pack, measure_queries, open_mapped};
use crate::parts::sample_data::{box_query, make_boxes, make_walks, open_store, write_batch};
use crate::peer::Other;
use crate::results::Results;
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let count = bench.scaled(20_000.0).max(10);
    let folder = bench.create_folder(format!("lines-{count}"))?;
    let [store, sharded] = write_stores(&folder, count)?;
    let pack = make_pack(&store)?;
    let trx = Other::new(bench, "TRX, trx-python", "trxfile", &["trx-python"], &folder);
    let packages = ["pyogrio", "shapely", "numpy"];
    let flat = Other::new(bench, "FlatGeobuf, GDAL", "lines", &packages, &folder);
    let (reader, shards, mapped) =
        (open_store(&store)?, open_store(&sharded)?, open_mapped(&pack)?);
    let some: Vec<u64> = (0..2000).map(|at| at * 7919 % count).collect();
    let named = |ids: &[u64]| {
        let ids = ids.iter().map(|id| ObjectId(*id as i64));
        Query::all().of_objects(ids).columns(Columns::None).uncached()
    };
    let small = make_boxes(5, 0.001);
    let boxed: anyhow::Result<Vec<Query>> = small.iter().map(box_query).collect();
    let all = Query::all().columns(Columns::None).uncached();
    for (work, queries, request, others) in [
        (
            "one streamline",
            vec![named(&some[1..2])],
            json!({"work": "objects", "ids": some[1..2]}),
            vec![(&trx, "lines.trx")],
        ),
        (
            "2000 streamlines",
            vec![named(&some)],
            json!({"work": "objects", "ids": some}),
            vec![(&trx, "lines.trx")],
        ),
        (
            "streamlines through 5 boxes of 1/1000",
            boxed?,
            json!({"work": "boxes", "boxes": small}),
            vec![(&flat, "lines.fgb")],
        ),
        (
            "all streamlines",
            vec![all],
            json!({"work": "scan"}),
            vec![(&trx, "lines.trx"), (&flat, "lines.fgb")],
        ),
    ] {
        let work = format!("{work}, of {count}");
        let variant = |name: &str, reader, file| {
            let queries = &queries;
            Contender::variant(name, move || measure_queries(reader, queries)).with_file(file)
        };
        let mut contenders = vec![
            Contender::zvf("zvf", || measure_queries(&reader, &queries)).with_file(&store),
            variant("zvf, in shards", &shards, &sharded),
            variant("zvf, packed and mapped", &mapped, &pack),
        ];
        for (peer, file) in others {
            let file = folder.join(file);
            contenders.push(peer.contender(request.clone()).with_file(file));
        }
        results.contest(bench, work, contenders)?;
    }
    Ok(())
}

/// Writes the store with one file per cell and in shards, and the same lines as plain numbers.
fn write_stores(folder: &Path, count: u64) -> anyhow::Result<[PathBuf; 2]> {
    let stores =
        ["lines", "lines-in-shards"].map(|name| folder.join(format!("{name}.zarrvectors")));
    for (store, shard) in stores.iter().zip([None, Some(4)]) {
        if !store.exists() {
            let batch = make_walks(count, 100)?;
            fs::write(folder.join("positions.f32"), batch.positions().bytes())?;
            write_batch(&batch, 8, shard, store)?;
        }
    }
    Ok(stores)
}

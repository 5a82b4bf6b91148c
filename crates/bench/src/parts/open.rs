//! Opening: a new handle to stores of more and more chunks, ready for queries.
//!
//! The limit is reading the documents that any reader needs: the root, the level and its arrays of
//! vertices and fragments. Time should not grow with the number of chunks.

use futures_executor::block_on;
use serde_json::json;
use zvf_model::LevelId;

use crate::contest::Contender;
use crate::data::{Points, open_store};
use crate::parts::packed::measure_cost;
use crate::peer::Other;
use crate::results::Results;
use crate::row::{Amount, Cost, Row};

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let reference = Other::reference(bench);
    // Chunks per axis: 10^2 (about), 10^3, 10^4 and 10^5 in total.
    let chunks_on_axis: &[u32] = match bench.largest {
        0..10 => &[2, 3],
        10..100 => &[5, 10, 22],
        _ => &[5, 10, 22, 46],
    };
    for &on_axis in chunks_on_axis {
        let chunks = u64::from(on_axis).pow(3);
        let work = format!("open a store of {chunks} chunks");
        if !bench.is_selected(&work) {
            continue;
        }
        // Four points per chunk; chunks are in shards, so that the file system has little effect.
        let points = Points { count: chunks * 4, chunks: on_axis, shard: Some(8) };
        let store = points.make_store(&bench.create_folder("open")?)?;
        let documents = ["", "0", "0/vertices", "0/vertex_fragments"];
        let documents = documents.map(|name| store.join(name).join("zarr.json"));
        let measure_opening = || {
            let reader = open_store(&store)?;
            std::hint::black_box(block_on(reader.level(LevelId(0)))?);
            Ok(Cost::from_stats(&Default::default(), &reader.store().io_stats()))
        };
        let contenders = vec![
            Contender::zvf("zvf", || measure_cost(measure_opening)),
            reference.contender(json!({"work": "open", "path": store})),
            Contender::reading("reading its documents", &documents),
        ];
        let amount = Amount { elements: chunks, ..Amount::default() };
        results.contest(Row::growing(work, "open, by chunks", amount), contenders)?;
    }
    Ok(())
}

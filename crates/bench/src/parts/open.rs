//! Opening: a new handle to stores of more and more chunks, ready for queries.
//!
//! The limit is reading the documents that any reader needs: the root, the level and its arrays of
//! vertices and fragments. Time should not grow with the number of chunks.

use std::path::{Path, PathBuf};

use futures_executor::block_on;
use serde_json::json;
use zvf_model::LevelId;

use crate::contest::Contender;
use crate::parts::packed::measure_cost;
use crate::parts::sample_data::{Points, open_store};
use crate::peer::Other;
use crate::results::Results;
use crate::row::{Amount, Cost};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let reference = Other::reference(bench);
    for &on_axis in chunks_on_axis(bench.largest) {
        let chunks = u64::from(on_axis).pow(3);
        let work = format!("open a store of {chunks} chunks");
        if !bench.is_selected(&work) {
            continue;
        }
        // Four points per chunk; chunks are in shards, so that the file system has little effect.
        let points = Points { count: chunks * 4, chunks: on_axis, shard: Some(8) };
        let store = points.make_store(&bench.create_folder("open")?)?;
        let documents = list_documents(&store);
        let ask = json!({"work": "open", "path": store});
        let contenders = vec![
            Contender::zvf("zvf", || measure_cost(|| measure_opening(&store))),
            reference.contender(ask),
            Contender::reading("reading its documents", &documents),
        ];
        let amount = Amount { elements: chunks, ..Amount::default() };
        results.contest_growing(bench, work, ("open, by chunks", amount), contenders)?;
    }
    Ok(())
}

/// Chunks per axis: 10^2 (about), 10^3, 10^4 and 10^5 in total.
fn chunks_on_axis(largest: u32) -> &'static [u32] {
    match largest {
        0..10 => &[2, 3],
        10..100 => &[5, 10, 22],
        _ => &[5, 10, 22, 46],
    }
}

fn measure_opening(store: &Path) -> anyhow::Result<Cost> {
    let reader = open_store(store)?;
    std::hint::black_box(block_on(reader.level(LevelId(0)))?);
    Ok(Cost::from_stats(&Default::default(), &reader.store().io_stats()))
}

fn list_documents(store: &Path) -> Vec<PathBuf> {
    let names = ["", "0", "0/vertices", "0/vertex_fragments"];
    names.map(|name| store.join(name).join("zarr.json")).to_vec()
}

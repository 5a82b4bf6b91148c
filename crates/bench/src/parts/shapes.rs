//! Skeletons and meshes in another format: Neuroglancer's precomputed layout, read through
//! CloudVolume.
//!
//! Both hold the same shapes, a thousand of each at scale 1: walks of 100 nodes, each linked to the
//! one before it, and rings of 256 corners and 512 triangles. The unsharded layout has one file per
//! shape. The count is vertices, and edges or faces. The limit is reading the files of the shapes
//! in that layout.

use std::fs;
use std::path::PathBuf;

use futures_executor::block_on;
use serde_json::json;
use zvf_convert::read::ReadOptions;
use zvf_model::{Batch, Elements, Kind};
use zvf_query::{Columns, Query, Reader};

use crate::contest::Contender;
use crate::data::{
    LENGTH, Question, make_batch_store, make_linked_walks, make_rings, open_store, with_owners,
};
use crate::parts::formats::count_contents;
use crate::parts::packed::measure_answers;
use crate::peer::Other;
use crate::results::Results;
use crate::row::Turn;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(1000.0).max(10);
    let folder = bench.create_folder(format!("shapes-{count}"))?;
    let layout = folder.join("precomputed");
    // The parent of each node is the one before it.
    let make_trees = |count| with_owners(make_linked_walks(Kind::Skeleton, count, &[1])?, LENGTH);
    let kinds = [
        ("skeletons", Kind::Skeleton, make_trees as fn(u64) -> anyhow::Result<Batch>),
        ("meshes", Kind::Mesh, make_rings),
    ];
    let mut stores = Vec::new();
    for (name, _, make) in kinds {
        let store = folder.join(format!("{name}.zarrvectors"));
        // Also as plain numbers.
        stores.push(make_batch_store(store, (8, None), || {
            let batch = make(count)?;
            fs::write(folder.join(format!("{name}.f32")), batch.positions().bytes())?;
            Ok(batch)
        })?);
    }
    let packages = &["cloud-volume==12.15.2"];
    let name = "precomputed, CloudVolume 12.15.2";
    let peer = Other::new(bench, name, "precomputed", packages, &folder);
    results.add_note(SETTINGS.to_owned());
    for ((name, kind, _), store) in kinds.into_iter().zip(&stores) {
        let reader = open_store(store)?;
        // Ids begin with 1 there.
        let end = if kind == Kind::Mesh { ":0:all" } else { "" };
        let file = |id: &u64| layout.join(format!("{name}/{}{end}", id + 1));
        let list_files = |ids: &[u64]| ids.iter().map(file).collect::<Vec<PathBuf>>();
        for ids in [vec![count / 2], (0..count / 2).map(|at| at * 7 % count).collect()] {
            let query =
                &Question::objects(&ids).map(|query| query.columns(Columns::All)).queries[0];
            let files = list_files(&ids);
            let sides = vec![
                Contender::zvf("zvf", || measure_query(&reader, query)).with_file(store),
                peer.contender(json!({"work": name, "ids": ids})).with_file(layout.join(name)),
                Contender::reading("reading its files", &files),
            ];
            results.contest(format!("{} of {count} {name}", ids.len()), sides)?;
        }
        // The peer makes the layout when it starts.
        if peer.is_present() || layout.exists() {
            let ids: Vec<u64> = (0..count).collect();
            let files = list_files(&ids);
            let options = ReadOptions { kind: Some(kind), ..ReadOptions::default() };
            let sides = vec![
                Contender::zvf("zvf, reading precomputed", || {
                    let read = Turn::measure(|| count_contents(&layout, &options));
                    let (turn, (_, vertices, elements)) = read?;
                    Ok(turn.with_count((vertices + elements) as u64))
                }),
                peer.contender(json!({"work": name, "ids": ids})),
                Contender::reading("reading its files", &files),
            ];
            results.contest(format!("all files of {count} {name}"), sides)?;
        }
    }
    Ok(())
}

/// Runs one query; counts vertices, and edges or faces.
fn measure_query(reader: &Reader, query: &Query) -> anyhow::Result<Turn> {
    measure_answers(reader, || {
        let batch = std::hint::black_box(block_on(reader.run(query))?).batch;
        Ok((batch.len() + batch.elements().map_or(0, Elements::len)) as u64)
    })
}

/// The settings of `CloudVolume`, as in its script.
const SETTINGS: &str = "CloudVolume runs with parallel=1 and cache=False: more processes add their start to files of \
                        this disk, and a cache on the disk would copy the same files; one handle stays open.";

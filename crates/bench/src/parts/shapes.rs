//! Skeletons and meshes in another format: Neuroglancer's precomputed layout, read through
//! CloudVolume.
//!
//! Both hold the same shapes, a thousand of each at scale 1: walks of 100 nodes, each linked to the
//! one before it, and rings of 256 corners and 512 triangles. The unsharded layout has one file per
//! shape. The count is vertices, and edges or faces. The limit is reading the files of the shapes
//! in that layout.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use futures_executor::block_on;
use serde_json::json;
use zvf_convert::read::ReadOptions;
use zvf_model::{Batch, Elements, Kind, ObjectId};
use zvf_query::{Query, Reader};

use crate::contest::Contender;
use crate::parts::formats::count_contents;
use crate::parts::packed::measure_answers;
use crate::parts::sample_data::{SIDE, floats, make_batch_store, make_walks, open_store};
use crate::peer::Other;
use crate::results::Results;
use crate::row::Turn;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(1000.0).max(10);
    let folder = bench.create_folder(format!("shapes-{count}"))?;
    let layout = folder.join("precomputed");
    let kinds = [
        ("skeletons", Kind::Skeleton, make_trees as fn(u64) -> _),
        ("meshes", Kind::Mesh, make_rings),
    ];
    let mut stores = Vec::new();
    for (name, _, make) in kinds {
        let store = folder.join(format!("{name}.zarrvectors"));
        // Also as plain numbers.
        stores.push(make_batch_store(store, (8, None), || {
            let batch: Batch = make(count)?;
            fs::write(folder.join(format!("{name}.f32")), batch.positions().bytes())?;
            Ok(batch)
        })?);
    }
    let packages = ["cloud-volume==12.15.2"];
    let name = "precomputed, CloudVolume 12.15.2";
    let peer = Other::new(bench, name, "precomputed", &packages, &folder);
    results.add_note(SETTINGS.to_owned());
    for ((name, kind, _), store) in kinds.into_iter().zip(&stores) {
        let reader = open_store(store)?;
        // Ids begin with 1 there.
        let end = if kind == Kind::Mesh { ":0:all" } else { "" };
        let file = |id: &u64| layout.join(format!("{name}/{}{end}", id + 1));
        let list_files = |ids: &[u64]| ids.iter().map(file).collect::<Vec<PathBuf>>();
        for ids in [vec![count / 2], (0..count / 2).map(|at| at * 7 % count).collect()] {
            let objects = ids.iter().map(|id| ObjectId(*id as i64));
            let query = Query::all().of_objects(objects).uncached();
            let files = list_files(&ids);
            let sides = vec![
                Contender::zvf("zvf", || measure_query(&reader, &query)).with_file(store),
                peer.contender(json!({"work": name, "ids": ids})).with_file(layout.join(name)),
                Contender::reading("reading its files", &files),
            ];
            results.contest(format!("{} of {count} {name}", ids.len()), sides)?;
        }
        if layout.exists() {
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

/// Makes walks as trees: the parent of each node is the one before it.
pub(super) fn make_trees(count: u64) -> anyhow::Result<Batch> {
    let walks = make_walks(count, NODES)?;
    let batch = Batch::new(Kind::Skeleton, walks.positions().clone());
    let batch = with_owners(batch, NODES)?;
    Ok(batch.with_elements(link_walks(walks.len(), NODES)?)?)
}

/// Returns edges from each vertex of walks of this length to the one before it.
pub(crate) fn link_walks(vertices: usize, length: usize) -> anyhow::Result<Elements> {
    let children = (0..vertices).filter(|node| node % length > 0);
    Ok(Elements::new(2, children.flat_map(|node| [node, node - 1]).collect())?)
}

/// Sets objects of `size` vertices each.
fn with_owners(batch: Batch, size: usize) -> anyhow::Result<Batch> {
    let owners = (0..batch.len()).map(|vertex| Some(ObjectId((vertex / size) as i64)));
    Ok(batch.with_vertex_objects(owners.collect())?)
}

/// Makes rings around the points of a walk, far enough from the sides.
pub(super) fn make_rings(count: u64) -> anyhow::Result<Batch> {
    let centres = make_walks(count, 1)?;
    let centres = centres.positions().as_slice::<f32>().context("float32")?.to_vec();
    let (mut places, mut faces) = (Vec::new(), Vec::new());
    for (ring, centre) in centres.as_chunks::<3>().0.iter().enumerate() {
        let first = ring * CORNERS;
        for at in 0..CORNERS {
            let angle = |step: usize| step as f32 / AROUND as f32 * std::f32::consts::TAU;
            let (u, v) = (angle(at / AROUND), angle(at % AROUND));
            let from_axis = 1.5 + 0.5 * v.cos();
            let offsets = [from_axis * u.cos(), from_axis * u.sin(), 0.5 * v.sin()];
            let inside = centre.map(|c| c.clamp(3.0, SIDE as f32 - 3.0));
            places.extend(inside.iter().zip(offsets).map(|(c, offset)| c + offset));
            let corner = |du: usize, dv: usize| {
                first + (at / AROUND + du) % AROUND * AROUND + (at % AROUND + dv) % AROUND
            };
            faces.extend([corner(0, 0), corner(1, 0), corner(1, 1)]);
            faces.extend([corner(0, 0), corner(1, 1), corner(0, 1)]);
        }
    }
    let batch = with_owners(Batch::new(Kind::Mesh, floats(3, places)?), CORNERS)?;
    Ok(batch.with_elements(Elements::new(3, faces)?)?)
}

/// The settings of `CloudVolume`, as in its script.
const SETTINGS: &str = "CloudVolume runs with parallel=1 and cache=False: more processes add their start to files of \
                        this disk, and a cache on the disk would copy the same files; one handle stays open.";
pub(super) const NODES: usize = 100;
/// The number of corners around a ring, and around its tube.
const AROUND: usize = 16;
/// The number of corners of a ring.
pub(super) const CORNERS: usize = AROUND * AROUND;

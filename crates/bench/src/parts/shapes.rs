//! Skeletons and meshes in another format: Neuroglancer's precomputed layout, read through
//! CloudVolume.
//!
//! Both hold the same shapes, a thousand of each at scale 1: walks of 100 nodes, each linked to the
//! one before it, and rings of 256 corners and 512 triangles. The unsharded layout has one file per
//! shape. The count is vertices, and edges or faces. The limit is reading the files of the shapes
//! in that layout.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use futures_executor::block_on;
use serde_json::json;
use zvf_convert::read::ReadOptions;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Kind, ObjectId};
use zvf_query::{Query, Reader};

use crate::contest::Contender;
use crate::parts::formats::count_contents;
use crate::parts::packed::measure_answers;
use crate::parts::sample_data::{SIDE, make_walks, open_store, write_batch};
use crate::peer::Other;
use crate::results::Results;
use crate::row::Turn;
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let count = bench.scaled(1000.0).max(10);
    let folder = bench.create_folder(format!("shapes-{count}"))?;
    let stores = [
        write_store(&folder, "skeletons", &make_trees(count)?)?,
        write_store(&folder, "meshes", &make_rings(count)?)?,
    ];
    let packages = ["cloud-volume==12.15.2"];
    let name = "precomputed, CloudVolume 12.15.2";
    let peer = Other::new(bench, name, "precomputed", &packages, &folder);
    results.add_note(SETTINGS.to_owned());
    for (kind, store) in ["skeletons", "meshes"].into_iter().zip(&stores) {
        let reader = open_store(store)?;
        for ids in [vec![count / 2], (0..count / 2).map(|at| at * 7 % count).collect()] {
            let many = ids.len();
            let work = format!("{many} of {count} {kind}");
            let query =
                Query::all().of_objects(ids.iter().map(|id| ObjectId(*id as i64))).uncached();
            let files: Vec<PathBuf> = ids
                .iter()
                .map(|id| folder.join(format!("precomputed/{kind}/{}", shape_file(kind, *id))))
                .collect();
            let sides = vec![
                Contender::zvf("zvf", || measure_query(&reader, &query)).with_file(store),
                peer.contender(json!({"work": kind, "ids": ids}))
                    .with_file(folder.join("precomputed").join(kind)),
                Contender::reading("reading its files", &files),
            ];
            results.contest(bench, work, sides)?;
        }
        let work = format!("all files of {count} {kind}");
        let layout = folder.join("precomputed");
        if bench.is_selected(&work) && layout.exists() {
            let files: Vec<PathBuf> = (0..count)
                .map(|id| layout.join(format!("{kind}/{}", shape_file(kind, id))))
                .collect();
            let ids: Vec<u64> = (0..count).collect();
            let sides = vec![
                Contender::zvf("zvf, reading precomputed", || read_layout(&layout, kind)),
                peer.contender(json!({"work": kind, "ids": ids})),
                Contender::reading("reading its files", &files),
            ];
            results.contest(bench, work, sides)?;
        }
    }
    Ok(())
}

/// Returns the file of a shape by its id; ids begin with 1 there.
fn shape_file(kind: &str, id: u64) -> String {
    let id = id + 1;
    if kind == "meshes" { format!("{id}:0:all") } else { id.to_string() }
}

/// Reads all shapes of one kind from the files of that layout.
fn read_layout(layout: &Path, kind: &str) -> anyhow::Result<Turn> {
    let kind = if kind == "meshes" { Kind::Mesh } else { Kind::Skeleton };
    let options = ReadOptions { kind: Some(kind), ..ReadOptions::default() };
    let begun = Instant::now();
    let (_, vertices, elements) = count_contents(layout, &options)?;
    let turn = Turn::from_seconds(begun.elapsed().as_secs_f64());
    Ok(turn.with_count((vertices + elements) as u64))
}

/// Runs one query; counts vertices, and edges or faces.
fn measure_query(reader: &Reader, query: &Query) -> anyhow::Result<Turn> {
    measure_answers(reader, || {
        let batch = std::hint::black_box(block_on(reader.run(query))?).batch;
        Ok((batch.len() + batch.elements().map_or(0, Elements::len)) as u64)
    })
}

/// Writes the store, and the same shapes as plain numbers.
fn write_store(folder: &Path, name: &str, batch: &Batch) -> anyhow::Result<PathBuf> {
    let store = folder.join(format!("{name}.zarrvectors"));
    if !store.exists() {
        fs::write(folder.join(format!("{name}.f32")), batch.positions().bytes())?;
        write_batch(batch, 8, None, &store)?;
    }
    Ok(store)
}

/// Makes walks as trees: the parent of each node is the one before it.
pub(super) fn make_trees(count: u64) -> anyhow::Result<Batch> {
    let walks = make_walks(count, NODES)?;
    let children = (0..walks.len()).filter(|node| node % NODES > 0);
    let edges = Elements::new(2, children.flat_map(|node| [node, node - 1]).collect())?;
    let owners = (0..walks.len()).map(|node| Some(ObjectId((node / NODES) as i64))).collect();
    let batch = Batch::new(Kind::Skeleton, walks.positions().clone());
    Ok(batch.with_vertex_objects(owners)?.with_elements(edges)?)
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
            for (c, offset) in centre.iter().zip(offsets) {
                places.extend((c.clamp(3.0, SIDE as f32 - 3.0) + offset).to_le_bytes());
            }
            let corner = |du: usize, dv: usize| {
                first + (at / AROUND + du) % AROUND * AROUND + (at % AROUND + dv) % AROUND
            };
            faces.extend([corner(0, 0), corner(1, 0), corner(1, 1)]);
            faces.extend([corner(0, 0), corner(1, 1), corner(0, 1)]);
        }
    }
    let positions = Column::new(Dtype::FLOAT32, 3, places.into())?;
    let owner = |vertex: usize| Some(ObjectId((vertex / CORNERS) as i64));
    let owners = (0..positions.len()).map(owner).collect();
    let batch = Batch::new(Kind::Mesh, positions);
    Ok(batch.with_vertex_objects(owners)?.with_elements(Elements::new(3, faces)?)?)
}

/// The settings of `CloudVolume`, as in its script.
const SETTINGS: &str = "CloudVolume runs with parallel=1 and cache=False: more processes add their start to files of \
                        this disk, and a cache on the disk would copy the same files; one handle stays open.";
pub(super) const NODES: usize = 100;
/// The number of corners around a ring, and around its tube.
const AROUND: usize = 16;
/// The number of corners of a ring.
pub(super) const CORNERS: usize = AROUND * AROUND;

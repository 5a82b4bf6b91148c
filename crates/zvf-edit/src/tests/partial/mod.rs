//! Tests of partial refreshes of levels: they have the bytes and documents of a full build.
//!
//! Stores are small here, and edits few: `torture edit-model --levels` runs many more of them.

mod chains;
mod elements;
mod points;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype, DtypeKind};
use zvf_model::{Batch, Column, Kind};
use zvf_pyramid::{Options, build};
use zvf_store::BuildOptions;
use zvf_write::{Schema, WriteOptions, Writer};

use super::{run, write_files};
use crate::medium::block_on;
use crate::options::{CommitOptions, Refresh};
use crate::refresh;

/// A linear congruential generator of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn next_below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Returns a multiple of 1/16 from `low` to `low + span`.
    fn next_within(&mut self, low: f64, span: u64) -> f64 {
        low + self.next_below(span * 16) as f64 / 16.0
    }
}

fn column(dtype: &str, width: u32, values: impl IntoIterator<Item = f64>) -> Column {
    let dtype = dtype.parse::<Dtype>().unwrap();
    let bytes: Vec<u8> = values
        .into_iter()
        .flat_map(|x| match (dtype.kind == DtypeKind::Float, dtype.size) {
            (true, 4) => (x as f32).to_le_bytes().to_vec(),
            (true, _) => x.to_le_bytes().to_vec(),
            (false, 2) => (x as i16).to_le_bytes().to_vec(),
            (false, _) => (x as i64).to_le_bytes().to_vec(),
        })
        .collect();
    Column::new(dtype, width, bytes.into()).unwrap()
}

/// A store in a temporary folder, and a path for its twin.
struct Pair {
    _folder: tempfile::TempDir,
    store: PathBuf,
    twin: PathBuf,
    options: Options,
}

impl Pair {
    fn of(schema: Schema, batch: &Batch, options: &Options) -> Self {
        Self::new(schema, |writer| writer.push(batch).unwrap(), options)
    }

    fn new(schema: Schema, fill: impl FnOnce(&mut Writer), options: &Options) -> Self {
        let folder = archives::scratch();
        let place = |name: &str| folder.path().join(name).join("store.zarrvectors");
        let (store, twin) = (place("a"), place("b"));
        std::fs::create_dir(store.parent().unwrap()).unwrap();
        let mut write = WriteOptions::default();
        write.build.sync = false;
        let mut writer = block_on(Writer::create(store.to_str().unwrap(), schema, write)).unwrap();
        fill(&mut writer);
        block_on(writer.finish()).unwrap();
        let levels = build_levels(&store, options);
        assert!(levels > 0);
        let options = Options { levels: Some(levels), ..options.clone() };
        Self { _folder: folder, store, twin, options }
    }

    /// Edits the store, refreshes it, and compares it with a twin whose levels are fully rebuilt. Returns the rebuilt shares.
    fn edit(&self, label: &str, lines: &[Json]) -> Vec<Json> {
        run(&self.store, lines).unwrap_or_else(|error| panic!("{label}: {error}"));
        let _none_yet = std::fs::remove_dir_all(&self.twin);
        write_files(&self.twin, archives::tree(&self.store));
        let report = refresh(&self.store, Refresh::Stale, &CommitOptions::default()).unwrap();
        build_levels(&self.twin, &self.options);
        let (found, expected) = (files(&self.store), files(&self.twin));
        for key in found.keys().chain(expected.keys()) {
            let (found, expected) = (found.get(key), expected.get(key));
            assert!(
                found == expected,
                "{label}: {key}: found {found:?}, expected {expected:?}; {lines:?} {report}"
            );
        }
        report["commits"][0]["levels_rebuilt"].as_array().cloned().unwrap_or_default()
    }
}

/// Reads the files of a store, with documents parsed, and the root without the state of the journal.
fn files(store: &Path) -> BTreeMap<String, (Json, Vec<u8>)> {
    let parsed = |(name, bytes): (String, Vec<u8>)| {
        if !name.ends_with("zarr.json") {
            return (name, (Json::Null, bytes));
        }
        let mut document: Json = serde_json::from_slice(&bytes).unwrap();
        if name == "zarr.json" {
            document["attributes"]["zvf"] = Json::Null;
        }
        (name, (document, Vec::new()))
    };
    archives::tree(store).into_iter().map(parsed).collect()
}

/// Builds the levels of a store, and returns their number.
fn build_levels(store: &Path, options: &Options) -> u32 {
    let build_options = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
    let levels = block_on(build(store.to_str().unwrap(), options, &build_options, |_level| {}));
    levels.unwrap().len() as u32
}

/// Returns whether only a part of a level was rebuilt. If the place of its largest error is
/// rebuilt, so is all of the level.
fn is_partial(rebuilt: &Json) -> bool {
    let (built, all) = (rebuilt["built"].as_u64().unwrap(), rebuilt["all"].as_u64().unwrap());
    let reason = "the place of the largest error changed";
    assert!(rebuilt["reason"].is_null() || rebuilt["reason"] == reason, "{rebuilt}");
    rebuilt["reason"].is_null() && built < all
}

/// Makes local edits, and checks that each level is partially rebuilt at least once. Returns the rebuilt share of the
/// first level by the first edit with a partial rebuild.
fn assert_partial(label: &str, pair: &Pair, edits: &[Json]) -> Json {
    let shares = edits.iter().map(|edit| pair.edit(label, std::slice::from_ref(edit)));
    let shares: Vec<Vec<Json>> = shares.collect();
    for level in 0..shares[0].len() {
        let level_shares: Vec<&Json> = shares.iter().map(|rebuilt| &rebuilt[level]).collect();
        let partial = level_shares.iter().filter(|rebuilt| is_partial(rebuilt)).count();
        // A level of a single chunk has no part.
        let is_single = level_shares.iter().all(|rebuilt| rebuilt["all"] == 1);
        assert!(partial > 0 || is_single, "{label}: {level_shares:?}");
    }
    shares.iter().map(|rebuilt| &rebuilt[0]).find(|rebuilt| is_partial(rebuilt)).cloned().unwrap()
}

/// Returns small moves of the first vertices of some objects.
fn small_moves_of(kind: Kind) -> Vec<Json> {
    let move_of = |id: i64| {
        let first = json!({"kind": kind.token(), "object": id, "index": [0]});
        let offset = &[0.25, 0.0, 0.0][..axes_of(kind)];
        json!({"op": "vertex.move", "vertices": first, "by": offset})
    };
    (2..4).map(move_of).collect()
}

fn assert_full(label: &str, rebuilt: &[Json], reason: &str) {
    for level in rebuilt {
        assert_eq!(level["built"], level["all"], "{label}: {rebuilt:?}");
    }
    assert_eq!(rebuilt[0]["reason"], reason, "{label}: {rebuilt:?}");
}

/// The approximate side length of a store.
const SIDE: u64 = 40;

/// Returns the schema of a kind. Chunks are larger where objects are rebuilt rather than chunks, to have fewer files.
fn schema(kind: Kind) -> Schema {
    let side = if kind == Kind::PointCloud { 10.0 } else { 16.0 };
    let chunk = ChunkShape::new(&vec![side; axes_of(kind)]).unwrap();
    Schema::new(kind, Axis::spatial(axes_of(kind)).unwrap(), chunk).unwrap()
}

/// Returns the number of axes: 3 for meshes, 2 for other kinds.
fn axes_of(kind: Kind) -> usize {
    if kind == Kind::Mesh { 3 } else { 2 }
}

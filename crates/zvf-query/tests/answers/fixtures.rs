//! Small stores of format 0.9.2, built in memory from known values.
//!
//! Positions are `f32`. Every vertex has `v` (its number, `f32`), `at` (its first coordinate, so
//! that an interpolated value can be distinguished from a position) and `label` (a, b or c by its
//! number). Every fragment has `code` (the number of its first vertex), every object `mass` (ten
//! times its row) and `size` (its number of vertices), every edge or face `w` (its number).

use std::collections::{BTreeMap, BTreeSet};

use archives::in_memory;
use object_store::path::Path;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use zvf_error::Result;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::key::ChunkKey;
use zvf_format::link::{Body, Endpoint, LinkInteger, LinkPolicy, LinkRecord, encode};
use zvf_format::manifest::ManifestBuilder;
use zvf_model::Kind;
use zvf_query::{Answer, Query, Reader};
use zvf_store::{OpenOptions, Store};

/// The content of a level of a store.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) kind: Kind,
    pub(crate) chunk: f64,
    pub(crate) points: Vec<Vec<f32>>,
    /// The vertices of each object, in order; empty for points without objects.
    pub(crate) objects: Vec<Vec<usize>>,
    /// The id of each object.
    pub(crate) ids: Vec<i64>,
    /// Edges, faces, or (child, parent).
    pub(crate) elements: Vec<Vec<usize>>,
    /// Members of groups, by id.
    pub(crate) groups: Vec<Vec<i64>>,
    /// Number of bins along each axis of a chunk, for points without objects.
    pub(crate) bins: usize,
    /// Pairs of objects: the fragments of one also belong to the other.
    pub(crate) shared: Vec<(usize, usize)>,
    /// Whether the level adds to the next coarser one.
    pub(crate) adds: bool,
}

/// Files by their path.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// An open store in memory.
pub(crate) struct Fixture {
    runtime: Runtime,
    pub(crate) reader: Reader,
}

/// Chunks, and the number of a fragment in each.
type Manifest = Vec<(Vec<i64>, u64)>;

/// The rows of one chunk, and its fragments as ranges of rows.
#[derive(Default)]
struct Chunk {
    rows: Vec<usize>, // numbers of vertices
    fragments: Vec<(usize, usize)>,
}

impl Data {
    /// Returns vertices only, in chunks of this size.
    pub(crate) fn new(kind: Kind, chunk: f64, points: Vec<Vec<f32>>) -> Self {
        Self {
            kind,
            chunk,
            points,
            objects: Vec::new(),
            ids: Vec::new(),
            elements: Vec::new(),
            groups: Vec::new(),
            bins: 1,
            shared: Vec::new(),
            adds: false,
        }
    }

    /// Adds objects; their ids are their indices.
    pub(crate) fn objects(self, objects: Vec<Vec<usize>>) -> Self {
        let ids = (0..objects.len() as i64).collect();
        Self { objects, ids, ..self }
    }

    /// Makes all vertices one object.
    pub(crate) fn one_object(self) -> Self {
        let all = (0..self.points.len()).collect();
        self.objects(vec![all])
    }

    pub(crate) fn axes(&self) -> usize {
        self.points.first().map_or(2, Vec::len)
    }

    /// Opens a store with this level only.
    pub(crate) fn fixture(&self) -> Fixture {
        Fixture::from_files(&store(std::slice::from_ref(self)))
    }

    /// Returns the chunk of a vertex.
    pub(crate) fn chunk_of(&self, vertex: usize) -> Vec<i64> {
        self.points[vertex].iter().map(|x| (f64::from(*x) / self.chunk).floor() as i64).collect()
    }

    /// Returns the chunks, and the fragments of each object.
    fn lay_out(&self) -> (BTreeMap<Vec<i64>, Chunk>, Vec<Manifest>) {
        let mut chunks: BTreeMap<Vec<i64>, Chunk> = BTreeMap::new();
        let mut manifests = vec![Vec::new(); self.objects.len()];
        let mut add = |key: &[i64], rows: &[usize]| {
            let chunk = chunks.entry(key.to_vec()).or_default();
            chunk.fragments.push((chunk.rows.len(), rows.len()));
            chunk.rows.extend_from_slice(rows);
            (key.to_vec(), chunk.fragments.len() as u64 - 1)
        };
        if self.objects.is_empty() {
            let mut bins: BTreeMap<Vec<i64>, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
            for vertex in 0..self.points.len() {
                let key = self.chunk_of(vertex);
                let bin = self.points[vertex].iter().zip(&key).fold(0, |flat, (x, chunk)| {
                    let size = self.chunk / self.bins as f64;
                    let bin = (f64::from(*x) / size).floor() as i64 - chunk * self.bins as i64;
                    flat * self.bins + bin as usize
                });
                bins.entry(key).or_default().entry(bin).or_default().push(vertex);
            }
            for (key, bins) in &bins {
                for bin in 0..self.bins.pow(self.axes() as u32) {
                    add(key, bins.get(&bin).map_or(&[], Vec::as_slice));
                }
            }
            return (chunks, manifests);
        }
        for (object, manifest) in self.objects.iter().zip(&mut manifests) {
            if self.kind.is_chain() {
                for run in object.chunk_by(|a, b| self.chunk_of(*a) == self.chunk_of(*b)) {
                    manifest.push(add(&self.chunk_of(run[0]), run));
                }
            } else {
                let mut rows_by_chunk: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
                for vertex in object {
                    rows_by_chunk.entry(self.chunk_of(*vertex)).or_default().push(*vertex);
                }
                manifest.extend(rows_by_chunk.iter().map(|(key, rows)| add(key, rows)));
            }
        }
        for (to, from) in &self.shared {
            let fragments = manifests[*from].clone();
            manifests[*to].extend(fragments);
        }
        (chunks, manifests)
    }
}

impl Fixture {
    pub(crate) fn from_files(files: &Files) -> Self {
        Self::with_options(files, OpenOptions::default())
    }

    pub(crate) fn with_options(files: &Files, options: OpenOptions) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store = runtime.block_on(async {
            let memory = in_memory(files).await;
            Store::from_object_store(memory, &Path::default(), options).await.unwrap()
        });
        Self { runtime, reader: Reader::new(store) }
    }

    pub(crate) fn run(&self, query: &Query) -> Result<Answer> {
        self.wait(self.reader.run(query))
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// Builds the files of a store with these levels, all of the same kind.
pub(crate) fn store(levels: &[Data]) -> Files {
    let first = &levels[0];
    let axes = first.axes();
    let names = ["x", "y", "z"];
    let axis = |name: &&str| json!({"name": name, "type": "space"});
    let dataset = |level: usize| {
        json!({"path": level.to_string(), "coordinateTransformations":
            [{"type": "scale", "scale": vec![1.0; axes]}]})
    };
    let convention = match first.kind {
        Kind::Skeleton => "implicit_sequential_with_branches",
        Kind::Graph | Kind::Mesh => "explicit",
        _ => "implicit_sequential",
    };
    let mut block = json!({"zv_version": "0.9.2", "format_capabilities": [],
        "chunk_shape": vec![first.chunk; axes], "bounds": [vec![-1000.0; axes], vec![1000.0; axes]],
        "geometry_types": [first.kind.to_string()], "links_convention": convention,
        "object_index_convention": "standard", "cross_chunk_strategy": "explicit_links"});
    if first.bins > 1 {
        block["base_bin_shape"] = json!(vec![first.chunk / first.bins as f64; axes]);
    }
    let multiscales = json!([{"version": "0.4", "name": "default",
        "axes": names[..axes].iter().map(axis).collect::<Vec<_>>(),
        "datasets": (0..levels.len()).map(dataset).collect::<Vec<_>>()}]);
    let mut files = Files::new();
    group(&mut files, "", json!({"zarr_vectors": block, "multiscales": multiscales}));
    for (number, level) in levels.iter().enumerate() {
        add_level(&mut files, number, level);
    }
    files
}

fn add_level(files: &mut Files, number: usize, data: &Data) {
    let (chunks, manifests) = data.lay_out();
    let mut block = json!({"level": number, "object_sparsity": 1.0, "vertex_count": data.points.len(),
        "coarsening_method": "none", "parent_level": null, "arrays_present": ["vertices"],
        "fragments_tile": true});
    if data.adds {
        block["refinement"] = json!("add");
    }
    group(files, &number.to_string(), json!({"zarr_vectors_level": block}));
    let path = |suffix: &str| format!("{number}/{suffix}");
    group(files, &path("vertex_attributes"), json!({}));
    group(files, &path("fragment_attributes"), json!({}));
    let f32s = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let by_row = |chunk: &Chunk, bytes: &dyn Fn(usize) -> Vec<u8>| -> Vec<u8> {
        chunk.rows.iter().flat_map(|row| bytes(*row)).collect()
    };
    let index = |chunk: &Chunk| {
        let ranges = chunk.fragments.iter().map(|(start, count)| (*start as u64, *count as u64));
        fragments(&ranges.collect::<Vec<_>>())
    };
    let codes = |chunk: &Chunk| -> Vec<u8> {
        let first = |(start, count): &(usize, usize)| match count {
            0 => -1,
            _ => chunk.rows[*start] as i32,
        };
        chunk.fragments.iter().map(first).flat_map(i32::to_le_bytes).collect()
    };
    let attribute =
        |name: &str, dtype: &str| json!({"name": name, "dtype": dtype, "row_shape": []});
    let label = json!({"name": "label", "dtype": "int8", "row_shape": [], "_FillValue": -1,
        "encoding": "dictionary", "categories": ["a", "b", "c"]});
    let positions = json!({"dtype": "float32", "encoding": "raw"});
    let first_axis = |row: usize| f32s(&data.points[row][..1]);
    type Encode<'a> = &'a dyn Fn(&Chunk) -> Vec<u8>;
    let arrays: [(&str, Value, Encode<'_>); 6] = [
        ("vertices", positions, &|chunk| by_row(chunk, &|row| f32s(&data.points[row]))),
        ("vertex_fragments", json!({"encoding": "fragment_index_v1"}), &index),
        ("vertex_attributes/v", attribute("v", "float32"), &|chunk| {
            by_row(chunk, &|row| f32s(&[row as f32]))
        }),
        ("vertex_attributes/at", attribute("at", "float32"), &|chunk| by_row(chunk, &first_axis)),
        ("vertex_attributes/label", label, &|chunk| by_row(chunk, &|row| vec![(row % 3) as u8])),
        ("fragment_attributes/code", attribute("code", "int32"), &codes),
    ];
    for (name, attributes, bytes) in arrays {
        let all = chunks.iter().map(|(key, chunk)| (key.clone(), bytes(chunk))).collect();
        cells(files, &path(name), data.axes(), attributes, &all);
    }
    if !data.objects.is_empty() {
        add_objects(files, number, data, &manifests);
    }
    if data.kind.has_links() {
        add_links(files, number, data, &chunks);
    }
}

fn add_objects(files: &mut Files, level: usize, data: &Data, manifests: &[Manifest]) {
    let n = manifests.len();
    let path = |suffix: &str| format!("{level}/{suffix}");
    let rank = data.axes();
    group(
        files,
        &path("object_index"),
        json!({"num_objects": n, "num_present": n, "sid_ndim": rank,
            "layout": "vlen_manifests_v2", "object_ids_sorted": data.ids.is_sorted()}),
    );
    let blobs = manifests.iter().map(|manifest| {
        let mut builder = ManifestBuilder::new(rank as u64).unwrap();
        manifest
            .iter()
            .for_each(|(chunk, fragment)| builder.push_single(chunk, *fragment).unwrap());
        builder.encode()
    });
    rows(files, &path("object_index/manifests"), json!({}), &blobs.collect::<Vec<_>>());
    let ids: Vec<u8> = data.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    numbers(files, &path("object_index/object_ids"), "int64", json!(0), n, ids);
    group(files, &path("object_attributes"), json!({}));
    let mass: Vec<u8> = (0..n).flat_map(|row| (row as f32 * 10.0).to_le_bytes()).collect();
    numbers(files, &path("object_attributes/mass"), "float32", json!("NaN"), n, mass);
    let sizes = data.objects.iter().flat_map(|object| (object.len() as i64).to_le_bytes());
    numbers(files, &path("object_attributes/size"), "int64", json!(0), n, sizes.collect());
    if !data.groups.is_empty() {
        let members =
            data.groups.iter().map(|ids| ids.iter().flat_map(|id| id.to_le_bytes()).collect());
        let members: Vec<Vec<u8>> = members.collect();
        let names: Vec<String> = (0..members.len()).map(|group| format!("g{group}")).collect();
        let doc = json!({"num_groups": members.len(), "group_names": names});
        rows(files, &path("groups"), doc, &members);
    }
}

fn add_links(files: &mut Files, level: usize, data: &Data, chunks: &BTreeMap<Vec<i64>, Chunk>) {
    let rank = data.axes();
    let width = data.elements.first().map_or(2, Vec::len);
    let family = LinkPolicy::new(width, rank).unwrap();
    let mut place = BTreeMap::new();
    let mut implied = BTreeSet::new();
    for (key, chunk) in chunks {
        let key = ChunkKey::new(key).unwrap();
        chunk.rows.iter().enumerate().for_each(|(row, vertex)| {
            place.insert(*vertex, (key, row as u64));
        });
        for (start, count) in &chunk.fragments {
            let rows = &chunk.rows[*start..start + count];
            implied.extend(rows.windows(2).map(|pair| vec![pair[1], pair[0]]));
        }
    }
    type Cells = BTreeMap<String, (bool, Value, BTreeMap<Vec<i64>, (Vec<LinkRecord>, Vec<u8>)>)>;
    let mut segments: Cells = BTreeMap::new();
    for (number, element) in data.elements.iter().enumerate() {
        if data.kind == Kind::Skeleton && implied.contains(element) {
            continue;
        }
        let ends: Vec<Endpoint<'_>> = element
            .iter()
            .map(|vertex| Endpoint { chunk: &place[vertex].0, row: place[vertex].1 })
            .collect();
        for copy in family.place(&ends).unwrap() {
            let offsets: Vec<Vec<i64>> = (1..width)
                .map(|end| {
                    let (a, b) = (copy.source(), copy.endpoint(end).unwrap().chunk);
                    a.components().iter().zip(b.components()).map(|(a, b)| b - a).collect()
                })
                .collect();
            let segment = segments
                .entry(copy.offsets().to_string())
                .or_insert_with(|| (copy.is_intra(), json!(offsets), BTreeMap::new()));
            let cell = segment.2.entry(copy.source().components().to_vec()).or_default();
            cell.0.push(copy.record());
            cell.1.extend((number as f32).to_le_bytes());
        }
    }
    let path = |suffix: &str| format!("{level}/{suffix}");
    group(files, &path("links"), json!({}));
    group(
        files,
        &path("links/0"),
        json!({"level_delta": 0, "link_width": width, "directed": false, "store": "canonical",
            "sid_ndim": rank, "num_links": data.elements.len()}),
    );
    group(files, &path("link_attributes"), json!({}));
    group(files, &path("link_attributes/w"), json!({}));
    group(files, &path("link_attributes/w/0"), json!({"name": "w", "level_delta": 0}));
    for (name, (intra, offsets, records)) in segments {
        let shape = family.row_shape(LinkInteger::I64, intra);
        let blob = |records: &[LinkRecord]| {
            let body = family.body(intra);
            assert!(!intra || matches!(body, Body::Flat));
            encode(&[records], body, shape).unwrap()
        };
        let blobs =
            records.iter().map(|(key, (records, _))| (key.clone(), blob(records))).collect();
        let doc = json!({"dtype": "int64", "offsets": offsets, "has_perm": family.has_perm(intra),
            "link_width": width, "level_delta": 0});
        cells(files, &path(&format!("links/0/{name}")), rank, doc, &blobs);
        let values = records.into_iter().map(|(key, (_, values))| (key, values)).collect();
        let doc = json!({"name": "w", "dtype": "float32", "offsets": offsets, "level_delta": 0,
            "row_shape": []});
        cells(files, &path(&format!("link_attributes/w/0/{name}")), rank, doc, &values);
    }
}

/// Returns options with which one request is sent at a time, and a work unit is one or two chunks or
/// objects.
pub(crate) fn low_memory() -> OpenOptions {
    OpenOptions {
        requests_in_flight: 1,
        budget_bytes: 24 << 10,
        cache_bytes: 8 << 10,
        ..OpenOptions::default()
    }
}

/// Returns the index of fragments that are ranges: their first rows and their numbers of rows.
pub(crate) fn fragments(ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut builder = FragmentIndexBuilder::new();
    ranges.iter().for_each(|(start, count)| builder.push_range(*start, *count).unwrap());
    builder.encode()
}

/// Replaces the content of a file.
pub(crate) fn replace(files: &mut Files, path: &str, blobs: &[Vec<u8>]) {
    let cell = files.iter_mut().find(|(name, _)| name == path);
    cell.unwrap_or_else(|| panic!("no {path}")).1 = framed(blobs);
}

fn document(files: &mut Files, path: &str, doc: &Value) {
    let path = if path.is_empty() { "zarr.json".to_owned() } else { format!("{path}/zarr.json") };
    files.push((path, serde_json::to_vec(doc).unwrap()));
}

fn group(files: &mut Files, path: &str, attributes: Value) {
    document(
        files,
        path,
        &json!({"zarr_format": 3, "node_type": "group", "attributes": attributes}),
    );
}

fn array(
    shape: &Value,
    chunk: &Value,
    dtype: &str,
    fill: Value,
    codec: Value,
    attributes: Value,
) -> Value {
    json!({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill, "codecs": [codec], "attributes": attributes, "storage_transformers": []})
}

/// Adds an array with one cell per chunk.
fn cells(
    files: &mut Files,
    path: &str,
    rank: usize,
    mut attributes: Value,
    all: &BTreeMap<Vec<i64>, Vec<u8>>,
) {
    let ends = |axis: usize| {
        let at = all.keys().map(|key| key[axis]);
        (at.clone().min().unwrap_or(0), at.max().unwrap_or(0))
    };
    let origin: Vec<i64> = (0..rank).map(|axis| ends(axis).0).collect();
    let shape: Vec<i64> = (0..rank).map(|axis| ends(axis).1 - ends(axis).0 + 1).collect();
    let text = |key: &[i64], between: &str| {
        key.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
    };
    attributes["nonempty_chunks"] = all.keys().map(|key| text(key, ".")).collect::<Vec<_>>().into();
    attributes["chunk_grid_origin"] = json!(origin);
    let codec = json!({"name": "vlen-bytes", "configuration": {}});
    let (shape, chunk) = (json!(shape), json!(vec![1; rank]));
    let doc = array(&shape, &chunk, "variable_length_bytes", json!(""), codec, attributes);
    document(files, path, &doc);
    for (key, payload) in all {
        let place: Vec<i64> = key.iter().zip(&origin).map(|(at, origin)| at - origin).collect();
        files.push((
            format!("{path}/c/{}", text(&place, "/")),
            framed(std::slice::from_ref(payload)),
        ));
    }
}

/// Adds an array with one blob per row, in a single Zarr chunk.
fn rows(files: &mut Files, path: &str, attributes: Value, all: &[Vec<u8>]) {
    let shape = json!([all.len()]);
    let codec = json!({"name": "vlen-bytes", "configuration": {}});
    let doc = array(&shape, &shape, "variable_length_bytes", json!(""), codec, attributes);
    document(files, path, &doc);
    files.push((format!("{path}/c/0"), framed(all)));
}

fn numbers(files: &mut Files, path: &str, dtype: &str, fill: Value, n: usize, bytes: Vec<u8>) {
    let codec = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let attributes = json!({"dtype": dtype});
    document(files, path, &array(&json!([n]), &json!([n]), dtype, fill, codec, attributes));
    files.push((format!("{path}/c/0"), bytes));
}

pub(crate) fn framed(blobs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (blobs.len() as u32).to_le_bytes().to_vec();
    for blob in blobs {
        bytes.extend((blob.len() as u32).to_le_bytes());
        bytes.extend(blob);
    }
    bytes
}

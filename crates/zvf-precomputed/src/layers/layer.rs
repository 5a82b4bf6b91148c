//! A store as folders of precomputed objects, one folder per kind of geometry.
//!
//! ```text
//! info                     a volume without images, for programs that look for meshes and skeletons next to one
//! point_cloud/             annotations         info, spatial0/X_Y_Z, by_id/ID, object/ID, group/NUMBER
//! line/                    annotations
//! polyline/, streamline/,  skeletons           info, ID, segment_properties/info
//! graph/, skeleton/
//! mesh/                    several resolutions info, ID.index, ID, segment_properties/info
//! KIND.annotations/        polylines           of chains: the same
//! mesh.legacy/             one fragment each   info, ID:0, ID:0:0
//! KIND@LEVEL/              the same of that level alone
//! ```
//!
//! The properties of a folder are read on the first request and kept; encoded objects are cached up
//! to a limit. Only one task encodes an object: concurrent requests for it wait, and few meshes are
//! encoded at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use zvf_error::Result;
use zvf_format::Class;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_query::Reader;

use super::annotations::ChainAnnotations;
use super::cache::Cache;
use super::meshes::Meshes;
use super::points::Points;
use super::segments::segment_properties;
use super::skeletons::Skeletons;
use super::space::{LayerForm, LayerSummary, Space};
use crate::encode::MultiLod;

/// A store as precomputed objects.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// let store = zvf_store::Store::open(path, Default::default()).await?;
/// let served = zvf_precomputed::Precomputed::new(zvf_query::Reader::new(store));
/// let layers = served.layers().await?;
/// let info = served.object(&layers[0].name, &["info"]).await?.expect("every folder has one");
/// assert!(String::from_utf8_lossy(&info).contains("neuroglancer_annotations_v1"));
/// assert!(served.object(&layers[0].name, &["by_id", "18446744073709551615"]).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Precomputed {
    reader: Reader,
    space: Space,
    layers: Mutex<HashMap<String, Arc<Layer>>>,
    cache: Cache,
    encoding: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
    mesh_slots: Semaphore,
    max_whole_faces: usize,
    max_cell_rows: u64,
}

/// The properties of a folder.
#[derive(Debug)]
struct Layer {
    content: Content,
    level: LevelReader,
}

#[derive(Debug)]
enum Content {
    Points(Points),
    Chains(ChainAnnotations),
    Skeletons(Skeletons),
    Meshes(Meshes),
    Legacy(Meshes),
}

/// The parsed name of a folder.
#[derive(Clone, Copy)]
struct LayerName {
    kind: Kind,
    level: Option<u32>,
    form: LayerForm,
}

impl LayerName {
    fn parse(name: &str) -> Option<Self> {
        let (name, form) = match name.split_once('.') {
            None => (name, None),
            Some((name, "annotations")) => (name, Some(LayerForm::Annotations)),
            Some((name, "legacy")) => (name, Some(LayerForm::LegacyMeshes)),
            Some(_) => return None,
        };
        let (kind, level) = match name.split_once('@') {
            None => (name, None),
            Some((kind, level)) => (kind, Some(u32::try_from(parse_number(level)?).ok()?)),
        };
        let kind: Kind = kind.parse().ok()?;
        let form = match (kind, form) {
            (Kind::PointCloud | Kind::Line, None) => LayerForm::Annotations,
            (Kind::Mesh, None) => LayerForm::Meshes,
            (Kind::Mesh, Some(LayerForm::LegacyMeshes)) => LayerForm::LegacyMeshes,
            (Kind::Polyline | Kind::Streamline, Some(LayerForm::Annotations)) => {
                LayerForm::Annotations
            }
            (_, None) => LayerForm::Skeletons,
            _ => return None,
        };
        Some(Self { kind, level, form })
    }
}

impl Precomputed {
    /// Wraps the store behind `reader`.
    pub fn new(reader: Reader) -> Self {
        let space = Space::new(reader.store());
        Self {
            reader,
            space,
            layers: Mutex::default(),
            cache: Cache::new(DEFAULT_CACHE_BYTES),
            encoding: Mutex::default(),
            mesh_slots: Semaphore::new(MAX_MESHES_AT_ONCE),
            max_whole_faces: MAX_WHOLE_FACES,
            max_cell_rows: MAX_CELL_ROWS,
        }
    }

    /// Sets the limit of kept encoded objects in bytes [default: 256 MiB].
    #[must_use]
    pub fn with_cache_bytes(mut self, max_bytes: usize) -> Self {
        self.cache = Cache::new(max_bytes);
        self
    }

    /// Sets the number of faces above which meshes are cut into octrees [default: a million].
    #[must_use]
    pub const fn with_max_whole_faces(mut self, faces: usize) -> Self {
        self.max_whole_faces = faces;
        self
    }

    /// Sets the number of annotations above which cells of the spatial index are halved [default:
    /// 100 000].
    #[must_use]
    pub const fn with_max_cell_rows(mut self, rows: u64) -> Self {
        self.max_cell_rows = rows;
        self
    }

    /// Returns the folders of this store, the default one of each kind.
    ///
    /// # Errors
    ///
    /// When level 0 cannot be read.
    pub async fn layers(&self) -> Result<Vec<LayerSummary>> {
        let level = self.reader.level(LevelId(0)).await?;
        let kinds = level.kinds().first().copied().into_iter().chain(level.extra_kinds());
        let mut layers = Vec::new();
        for kind in kinds {
            // A geometry with only vertices and links has no objects to request.
            match level.open_kind(kind).await {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(error) if error.class() == Class::Unsupported => continue,
                Err(error) => return Err(error),
            }
            if let Some(name) = LayerName::parse(kind.token()) {
                layers.push(LayerSummary { name: kind.token().to_owned(), kind, form: name.form });
            }
        }
        Ok(layers)
    }

    /// Returns the object of `key` in a folder; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or the format cannot represent the object.
    pub async fn object(&self, layer: &str, key: &[&str]) -> Result<Option<Bytes>> {
        if layer == "info" && key.is_empty() {
            return Ok(self.space.volume(&self.layers().await?)?.map(|info| print(&info)));
        }
        let name = format!("{layer}/{}", key.join("/"));
        if let Some(bytes) = self.cache.get(&name) {
            return Ok(Some(bytes));
        }
        let Some(layer) = self.open_layer(layer).await? else { return Ok(None) };
        // Manifest and data of a mesh are encoded together.
        let slot = EncodingSlot::begin(self, name.strip_suffix(".index").unwrap_or(&name));
        let _held = slot.gate.lock().await;
        if let Some(bytes) = self.cache.get(&name) {
            return Ok(Some(bytes));
        }
        let made = self.make(&layer, key, &name).await?;
        if let Some(bytes) = &made {
            self.cache.put(&name, bytes.clone());
        }
        Ok(made)
    }

    fn lock_encoding(&self) -> MutexGuard<'_, HashMap<String, Arc<AsyncMutex<()>>>> {
        self.encoding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the properties of a folder, which are read once.
    async fn open_layer(&self, name: &str) -> Result<Option<Arc<Layer>>> {
        let cached = self.layers.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if cached.is_some() {
            return Ok(cached);
        }
        let Some(parsed) = LayerName::parse(name) else { return Ok(None) };
        let levels = self.levels(parsed).await?;
        let Some(level) = levels.first().cloned() else { return Ok(None) };
        let content = match (parsed.form, parsed.kind) {
            (LayerForm::Annotations, Kind::PointCloud) => {
                Content::Points(Points::new(&levels, self.max_cell_rows).await?)
            }
            (LayerForm::Annotations, kind) => Content::Chains(
                ChainAnnotations::new(kind, level.clone(), self.max_cell_rows).await?,
            ),
            (LayerForm::Skeletons, kind) => {
                Content::Skeletons(Skeletons::new(kind, level.clone()).await?)
            }
            (LayerForm::Meshes, _) => Content::Meshes(Meshes::new(&levels, self.max_whole_faces)),
            (LayerForm::LegacyMeshes, _) => {
                Content::Legacy(Meshes::new(&levels, self.max_whole_faces))
            }
        };
        let layer = Arc::new(Layer { content, level });
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        // A store has few levels and kinds, and other names were refused above, so the map stays
        // small.
        layers.insert(name.to_owned(), Arc::clone(&layer));
        Ok(Some(layer))
    }

    /// Returns the levels of a folder, the finest first; `None` if the store has no such kind or
    /// level.
    async fn levels(&self, name: LayerName) -> Result<Vec<LevelReader>> {
        let mut numbers = self.reader.store().level_numbers();
        numbers.sort_unstable();
        let mut levels = Vec::new();
        for number in numbers.into_iter().filter(|n| name.level.is_none_or(|level| level == *n)) {
            let level = self.reader.level(LevelId(number)).await?;
            if let Some(level) = level.open_kind(name.kind).await? {
                levels.push(level);
            }
        }
        Ok(levels)
    }

    async fn make(&self, layer: &Layer, key: &[&str], name: &str) -> Result<Option<Bytes>> {
        let (reader, space) = (&self.reader, &self.space);
        let id = key.last().and_then(|id| parse_number(id));
        match (&layer.content, key, id) {
            (content, ["info"], _) => Ok(Some(print(&content.info(space)?))),
            (Content::Points(points), ["by_id", _], Some(id)) => {
                points.read_point(reader, id, space).await
            }
            (Content::Points(points), [relation @ ("object" | "group"), _], Some(id)) => {
                points.read_related(reader, relation, id, space).await
            }
            (Content::Points(points), [grid, cell], _) => {
                match (parse_grid(grid), parse_cell(cell)) {
                    (Some(grid), Some(cell)) => points.cell(reader, grid, &cell, space).await,
                    _ => Ok(None),
                }
            }
            (Content::Chains(chains), ["by_id", _], Some(id)) => {
                chains.read_annotation(reader, id, space).await
            }
            (Content::Chains(chains), [relation @ ("object" | "group"), _], Some(id)) => {
                chains.read_related(reader, relation, id, space).await
            }
            (Content::Chains(chains), ["spatial0", cell], _) => match parse_cell(cell) {
                Some(cell) => chains.cell(reader, &cell, space).await,
                None => Ok(None),
            },
            (
                Content::Skeletons(_) | Content::Meshes(_) | Content::Legacy(_),
                ["segment_properties", "info"],
                _,
            ) => Ok(Some(print(&segment_properties(&layer.level).await?))),
            (Content::Skeletons(skeletons), [_], Some(id)) => skeletons.object(reader, id).await,
            (Content::Meshes(meshes), [id], _) => self.make_mesh(meshes, id, name).await,
            (Content::Legacy(meshes), [id], _) => self.make_legacy(meshes, id).await,
            _ => Ok(None),
        }
    }

    /// Encodes manifest and data of a mesh together; the other one is cached for the next request.
    async fn make_mesh(&self, meshes: &Meshes, key: &str, name: &str) -> Result<Option<Bytes>> {
        let (id, is_manifest) = match key.strip_suffix(".index") {
            Some(id) => (id, true),
            None => (key, false),
        };
        let Some(id) = parse_number(id) else { return Ok(None) };
        let _slot = self.mesh_slots.acquire().await; // it is never closed
        let Some(MultiLod { manifest, data }) = meshes.object(&self.reader, id).await? else {
            return Ok(None);
        };
        let (manifest, data) = (Bytes::from(manifest), Bytes::from(data));
        if is_manifest {
            self.cache.put(name.strip_suffix(".index").unwrap_or(name), data);
            Ok(Some(manifest))
        } else {
            self.cache.put(&format!("{name}.index"), manifest);
            Ok(Some(data))
        }
    }

    /// Encodes a legacy mesh: `ID:0` lists its fragments, and `ID:0:0` is the only one.
    async fn make_legacy(&self, meshes: &Meshes, key: &str) -> Result<Option<Bytes>> {
        let Some((id, rest)) = key.split_once(':') else { return Ok(None) };
        let Some(number) = parse_number(id) else { return Ok(None) };
        let Some(mesh) = meshes.legacy(&self.reader, number, &self.space).await? else {
            return Ok(None);
        };
        Ok(match rest {
            "0" => Some(print(&serde_json::json!({"fragments": [format!("{id}:0:0")]}))),
            "0:0" => Some(mesh),
            _ => None,
        })
    }

    pub(crate) const fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) async fn level_of(&self, kind: Kind) -> Result<LevelReader> {
        self.reader.level_of_kind(LevelId(0), kind).await
    }
}

/// An object that is being encoded; concurrent requests wait at its gate.
struct EncodingSlot<'a> {
    owner: &'a Precomputed,
    object: &'a str,
    gate: Arc<AsyncMutex<()>>,
}

impl<'a> EncodingSlot<'a> {
    fn begin(owner: &'a Precomputed, object: &'a str) -> Self {
        let gate = Arc::clone(owner.lock_encoding().entry(object.to_owned()).or_default());
        Self { owner, object, gate }
    }
}

impl Drop for EncodingSlot<'_> {
    /// Removes the gate of an abandoned request, if no other request waits for the object.
    fn drop(&mut self) {
        let mut encoding = self.owner.lock_encoding();
        // One reference is in the map, one in this value.
        if Arc::strong_count(&self.gate) <= 2 {
            encoding.remove(self.object);
        }
    }
}

impl Content {
    fn info(&self, space: &Space) -> Result<Json> {
        match self {
            Self::Points(points) => Ok(points.info(space)),
            Self::Chains(chains) => Ok(chains.info(space)),
            Self::Skeletons(skeletons) => skeletons.info(space),
            Self::Meshes(_) => Meshes::info(space),
            Self::Legacy(_) => Ok(Meshes::legacy_info()),
        }
    }
}

fn print(document: &Json) -> Bytes {
    document.to_string().into_bytes().into()
}

/// Parses a decimal number without a sign or leading zeros: each object has one name.
fn parse_number(text: &str) -> Option<u64> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

fn parse_grid(text: &str) -> Option<usize> {
    parse_number(text.strip_prefix("spatial")?).and_then(|grid| usize::try_from(grid).ok())
}

fn parse_cell(text: &str) -> Option<Vec<u64>> {
    text.split('_').map(parse_number).collect()
}

/// The default limit of kept objects in bytes.
const DEFAULT_CACHE_BYTES: usize = 256 << 20;
/// The number of meshes that are encoded concurrently.
const MAX_MESHES_AT_ONCE: usize = 2;
/// The default number of annotations of a cell above which cells are halved.
const MAX_CELL_ROWS: u64 = 100_000;
/// The default number of faces above which a mesh is cut.
const MAX_WHOLE_FACES: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_parsed() {
        let form = |name: &str| LayerName::parse(name).map(|name| (name.form, name.level));
        assert_eq!(form("point_cloud"), Some((LayerForm::Annotations, None)));
        assert_eq!(form("mesh@2"), Some((LayerForm::Meshes, Some(2))));
        assert_eq!(form("mesh@2.legacy"), Some((LayerForm::LegacyMeshes, Some(2))));
        assert_eq!(form("streamline"), Some((LayerForm::Skeletons, None)));
        assert_eq!(form("polyline.annotations"), Some((LayerForm::Annotations, None)));
        for name in [
            "",
            "blob",
            "mesh@",
            "mesh@-1",
            "mesh@01",
            "mesh@4294967296",
            "mesh.annotations",
            "graph.legacy",
            "mesh.legacy@2",
        ] {
            assert_eq!(form(name), None, "{name}");
        }
    }

    #[test]
    fn keys_have_one_spelling() {
        assert_eq!(parse_cell("0_12_3"), Some(vec![0, 12, 3]));
        for text in ["", "_", "0__1", "0_-1", "00", "0_1.5", "99999999999999999999"] {
            assert_eq!(parse_cell(text), None, "{text}");
        }
        assert_eq!(parse_grid("spatial3"), Some(3));
        assert_eq!(parse_grid("spatial"), None);
        assert_eq!(parse_number("18446744073709551615"), Some(u64::MAX));
    }
}

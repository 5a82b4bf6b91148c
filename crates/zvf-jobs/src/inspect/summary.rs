//! A one-page summary of a store.

use async_recursion::async_recursion as boxed;
use serde::Serialize;
use serde_json::Value;
use zvf_format::Class;
use zvf_metadata::{Object, Token, Vocabulary};
use zvf_store::Store;

use super::StoredTotals;
use super::levels::{LevelSummary, is_of_backend};
use crate::Error;

/// A summary of a store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_jobs::inspect::StoreSummary;
///
/// let store = zvf_store::Store::open(path, zvf_store::OpenOptions::default()).await?;
/// let summary = StoreSummary::read(&store).await?;
/// assert_eq!((&*summary.version, &*summary.kinds), ("0.9.2", &["point_cloud".to_owned()][..]));
/// assert_eq!(summary.levels[0].vertices, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoreSummary {
    /// The name in the root document.
    pub name: Option<String>,
    /// Its format version.
    pub version: String,
    /// The layout family of that version.
    pub family: &'static str,
    /// The declared kinds of geometry.
    pub kinds: Vec<String>,
    /// Its axes.
    pub axes: Vec<AxisSummary>,
    /// Lowest and highest corner, both inclusive.
    pub bounds: [Vec<f64>; 2],
    /// The offset from stored positions to world positions.
    pub coordinate_offset: Option<Vec<f64>>,
    /// The coordinate reference system, unchanged.
    pub crs: Option<Value>,
    /// Size of a chunk of level 0.
    pub chunk_shape: Vec<f64>,
    /// Size of a bin of level 0, if chunks are divided.
    pub bin_shape: Option<Vec<f64>>,
    /// The declared cells per shard: a number, or one for each axis.
    pub shard_shape: Option<Value>,
    /// Announced features.
    pub capabilities: Vec<String>,
    /// Features that a reader must support.
    pub required_capabilities: Vec<String>,
    /// The convention of links inside fragments.
    pub links_convention: String,
    /// The convention by which objects find fragments, if stated.
    pub object_index_convention: Option<String>,
    /// The strategy that joins geometry across chunks.
    pub cross_chunk_strategy: String,
    /// The existing levels, finest first; those in the root document if the backend cannot list.
    pub levels: Vec<LevelSummary>,
    /// Number of parametric objects; `None` if there are none, or a notice says why they cannot be
    /// counted.
    pub parametric_objects: Option<u64>,
    /// Names of preserved file headers; empty if they cannot be listed.
    pub headers: Vec<String>,
    /// Metadata of applications.
    pub user_metadata: Option<Object>,
    /// Stored objects and bytes, if they were listed.
    pub stored: Option<StoredTotals>,
    /// Notices for readers, which are not errors.
    pub notices: Vec<String>,
}

/// One axis.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AxisSummary {
    /// Its name.
    pub name: String,
    /// `space`, `time`, `channel` or another word.
    pub kind: String,
    /// Its unit, if declared.
    pub unit: Option<String>,
}

impl StoreSummary {
    /// Summarizes `store` from its documents, presence lists and indexes, without reading cells.
    /// Costs a few requests per level and attribute, whatever the size of the store.
    ///
    /// # Errors
    ///
    /// When the backend fails. A level that cannot be read is reported in its
    /// [`LevelSummary::fault`].
    #[boxed]
    pub async fn read(store: &Store) -> Result<Self, Error> {
        let root = store.root();
        let block = &root.zarr_vectors;
        let mut levels = Vec::new();
        for number in find_existing_levels(store).await? {
            levels.push(LevelSummary::read(store, number).await?);
        }
        let headers = zvf_model::header_names(store).await?.names;
        let parametric_objects = parametric_objects(store).await;
        let mut notices: Vec<String> = store.notices().iter().map(ToString::to_string).collect();
        let parametric_objects = match parametric_objects {
            Err(error) if is_of_backend(error.class()) => return Err(error),
            Err(error) => {
                let why = error.message();
                notices.push(format!("parametric objects cannot be counted: {why}"));
                None
            }
            Ok(count) => count,
        };
        let axes = root.axes().iter().map(|axis| AxisSummary {
            name: axis.name.clone(),
            kind: axis.kind.clone(),
            unit: axis.unit.clone(),
        });
        Ok(Self {
            name: root.ome().and_then(Result::ok).and_then(|ome| ome.name),
            version: store.version().to_string(),
            family: store.family().name(),
            kinds: words(&block.geometry_types),
            axes: axes.collect(),
            bounds: block.bounds.clone(),
            coordinate_offset: block.coordinate_offset.clone(),
            crs: block.crs.clone(),
            chunk_shape: block.chunk_shape.clone(),
            bin_shape: block.base_bin_shape.clone(),
            shard_shape: block.shard_shape.clone(),
            capabilities: words(&block.format_capabilities),
            required_capabilities: words(&block.required_capabilities),
            links_convention: block.links_convention().as_str().to_owned(),
            object_index_convention: block
                .object_index_convention
                .as_ref()
                .map(|token| token.as_str().to_owned()),
            cross_chunk_strategy: block.cross_chunk_strategy().as_str().to_owned(),
            levels,
            parametric_objects,
            headers,
            user_metadata: root.user_metadata.clone(),
            stored: None,
            notices,
        })
    }

    /// Adds stored objects and bytes per level; this lists every object. If the backend cannot
    /// list, nothing is added.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn with_stored(mut self, store: &Store) -> Result<Self, Error> {
        let objects = match store.nodes().objects("").await {
            Ok(objects) => objects,
            Err(error) if error.class() == Class::Unsupported => return Ok(self),
            Err(error) => return Err(error),
        };
        let mut all = StoredTotals::default();
        for (key, bytes) in objects {
            all.add(bytes)?;
            let number = key.segments().next().and_then(|name| name.parse::<u32>().ok());
            let level = self.levels.iter_mut().find(|level| Some(level.level) == number);
            if let Some(level) = level {
                level.stored.get_or_insert_default().add(bytes)?;
            }
        }
        self.stored = Some(all);
        Ok(self)
    }
}

/// Returns the numbers of the existing levels. A removed level may still be listed and linked to.
async fn find_existing_levels(store: &Store) -> Result<Vec<u32>, Error> {
    match store.list_levels().await {
        Ok(numbers) => return Ok(numbers),
        Err(error) if error.class() == Class::Unsupported => {} // no listing
        Err(error) => return Err(error),
    }
    let mut numbers = Vec::new();
    for number in store.level_numbers() {
        // A document that cannot be read exists.
        if !matches!(store.nodes().node(&number.to_string()).await, Ok(None)) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Returns the number of parametric objects; `None` if there is no such group.
async fn parametric_objects(store: &Store) -> Result<Option<u64>, Error> {
    let objects = store.nodes().dense("parametric/objects").await?;
    Ok(objects.map(|objects| objects.len()))
}

fn words<K: Vocabulary>(tokens: &[Token<K>]) -> Vec<String> {
    tokens.iter().map(|token| token.as_str().to_owned()).collect()
}

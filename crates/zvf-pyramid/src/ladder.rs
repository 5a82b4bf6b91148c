//! The levels that will be built: what each is made with, from what was measured of level 0.
//!
//! ```text
//! size        cells: twice the spacing of vertices for level 1; tolerances: as much as the spacing
//! spacing     of points by how many share the volume of their chunks; else the mean length of edges
//! chunks      those of the level below, so many times as large; bins the same
//! ```

use std::fmt;

use futures_util::StreamExt as _;
use zvf_model::{Kind, Level, LevelReader};
use zvf_query::{Columns, Order, Query, Reader};
use zvf_store::Store;

use crate::columns::Points;
use crate::num::{to_f64, to_u32, to_u64, whole};
use crate::options::MOST_LEVELS;
use crate::shape::contract::sides;
use crate::{Method, Options, PyramidError};

/// The levels to come.
#[derive(Clone, Debug)]
pub struct Ladder {
    pub(crate) kind: Kind,
    pub(crate) method: Method,
    options: Options,
    all: Size,           // of level 0
    of_levels: Vec<u64>, // vertices, where level 0 adds to others
    size: f64,           // of level 1
    chunk: Vec<f64>,
    bin: Vec<f64>,
}

/// One level to come.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_pyramid::{Ladder, Method, Options};
///
/// let options = Options { levels: Some(2), size: Some(0.25), ..Options::default() };
/// let ladder = Ladder::of(&store, &options).await?;
/// let steps = ladder.steps();
/// assert_eq!((steps.len(), steps[0].method, steps[1].size), (2, Method::Cluster, Some(0.5)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its number.
    pub level: u32,
    /// How it is made.
    pub method: Method,
    /// The edge of a cell, or a tolerance, in world units, where the method has one.
    pub size: Option<f64>,
    /// The share that is kept, where the method has one.
    pub keep: Option<f64>,
    /// How many objects of the level below there are to each that is kept.
    pub sparsity: f64,
    /// Size of a chunk.
    pub chunk: Vec<f64>,
    /// Size of a bin.
    pub bin: Vec<f64>,
    /// Vertices of the level below.
    pub below: u64,
    /// About how many vertices it will have: a guess from the method alone.
    pub vertices: u64,
    /// About how many bytes it will take, likewise.
    pub bytes: u64,
}

/// How large a level is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) vertices: u64,
    pub(crate) bytes: u64,
}

impl Ladder {
    /// What `options` mean for `store`.
    ///
    /// # Errors
    ///
    /// When a setting means nothing for this store, or level 0 cannot be read.
    pub async fn of(store: &Store, options: &Options) -> Result<Self, PyramidError> {
        let reader = Reader::new(store.clone());
        // What level 0 shows may be at several levels.
        let mut levels = Vec::new();
        for level in LevelReader::chain(store, Level(0)).await? {
            levels.push(reader.level(level.level()).await?);
        }
        let level = reader.level(Level(0)).await?;
        let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
        let options = match options.additive {
            true => crate::additive::settled(options, &levels, kind).await?,
            false => options.clone(),
        };
        let method = options.check(kind)?;
        let (mut of_levels, mut bytes) = (Vec::with_capacity(levels.len()), 0_u64);
        for level in &levels {
            of_levels.push(counted(level).await?);
            bytes = bytes.saturating_add(crate::build::stored(store, level.level().0).await?);
        }
        let vertices = of_levels.iter().copied().fold(0, u64::saturating_add);
        let size = match (options.size, method) {
            (Some(size), _) => size,
            (None, Method::Cluster) => 2.0 * spacing(&reader, &level, kind, vertices).await?,
            (None, Method::Simplify) => spacing(&reader, &level, kind, vertices).await?,
            (None, _) => 0.0,
        };
        let chunk = level.chunk_shape().sizes().to_vec();
        let bin = store.root().zarr_vectors.base_bin_shape().to_vec();
        let all = Size { vertices, bytes };
        Ok(Self { kind, method, options, all, of_levels, size, chunk, bin })
    }

    /// The steps, as far as can be told before any is made: how many there are is then a guess, too.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let (mut steps, mut below) = (Vec::new(), self.all);
        while let Some(step) = self.step(to_u32(steps.len()).saturating_add(1), below) {
            below = Size { vertices: step.vertices, bytes: step.bytes };
            steps.push(step);
        }
        steps
    }

    /// The vertices that level 0 shows.
    #[must_use]
    pub const fn vertices(&self) -> u64 {
        self.all.vertices
    }

    /// The same of each level that they are at.
    pub(crate) fn of_levels(&self) -> &[u64] {
        &self.of_levels
    }

    /// What level 0 shows.
    pub(crate) const fn size(&self) -> Size {
        self.all
    }

    /// Level `level`, where the one below is so large; `None` when that one is the last.
    pub(crate) fn step(&self, level: u32, below: Size) -> Option<Step> {
        let Options { growth, chunk_scale, levels, until, until_bytes, .. } = self.options;
        let wanted = match (levels, until_bytes) {
            (Some(levels), _) => level <= levels,
            (None, Some(bytes)) => below.bytes > bytes && level <= MOST_AUTOMATIC,
            (None, None) => below.vertices > until && level <= MOST_AUTOMATIC,
        };
        if !wanted || below.vertices == 0 {
            return None;
        }
        let steps = i32::try_from(level).unwrap_or(i32::MAX);
        let larger = f64::from(chunk_scale).powi(steps);
        let sized = matches!(self.method, Method::Cluster | Method::Simplify);
        let shared = matches!(self.method, Method::Subset | Method::Decimate | Method::Collapse);
        let keep = self.options.share(self.method);
        let axes = i32::try_from(self.chunk.len()).unwrap_or(i32::MAX);
        let share = match self.method {
            Method::Cluster if self.kind == Kind::PointCloud => growth.powi(axes.saturating_neg()),
            Method::Cluster | Method::Simplify => 1.0 / growth,
            Method::Subset | Method::Decimate | Method::Collapse => keep,
            Method::Keep => 1.0,
        };
        let sparsity = self.sparsity();
        Some(Step {
            level,
            method: self.method,
            size: sized.then(|| self.size * growth.powi(steps.saturating_sub(1))),
            keep: shared.then_some(keep),
            sparsity,
            chunk: self.chunk.iter().map(|size| size * larger).collect(),
            bin: self.bin.iter().map(|size| size * larger).collect(),
            below: below.vertices,
            vertices: whole(to_f64(below.vertices) * share / sparsity).max(1),
            bytes: whole(to_f64(below.bytes) * share / sparsity).max(1),
        })
    }

    /// The same without any step.
    pub(crate) fn ended(self) -> Self {
        Self { options: Options { levels: Some(0), ..self.options }, ..self }
    }

    /// Level 0, as if it were made of itself.
    pub(crate) fn first(&self) -> Step {
        Step {
            level: 0,
            method: self.method,
            size: None,
            keep: None,
            sparsity: 1.0,
            chunk: self.chunk.clone(),
            bin: self.bin.clone(),
            below: self.all.vertices,
            vertices: self.all.vertices,
            bytes: self.all.bytes,
        }
    }

    /// What is kept of the objects: lines have nothing else that could go.
    fn sparsity(&self) -> f64 {
        let alone = self.method == Method::Keep && self.options.sparsity <= 1.0;
        if alone { 2.0 } else { self.options.sparsity }
    }

    /// The settings that no step changes.
    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, method, size, keep, sparsity, chunk, vertices, .. } = self;
        write!(f, "level {level}: {method}")?;
        if let Some(size) = size {
            write!(f, " {size}")?;
        }
        if let Some(keep) = keep {
            write!(f, ", {keep} kept")?;
        }
        if *sparsity > 1.0 {
            write!(f, ", one of {sparsity} objects")?;
        }
        let chunk: Vec<String> = chunk.iter().map(ToString::to_string).collect();
        write!(f, ", chunks of {}, about {vertices} vertices", chunk.join(" × "))
    }
}

/// How many vertices a level has: as counted, not as said.
async fn counted(level: &LevelReader) -> Result<u64, PyramidError> {
    let keys: Vec<_> = level.chunks().await?.iter().collect();
    let mut all = 0_u64;
    for keys in keys.chunks(AT_ONCE) {
        for count in level.row_counts(keys).await {
            all = all.saturating_add(count?);
        }
    }
    Ok(all)
}

/// How far vertices are apart.
async fn spacing(
    reader: &Reader,
    level: &LevelReader,
    kind: Kind,
    vertices: u64,
) -> Result<f64, PyramidError> {
    let found = if kind == Kind::PointCloud {
        let chunk: f64 = level.chunk_shape().sizes().iter().product();
        let volume = chunk * to_f64(to_u64(level.chunks().await?.len()));
        (volume / to_f64(vertices.max(1))).powf(1.0 / to_f64(to_u64(level.axes().max(1))))
    } else {
        mean_edge(reader, kind).await?
    };
    if found > 0.0 && found.is_finite() {
        return Ok(found);
    }
    // Nothing is apart: any size does.
    let sides = level.chunk_shape().sizes().iter().copied();
    Ok(sides.fold(f64::INFINITY, f64::min) / 64.0)
}

/// The mean length of the first edges.
async fn mean_edge(reader: &Reader, kind: Kind) -> Result<f64, PyramidError> {
    let query = Query::all().at_level(Level(0)).columns(Columns::None).uncached();
    let query = if kind.has_links() { query } else { query.order(Order::Objects) };
    let mut batches = reader.stream(query);
    let (mut sum, mut count) = (0.0, 0_u64);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let points = Points::of(batch.positions());
        let mut note = |a, b| {
            sum += points.length(a, b);
            count = count.saturating_add(1);
        };
        if let Some(elements) = batch.elements() {
            sides(elements).for_each(|[a, b]| note(a, b));
        }
        for part in batch.parts().iter() {
            let rows = part.rows.clone();
            rows.clone().zip(rows.skip(1)).for_each(|(a, b)| note(a, b));
        }
        if count > ENOUGH {
            break;
        }
    }
    Ok(sum / to_f64(count.max(1)))
}

/// Levels that are built at most where nobody says how many.
const MOST_AUTOMATIC: u32 = if MOST_LEVELS < 12 { MOST_LEVELS } else { 12 };
/// Edges after which their mean is known well enough.
const ENOUGH: u64 = 200_000;
/// Chunks that are asked about at once.
const AT_ONCE: usize = 4096;

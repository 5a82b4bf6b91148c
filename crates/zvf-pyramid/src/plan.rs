//! Plans the levels to build: the settings of each, from measurements of level 0.
//!
//! ```text
//! size        cells: twice the spacing of vertices for level 1; tolerances: as much as the spacing
//!             (without a number of levels never more than a 64th of the longest side of the data)
//! spacing     of points by how many share the volume of their chunks, or less on a surface; else the mean length of edges
//! chunks      those of the level below, so many times as large; bins the same
//! ```

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;
use std::f64::consts::SQRT_2;
use std::fmt;
use std::ops::Range;

use futures_util::StreamExt as _;
use zvf_error::{Result, format_count, round_digits};
use zvf_format::Class;
use zvf_format::num::{f64_from_u64, round_half_up_u64, saturating_floor_i64, to_u64};
use zvf_model::{Batch, Kind, LevelId, LevelReader};
use zvf_query::{Columns, Order, Query, Reader};
use zvf_store::Store;

use crate::additive::source_levels::resolve_settings;
use crate::blocks::count_rows;
use crate::columns::Points;
use crate::error::unsupported_error;
use crate::options::is_positive;
use crate::rows::row_number;
use crate::shape::chain::douglas_peucker;
use crate::shape::contract::sides;
use crate::size::{Size, count_stored_bytes};
use crate::{Method, Options};

/// The planned levels.
#[derive(Clone, Debug)]
pub struct PyramidPlan {
    pub(crate) kinds: Vec<KindPlan>, // one or more, the first of the store first
    pub(crate) options: Options,     // of all
    all: Size,                       // of level 0
}

/// The planned levels of one kind of geometry.
#[derive(Clone, Debug)]
pub(crate) struct KindPlan {
    pub(crate) kind: Kind,
    pub(crate) method: Method,
    pub(crate) options: Options,    // with the settings of the kind
    pub(crate) all: Size,           // of the kind, of level 0
    pub(crate) of_levels: Vec<u64>, // vertices, where level 0 adds to others
    size: f64,                      // of level 1
    max_size: f64,                  // of any level
    sample: Sample,                 // of chains that lose vertices within a tolerance
    indexed: bool,                  // whether there are objects
    beside: bool,                   // whether there are other kinds
    chunk: Vec<f64>,
    bin: Vec<f64>,
}

/// One planned level; in a store of several kinds, of one kind.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_pyramid::{PyramidPlan, Method, Options};
///
/// let options = Options { levels: Some(2), size: Some(0.25), ..Options::default() };
/// let plan = PyramidPlan::plan(&store, &options).await?;
/// let steps = plan.steps();
/// assert_eq!((steps.len(), steps[0].method, steps[1].size), (2, Method::Cluster, Some(0.5)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Step {
    /// Its number.
    pub level: u32,
    /// The kind of geometry, where there are several.
    pub kind: Option<Kind>,
    /// The coarsening method.
    pub method: Method,
    /// The edge of a cell, or a tolerance, in world units, where the method has one.
    pub size: Option<f64>,
    /// The share that is kept, where the method has one.
    pub keep: Option<f64>,
    /// How many objects of the level below there are for each kept one.
    pub sparsity: f64,
    /// Size of a chunk.
    #[serde(rename = "chunk_shape")]
    pub chunk: Vec<f64>,
    /// Size of a bin.
    #[serde(skip)]
    pub bin: Vec<f64>,
    /// Vertices of the level below.
    #[serde(skip)]
    pub below: u64,
    /// A rough estimate of the number of its vertices, from the method alone.
    #[serde(rename = "about_vertices")]
    pub vertices: u64,
    /// A rough estimate of its bytes.
    #[serde(rename = "about_bytes")]
    pub bytes: u64,
}

/// Returns the kinds of a level that can be read separately, the main one first. Geometries of
/// vertices and links alone give no kind that could be coarsened.
pub(crate) async fn kinds(level: &LevelReader) -> Result<Vec<(Kind, LevelReader)>> {
    let first = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let mut kinds = vec![(first, level.clone())];
    for kind in level.extra_kinds() {
        match level.open_kind(kind).await {
            Ok(Some(kind_level)) => kinds.push((kind, kind_level)),
            Ok(None) => {}
            Err(error) if error.class() == Class::Unsupported => {}
            Err(error) => return Err(error),
        }
    }
    Ok(kinds)
}

impl PyramidPlan {
    /// Returns the plan that `options` give for `store`.
    ///
    /// # Errors
    ///
    /// When a setting is invalid for this store, or level 0 cannot be read.
    #[boxed]
    pub async fn plan(store: &Store, options: &Options) -> Result<Self> {
        let reader = Reader::new(store.clone());
        // In a store of one kind, the geometry of level 0 may be distributed over several levels.
        let mut chain = Vec::new();
        for level in LevelReader::chain(store, LevelId(0)).await? {
            chain.push(reader.level(level.level()).await?);
        }
        let levels = kinds(&reader.level(LevelId(0)).await?).await?;
        if options.levels != Some(0) {
            for (_, level) in &levels {
                crate::levels::check_order(level, options.links_levels()).await?;
            }
        }
        let named: Vec<Kind> = levels.iter().map(|(kind, _)| *kind).collect();
        let options = match (options.additive, levels.first()) {
            (true, Some((kind, _))) => {
                resolve_settings(&options.for_single_kind(*kind), &chain, *kind).await?
            }
            _ => options.clone(),
        };
        let (mut plans, several) = (Vec::new(), named.len() > 1);
        for ((kind, level), asked) in levels.iter().zip(options.kind_options(&named)?) {
            let levels =
                if plans.is_empty() { chain.as_slice() } else { std::slice::from_ref(level) };
            plans.push(KindPlan::plan((store, &reader), (*kind, levels), asked, several).await?);
        }
        let total = |plans: &[KindPlan]| Size::sum(plans.iter().map(|plan| &plan.all));
        let mut all = total(&plans);
        if let [first, others @ ..] = plans.as_mut_slice() {
            all.bytes = first.all.bytes; // the groups of others lie among its arrays
            first.all.bytes = all.bytes.saturating_sub(total(others).bytes);
        }
        let none = plans.iter().all(|plan| !plan.indexed);
        let asked = |plan: &KindPlan| none || options.settings_of(plan.kind).sparsity.is_some();
        if plans.iter().any(|plan| !plan.indexed && plan.sparsity() > 1.0 && asked(plan)) {
            let expected = "a level with objects, to keep some of them";
            return Err(unsupported_error("objects of the store", expected, "none"));
        }
        Ok(Self { kinds: plans, options, all })
    }

    /// Returns the steps as far as they are known before the build: the number of levels is then an
    /// estimate, too. Steps are sorted by level, then by kind.
    pub fn steps(&self) -> Vec<Step> {
        let (mut steps, mut below, mut level) = (Vec::new(), self.sizes(), 1);
        while let Some(next) = self.level(level, &below) {
            let size = |step: &Step| Size { vertices: step.vertices, bytes: step.bytes };
            let is_end = self.options.levels.is_none()
                && next.iter().zip(&below).all(|(step, below)| step.vertices == below.vertices);
            if is_end {
                break;
            }
            below = next.iter().map(size).collect();
            steps.extend(next);
            level += 1;
        }
        steps
    }

    /// Returns the steps of level `level` for each kind, given the sizes of the level below; `None`
    /// when that one is the last.
    pub(crate) fn level(&self, level: u32, below: &[Size]) -> Option<Vec<Step>> {
        let all = Size::sum(below);
        let steps = self.kinds.iter().zip(below).map(|(kind, below)| kind.step(level, *below));
        self.options.needs_level_above(level, all).then(|| steps.collect())
    }

    /// Returns the size of each kind at level 0.
    pub(crate) fn sizes(&self) -> Vec<Size> {
        self.kinds.iter().map(|kind| kind.all).collect()
    }

    /// Returns the vertices that level 0 shows.
    pub const fn vertices(&self) -> u64 {
        self.all.vertices
    }
}

impl KindPlan {
    async fn plan(
        (store, reader): (&Store, &Reader),
        (kind, levels): (Kind, &[LevelReader]),
        options: Options,
        beside: bool,
    ) -> Result<Self> {
        let level = &levels[0];
        let (mut of_levels, mut all) = (Vec::with_capacity(levels.len()), Size::default());
        let mut indexed = false;
        for level in levels {
            let vertices = count_vertices(level).await?;
            let bytes = count_stored_bytes(store, &level.node().path().to_string()).await?;
            all = Size::sum(&[all, Size { vertices, bytes }]);
            of_levels.push(vertices);
            indexed |= level.objects().await?.is_some();
        }
        let method = options.method.unwrap_or(Method::default_for(kind));
        let mut sample = Sample::default();
        let size = match (options.size, method) {
            (None, Method::Cluster | Method::Simplify) => {
                let vertices = all.vertices;
                let spacing = measure_spacing(reader, level, (kind, vertices), &mut sample).await?;
                if method == Method::Simplify { spacing } else { 2.0 * spacing }
            }
            (Some(size), Method::Simplify) if !kind.has_links() => {
                measure_mean_edge(reader, kind, to_u64(SAMPLE_VALUES), &mut sample).await?;
                size
            }
            (size, _) => size.unwrap_or(0.0),
        };
        let [low, high] = &store.root().zarr_vectors.bounds;
        let longest_side = low.iter().zip(high).map(|(low, high)| high - low).fold(0.0, f64::max);
        // If the caller gives the number of levels, all are built, however coarse.
        let is_measured = options.size.is_none() && options.levels.is_none();
        let max_size = match is_measured && method == Method::Simplify && longest_side > 0.0 {
            true => size.max(longest_side / 64.0),
            false => f64::INFINITY,
        };
        let chunk = level.chunk_shape().sizes().to_vec();
        let bin = store.root().zarr_vectors.base_bin_shape().to_vec();
        Ok(Self {
            kind,
            method,
            options,
            all,
            of_levels,
            size,
            max_size,
            sample,
            indexed,
            beside,
            chunk,
            bin,
        })
    }

    /// Returns the step for level `level`, given the size of the level below.
    pub(crate) fn step(&self, level: u32, below: Size) -> Step {
        let (chunk_scale, growth) = (self.options.chunk_scale, self.options.growth(self.method));
        let steps = i32::try_from(level).unwrap_or(i32::MAX); // 1 to 20
        let larger = f64::from(chunk_scale).powi(steps);
        let keep = self.options.share(self.method);
        let axes = i32::try_from(self.chunk.len()).unwrap_or(i32::MAX); // a few
        let share = match self.method {
            Method::Cluster if self.kind == Kind::PointCloud => growth.powi(-axes),
            Method::Cluster => 1.0 / growth,
            // For a smooth line; straight or rough lines lose vertices faster.
            Method::Simplify => growth.sqrt().recip(),
            Method::Subset | Method::Decimate | Method::Collapse => keep,
            Method::Keep => 1.0,
        };
        let sparsity = if self.indexed { self.sparsity() } else { 1.0 };
        let size = (self.size * growth.powi(steps - 1)).min(self.max_size);
        // As a share of level 0; without a sample, of the level below.
        let sampled = self.sample.share_within(size).map(|share| share / sparsity.powi(steps));
        let guess = |all: u64, below: u64| match sampled {
            Some(share) => round_half_up_u64(f64_from_u64(all) * share).min(below),
            None => round_half_up_u64(f64_from_u64(below) * share / sparsity),
        };
        Step {
            level,
            kind: self.beside.then_some(self.kind),
            method: self.method,
            size: self.method.has_size().then_some(size),
            keep: self.method.has_share().then_some(keep),
            sparsity,
            chunk: self.chunk.iter().map(|size| size * larger).collect(),
            bin: self.bin.iter().map(|size| size * larger).collect(),
            below: below.vertices,
            vertices: guess(self.all.vertices, below.vertices).max(below.vertices.min(1)),
            bytes: guess(self.all.bytes, below.bytes).max(1),
        }
    }

    /// Returns a step for level 0 as if it were built from itself.
    pub(crate) fn base_step(&self) -> Step {
        let Size { vertices, bytes } = self.all;
        let step = self.step(0, self.all);
        Step { kind: None, size: None, keep: None, sparsity: 1.0, vertices, bytes, ..step }
    }

    /// Returns the sparsity of objects; lines have nothing else to drop.
    fn sparsity(&self) -> f64 {
        let alone = self.method == Method::Keep && self.options.sparsity <= 1.0;
        if alone { 2.0 } else { self.options.sparsity }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, kind, method, size, keep, sparsity, chunk, vertices, .. } = self;
        match kind {
            Some(kind) => write!(f, "level {level}, {kind}: {method}")?,
            None => write!(f, "level {level}: {method}")?,
        }
        if let Some(size) = size {
            write!(f, " {}", round_digits(*size, 4))?;
        }
        if let Some(keep) = keep {
            write!(f, ", {keep} kept")?;
        }
        if *sparsity > 1.0 {
            write!(f, ", one object in {sparsity}")?;
        }
        let chunk: Vec<String> = chunk.iter().map(ToString::to_string).collect();
        let vertices = format_count(*vertices, "vertex");
        write!(f, ", chunks of {}, about {vertices}", chunk.join(" × "))
    }
}

/// The first chains of level 0.
#[derive(Clone, Debug, Default)]
struct Sample {
    points: Points,
    chains: Vec<Range<u32>>,
}

impl Sample {
    /// Adds chains until the sample is large enough.
    fn add(&mut self, batch: &Batch) {
        let Points { axes, values } = Points::from_column(batch.positions());
        self.points.axes = axes;
        for part in batch.parts().iter() {
            if self.points.values.len() >= SAMPLE_VALUES {
                break;
            }
            let start = row_number(self.points.values.len() / axes);
            self.points.values.extend(&values[part.rows.start * axes..part.rows.end * axes]);
            self.chains.push(start..start + row_number(part.rows.len()));
        }
    }

    /// Returns the share of vertices that remain within `tolerance`; `None` without a sample.
    fn share_within(&self, tolerance: f64) -> Option<f64> {
        let (mut all, mut kept) = (0, 0);
        for chain in &self.chains {
            let rows: Vec<u32> = chain.clone().collect();
            all += rows.len();
            kept += douglas_peucker(&self.points, &rows, tolerance).0.len();
        }
        (all > 0).then(|| f64_from_u64(to_u64(kept)) / f64_from_u64(to_u64(all)))
    }
}

/// Returns how many vertices a level has, by counting instead of trusting its document.
async fn count_vertices(level: &LevelReader) -> Result<u64> {
    let (_, rows) = count_rows(level).await?;
    Ok(rows.into_iter().fold(0, u64::saturating_add)) // those that a damaged store states may not fit
}

/// Returns the spacing of vertices, and samples chains, which show how many vertices a tolerance
/// leaves.
async fn measure_spacing(
    reader: &Reader,
    level: &LevelReader,
    (kind, vertices): (Kind, u64),
    sample: &mut Sample,
) -> Result<f64> {
    let found = if kind == Kind::PointCloud {
        let chunk: f64 = level.chunk_shape().sizes().iter().product();
        let volume = chunk * f64_from_u64(to_u64(level.chunks().await?.len()));
        let spacing = (volume / f64_from_u64(vertices.max(1)))
            .powf(1.0 / f64_from_u64(to_u64(level.axes().max(1))));
        fit_spacing(reader, spacing).await?
    } else {
        measure_mean_edge(reader, kind, EDGE_SAMPLE_SIZE, sample).await?
    };
    if is_positive(found) {
        return Ok(found);
    }
    // All distances are zero, so any size does.
    let sides = level.chunk_shape().sizes().iter().copied();
    Ok(sides.fold(f64::INFINITY, f64::min) / 64.0)
}

/// Returns the spacing of points, at most `spacing`, which assumes a volume: points on a surface
/// are closer. Cells of twice the result hold at most eight of the first points, as in a volume.
async fn fit_spacing(reader: &Reader, spacing: f64) -> Result<f64> {
    let query = Query::all().at_level(LevelId(0)).of_kind(Kind::PointCloud);
    let mut batches =
        reader.stream(query.columns(Columns::None).limit(POINT_SAMPLE_SIZE).uncached());
    let mut sample = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        sample.extend(Points::from_column(batch.positions()).iter().map(<[f64]>::to_vec));
    }
    let fits = |spacing: &f64| {
        let cell = |point: &Vec<f64>| -> Vec<i64> {
            point.iter().map(|x| saturating_floor_i64(x / (2.0 * spacing))).collect()
        };
        sample.len() <= sample.iter().map(cell).collect::<HashSet<_>>().len() * 8
    };
    let mut smaller = (0..MAX_SPACING_STEPS).map(|step| spacing / SQRT_2.powi(step));
    // If no size fits, many points coincide.
    Ok(smaller.find(fits).unwrap_or(spacing))
}

/// Returns the mean length of the first edges.
async fn measure_mean_edge(
    reader: &Reader,
    kind: Kind,
    max_edges: u64,
    sample: &mut Sample,
) -> Result<f64> {
    let query = Query::all().at_level(LevelId(0)).of_kind(kind).columns(Columns::None).uncached();
    let query = if kind.has_links() { query } else { query.order(Order::Objects) };
    let mut batches = reader.stream(query);
    let (mut sum, mut count) = (0.0, 0_u64);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if !kind.has_links() {
            sample.add(&batch);
        }
        let points = Points::from_column(batch.positions());
        let mut note = |a, b| {
            sum += points.length(a, b);
            count += 1;
        };
        if let Some(elements) = batch.elements() {
            sides(elements).for_each(|[a, b]| note(a, b));
        }
        for part in batch.parts().iter() {
            let rows = part.rows.clone();
            rows.clone().zip(rows.skip(1)).for_each(|(a, b)| note(a, b));
        }
        if count > max_edges {
            break;
        }
    }
    Ok(sum / f64_from_u64(count.max(1)))
}

/// Points that are sampled to measure their spacing.
const POINT_SAMPLE_SIZE: u64 = 20_000;
/// Spacings that are tried, each smaller than the previous one by the square root of two.
const MAX_SPACING_STEPS: i32 = 20;
/// Edges after which the mean is accurate enough.
const EDGE_SAMPLE_SIZE: u64 = 200_000;
/// Coordinates after which the shares of chains are accurate enough.
const SAMPLE_VALUES: usize = 60_000;

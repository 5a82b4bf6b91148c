//! The options of a build: how levels are built, how many, and how objects and attributes change.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zvf_error::{Error, Result};
use zvf_format::Vocabulary as _;
use zvf_metadata::{CrossLevelStorage, Token};
use zvf_model::Kind;
use zvf_store::OpenOptions;

use crate::Aggregation;
use crate::error::setting_error;
use crate::size::Size;
use crate::strategy::Strategy;

/// How levels are built.
///
/// Every option has a default that fits the data: the method follows from the kind of geometry, and
/// sizes from the spacing of vertices.
///
/// ```
/// use zvf_pyramid::{Method, Options};
///
/// let options = Options { levels: Some(2), size: Some(0.5), ..Options::default() };
/// assert_eq!((options.growth, options.method), (None, None));
/// assert_eq!("simplify".parse::<Method>()?, Method::Simplify);
/// # Ok::<(), zvf_error::Error>(())
/// ```
///
/// The levels depend on nothing but the store and these options in serialized form: two builds of
/// one store with the same text produce the same levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// How geometry is coarsened; by default, according to its kind.
    pub method: Option<Method>,
    /// The size for level 1, in world units: the edge of a cell whose vertices are merged, or how
    /// far a line may lie from the original. Measured by default.
    pub size: Option<f64>,
    /// The factor by which the size grows per level; by default 4 for tolerances and 2 for cells.
    /// On a smooth line, four times the tolerance allows segments twice as long.
    pub growth: Option<f64>,
    /// For subsets, decimation and collapse: the share of points, vertices or faces that each level
    /// keeps. By default an eighth of points, half of the vertices of a chain, a quarter of faces.
    pub keep: Option<f64>,
    /// How many objects of a level there are for each one that the next level keeps.
    pub sparsity: f64,
    /// Options for single kinds of geometry, where there are several. The other options apply to
    /// each kind that can use them.
    pub kinds: Vec<(Kind, KindOptions)>,
    /// Which objects are kept.
    pub strategy: Strategy,
    /// The seed of random choices.
    pub seed: u64,
    /// How many chunks of a level one chunk of the next covers on each axis.
    pub chunk_scale: u32,
    /// How many levels to build; by default, as many as are needed to get down to `until`.
    pub levels: Option<u32>,
    /// The largest number of vertices of the coarsest level, if the number of levels is not given.
    pub until: u64,
    /// The largest size of the coarsest level in bytes, as a limit instead of `until`.
    pub until_bytes: Option<u64>,
    /// Whether a level is built even if it has as many vertices as the one below: for a part of a
    /// store whose whole level has fewer.
    pub equal_levels: bool,
    /// For simplified skeletons: terminal branches shorter than this are removed first.
    pub prune: Option<f64>,
    /// Whether the objects of a level are renumbered from 0 instead of keeping ids and rows. Their
    /// ids at level 0 are then in the attribute `source_id`.
    pub renumber: bool,
    /// Whether levels are additive: each holds only what coarser levels do not, so that everything
    /// is stored once. Level 0 is then rewritten; a level shows its own content and that of the
    /// coarser ones.
    pub additive: bool,
    /// Which links between vertices and their parents are stored.
    #[serde(serialize_with = "serialize_links", deserialize_with = "deserialize_links")]
    pub links: CrossLevelStorage,
    /// The largest level distance of these links; -1 for all, 0 for none.
    pub depth: i64,
    /// Aggregation rules for attributes, by name.
    pub rules: Vec<(String, Aggregation)>,
    /// The approximate memory limit in bytes: half for the part of a level that is being built, a
    /// quarter for reading the level below, a quarter for unwritten output.
    pub memory: u64,
    /// A hook that is called while a level is built; it does not affect the result.
    #[serde(skip)]
    pub on_rows: Option<RowsHook>,
}

fn deserialize_links<'de, D: Deserializer<'de>>(from: D) -> Result<CrossLevelStorage, D::Error> {
    let word = Token::from_text(&String::deserialize(from)?);
    word.known_word().ok_or_else(|| D::Error::custom("expected none, implicit or explicit"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn serialize_links<S: Serializer>(links: &CrossLevelStorage, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(Token::from(*links).as_str())
}

/// A hook that receives the number of vertices read so far from the level below.
///
/// ```
/// use zvf_pyramid::{Options, RowsHook};
///
/// let on_rows = Some(RowsHook::new(|rows| eprintln!("{rows} vertices")));
/// assert_ne!(Options { on_rows, ..Options::default() }, Options::default());
/// ```
#[derive(Clone)]
pub struct RowsHook(Arc<dyn Fn(u64) + Send + Sync>);

impl RowsHook {
    /// Returns a hook that calls `on_rows` on the thread that builds the level.
    pub fn new(on_rows: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(on_rows))
    }

    pub(crate) fn call(&self, rows: u64) {
        (self.0)(rows);
    }
}

impl fmt::Debug for RowsHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowsHook")
    }
}

impl PartialEq for RowsHook {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            method: None,
            size: None,
            growth: None,
            keep: None,
            sparsity: 1.0,
            kinds: Vec::new(),
            strategy: Strategy::Random,
            seed: 0,
            chunk_scale: 2,
            levels: None,
            until: 10_000,
            until_bytes: None,
            equal_levels: false,
            prune: None,
            renumber: false,
            additive: false,
            links: CrossLevelStorage::None,
            depth: 1,
            rules: Vec::new(),
            memory: 512 << 20,
            on_rows: None,
        }
    }
}

impl Options {
    /// Returns the memory for the part of a level that is being built.
    pub(crate) const fn working_bytes(&self) -> u64 {
        self.memory / 2
    }

    /// Returns the memory for output that is not written yet.
    pub(crate) const fn writing_bytes(&self) -> u64 {
        self.memory / 4
    }

    /// Returns the options for opening a level, with a quarter of the memory. Less than a cell or
    /// two would only cause errors.
    pub(crate) fn opening(&self) -> OpenOptions {
        self.limit_reading(OpenOptions::default())
    }

    /// Returns the options for opening a source store, with the share of [`memory`](Self::memory)
    /// for reading.
    ///
    /// ```
    /// use zvf_pyramid::Options;
    ///
    /// let options = Options { memory: 64 << 20, ..Options::default() };
    /// assert!(options.limit_reading(Default::default()).budget_bytes < 64 << 20);
    /// ```
    pub fn limit_reading(&self, usual: OpenOptions) -> OpenOptions {
        let budget = (self.memory / 4).max(MIN_READ_BYTES).min(usual.budget_bytes);
        OpenOptions { budget_bytes: budget, cache_bytes: budget / 4, ..usual }
    }

    /// Returns the options for each of the kinds of a store.
    ///
    /// Options for one kind must fit it; general options must fit at least one kind, and are
    /// ignored for the others.
    pub(crate) fn kind_options(&self, kinds: &[Kind]) -> Result<Vec<Self>> {
        self.check()?;
        if let Some((kind, _)) = self.kinds.iter().find(|(kind, _)| !kinds.contains(kind)) {
            let expected = "those of the store";
            return Err(setting_error("settings of a kind", expected, kind));
        }
        let kind_options: Vec<Self> = kinds.iter().map(|kind| self.for_kind(*kind)).collect();
        let mut methods = Vec::new();
        for (kind, options) in kinds.iter().zip(&kind_options) {
            methods.push((*kind, options.check_kind(*kind)?));
        }
        if let Some(method) = self.method.filter(|method| !kinds.iter().any(|k| method.fits(*k))) {
            let unfit: Vec<(Kind, Method)> = kinds.iter().map(|kind| (*kind, method)).collect();
            return Err(unused_setting("method", method.kinds(), &unfit));
        }
        let settings: [(_, _, IsGiven); 3] = [
            ("length of branches", "skeletons to simplify", |options| options.prune.is_some()),
            ("size", SIZED, |options| options.size.is_some()),
            ("share to keep", SHARED, |options| options.keep.is_some()),
        ];
        match settings.iter().find(|(.., is)| is(self) && !kind_options.iter().any(is)) {
            Some((what, expected, _)) => Err(unused_setting(what, expected, &methods)),
            None => Ok(kind_options),
        }
    }

    /// Returns the options for a store of one kind: those for the kind become general ones.
    pub(crate) fn for_single_kind(&self, kind: Kind) -> Self {
        let &Self { method, size, keep, .. } = self;
        let general = KindOptions { method, size, keep, sparsity: None };
        let kinds = self.kinds.iter().filter(|(other, _)| *other != kind).copied().collect();
        Self { kinds, ..self.with_settings(self.settings_of(kind).merge_defaults(&general)) }
    }

    /// Returns the options for one kind.
    pub(crate) fn settings_of(&self, kind: Kind) -> KindOptions {
        let settings = self.kinds.iter().filter(|(other, _)| *other == kind);
        let settings = settings.map(|(_, settings)| settings);
        settings.fold(KindOptions::default(), KindOptions::merge_defaults)
    }

    /// Returns these options with those for one kind applied, and without general ones that do not
    /// fit it.
    fn for_kind(&self, kind: Kind) -> Self {
        let settings = self.settings_of(kind);
        let method = settings.method.or(self.method.filter(|method| method.fits(kind)));
        let is = method.unwrap_or(Method::default_for(kind));
        let size = self.size.filter(|_| is.has_size());
        let keep = self.keep.filter(|_| is.has_share());
        let general = KindOptions { method, size, keep, sparsity: None };
        let prunes = (kind, is) == (Kind::Skeleton, Method::Simplify);
        let prune = self.prune.filter(|_| prunes);
        let kinds = Vec::new();
        Self { prune, kinds, ..self.with_settings(settings.merge_defaults(&general)) }
    }

    fn with_settings(&self, settings: KindOptions) -> Self {
        let KindOptions { method, size, keep, sparsity } = settings;
        Self { method, size, keep, sparsity: sparsity.unwrap_or(self.sparsity), ..self.clone() }
    }

    /// Returns whether another level is needed above one of this size.
    pub(crate) fn needs_level_above(&self, level: u32, below: Size) -> bool {
        below.vertices > 0
            && match (self.levels, self.until_bytes) {
                (Some(levels), _) => level <= levels,
                (None, Some(bytes)) => below.bytes > bytes && level <= MAX_AUTOMATIC,
                (None, None) => below.vertices > self.until && level <= MAX_AUTOMATIC,
            }
    }

    /// Refuses options that are invalid for this kind; returns its method.
    fn check_kind(&self, kind: Kind) -> Result<Method> {
        self.check()?;
        let method = self.method.unwrap_or(Method::default_for(kind));
        if !method.fits(kind) {
            return Err(unused_setting("method", method.kinds(), &[(kind, method)]));
        }
        if self.size.is_some() && !method.has_size() {
            return Err(unused_setting("size", SIZED, &[(kind, method)]));
        }
        if self.keep.is_some() && !method.has_share() {
            return Err(unused_setting("share to keep", SHARED, &[(kind, method)]));
        }
        Ok(method)
    }

    /// Refuses invalid values.
    fn check(&self) -> Result<()> {
        let from_1 = |x: f64| x.is_finite() && x >= 1.0;
        check_number("size", "more than 0", self.size, is_positive)?;
        check_number("growth", "1 or more", self.growth, from_1)?;
        check_number("share to keep", "between 0 and 1", self.keep, |x| x > 0.0 && x < 1.0)?;
        check_number("sparsity", "1 or more", Some(self.sparsity), from_1)?;
        check_number("length of branches", "more than 0", self.prune, is_positive)?;
        check_number("depth of links", "-1 or more", Some(self.depth), |depth| depth >= -1)?;
        check_number("factor of chunks", "1 or more", Some(self.chunk_scale), |scale| scale > 0)?;
        check_number("levels", "20 or fewer", self.levels, |levels| levels <= MAX_LEVELS)
    }

    /// Returns the level distances that links cover, where there are `levels` levels above the
    /// first.
    pub(crate) fn link_gaps(&self, levels: usize) -> RangeInclusive<usize> {
        link_gaps(self.links, self.depth, levels)
    }

    /// Returns whether any links between levels are written.
    pub(crate) fn links_levels(&self) -> bool {
        !self.link_gaps(1).is_empty()
    }

    /// Returns the factor by which cells or tolerances grow per level.
    pub(crate) fn growth(&self, method: Method) -> f64 {
        self.growth.unwrap_or(if method == Method::Simplify { 4.0 } else { 2.0 })
    }

    /// Returns the share that each level keeps with a method that thins by shares.
    pub(crate) fn share(&self, method: Method) -> f64 {
        self.keep.unwrap_or(match method {
            Method::Subset => 0.125,
            Method::Collapse => 0.25,
            Method::Decimate | Method::Cluster | Method::Simplify | Method::Keep => 0.5,
        })
    }
}

/// Options for one kind, which override the general ones.
///
/// ```
/// use zvf_model::Kind;
/// use zvf_pyramid::{Method, KindOptions, Options};
///
/// let mesh = KindOptions { method: Some(Method::Cluster), size: Some(3.0), ..KindOptions::default() };
/// let options = Options { kinds: vec![(Kind::Mesh, mesh)], ..Options::default() };
/// assert_eq!(options.kinds[0].1.keep, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindOptions {
    /// Like [`Options::method`].
    pub method: Option<Method>,
    /// Like [`Options::size`].
    pub size: Option<f64>,
    /// Like [`Options::keep`].
    pub keep: Option<f64>,
    /// Like [`Options::sparsity`].
    pub sparsity: Option<f64>,
}

impl KindOptions {
    /// Returns these options, completed by `other`.
    fn merge_defaults(self, other: &Self) -> Self {
        Self {
            method: self.method.or(other.method),
            size: self.size.or(other.size),
            keep: self.keep.or(other.keep),
            sparsity: self.sparsity.or(other.sparsity),
        }
    }
}

zvf_format::vocabulary! {
    /// How geometry is coarsened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[non_exhaustive]
    pub enum Method {
        /// Merges the vertices of each cell: all points of an object, or connected vertices of
        /// graphs, skeletons and meshes.
        Cluster => "cluster",
        /// Keeps a random subset of the points; subsets are nested.
        Subset => "subset",
        /// Removes vertices as long as the line stays within a tolerance; skeletons keep roots,
        /// forks and tips.
        Simplify => "simplify",
        /// Keeps every nth vertex of a chain.
        Decimate => "decimate",
        /// Collapses the edges of a mesh that change the surface least.
        Collapse => "collapse",
        /// Keeps geometry unchanged; only objects are dropped.
        Keep => "keep",
    }
    /// Returns the name.
    fn word;
}

impl Method {
    pub(crate) fn default_for(kind: Kind) -> Self {
        if kind == Kind::Line {
            Self::Keep
        } else if kind.is_chain() || kind == Kind::Skeleton {
            Self::Simplify
        } else if kind == Kind::Mesh {
            Self::Collapse
        } else {
            Self::Cluster
        }
    }

    fn fits(self, kind: Kind) -> bool {
        match self {
            Self::Cluster => kind == Kind::PointCloud || kind.has_links(),
            Self::Subset => kind == Kind::PointCloud,
            Self::Simplify => matches!(kind, Kind::Polyline | Kind::Streamline | Kind::Skeleton),
            Self::Decimate => matches!(kind, Kind::Polyline | Kind::Streamline),
            Self::Collapse => kind == Kind::Mesh,
            Self::Keep => true,
        }
    }

    /// Returns whether the method uses a cell size or a tolerance.
    pub(crate) const fn has_size(self) -> bool {
        matches!(self, Self::Cluster | Self::Simplify)
    }

    /// Returns whether the method uses a share to keep.
    pub(crate) const fn has_share(self) -> bool {
        matches!(self, Self::Subset | Self::Decimate | Self::Collapse)
    }

    const fn kinds(self) -> &'static str {
        match self {
            Self::Cluster => "points, graphs, skeletons or meshes to cluster",
            Self::Subset => "points to take a subset of",
            Self::Simplify => "polylines, streamlines or skeletons to simplify",
            Self::Decimate => "polylines or streamlines to decimate",
            Self::Collapse => "a mesh to collapse",
            Self::Keep => "any geometry",
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = "cluster, subset, simplify, decimate, collapse or keep";
        Self::from_word(text).ok_or_else(|| setting_error("method", expected, text))
    }
}

type IsGiven = fn(&Options) -> bool;

/// Refuses a number that is not sound.
pub(crate) fn check_number<T: fmt::Display + Copy>(
    what: &'static str,
    expected: &'static str,
    number: Option<T>,
    is_sound: impl Fn(T) -> bool,
) -> Result<()> {
    let unsound = number.filter(|number| !is_sound(*number));
    unsound.map_or(Ok(()), |found| Err(setting_error(what, expected, found)))
}

pub(crate) fn is_positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// Returns the level distances that links up to this depth cover, where there are `levels` levels
/// above the first.
pub(crate) fn link_gaps(
    storage: CrossLevelStorage,
    depth: i64,
    levels: usize,
) -> RangeInclusive<usize> {
    let max_gap = usize::try_from(depth).unwrap_or(levels).min(levels);
    1..=if storage == CrossLevelStorage::None { 0 } else { max_gap }
}

/// Returns the error for a setting that none of these kinds uses.
fn unused_setting(what: &'static str, expected: &'static str, found: &[(Kind, Method)]) -> Error {
    let words = found.iter().map(|(kind, method)| format!("{method} of {kind}"));
    setting_error(what, expected, words.collect::<Vec<_>>().join(", "))
}

const SIZED: &str = "something to cluster or simplify";
const SHARED: &str = "something to take a subset of, decimate or collapse";
/// The largest number of levels if none is given.
const MAX_AUTOMATIC: u32 = if MAX_LEVELS < 12 { MAX_LEVELS } else { 12 };
/// More levels are never useful: the chunks of each are at least as large as those below.
const MAX_LEVELS: u32 = 20;
/// The smallest amount of memory for reading.
const MIN_READ_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let check = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.kind_options(&[Kind::Graph]).unwrap_err().sentence()
        };
        for (actual, message) in [
            (check(&|o| o.size = Some(0.0)), "size: expected more than 0, found 0"),
            (check(&|o| o.growth = Some(0.9)), "growth: expected 1 or more, found 0.9"),
            (check(&|o| o.keep = Some(1.0)), "share to keep: expected between 0 and 1, found 1"),
            (check(&|o| o.sparsity = f64::NAN), "sparsity: expected 1 or more, found NaN"),
            (check(&|o| o.prune = Some(0.0)), "length of branches: expected more than 0, found 0"),
            (
                check(&|o| o.prune = Some(1.0)),
                "length of branches: expected skeletons to simplify, found cluster of graph",
            ),
            (check(&|o| o.depth = -2), "depth of links: expected -1 or more, found -2"),
            (check(&|o| o.chunk_scale = 0), "factor of chunks: expected 1 or more, found 0"),
            (check(&|o| o.levels = Some(21)), "levels: expected 20 or fewer, found 21"),
            (
                check(&|o| o.method = Some(Method::Subset)),
                "method: expected points to take a subset of, found subset of graph",
            ),
        ] {
            assert_eq!(actual, message);
        }
    }

    #[test]
    fn serialized_settings_are_those_that_levels_depend_on() {
        let text = |options: &Options| serde_json::to_string(options).unwrap();
        let mesh_settings = KindOptions { keep: Some(0.1), ..KindOptions::default() };
        let options = Options {
            method: Some(Method::Simplify),
            growth: Some(1.5),
            kinds: vec![(Kind::Mesh, mesh_settings)],
            strategy: Strategy::Largest("area".into()),
            rules: vec![("label".into(), "mode".parse().unwrap())],
            ..Options::default()
        };
        let hooked = Options { on_rows: Some(RowsHook::new(|_| {})), ..options.clone() };
        assert_eq!(text(&hooked), text(&options));
        assert_eq!(
            text(&options),
            "{\"method\":\"simplify\",\"size\":null,\"growth\":1.5,\"keep\":null,\"sparsity\":1.0,\
             \"kinds\":[[\"mesh\",{\"method\":null,\"size\":null,\"keep\":0.1,\"sparsity\":null}]],\
             \"strategy\":\"largest:area\",\"seed\":0,\"chunk_scale\":2,\"levels\":null,\
             \"until\":10000,\"until_bytes\":null,\"equal_levels\":false,\"prune\":null,\
             \"renumber\":false,\"additive\":false,\"links\":\"none\",\"depth\":1,\
             \"rules\":[[\"label\",\"mode\"]],\"memory\":536870912}"
        );
    }

    #[test]
    fn the_default_method_fits_each_kind() {
        for &kind in Kind::ALL {
            assert!(Method::default_for(kind).fits(kind), "{kind}");
        }
    }

    #[test]
    fn tolerances_grow_faster_than_cells() {
        let growth = |growth, method| Options { growth, ..Options::default() }.growth(method);
        let growths =
            [Method::Simplify, Method::Cluster].map(|m| (growth(None, m), growth(Some(3.0), m)));
        assert_eq!(growths, [(4.0, 3.0), (2.0, 3.0)]);
    }

    #[test]
    fn methods_and_strategies_round_trip_as_text() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse::<Method>().unwrap(), *method);
        }
        for word in
            ["random", "length", "largest:a", "smallest:b", "coverage", "thinning", "groups"]
        {
            assert_eq!(word.parse::<Strategy>().unwrap().to_string(), word);
        }
        for word in ["", "largest", "median:a"] {
            assert!(word.parse::<Strategy>().is_err());
        }
    }
}

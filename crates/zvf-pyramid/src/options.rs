//! What is asked for: how levels are made, how many, and what becomes of objects and attributes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zvf_error::{Error, Result};
use zvf_metadata::{CrossLevelStorage, Token};
use zvf_model::Kind;
use zvf_store::OpenOptions;

use crate::Aggregation;
use crate::error::setting_error;
use crate::size::Size;

/// How levels are made.
///
/// Everything has a default that fits the data: the method follows from the kind of geometry, sizes from how
/// far vertices are apart.
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
/// Serialized, they are all that the levels depend on: two builds of one store with the same text make the same levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// How geometry becomes coarser; by its kind without.
    pub method: Option<Method>,
    /// Of level 1, in world units: the edge of a cell whose vertices become one, or how far a line may lie
    /// from where it was. Measured without.
    pub size: Option<f64>,
    /// How much larger that is with each level; 4 for tolerances and 2 for cells without. The steps of a
    /// smooth line that stays within four times as much are twice as long.
    pub growth: Option<f64>,
    /// Of subsets, decimation and collapse: the share of points, vertices or faces that each level keeps.
    /// An eighth of points, half of the vertices of a chain, a quarter of faces without.
    pub keep: Option<f64>,
    /// How many objects of a level there are to each that the next one keeps.
    pub sparsity: f64,
    /// What is asked for one of several kinds of geometry. Of the rest, each kind takes what means something
    /// for it.
    pub kinds: Vec<(Kind, KindOptions)>,
    /// Which objects are kept.
    pub strategy: Strategy,
    /// What random choices start from.
    pub seed: u64,
    /// How many chunks of a level one chunk of the next covers on each axis.
    pub chunk_scale: u32,
    /// How many levels to build; without, as many as it takes to come down to `until`.
    pub levels: Option<u32>,
    /// Vertices that the coarsest level may have, where the number of levels is not given.
    pub until: u64,
    /// Bytes that the coarsest level may take, where that is what counts rather than `until`.
    pub until_bytes: Option<u64>,
    /// Whether a level is built that has as many vertices as the one below: for a part of a store, of which the
    /// whole has fewer.
    pub equal_levels: bool,
    /// Of skeletons that are simplified: branches at the ends that are shorter than this go first.
    pub prune: Option<f64>,
    /// Whether the objects of a level are numbered anew, from 0 on, instead of keeping ids and rows. What
    /// they were at level 0 is then an attribute of theirs, `source_id`.
    pub renumber: bool,
    /// Whether each level holds only what coarser ones do not, so that everything is stored once. Level 0
    /// is then written again; what a level shows is its own and what the coarser ones have.
    pub additive: bool,
    /// Which links there are between vertices and those that stand for them.
    #[serde(serialize_with = "serialize_links", deserialize_with = "deserialize_links")]
    pub links: CrossLevelStorage,
    /// By how many levels these go up and down; -1 for all, 0 for none.
    pub depth: i64,
    /// What becomes of attributes, by name.
    pub rules: Vec<(String, Aggregation)>,
    /// About how many bytes may be held: half of them for the part of a level that is being made, a quarter for
    /// reading the level below, a quarter for what is not written yet.
    pub memory: u64,
    /// What is called while a level is made; it changes nothing of the result.
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

/// What is called with the number of vertices that were read so far of the level below.
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
    /// Returns a hook that calls `on_rows`, on the thread that makes the level.
    #[must_use]
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
    /// Returns bytes for the part of a level that is being made.
    pub(crate) const fn working_bytes(&self) -> u64 {
        self.memory / 2
    }

    /// Returns bytes for what is made and not written yet.
    pub(crate) const fn writing_bytes(&self) -> u64 {
        self.memory / 4
    }

    /// Returns how a level is opened to be read: a quarter of the memory is for that. Less than a cell or two would only
    /// refuse stores.
    pub(crate) fn opening(&self) -> OpenOptions {
        self.limit_reading(OpenOptions::default())
    }

    /// Returns the options of a store that levels are made of, with the part of [`memory`](Self::memory) that reading may
    /// take.
    ///
    /// ```
    /// use zvf_pyramid::Options;
    ///
    /// let options = Options { memory: 64 << 20, ..Options::default() };
    /// assert!(options.limit_reading(Default::default()).budget_bytes < 64 << 20);
    /// ```
    #[must_use]
    pub fn limit_reading(&self, usual: OpenOptions) -> OpenOptions {
        let budget = (self.memory / 4).max(MIN_READ_BYTES).min(usual.budget_bytes);
        OpenOptions { budget_bytes: budget, cache_bytes: budget / 4, ..usual }
    }

    /// Returns what they come to for each of the kinds of a store.
    ///
    /// Settings of a kind must fit it; settings of all must fit one of them, and is nothing to those
    /// that it does not fit.
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
        let nobody = |is: fn(&Self) -> bool| is(self) && !kind_options.iter().any(is);
        if nobody(|options| options.prune.is_some()) {
            return Err(unused_setting("length of branches", "skeletons to simplify", &methods));
        }
        if nobody(|options| options.size.is_some()) {
            return Err(unused_setting("size", SIZED, &methods));
        }
        if nobody(|options| options.keep.is_some()) {
            return Err(unused_setting("share to keep", SHARED, &methods));
        }
        Ok(kind_options)
    }

    /// Returns the same for a store of one kind: its settings are those of all.
    pub(crate) fn for_single_kind(&self, kind: Kind) -> Self {
        let settings = self.settings_of(kind);
        Self {
            method: settings.method.or(self.method),
            size: settings.size.or(self.size),
            keep: settings.keep.or(self.keep),
            sparsity: settings.sparsity.unwrap_or(self.sparsity),
            kinds: self.kinds.iter().filter(|(other, _)| *other != kind).copied().collect(),
            ..self.clone()
        }
    }

    /// Returns the settings of one kind.
    pub(crate) fn settings_of(&self, kind: Kind) -> KindOptions {
        let settings =
            self.kinds.iter().filter(|(other, _)| *other == kind).map(|(_, settings)| settings);
        settings.fold(KindOptions::default(), KindOptions::merge_defaults)
    }

    /// Returns what they come to for one kind.
    fn for_kind(&self, kind: Kind) -> Self {
        let settings = self.settings_of(kind);
        let method = settings.method.or(self.method.filter(|method| method.fits(kind)));
        let is = method.unwrap_or(Method::default_for(kind));
        let prunes = (kind, is) == (Kind::Skeleton, Method::Simplify);
        Self {
            method,
            size: settings.size.or(self.size.filter(|_| is.has_size())),
            keep: settings.keep.or(self.keep.filter(|_| is.has_share())),
            sparsity: settings.sparsity.unwrap_or(self.sparsity),
            prune: self.prune.filter(|_| prunes),
            kinds: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns whether a level is wanted above one that is so large.
    pub(crate) fn needs_level_above(&self, level: u32, below: Size) -> bool {
        below.vertices > 0
            && match (self.levels, self.until_bytes) {
                (Some(levels), _) => level <= levels,
                (None, Some(bytes)) => below.bytes > bytes && level <= MAX_AUTOMATIC,
                (None, None) => below.vertices > self.until && level <= MAX_AUTOMATIC,
            }
    }

    /// Refuses settings that mean nothing for this kind; gives its method.
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

    /// Refuses values that mean nothing.
    fn check(&self) -> Result<()> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if let Some(size) = self.size.filter(|size| !positive(*size)) {
            return Err(setting_error("size", "more than 0", size));
        }
        if let Some(growth) = self.growth.filter(|growth| !(growth.is_finite() && *growth >= 1.0)) {
            return Err(setting_error("growth", "1 or more", growth));
        }
        if let Some(keep) = self.keep.filter(|keep| !(positive(*keep) && *keep < 1.0)) {
            return Err(setting_error("share to keep", "between 0 and 1", keep));
        }
        if !(self.sparsity.is_finite() && self.sparsity >= 1.0) {
            return Err(setting_error("sparsity", "1 or more", self.sparsity));
        }
        if let Some(prune) = self.prune.filter(|prune| !positive(*prune)) {
            return Err(setting_error("length of branches", "more than 0", prune));
        }
        if self.depth < -1 {
            return Err(setting_error("depth of links", "-1 or more", self.depth));
        }
        if self.chunk_scale == 0 {
            return Err(setting_error("factor of chunks", "1 or more", 0));
        }
        if let Some(levels) = self.levels.filter(|levels| *levels > MAX_LEVELS) {
            return Err(setting_error("levels", "20 or fewer", levels));
        }
        Ok(())
    }

    /// Returns how much larger cells or tolerances are with each level.
    pub(crate) fn growth(&self, method: Method) -> f64 {
        self.growth.unwrap_or(if method == Method::Simplify { 4.0 } else { 2.0 })
    }

    /// Returns what each level keeps of what a method thins by shares.
    pub(crate) fn share(&self, method: Method) -> f64 {
        self.keep.unwrap_or(match method {
            Method::Subset => 0.125,
            Method::Collapse => 0.25,
            Method::Decimate | Method::Cluster | Method::Simplify | Method::Keep => 0.5,
        })
    }
}

/// What is asked for one kind, in place of what is asked for all.
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
    /// As [`Options::method`].
    pub method: Option<Method>,
    /// As [`Options::size`].
    pub size: Option<f64>,
    /// As [`Options::keep`].
    pub keep: Option<f64>,
    /// As [`Options::sparsity`].
    pub sparsity: Option<f64>,
}

impl KindOptions {
    /// Returns these, and of others what these do not say.
    fn merge_defaults(self, other: &Self) -> Self {
        Self {
            method: self.method.or(other.method),
            size: self.size.or(other.size),
            keep: self.keep.or(other.keep),
            sparsity: self.sparsity.or(other.sparsity),
        }
    }
}

/// How geometry becomes coarser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Vertices of a cell become one: all points of an object, or what is connected of graphs, skeletons
    /// and meshes.
    Cluster,
    /// A random part of the points, nested.
    Subset,
    /// Vertices go where the line stays within a tolerance; of skeletons roots, forks and tips stay.
    Simplify,
    /// All but each so-manieth vertex of a chain goes.
    Decimate,
    /// Edges of a mesh collapse where the surface changes least.
    Collapse,
    /// Geometry stays as it is; only objects go.
    Keep,
}

impl Method {
    const WORDS: [(Self, &'static str); 6] = [
        (Self::Cluster, "cluster"),
        (Self::Subset, "subset"),
        (Self::Simplify, "simplify"),
        (Self::Decimate, "decimate"),
        (Self::Collapse, "collapse"),
        (Self::Keep, "keep"),
    ];

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

    /// Returns whether it goes by the edge of a cell, or by a tolerance.
    pub(crate) const fn has_size(self) -> bool {
        matches!(self, Self::Cluster | Self::Simplify)
    }

    /// Returns whether it goes by the share that stays.
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

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(method, _)| method == self);
        f.pad(word.map_or("", |(_, word)| word))
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let method = Self::WORDS.iter().find(|(_, word)| *word == text);
        let expected = "cluster, subset, simplify, decimate, collapse or keep";
        method.map(|(method, _)| *method).ok_or_else(|| setting_error("method", expected, text))
    }
}

/// Which objects a level keeps.
///
/// ```
/// use zvf_pyramid::Strategy;
///
/// assert_eq!("largest:mass".parse::<Strategy>()?, Strategy::Largest("mass".to_owned()));
/// assert_eq!(Strategy::Coverage.to_string(), "coverage");
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// A random choice.
    #[default]
    Random,
    /// The longest: of chains their length, of others that of their edges, of points how many.
    Length,
    /// Those with the largest values of this attribute of objects.
    Largest(String),
    /// Those with the smallest.
    Smallest(String),
    /// First one for each bin of the level, by one of its vertices, then by how many a bin has.
    Coverage,
    /// At most one for each bin, however many that are.
    Thinning,
    /// The same share of each group, at least one of each, and of those in none.
    Groups,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Length => f.write_str("length"),
            Self::Largest(name) => write!(f, "largest:{name}"),
            Self::Smallest(name) => write!(f, "smallest:{name}"),
            Self::Coverage => f.write_str("coverage"),
            Self::Thinning => f.write_str("thinning"),
            Self::Groups => f.write_str("groups"),
        }
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = "random, length, largest:NAME, smallest:NAME, coverage, thinning or groups";
        match text.split_once(':') {
            Some(("largest", name)) => Ok(Self::Largest(name.to_owned())),
            Some(("smallest", name)) => Ok(Self::Smallest(name.to_owned())),
            None if text == "random" => Ok(Self::Random),
            None if text == "length" => Ok(Self::Length),
            None if text == "coverage" => Ok(Self::Coverage),
            None if text == "thinning" => Ok(Self::Thinning),
            None if text == "groups" => Ok(Self::Groups),
            _ => Err(setting_error("choice of objects", expected, text)),
        }
    }
}

/// Returns a setting that none of these kinds has a use for.
fn unused_setting(what: &'static str, expected: &'static str, found: &[(Kind, Method)]) -> Error {
    let words = found.iter().map(|(kind, method)| format!("{method} of {kind}"));
    setting_error(what, expected, words.collect::<Vec<_>>().join(", "))
}

const SIZED: &str = "something to cluster or simplify";
const SHARED: &str = "something to take a subset of, decimate or collapse";
/// Levels that are built at most where their number is not given.
const MAX_AUTOMATIC: u32 = if MAX_LEVELS < 12 { MAX_LEVELS } else { 12 };
/// More than so many levels are never useful: each one has chunks at least as large.
const MAX_LEVELS: u32 = 20;
/// Bytes that reading has at least.
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
        for (method, word) in Method::WORDS {
            assert_eq!(
                (word.parse::<Method>().unwrap(), method.to_string()),
                (method, word.into())
            );
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

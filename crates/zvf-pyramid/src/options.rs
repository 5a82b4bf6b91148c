//! What is asked for: how levels are made, how many, and what becomes of objects and attributes.

use std::fmt;
use std::str::FromStr;

use zvf_format::metadata::CrossLevelStorage;
use zvf_model::Kind;
use zvf_store::OpenOptions;

use crate::{PyramidError, Rule};

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
/// # Ok::<(), zvf_pyramid::PyramidError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
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
    /// Which objects are kept.
    pub strategy: Strategy,
    /// What random choices start from.
    pub seed: u64,
    /// How many chunks of a level one chunk of the next covers on each axis.
    pub chunk_scale: u32,
    /// How many levels to build; without, as many as it takes to come down to `until`.
    pub levels: Option<u32>,
    /// Vertices that the coarsest level may have, where the number of levels is not said.
    pub until: u64,
    /// Bytes that the coarsest level may take, where that is what counts rather than `until`.
    pub until_bytes: Option<u64>,
    /// Of skeletons that are simplified: branches at the ends that are shorter than this go first.
    pub prune: Option<f64>,
    /// Whether the objects of a level are numbered anew, from 0 on, instead of keeping ids and rows. What
    /// they were at level 0 is then an attribute of theirs, `source_id`.
    pub renumber: bool,
    /// Whether each level holds only what coarser ones do not, so that everything is stored once. Level 0
    /// is then written again; what a level shows is its own and what the coarser ones have.
    pub additive: bool,
    /// Which links there are between vertices and those that stand for them.
    pub links: CrossLevelStorage,
    /// By how many levels these go up and down; -1 for all, 0 for none.
    pub depth: i64,
    /// What becomes of attributes, by name.
    pub rules: Vec<(String, Rule)>,
    /// About how many bytes of a level may be held until it is written; half as many at most are for
    /// reading the level below.
    pub memory: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            method: None,
            size: None,
            growth: None,
            keep: None,
            sparsity: 1.0,
            strategy: Strategy::Random,
            seed: 0,
            chunk_scale: 2,
            levels: None,
            until: 10_000,
            until_bytes: None,
            prune: None,
            renumber: false,
            additive: false,
            links: CrossLevelStorage::None,
            depth: 1,
            rules: Vec::new(),
            memory: 512 << 20,
        }
    }
}

impl Options {
    /// How a level is opened to be read: half of the memory is for that. Less than a cell or two would only
    /// refuse stores.
    pub(crate) fn opening(&self) -> OpenOptions {
        let usual = OpenOptions::default();
        let budget = (self.memory / 2).max(LEAST_BUDGET).min(usual.budget_bytes);
        OpenOptions { budget_bytes: budget, cache_bytes: budget / 4, ..usual }
    }

    /// Refuses settings that mean nothing.
    pub(crate) fn check(&self, kind: Kind) -> Result<Method, PyramidError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if let Some(size) = self.size.filter(|size| !positive(*size)) {
            return Err(PyramidError::setting("size", "more than 0", size));
        }
        if let Some(growth) = self.growth.filter(|growth| !(growth.is_finite() && *growth >= 1.0)) {
            return Err(PyramidError::setting("growth", "1 or more", growth));
        }
        if let Some(keep) = self.keep.filter(|keep| !(positive(*keep) && *keep < 1.0)) {
            return Err(PyramidError::setting("share to keep", "between 0 and 1", keep));
        }
        if !(self.sparsity.is_finite() && self.sparsity >= 1.0) {
            return Err(PyramidError::setting("sparsity", "1 or more", self.sparsity));
        }
        if let Some(prune) = self.prune.filter(|prune| !positive(*prune)) {
            return Err(PyramidError::setting("length of branches", "more than 0", prune));
        }
        if self.depth < -1 {
            return Err(PyramidError::setting("depth of links", "-1 or more", self.depth));
        }
        if self.chunk_scale == 0 {
            return Err(PyramidError::setting("factor of chunks", "1 or more", 0));
        }
        if self.levels.is_some_and(|levels| levels > MOST_LEVELS) {
            let found = self.levels.unwrap_or_default();
            return Err(PyramidError::setting("levels", "20 or fewer", found));
        }
        let method = self.method.unwrap_or(Method::usual(kind));
        if !method.fits(kind) {
            let found = format!("{method} of {kind}");
            return Err(PyramidError::setting("method", method.kinds(), found));
        }
        if self.prune.is_some() && (kind, method) != (Kind::Skeleton, Method::Simplify) {
            let (expected, found) = ("skeletons to simplify", format!("{method} of {kind}"));
            return Err(PyramidError::setting("length of branches", expected, found));
        }
        Ok(method)
    }

    /// How much larger cells or tolerances are with each level.
    pub(crate) fn growth(&self, method: Method) -> f64 {
        self.growth.unwrap_or(if method == Method::Simplify { 4.0 } else { 2.0 })
    }

    /// What each level keeps of what a method thins by shares.
    pub(crate) fn share(&self, method: Method) -> f64 {
        self.keep.unwrap_or(match method {
            Method::Subset => 0.125,
            Method::Collapse => 0.25,
            Method::Decimate | Method::Cluster | Method::Simplify | Method::Keep => 0.5,
        })
    }
}

/// How geometry becomes coarser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Vertices of a cell become one: all points of an object, or what hangs together of graphs, skeletons
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

    fn usual(kind: Kind) -> Self {
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

impl FromStr for Method {
    type Err = PyramidError;

    fn from_str(text: &str) -> Result<Self, PyramidError> {
        let method = Self::WORDS.iter().find(|(_, word)| *word == text);
        let expected = "cluster, subset, simplify, decimate, collapse or keep";
        method
            .map(|(method, _)| *method)
            .ok_or_else(|| PyramidError::setting("method", expected, text))
    }
}

/// Which objects a level keeps.
///
/// ```
/// use zvf_pyramid::Strategy;
///
/// assert_eq!("largest:mass".parse::<Strategy>()?, Strategy::Largest("mass".to_owned()));
/// assert_eq!(Strategy::Coverage.to_string(), "coverage");
/// # Ok::<(), zvf_pyramid::PyramidError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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

impl FromStr for Strategy {
    type Err = PyramidError;

    fn from_str(text: &str) -> Result<Self, PyramidError> {
        let expected = "random, length, largest:NAME, smallest:NAME, coverage, thinning or groups";
        match text.split_once(':') {
            Some(("largest", name)) => Ok(Self::Largest(name.to_owned())),
            Some(("smallest", name)) => Ok(Self::Smallest(name.to_owned())),
            None if text == "random" => Ok(Self::Random),
            None if text == "length" => Ok(Self::Length),
            None if text == "coverage" => Ok(Self::Coverage),
            None if text == "thinning" => Ok(Self::Thinning),
            None if text == "groups" => Ok(Self::Groups),
            _ => Err(PyramidError::setting("choice of objects", expected, text)),
        }
    }
}

/// More than so many levels are never useful: each one has chunks at least as large.
pub(crate) const MOST_LEVELS: u32 = 20;
/// Bytes that reading has at least.
const LEAST_BUDGET: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        let with = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check(Kind::Graph).unwrap_err().to_string()
        };
        for (found, message) in [
            (with(&|o| o.size = Some(0.0)), "size: expected more than 0, found 0"),
            (with(&|o| o.growth = Some(0.9)), "growth: expected 1 or more, found 0.9"),
            (with(&|o| o.keep = Some(1.0)), "share to keep: expected between 0 and 1, found 1"),
            (with(&|o| o.sparsity = f64::NAN), "sparsity: expected 1 or more, found NaN"),
            (with(&|o| o.prune = Some(0.0)), "length of branches: expected more than 0, found 0"),
            (
                with(&|o| o.prune = Some(1.0)),
                "length of branches: expected skeletons to simplify, found cluster of graph",
            ),
            (with(&|o| o.depth = -2), "depth of links: expected -1 or more, found -2"),
            (with(&|o| o.chunk_scale = 0), "factor of chunks: expected 1 or more, found 0"),
            (with(&|o| o.levels = Some(21)), "levels: expected 20 or fewer, found 21"),
            (
                with(&|o| o.method = Some(Method::Subset)),
                "method: expected points to take a subset of, found subset of graph",
            ),
        ] {
            assert_eq!(found, message);
        }
    }

    #[test]
    fn every_kind_has_a_method_that_fits() {
        for kind in Kind::ALL {
            assert!(Method::usual(kind).fits(kind), "{kind}");
        }
    }

    #[test]
    fn tolerances_grow_faster_than_cells() {
        let growth = |growth, method| Options { growth, ..Options::default() }.growth(method);
        let all =
            [Method::Simplify, Method::Cluster].map(|m| (growth(None, m), growth(Some(3.0), m)));
        assert_eq!(all, [(4.0, 3.0), (2.0, 3.0)]);
    }

    #[test]
    fn words_both_ways() {
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

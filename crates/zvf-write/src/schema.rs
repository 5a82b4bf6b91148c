//! The description of a new store: kind, axes, chunks and bins, attribute declarations, codecs.
//!
//! A schema contains everything that must be known before the first vertex. The columns themselves
//! are not declared: their names, types, units and categories come with the batches, and the first
//! batch defines them.
//!
//! Not here: memory limits and vertices outside the bounds ([`WriteOptions`]).
//!
//! [`WriteOptions`]: crate::WriteOptions

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_metadata::{AttributeSpec, AttributeSpecs, Axis, LinkStore, Object, Root};
use zvf_model::{Bounds, Kind, Value};
use zvf_store::CodecPipeline;

use crate::draco::DracoPositions;
use crate::error::setting_error;

/// The description of a new store.
///
/// ```
/// use zvf_format::grid::ChunkShape;
/// use zvf_metadata::Axis;
/// use zvf_model::Kind;
/// use zvf_write::Schema;
///
/// let axes = Axis::spatial(3).unwrap();
/// let schema = Schema::new(Kind::PointCloud, axes, ChunkShape::new(&[100.0; 3])?)?
///     .with_bins(&[25.0; 3])?;
/// assert_eq!(schema.bins().bins_per_chunk(), [4, 4, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) kind: Kind,
    pub(crate) extra_kinds: Vec<Kind>, // other kinds, each once
    pub(crate) axes: Vec<Axis>,        // as many as the bins have; names unique
    pub(crate) bins: Bins,
    pub(crate) binned: bool,           // whether bins were asked for
    pub(crate) bounds: Option<Bounds>, // finite, as many axes
    pub(crate) by_attribute: Option<(String, Vec<Value>)>, // values distinct, at least one
    pub(crate) directed: bool,
    pub(crate) links: LinkStore,
    pub(crate) explicit: bool,
    pub(crate) codecs: CodecPipeline,
    pub(crate) index_codecs: Option<CodecPipeline>, // of what is not of vertices, where that differs
    pub(crate) draco: Option<DracoPositions>,
    pub(crate) shard: Option<Vec<u64>>, // cells on each axis of a key, none 0
    pub(crate) shard_bytes: Option<u64>, // that the cells of a shard may take together
    pub(crate) crs: Option<Json>,
    pub(crate) user_metadata: Object,
    pub(crate) specs: AttributeSpecs,
    pub(crate) name: Option<String>,
    pub(crate) like: Option<Root>, // of a store with the same axes
}

impl Schema {
    /// Returns the schema of geometry of `kind` on these axes, in chunks of this shape.
    ///
    /// # Errors
    ///
    /// When the numbers of axes differ, or two axes have the same name.
    pub fn new(kind: Kind, axes: Vec<Axis>, chunk: ChunkShape) -> Result<Self> {
        if axes.len() != chunk.axes() {
            return Err(setting_error("axes", chunk.axes(), axes.len()));
        }
        let mut names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        names.sort_unstable();
        if let Some([twice, _]) = names.array_windows().find(|[a, b]| a == b) {
            return Err(setting_error("names of axes", "each once", twice));
        }
        Ok(Self {
            kind,
            extra_kinds: Vec::new(),
            axes,
            bins: Bins::from_chunk_shape(&chunk),
            binned: false,
            bounds: None,
            by_attribute: None,
            directed: false,
            links: LinkStore::Canonical,
            explicit: false,
            codecs: CodecPipeline::default(),
            index_codecs: None,
            draco: None,
            shard: None,
            shard_bytes: None,
            crs: None,
            user_metadata: Object::new(),
            specs: AttributeSpecs::default(),
            name: None,
            like: None,
        })
    }

    /// Adds a further kind of geometry, in chunks of the same shape. All other settings apply to
    /// all kinds; a direction applies to graphs and meshes.
    ///
    /// The first kind is the one that every reader finds; others are stored beside it. A mesh
    /// always comes first, because the reference implementation reads the links of a level as faces
    /// if the store has a mesh.
    ///
    /// ```
    /// # use zvf_format::grid::ChunkShape;
    /// # use zvf_metadata::Axis;
    /// # use zvf_model::Kind;
    /// # use zvf_write::Schema;
    /// # let (axes, chunk) = (Axis::spatial(3).unwrap(), ChunkShape::new(&[100.0; 3])?);
    /// let schema = Schema::new(Kind::Skeleton, axes, chunk)?.with_kind(Kind::Mesh)?;
    /// assert_eq!(schema.kinds().collect::<Vec<_>>(), [Kind::Mesh, Kind::Skeleton]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the schema already has the kind.
    pub fn with_kind(mut self, kind: Kind) -> Result<Self> {
        if self.kinds().any(|other| other == kind) {
            return Err(setting_error("kinds", "each once", kind));
        }
        if kind == Kind::Mesh {
            let first = std::mem::replace(&mut self.kind, kind);
            self.extra_kinds.insert(0, first);
        } else {
            self.extra_kinds.push(kind);
        }
        Ok(self)
    }

    /// Divides chunks into bins of this shape, through which loose points are found.
    ///
    /// # Errors
    ///
    /// When a chunk is not a whole number of bins.
    pub fn with_bins(self, bin: &[f64]) -> Result<Self> {
        Ok(Self { bins: Bins::new(self.bins.chunk_shape(), bin)?, binned: true, ..self })
    }

    /// Declares bounds: the store states them, and vertices outside are refused, dropped or
    /// included, according to [`Outside`](crate::Outside). By default, the bounds are those of the
    /// vertices.
    ///
    /// # Errors
    ///
    /// When the number of axes differs, or a bound is infinite.
    pub fn with_bounds(self, bounds: Bounds) -> Result<Self> {
        if bounds.axes() != self.axes.len() {
            return Err(setting_error("bounds", self.axes.len(), bounds.axes()));
        }
        let mut corners = bounds.low().iter().chain(bounds.high());
        if let Some(infinite) = corners.find(|x| !x.is_finite()) {
            return Err(setting_error("bounds", "finite corners", infinite));
        }
        Ok(Self { bounds: Some(bounds), ..self })
    }

    /// Creates separate chunks for each value of the vertex attribute `name`, in the order of
    /// `values`: a query for one value reads nothing of the others. The attribute is then not
    /// stored separately.
    ///
    /// # Errors
    ///
    /// When there is no value, or a duplicate.
    pub fn with_bin_attribute(self, name: &str, values: Vec<Value>) -> Result<Self> {
        let twice = values
            .iter()
            .enumerate()
            .find(|(i, value)| values.iter().take(*i).any(|before| before == *value));
        if let Some((_, value)) = twice {
            return Err(setting_error("values of the binned attribute", "each once", value));
        }
        if values.is_empty() {
            return Err(setting_error("values of the binned attribute", "one or more", 0));
        }
        Ok(Self { by_attribute: Some((name.to_owned(), values)), ..self })
    }

    /// Makes links directed: their endpoints are stored in input order and never swapped.
    #[must_use]
    pub fn with_directed_links(self) -> Self {
        Self { directed: true, ..self }
    }

    /// Stores every link between chunks once, or in each chunk of its ends.
    #[must_use]
    pub fn with_links(self, links: LinkStore) -> Self {
        Self { links, ..self }
    }

    /// Stores every edge of a skeleton, instead of only those that the order of the vertices does
    /// not imply. Edges with attributes need this. Graphs and meshes always store all edges, chains
    /// never do.
    #[must_use]
    pub fn with_explicit_edges(self) -> Self {
        Self { explicit: true, ..self }
    }

    /// Sets the codecs of cells.
    #[must_use]
    pub fn with_codecs(self, codecs: CodecPipeline) -> Self {
        Self { codecs, ..self }
    }

    /// Stores the vertices of each chunk as a Draco stream, in their order.
    #[must_use]
    pub fn with_draco(self, positions: DracoPositions) -> Self {
        Self { draco: Some(positions), ..self }
    }

    /// Sets the codecs of fragments, objects and links separately from vertices: they are sequences
    /// of numbers that compress well.
    #[must_use]
    pub fn with_index_codecs(self, codecs: CodecPipeline) -> Self {
        Self { index_codecs: Some(codecs), ..self }
    }

    /// Sets the number of cells per shard on each axis of a chunk key. A key has one component per
    /// axis, and one in front if chunks are binned by an attribute.
    ///
    /// # Errors
    ///
    /// When the number of axes differs, an axis has no cells, or a shard has more than
    /// [`MAX_SHARD_CELLS`](zvf_store::MAX_SHARD_CELLS). Call [`Schema::with_bin_attribute`] first.
    pub fn with_shard_shape(self, cells: &[u64]) -> Result<Self> {
        if cells.len() != self.key_rank() {
            return Err(setting_error("shard", self.key_rank(), cells.len()));
        }
        if cells.contains(&0) {
            return Err(setting_error("shard", "at least 1 cell on each axis", 0));
        }
        zvf_store::count_shard_cells(cells)?;
        Ok(Self { shard: Some(cells.to_vec()), ..self })
    }

    /// Reduces shards whose cells would take more than `bytes` while they are written: cells wait
    /// in memory until their shard is complete.
    ///
    /// All processes that build one store together must use the same number.
    #[must_use]
    pub fn with_shard_bytes(self, bytes: u64) -> Self {
        Self { shard_bytes: Some(bytes), ..self }
    }

    /// Sets a coordinate reference system, which is kept unchanged.
    #[must_use]
    pub fn with_crs(self, crs: Json) -> Self {
        Self { crs: Some(crs), ..self }
    }

    /// Adds application metadata to the root, under a separate name.
    #[must_use]
    pub fn with_user_metadata(mut self, namespace: &str, value: Json) -> Self {
        self.user_metadata.insert(namespace.to_owned(), value);
        self
    }

    /// Declares an attribute: its unit and description go to the root and, when it is written, to
    /// its array. `scope` is `vertex`, `object` or `link`.
    #[must_use]
    pub fn declare(mut self, scope: &str, name: &str, spec: AttributeSpec) -> Self {
        let entry = (name.to_owned(), spec);
        match self.specs.scopes.iter_mut().find(|(other, _)| other == scope) {
            Some((_, names)) => names.push(entry),
            None => self.specs.scopes.push((scope.to_owned(), vec![entry])),
        }
        self
    }

    /// Sets the name of the store; by default it is the folder name.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Takes over what the root of another store with the same axes states of the whole: bounds,
    /// axes, name and scene, user metadata, and what other tools keep there.
    #[must_use]
    pub fn with_root(self, root: &Root) -> Self {
        Self { axes: root.axes().to_vec(), like: Some(root.clone()), ..self }
    }

    /// Returns every kind, the first one first.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        std::iter::once(self.kind).chain(self.extra_kinds.iter().copied())
    }

    /// Returns the kind, or the first of several.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the shapes of chunks and bins.
    pub const fn bins(&self) -> &Bins {
        &self.bins
    }

    /// Returns the settings for one of several kinds.
    pub(crate) fn for_single_kind(&self, kind: Kind) -> Self {
        let mut alone = Self { kind, extra_kinds: Vec::new(), ..self.clone() };
        if !self.extra_kinds.is_empty() && !matches!(kind, Kind::Graph | Kind::Mesh) {
            (alone.directed, alone.links) = (false, LinkStore::Canonical);
        }
        alone
    }

    /// Returns the number of components of a chunk key.
    pub(crate) fn key_rank(&self) -> usize {
        self.axes.len() + usize::from(self.by_attribute.is_some())
    }

    /// Returns the declaration of an attribute.
    pub(crate) fn spec(&self, scope: &str, name: &str) -> Option<&AttributeSpec> {
        self.specs.find(scope, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph_schema() -> Schema {
        let axes = Axis::spatial(2).unwrap();
        Schema::new(Kind::Graph, axes, ChunkShape::new(&[4.0, 4.0]).unwrap()).unwrap()
    }

    #[test]
    fn invalid_settings_are_refused() {
        let chunk = ChunkShape::new(&[1.0]).unwrap();
        let repeated_axes = vec![Axis::space("x"), Axis::space("x")];
        let chunk_shape = ChunkShape::new(&[1.0, 1.0]).unwrap();
        let bounds = |high: &[f64]| Bounds::new(&vec![0.0; high.len()], high).unwrap();
        let errors = [
            Schema::new(Kind::Line, Axis::spatial(2).unwrap(), chunk).err(),
            Schema::new(Kind::Line, repeated_axes, chunk_shape).err(),
            graph_schema().with_bins(&[3.0, 4.0]).err(),
            graph_schema().with_bounds(bounds(&[1.0])).err(),
            graph_schema().with_bounds(bounds(&[1.0, f64::INFINITY])).err(),
            graph_schema().with_bin_attribute("label", vec![]).err(),
            graph_schema().with_bin_attribute("label", vec![1_i64.into(), 1_i64.into()]).err(),
            graph_schema().with_kind(Kind::Graph).err(),
            graph_schema().with_kind(Kind::Mesh).unwrap().with_kind(Kind::Graph).err(),
            graph_schema().with_shard_shape(&[2]).err(),
            graph_schema().with_shard_shape(&[2, 0]).err(),
            graph_schema().with_shard_shape(&[1 << 10, 1 << 11]).err(),
            graph_schema()
                .with_bin_attribute("label", vec![1_i64.into()])
                .unwrap()
                .with_shard_shape(&[2, 2])
                .err(),
        ];
        let messages: Vec<String> = errors.into_iter().map(|e| e.unwrap().to_string()).collect();
        assert_eq!(
            messages,
            [
                "InvalidArgument, axes: expected 1, found 2",
                "InvalidArgument, names of axes: expected each once, found x",
                "BadShape in grid, bin_shape at byte 0: expected a whole number of bins in a chunk, \
                 found 1.3333333333333333",
                "InvalidArgument, bounds: expected 2, found 1",
                "InvalidArgument, bounds: expected finite corners, found inf",
                "InvalidArgument, values of the binned attribute: expected one or more, found 0",
                "InvalidArgument, values of the binned attribute: expected each once, found 1",
                "InvalidArgument, kinds: expected each once, found graph",
                "InvalidArgument, kinds: expected each once, found graph",
                "InvalidArgument, shard: expected 2, found 1",
                "InvalidArgument, shard: expected at least 1 cell on each axis, found 0",
                "InvalidArgument, shards of 1024 x 2048 cells: expected at most 1048576 cells in one, found 2097152: \
                 readers hold the index of all cells of a shard; 1024 x 1024 would do",
                "InvalidArgument, shard: expected 3, found 2",
            ]
        );
    }
}

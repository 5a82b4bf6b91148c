//! What a store will hold: kind, axes, chunks and bins, what is said of attributes, how cells are kept.
//!
//! A schema is what must be known before the first vertex. The columns themselves are not declared:
//! their names, types, units and categories come with the batches, and the first batch decides.
//!
//! Not here: how much memory may be used and what to do with strays ([`WriteOptions`]).
//!
//! [`WriteOptions`]: crate::WriteOptions

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::grid::{Bins, ChunkShape};
use zvf_metadata::{AttributeSpec, AttributeSpecs, Axis, LinkStore, Object};
use zvf_model::{Bounds, Kind, Value};
use zvf_store::CodecPipeline;

use crate::draco::DracoPositions;
use crate::error::setting_error;

/// What a store will hold.
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
}

impl Schema {
    /// Returns the schema of geometry of `kind` on these axes, in chunks of this shape.
    ///
    /// # Errors
    ///
    /// When there are not as many axes as the chunk has, or two have one name.
    pub fn new(kind: Kind, axes: Vec<Axis>, chunk: ChunkShape) -> Result<Self> {
        if axes.len() != chunk.axes() {
            return Err(setting_error("axes", chunk.axes().to_string(), axes.len()));
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
        })
    }

    /// Returns the same with one more kind of geometry, in the same chunks. Everything else that a schema says is
    /// said of all its kinds; a direction is one of graphs and meshes.
    ///
    /// The first kind is the one that every reader finds; others lie beside it. Faces are always the first:
    /// the reference implementation takes links of a level for faces where it knows of a mesh.
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
    /// When the schema has the kind already.
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

    /// Returns the same with chunks divided into bins of this shape: what loose points are found by.
    ///
    /// # Errors
    ///
    /// When a chunk is not a whole number of them.
    pub fn with_bins(self, bin: &[f64]) -> Result<Self> {
        Ok(Self { bins: Bins::new(self.bins.chunk_shape(), bin)?, binned: true, ..self })
    }

    /// Returns the same with declared bounds: the store says them, and vertices outside are refused, left out
    /// or let in, as [`Outside`](crate::Outside) says. Without, the bounds are those of the vertices.
    ///
    /// # Errors
    ///
    /// When there are not as many axes, or a bound is infinite.
    pub fn with_bounds(self, bounds: Bounds) -> Result<Self> {
        if bounds.axes() != self.axes.len() {
            return Err(setting_error("bounds", self.axes.len().to_string(), bounds.axes()));
        }
        let mut corners = bounds.low().iter().chain(bounds.high());
        if let Some(infinite) = corners.find(|x| !x.is_finite()) {
            return Err(setting_error("bounds", "finite corners", infinite));
        }
        Ok(Self { bounds: Some(bounds), ..self })
    }

    /// Returns the same with a chunk for each value of the vertex attribute `name`, in the order of `values`:
    /// who asks for one value reads nothing of the others. The attribute is then not stored again.
    ///
    /// # Errors
    ///
    /// When there is no value, or one is there twice.
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

    /// Returns the same with links that have a direction: they are stored as given, and never turned round.
    #[must_use]
    pub fn with_directed_links(self) -> Self {
        Self { directed: true, ..self }
    }

    /// Returns the same with every link that crosses chunks stored once, or in each chunk it touches.
    #[must_use]
    pub fn with_links(self, links: LinkStore) -> Self {
        Self { links, ..self }
    }

    /// Returns the same with every edge of a skeleton stored, instead of those that the order of the vertices
    /// does not say. Edges that carry attributes need it. Graphs and meshes always are so, chains never.
    #[must_use]
    pub fn with_explicit_edges(self) -> Self {
        Self { explicit: true, ..self }
    }

    /// Returns the same with cells coded so.
    #[must_use]
    pub fn with_codecs(self, codecs: CodecPipeline) -> Self {
        Self { codecs, ..self }
    }

    /// Returns the same with the vertices of each chunk as a Draco stream, in their order.
    #[must_use]
    pub fn with_draco(self, positions: DracoPositions) -> Self {
        Self { draco: Some(positions), ..self }
    }

    /// Returns the same with fragments, their objects and links coded so, and not as vertices are: they are
    /// numbers that follow each other, of which little is left.
    #[must_use]
    pub fn with_index_codecs(self, codecs: CodecPipeline) -> Self {
        Self { index_codecs: Some(codecs), ..self }
    }

    /// Returns the same with this many cells on each axis of a chunk key in one object. A key has one component
    /// for each axis, and one in front where chunks are binned by an attribute.
    ///
    /// # Errors
    ///
    /// When there is another number of axes, an axis has no cells, or a shard more than
    /// [`MAX_SHARD_CELLS`](zvf_store::MAX_SHARD_CELLS). Say [`Schema::with_bin_attribute`] first.
    pub fn with_shard_shape(self, cells: &[u64]) -> Result<Self> {
        if cells.len() != self.key_rank() {
            return Err(setting_error("shard", self.key_rank().to_string(), cells.len()));
        }
        if cells.contains(&0) {
            return Err(setting_error("shard", "at least 1 cell on each axis", 0));
        }
        zvf_store::count_shard_cells(cells)?;
        Ok(Self { shard: Some(cells.to_vec()), ..self })
    }

    /// Returns the same with shards of fewer cells where those of one would take more than `bytes` while they are written:
    /// cells wait in memory until their shard is whole.
    ///
    /// Whoever builds one store in several processes gives all of them the same number.
    #[must_use]
    pub fn with_shard_bytes(self, bytes: u64) -> Self {
        Self { shard_bytes: Some(bytes), ..self }
    }

    /// Returns the same with a coordinate reference system, kept as it is.
    #[must_use]
    pub fn with_crs(self, crs: Json) -> Self {
        Self { crs: Some(crs), ..self }
    }

    /// Returns the same with what an application keeps in the root, under a name of its own.
    #[must_use]
    pub fn with_user_metadata(mut self, namespace: &str, value: Json) -> Self {
        self.user_metadata.insert(namespace.to_owned(), value);
        self
    }

    /// Returns the same with an attribute declared: its unit and description go to the root and, when it is
    /// written, to its array. `scope` is `vertex`, `object` or `link`.
    #[must_use]
    pub fn declare(mut self, scope: &str, name: &str, spec: AttributeSpec) -> Self {
        let entry = (name.to_owned(), spec);
        match self.specs.scopes.iter_mut().find(|(other, _)| other == scope) {
            Some((_, names)) => names.push(entry),
            None => self.specs.scopes.push((scope.to_owned(), vec![entry])),
        }
        self
    }

    /// Returns the same under this name; without, the store is called what its folder is.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Returns every kind, the first one first.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        std::iter::once(self.kind).chain(self.extra_kinds.iter().copied())
    }

    /// Returns what is written; the first kind, where there are several.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the axes.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the chunks, and the bins they are divided into.
    #[must_use]
    pub const fn bins(&self) -> &Bins {
        &self.bins
    }

    /// Returns what is said of one of several kinds.
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

    /// Returns what is declared of an attribute.
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

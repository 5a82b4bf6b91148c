//! The writer of a store from batches.
//!
//! A store becomes visible when [`Writer::finish`] has written all of it and then its root document. A failure before
//! that leaves no store.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use object_store::ObjectStore;
use zvf_error::Result;
use zvf_metadata::{
    Capability, CrossChunkStrategy, Dataset, GroupDoc, LevelDoc, Object, ObjectIndexConvention,
    Ome, OmeNode, Root, Token, Version, ZarrVectors,
};
use zvf_model::{Batch, Column, Extent, Field, Kind, Members, ObjectId};
use zvf_store::Build;

use crate::kinds::{KindWriter, Kinds};
use crate::level::convention;
use crate::pairs::Pairs;
use crate::parametric::ShapeTable;
use crate::stages::Outcome;
use crate::{Report, Schema, WriteOptions};

/// Writes one store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use object_store::memory::InMemory;
/// use zvf_format::grid::ChunkShape;
/// use zvf_metadata::{Axis, Dtype};
/// use zvf_model::{Batch, Column, Field, Kind, LevelId, LevelReader};
/// use zvf_store::{OpenOptions, Store};
/// use zvf_write::{Schema, WriteOptions, Writer};
///
/// let memory = Arc::new(InMemory::new());
/// let schema = Schema::new(Kind::PointCloud, Axis::spatial(2).unwrap(), ChunkShape::new(&[10.0; 2])?)?;
/// let options = WriteOptions::default();
/// let mut writer = Writer::in_object_store(memory.clone(), "points.zv", schema, options).await?;
///
/// let floats = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
/// let positions = Column::new(Dtype::FLOAT32, 2, floats(&[1.0, 1.0, 12.0, 3.0, 2.0, 2.0]).into())?;
/// let mass = Column::new(Dtype::FLOAT32, 1, floats(&[0.5, 0.7, 0.9]).into())?;
/// writer.push(&Batch::new(Kind::PointCloud, positions).with_field(Field::new("mass", mass))?)?;
/// let report = writer.finish().await?;
/// assert_eq!(report.to_string(), "3 vertices in 2 chunks, 0 objects, 0 links");
///
/// let store = Store::from_object_store(memory, &"points.zv".into(), OpenOptions::default()).await?;
/// let level = LevelReader::open(&store, LevelId(0)).await?;
/// assert_eq!(level.chunks().await?.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Writer {
    build: Build,
    kinds: Kinds,
    shapes: Option<ShapeTable>,
    headers: Vec<(String, Object)>,
    name: String,
    compat: bool, // the root is that of the reference implementation
}

impl Writer {
    /// Starts a store at `address`: a path, or the URL of a bucket.
    ///
    /// # Errors
    ///
    /// When a store already exists there, or the location is not writable.
    #[boxed]
    pub async fn create(address: &str, schema: Schema, options: WriteOptions) -> Result<Self> {
        let build = Build::begin(address, options.build.clone()).await?;
        Ok(Self::from_build(build, address, schema, &options))
    }

    /// Starts a store below `prefix` of the caller's object store.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`].
    #[boxed]
    pub async fn in_object_store(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        schema: Schema,
        options: WriteOptions,
    ) -> Result<Self> {
        let build = Build::in_object_store(store, prefix, options.build.clone()).await?;
        Ok(Self::from_build(build, prefix, schema, &options))
    }

    fn from_build(build: Build, address: &str, schema: Schema, options: &WriteOptions) -> Self {
        let name = store_name(&schema, address);
        let (kinds, compat) = (Kinds::new(&schema, options), options.compat);
        Self { build, kinds, shapes: None, headers: Vec::new(), name, compat }
    }

    /// Adds vertices, their attributes, their objects, and elements between them. If the schema has
    /// several kinds, the batch states its kind.
    ///
    /// A part is an object, or a further part of an object that an earlier part began: for chains a
    /// further line, or the next run of the previous line
    /// ([`Parts::with_starts`](zvf_model::Parts::with_starts)). Chains require parts. Points may
    /// have no objects; vertices of a graph or a mesh without parts belong to object 0; each tree
    /// of a skeleton without parts is an object. The edges of a skeleton must come with their
    /// vertices; those of graphs, and faces, may also come later ([`Writer::push_elements`]).
    ///
    /// # Errors
    ///
    /// When the batch does not match the schema and the first batch, a vertex lies outside the
    /// declared bounds, an object of a skeleton is not a tree, or the scratch folder fails.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        self.push_with_parts(batch, &[])
    }

    /// Adds a batch as [`Writer::push`] does, with attributes of its parts: each fragment gets the values of its part.
    ///
    /// # Errors
    ///
    /// As [`Writer::push`], and when a field does not have one row for each part.
    pub fn push_with_parts(&mut self, batch: &Batch, parts: &[Field]) -> Result<()> {
        self.kinds.writer_for_kind(batch.kind()).push_with_parts(batch, parts)
    }

    /// Adds elements between vertices of any batches. Each row has the running numbers of the
    /// vertices of one element, counted from 0 over all batches. If the schema has several kinds,
    /// this and the following methods are for the first; see [`Writer::kind`] for others.
    ///
    /// # Errors
    ///
    /// When the column does not contain vertex numbers, or the attributes differ from those of the
    /// first elements. [`Writer::finish`] reports vertex numbers that were never pushed.
    pub fn push_elements(&mut self, vertices: &Column, fields: &[Field]) -> Result<()> {
        self.kinds.first_writer().push_elements(vertices, fields)
    }

    /// Returns the number of vertices so far: the running number of the next one.
    pub fn vertices(&self) -> u64 {
        self.kinds.first().given
    }

    /// Sets attributes of objects, one row per id. An object without vertices exists too.
    ///
    /// # Errors
    ///
    /// When the number of rows of a field differs from the number of ids.
    pub fn object_fields(&mut self, ids: &[ObjectId], fields: &[Field]) -> Result<()> {
        self.kinds.first_writer().object_fields(ids, fields)
    }

    /// Declares that objects exist, with or without vertices.
    pub fn declare_objects(&mut self, ids: &[ObjectId]) {
        self.kinds.first_writer().declare_objects(ids);
    }

    /// Returns the writer for geometry of `kind`, if the schema has several.
    ///
    /// # Errors
    ///
    /// When the schema does not have it.
    pub fn kind(&mut self, kind: Kind) -> Result<KindWriter<'_>> {
        self.kinds.writer(kind)
    }

    /// Adds a group of objects of any kind, and returns its number.
    pub fn group(&mut self, name: Option<&str>, members: Members) -> u64 {
        self.kinds.groups().add(name, members)
    }

    /// Adds an attribute of groups, one row for each group.
    pub fn group_field(&mut self, field: Field) {
        self.kinds.groups().add_field(field);
    }

    /// Adds the header of another format, which is written back when the store is converted to that
    /// format.
    pub fn header(&mut self, format: &str, header: Object) {
        self.headers.push((format.to_owned(), header));
    }

    /// Adds objects that are given by the coefficients of an equation.
    pub fn declare_parametric(&mut self, shapes: ShapeTable) {
        self.shapes = Some(shapes);
    }

    /// Writes everything and makes the store visible.
    ///
    /// # Errors
    ///
    /// When an element refers to a vertex that was never pushed, an object of a skeleton has
    /// several roots, objects of two kinds share an id, or the store cannot be written. There is no
    /// store then.
    #[boxed]
    pub async fn finish(self) -> Result<Report> {
        let Self { build, kinds, shapes, headers, name, compat } = self;
        let (outcome, _) = kinds.finish(&build, 0, |_, _| {}).await?;
        if let Some(shapes) = shapes {
            shapes.write(&build).await?;
        }
        publish(build, outcome, &headers, (&name, compat)).await
    }
}

/// Writes the headers and the root document of a store called `name`, and makes it visible. With
/// `compat`, the root is that of the reference implementation.
pub(crate) async fn publish(
    build: Build,
    outcome: Outcome,
    headers: &[(String, Object)],
    (name, compat): (&str, bool),
) -> Result<Report> {
    for (format, header) in headers {
        let header = GroupDoc::new(header.clone());
        build.group(&format!("headers/{format}"), &header).await?;
    }
    let root = root(&outcome, name);
    let root = if compat { root } else { build.declare_attributes(&root) };
    build.publish(&root).await?;
    Ok(outcome.report)
}

/// Writes one level of a store under construction, next to its other levels: a [`Writer`] that leaves the root document
/// to the caller.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use zvf_format::grid::ChunkShape;
/// # use zvf_metadata::{Axis, Dtype, Root, ZarrVectors};
/// # use zvf_model::{Batch, Column, Kind};
/// # use zvf_store::{Build, BuildOptions, Store};
/// use zvf_write::{LevelWriter, Schema, WriteOptions};
///
/// # let dir = tempfile::tempdir()?;
/// # let address = dir.path().join("x").to_str().unwrap().to_owned();
/// # let build = Build::begin(&address, BuildOptions::default()).await?;
/// # let axes = Axis::spatial(1).unwrap();
/// # let schema = Schema::new(Kind::PointCloud, axes.clone(), ChunkShape::new(&[20.0])?)?;
/// # let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 1, vec![0; 8].into())?);
/// let mut level = LevelWriter::new(&build, 1, schema, &WriteOptions::default());
/// level.writer().push(&batch)?;
/// let report = level.finish(|_, level| level.parent_level = Some(0)).await?;
/// assert_eq!(report.vertices, 2);
/// # let root = Root::new(ZarrVectors::new(vec![10.0], [vec![0.0], vec![1.0]]), axes);
/// # let store = build.preview(&root).await?;
/// # assert_eq!(store.level(1).await?.meta().vertex_count, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LevelWriter {
    writer: Writer,
    level: u32,
}

impl LevelWriter {
    /// Starts level `level` of `build`. Chunks and bins are those of the level.
    pub fn new(build: &Build, level: u32, schema: Schema, options: &WriteOptions) -> Self {
        Self { writer: Writer::from_build(build.clone(), "", schema, options), level }
    }

    /// Returns the writer of vertices, elements, objects and groups. Headers and shapes do not belong to a level.
    pub const fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Writes the level; `edit_level` may change its document, or that of each kind if there are
    /// several.
    ///
    /// # Errors
    ///
    /// As [`Writer::finish`].
    pub async fn finish(self, edit_level: impl FnMut(Kind, &mut LevelDoc)) -> Result<Report> {
        Ok(self.finish_placed(edit_level).await?.0)
    }

    /// Records the locations of vertices for [`finish_placed`](Self::finish_placed). Must be called
    /// before anything is pushed.
    #[must_use]
    pub fn with_locations(mut self) -> Self {
        self.writer.kinds.record_locations();
        self
    }

    /// Writes the level like [`finish`](Self::finish). Also returns, for each kind, the running
    /// number of each vertex and its location: the rank of its chunk in numeric order among those
    /// of its kind at the level in the upper 32 bits, and its row there in the lower ones. A level
    /// without [`with_locations`](Self::with_locations) has none.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub async fn finish_placed(
        self,
        edit_level: impl FnMut(Kind, &mut LevelDoc),
    ) -> Result<(Report, Vec<(Kind, Pairs)>)> {
        let Writer { build, kinds, .. } = self.writer;
        let (outcome, placed) = kinds.finish(&build, self.level, edit_level).await?;
        Ok((outcome.report, placed))
    }
}

/// Returns the name of a store: that of the schema, or that of the last folder of `address`.
pub(crate) fn store_name(schema: &Schema, address: &str) -> String {
    let address = address.trim_end_matches('/');
    let folder = address.rsplit_once('/').map_or(address, |(_, folder)| folder);
    schema.name.clone().unwrap_or_else(|| Ome::store_name(folder).to_owned())
}

/// Returns the root document.
fn root(outcome: &Outcome, name: &str) -> Root {
    let schema = &outcome.schema;
    let chunk = schema.bins.chunk_shape().sizes().to_vec();
    let bin = schema.bins.bin_shape().to_vec();
    let mut block = ZarrVectors::new(chunk, outcome.bounds.clone());
    block.zv_version = Version::KNOWN;
    block.geometry_types = schema.kinds().map(|kind| Token::from_text(kind.token())).collect();
    block.base_bin_shape = schema.binned.then(|| bin.clone());
    block.crs.clone_from(&schema.crs);
    block.links_convention = Some(convention(schema.kind, outcome.explicit).into());
    block.object_index_convention = Some(ObjectIndexConvention::Standard.into());
    block.cross_chunk_strategy = Some(CrossChunkStrategy::ExplicitLinks.into());
    if let Some(cells) = &schema.shard {
        let is_cube = cells.iter().all(|side| *side == cells[0]);
        block.declare_shard(if is_cube { &cells[..1] } else { cells });
    }
    if outcome.grouped {
        block.format_capabilities.push(Capability::FragmentLinkGroups.into());
    }
    if outcome.dense {
        block.manifest_layout = Some("dense".to_owned());
        block.format_capabilities.push(Capability::DenseManifests.into());
    }
    if !schema.specs.scopes.is_empty() {
        block.attribute_specs = Some(schema.specs.to_value());
    }
    let mut root = Root::new(block, schema.axes.clone());
    let half = bin.iter().map(|size| size / 2.0).collect();
    if let Some(block) = root.multiscales.first_mut() {
        block.datasets.push(Dataset::new("0", vec![1.0; schema.axes.len()], half));
    }
    root.ome = Some(Ome::new(name, &schema.axes, ["0"]).to_value());
    if outcome.keeps_columns && schema.kinds().any(|kind| kind == Kind::Skeleton) {
        let layout = serde_json::json!({"skeleton_layout": "linked_across_chunks"});
        root.extras.insert("zarr_vectors_tools".to_owned(), layout);
    }
    root.user_metadata = (!schema.user_metadata.is_empty()).then(|| schema.user_metadata.clone());
    if let Some(like) = &schema.like {
        take_over(&mut root, like, outcome.report.vertices > 0);
    }
    root
}

/// Adds what `like`, the root of another store, states of the whole.
fn take_over(root: &mut Root, like: &Root, has_vertices: bool) {
    let (block, like_block) = (&mut root.zarr_vectors, &like.zarr_vectors);
    let declared = like_block.bounds.clone();
    block.bounds =
        if has_vertices { Extent::union(block.bounds.clone(), declared) } else { declared };
    block.coordinate_offset.clone_from(&like_block.coordinate_offset);
    root.user_metadata.clone_from(&like.user_metadata);
    let mut extras = like.extras.clone();
    extras.shift_remove("zvf"); // the journal of edits belongs to one store
    root.extras.extend(extras);
    if let Some(Ok(scene)) = like.ome() {
        root.ome = Some(Ome { nodes: vec![OmeNode::level("0")], ..scene }.to_value());
    }
}

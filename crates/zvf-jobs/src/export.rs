//! An answer with everything that a file of another format needs: header, vertices, objects and
//! groups.
//!
//! ```text
//! Export::open    a question, the first part of its answer, the types of what is said of objects and groups
//! header          what `zvf_convert::write::find_losses` looks at before the first byte
//! next            what a [`zvf_model::flow::Sink`] takes, in its order: vertices, objects, groups
//! ```
//!
//! Points and chains come batch by batch, and graphs and meshes part by part, in the memory of the
//! handle. Trees are all in memory, as with [`Reader::run`], within the limit of the query. Objects
//! keep their ids; groups keep only members in the answer.
//!
//! Not here: the formats (`zvf-convert`), and stores from files ([`crate::create`]).

use async_recursion::async_recursion as boxed;
use std::collections::{BTreeMap, HashSet};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use serde_json::Value as Json;
use zvf_error::{Result, format_count};
use zvf_format::key::Delta;
use zvf_format::num::{saturating_u32_from_usize, to_u64, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind, FillValue};
use zvf_model::flow::{Group, Header, Piece, Source};
use zvf_model::{
    Batch, Column, ColumnBuilder, Elements, Field, Kind, LevelId, LevelReader, LinkAttribute,
    Members, ObjectId, RowAttribute, Value, header_names,
};
use zvf_query::{Columns, NumberedAnswer, NumberedPart, Query, Reader};
use zvf_store::{Store, fill_item};

use crate::Error;

/// The answer of a store, ready for any format.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_convert::Format;
/// use zvf_convert::write::{self, Target, FormatOptions};
///
/// let reader = zvf_query::Reader::new(zvf_store::Store::open(path, zvf_store::OpenOptions::default()).await?);
/// let mut export = zvf_jobs::export::Export::open(&reader, zvf_query::Query::all(), None).await?;
/// let mut text = Vec::new();
/// let options = FormatOptions::default();
/// let mut writer = write::open(Format::Csv, Target::stream(&mut text), &options)?;
/// writer.begin(&export.header)?;
/// while let Some(piece) = export.next().await? {
///     writer.write(piece)?;
/// }
/// assert!(writer.finish()?.vertices > 0);
/// # Ok(())
/// # }
/// ```
pub struct Export {
    /// The description of the contents.
    pub header: Header,
    /// Notes for the reader that are not errors; the last piece may add more.
    pub notes: Vec<String>,
    /// The approximate number of vertices, which [`count_expected`](Self::count_expected) adds.
    pub expected_vertices: Option<u64>,
    reader: Reader,
    query: Query,
    level: LevelReader,
    stage: ExportStep,
    is_table: bool, // without attributes of objects, and groups
    seen: HashSet<ObjectId>,
    objects: Vec<ObjectId>, // those seen, in the order in which they came
    sentinels: Sentinels,
}

/// The numbers that stand for missing values, by attribute; a file cannot tell them from others.
type Sentinels = BTreeMap<String, Value>;

/// The next step.
enum ExportStep {
    /// All vertices at once.
    Held(Batch),
    /// Batches.
    Streamed(BoxStream<'static, Result<Batch>>),
    /// A part, and the further ones.
    Numbered(Option<NumberedPart>, Box<NumberedAnswer>),
    /// The elements of a part whose vertices were returned.
    Elements(Elements, Box<NumberedAnswer>),
    /// The attributes of objects, starting at this number.
    Objects(usize),
    Groups,
    Ended,
}

impl Export {
    /// Runs `query` on geometry of `kind`, or of the first kind of the store.
    ///
    /// # Errors
    ///
    /// When the query fails, or the attributes of objects and groups cannot be read.
    #[boxed]
    pub async fn open(reader: &Reader, query: Query, kind: Option<Kind>) -> Result<Self, Error> {
        let mut export = Self::start(reader, query, kind, false).await?;
        export.describe_rest().await?;
        Ok(export)
    }

    /// Runs `query` for a table: the attributes of objects and the groups are not read. The notes
    /// say whether a limit cuts it before the first piece, and do not list what is missing.
    ///
    /// # Errors
    ///
    /// When the query fails.
    #[boxed]
    pub async fn open_table(reader: &Reader, query: Query) -> Result<Self, Error> {
        let mut export = Self::start(reader, query, None, true).await?;
        if matches!(export.stage, ExportStep::Streamed(_)) && export.query.limit.is_some() {
            export.note_what_lacks().await?;
        }
        Ok(export)
    }

    /// Adds the number of vertices that the plan of the query expects, for those who show progress.
    ///
    /// # Errors
    ///
    /// When the query cannot be planned.
    #[boxed]
    pub async fn count_expected(mut self) -> Result<Self, Error> {
        self.expected_vertices = Some(self.reader.plan(&self.query).await?.rows);
        Ok(self)
    }

    async fn start(
        reader: &Reader,
        query: Query,
        kind: Option<Kind>,
        is_table: bool,
    ) -> Result<Self, Error> {
        let query = kind.into_iter().fold(query, Query::of_kind);
        let (level, kind) = reader.resolve(&query).await?;
        let query = query.at_level(level).of_kind(kind);
        let level = reader.level_of_kind(level, kind).await?;
        let (stage, notes, header) = match reader.run_numbered(&query.clone().with_owners()).await?
        {
            Some(numbered) => begin_numbered(reader, &query, &level, numbered).await?,
            None if kind.has_links() => hold(reader, &query, &level).await?,
            // The parts of chains name their objects.
            None => begin(reader, &query, &level, !(is_table && kind.is_chain())).await?,
        };
        Ok(Self {
            header,
            notes,
            expected_vertices: None,
            reader: reader.clone(),
            query,
            level,
            stage,
            is_table,
            seen: HashSet::new(),
            objects: Vec::new(),
            sentinels: Sentinels::new(),
        })
    }

    /// Adds objects, groups and format records to the header.
    async fn describe_rest(&mut self) -> Result<(), Error> {
        if self.query.columns == Columns::All {
            self.header.left_out = list_left_out(&self.level).await?;
        }
        let sentinels = &mut self.sentinels;
        let fields = object_fields(&self.level, &[], sentinels).await?;
        let id_field = fields.iter().find(|field| ID_FIELDS.contains(&&*field.name));
        self.header.id_field = id_field.map(|field| field.name.to_string());
        self.header.object_fields = if self.header.objects { fields } else { Vec::new() };
        if let Some(catalogue) = self.level.groups().await? {
            self.header.groups = !catalogue.is_empty();
            self.header.group_fields = group_fields(&self.level, &[], sentinels).await?;
        }
        for name in header_names(self.reader.store()).await?.names {
            if let Some(record) = zvf_model::header(self.reader.store(), &name).await? {
                self.header.records.push((name, Json::Object(record)));
            }
        }
        Ok(())
    }

    /// Returns the next piece, in the order that writers need; `None` after the last.
    ///
    /// # Errors
    ///
    /// When the answer cannot be read further.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            match std::mem::replace(&mut self.stage, ExportStep::Ended) {
                ExportStep::Held(batch) => {
                    self.stage = self.after_vertices();
                    self.note_objects(&batch);
                    return Ok(Some(Piece::Vertices(batch)));
                }
                ExportStep::Streamed(mut batches) => {
                    let Some(batch) = batches.next().await.transpose()? else {
                        self.stage = self.after_vertices();
                        if !self.is_table {
                            self.note_what_lacks().await?;
                        }
                        continue;
                    };
                    self.stage = ExportStep::Streamed(batches);
                    self.note_objects(&batch);
                    return Ok(Some(Piece::Vertices(batch)));
                }
                ExportStep::Numbered(first, mut parts) => {
                    let part = match first {
                        Some(part) => Some(part),
                        None => parts.next().await?,
                    };
                    let Some(part) = part else {
                        self.stage = self.after_vertices();
                        if parts.missing_count() > 0 {
                            let chunks = format_count(parts.missing_count(), "chunk");
                            self.notes.push(format!("{chunks} missing"));
                        }
                        continue;
                    };
                    self.stage = ExportStep::Elements(part.elements, parts);
                    self.note_objects(&part.vertices);
                    return Ok(Some(Piece::Vertices(part.vertices)));
                }
                ExportStep::Elements(elements, parts) => {
                    self.stage = ExportStep::Numbered(None, parts);
                    if !elements.is_empty() {
                        let rows = numbers_column(&elements)?;
                        return Ok(Some(Piece::Elements {
                            rows,
                            fields: elements.fields().to_vec(),
                        }));
                    }
                }
                ExportStep::Objects(start) if start < self.objects.len() => {
                    let end = self.objects.len().min(start + OBJECTS_OF_A_PIECE);
                    self.stage = ExportStep::Objects(end);
                    let ids = &self.objects[start..end];
                    return Ok(Some(known_objects(&self.level, ids, &mut self.sentinels).await?));
                }
                ExportStep::Objects(_) => {
                    self.stage = ExportStep::Groups;
                    self.note_empty_objects().await?;
                }
                ExportStep::Groups => {
                    let groups = groups(&self.level, &self.objects).await?;
                    if !groups.is_empty() {
                        let all: Vec<u64> = (0..).take(groups.len()).collect();
                        let sentinels = &mut self.sentinels;
                        let fields = group_fields(&self.level, &all, sentinels).await?;
                        return Ok(Some(Piece::Groups { groups, fields }));
                    }
                }
                ExportStep::Ended => return Ok(None),
            }
        }
    }

    const fn after_vertices(&self) -> ExportStep {
        if self.is_table { ExportStep::Ended } else { ExportStep::Objects(0) }
    }

    /// Records the objects of a batch, each once.
    fn note_objects(&mut self, batch: &Batch) {
        if self.is_table {
            return;
        }
        let owners = batch.vertex_objects().unwrap_or_default().iter().flatten();
        let mut last = None; // most vertices have the owner of the vertex before them
        for object in batch.parts().objects().iter().chain(owners) {
            if last.replace(*object) != Some(*object) && self.seen.insert(*object) {
                self.objects.push(*object);
            }
        }
    }

    /// Adds a note about objects that the answer lacks because they have no vertices.
    async fn note_empty_objects(&mut self) -> Result<(), Error> {
        let slots = self.level.objects().await?.map_or(0, |index| index.slots());
        let absent = slots.saturating_sub(to_u64(self.objects.len()));
        if asks_all(&self.query) && self.level.level() == LevelId(0) && absent > 0 {
            let objects = format_count(absent, "object");
            self.notes.push(format!("{objects} without vertices left out"));
        }
        Ok(())
    }

    /// Adds notes about missing parts of the answer, which a stream does not report itself.
    async fn note_what_lacks(&mut self) -> Result<(), Error> {
        let asks = self.query.objects.is_some() || self.query.allow_missing;
        if self.query.limit.is_none() && !asks {
            return Ok(());
        }
        let counts = self.reader.count(&self.query).await?;
        if counts.truncated {
            self.notes.push(CUT_OFF.to_owned());
        }
        let ids: Vec<String> = counts.unknown_objects.iter().map(|id| id.0.to_string()).collect();
        if !ids.is_empty() {
            self.notes.push(format!("these objects do not exist: {}", ids.join(", ")));
        }
        if !counts.missing.is_empty() {
            let chunks = format_count(counts.missing.len(), "chunk");
            self.notes.push(format!("{chunks} missing"));
        }
        Ok(())
    }
}

impl Source for Export {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn next_piece(&mut self) -> BoxFuture<'_, Result<Option<Piece>>> {
        self.next()
    }

    fn expected_vertices(&self) -> Option<u64> {
        self.expected_vertices
    }

    fn notes(&self) -> Vec<String> {
        let sentinels = self.sentinels.iter();
        let missing =
            sentinels.map(|(name, x)| format!("missing values of {name:?} are written as {x}"));
        self.notes.iter().cloned().chain(missing).collect()
    }
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("query", &self.query).finish_non_exhaustive()
    }
}

/// Reads a whole answer with edges or faces.
async fn hold(
    reader: &Reader,
    query: &Query,
    level: &LevelReader,
) -> Result<(ExportStep, Vec<String>, Header), Error> {
    let answer = reader.run(&query.clone().with_owners()).await?;
    let keeps_objects = answer.batch.is_empty() && has_objects(level).await?;
    let batch = if keeps_objects { answer.batch } else { tidy(answer.batch) };
    let mut notes: Vec<String> = answer.notices.iter().map(ToString::to_string).collect();
    if answer.truncated {
        notes.push(CUT_OFF.to_owned());
    }
    let mut header = describe(reader.store(), &batch);
    header.vertices = Some(to_u64(batch.len()));
    Ok((ExportStep::Held(batch), notes, header))
}

/// Reads the first part of a graph or mesh, and returns it with the stream of further ones.
async fn begin_numbered(
    reader: &Reader,
    query: &Query,
    level: &LevelReader,
    mut numbered: NumberedAnswer,
) -> Result<(ExportStep, Vec<String>, Header), Error> {
    let first = numbered.next().await?;
    let notes = reader.store().notices().iter().map(ToString::to_string).collect();
    let Some(part) = first else {
        return hold(reader, query, level).await; // its columns, without rows
    };
    let with_elements = part.vertices.clone().with_elements(part.elements.clone());
    let header = describe(reader.store(), &with_elements?);
    Ok((ExportStep::Numbered(Some(part), Box::new(numbered)), notes, header))
}

/// Returns whether a query asks for all geometry of a kind.
pub(crate) fn asks_all(query: &Query) -> bool {
    let Query { region, objects, groups, filter, limit, first_chunk, end_chunk, .. } = query;
    let is_part = region.is_some() || filter.is_some() || limit.is_some() || first_chunk.is_some();
    !(is_part || objects.is_some() || groups.is_some() || end_chunk.is_some())
}

/// Lists what a level has that an [`Export`] of all its columns lacks.
///
/// # Errors
///
/// When the level cannot be read.
#[boxed]
pub async fn list_left_out(level: &LevelReader) -> Result<Vec<String>, Error> {
    let mut left_out = Vec::new();
    let mut columns = level.node().children("fragment_attributes").await?.names;
    columns.retain(|name| !KEPT_COLUMNS.contains(&name.as_str()));
    if !columns.is_empty() {
        left_out.push(format!("columns of fragments: {}", columns.join(", ")));
    }
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    if !kind.has_links()
        && let Some(family) = level.links(Delta::SAME).await?
    {
        let attributes = family.attributes().await?;
        let names: Vec<&str> = attributes.iter().map(LinkAttribute::name).collect();
        match names.as_slice() {
            [] if kind.is_chain() => {} // links follow from the order of vertices
            [] => left_out.push(format!("links of a {kind}")),
            names => left_out.push(format!("links of a {kind} with {}", names.join(", "))),
        }
    }
    let store = level.store();
    let first = store.root().zarr_vectors.geometry_types.first();
    let shapes = store.nodes().dense("parametric/objects").await?;
    if let Some(shapes) =
        shapes.filter(|_| first.is_none_or(|first| first.as_str() == kind.token()))
    {
        left_out.push(format_count(shapes.len(), "parametric object"));
    }
    Ok(left_out)
}

/// Returns the vertices of each element, as a column of `int64`.
fn numbers_column(elements: &Elements) -> Result<Column, Error> {
    let bytes = elements.rows().iter().flat_map(|row| to_u64(*row).to_le_bytes());
    let width = saturating_u32_from_usize(elements.width()); // elements have few vertices
    Ok(Column::new(Dtype::INT64, width, bytes.collect::<Vec<u8>>().into())?)
}

/// Reads the first batch of an answer without edges and faces, and returns the stream that begins
/// with it.
async fn begin(
    reader: &Reader,
    query: &Query,
    level: &LevelReader,
    with_owners: bool,
) -> Result<(ExportStep, Vec<String>, Header), Error> {
    let query = if with_owners && has_objects(level).await? {
        query.clone().with_owners()
    } else {
        query.clone()
    };
    let mut batches = reader.stream(query.clone()).boxed();
    let first = match batches.next().await.transpose()? {
        Some(first) => first,
        None => reader.run(&query).await?.batch, // its columns, without rows
    };
    let notes = reader.store().notices().iter().map(ToString::to_string).collect();
    let header = describe(reader.store(), &first);
    let batches = stream::once(std::future::ready(Ok(first))).chain(batches);
    Ok((ExportStep::Streamed(batches.boxed()), notes, header))
}

/// Returns whether vertices may have objects.
async fn has_objects(level: &LevelReader) -> Result<bool, Error> {
    Ok(level.objects().await?.is_some_and(|index| index.slots() > 0))
}

/// Describes the columns of a batch.
fn describe(store: &Store, batch: &Batch) -> Header {
    let axes = store.root().axes();
    let names = axes.iter().map(|axis| axis.name.clone()).collect();
    let mut header = Header::from_batch(batch, names);
    if axes.iter().any(|axis| axis.unit.is_some()) {
        header.units = axes.iter().map(|axis| axis.unit.clone()).collect();
    }
    header.crs.clone_from(&store.root().zarr_vectors.crs);
    header
}

/// Removes the objects of a batch if no vertex has one: the column is empty.
fn tidy(batch: Batch) -> Batch {
    let is_empty = |owners: &[Option<ObjectId>]| owners.iter().all(Option::is_none);
    if batch.vertex_objects().is_some_and(is_empty) { batch.without_objects() } else { batch }
}

/// Returns those of `ids` that the index contains, with their attributes; all without an index.
async fn known_objects(
    level: &LevelReader,
    ids: &[ObjectId],
    sentinels: &mut Sentinels,
) -> Result<Piece, Error> {
    let Some(index) = level.objects().await? else {
        return Ok(Piece::Objects { ids: ids.to_vec(), fields: Vec::new() });
    };
    let found = ids.iter().zip(index.find(ids).await?);
    let (ids, rows): (_, Vec<u64>) = found.filter_map(|(id, row)| Some((*id, row?))).unzip();
    Ok(Piece::Objects { ids, fields: object_fields(level, &rows, sentinels).await? })
}

/// Reads the attributes of the objects in these rows of the index.
async fn object_fields(
    level: &LevelReader,
    rows: &[u64],
    sentinels: &mut Sentinels,
) -> Result<Vec<Field>, Error> {
    let mut fields = Vec::new();
    if level.objects().await?.is_none() {
        return Ok(fields);
    }
    for attribute in level.object_attributes().await? {
        if !attribute.is_derived() {
            fields.push(read_rows(&attribute, rows, sentinels).await?);
        }
    }
    Ok(fields)
}

/// Reads rows of an attribute; absent rows become NaN if the type has it.
async fn read_rows(
    attribute: &RowAttribute,
    rows: &[u64],
    sentinels: &mut Sentinels,
) -> Result<Field, Error> {
    let values = attribute.rows(rows).await?;
    let column = values.column();
    let dtype = column.dtype();
    if values.absent_rows().is_empty() || dtype.kind != DtypeKind::Float {
        let absent = values.absent_rows().first().map(|row| column.value(*row, 0));
        if let Some(sentinel @ (Value::Int(_) | Value::UInt(_))) = absent {
            sentinels.insert(attribute.name().to_owned(), sentinel);
        }
        return Ok(attribute.field(column.clone()));
    }
    let nan = fill_item(FillValue::float(f64::NAN).fill(), dtype);
    let nan = nan.repeat(usize_from_u32(column.width()));
    let mut all = ColumnBuilder::empty_like(column);
    for row in 0..column.len() {
        match values.is_present(row) {
            true => all.push_row(column, row),
            false => all.push_bytes(&nan),
        }
    }
    Ok(attribute.field(all.finish()))
}

/// Reads the groups with their members among `objects`.
async fn groups(level: &LevelReader, objects: &[ObjectId]) -> Result<Vec<Group>, Error> {
    let Some(catalogue) = level.groups().await? else { return Ok(Vec::new()) };
    let all: Vec<u64> = (0..catalogue.len()).collect();
    let exported_ids: HashSet<ObjectId> = objects.iter().copied().collect();
    let mut groups = Vec::new();
    for (group, members) in all.iter().zip(catalogue.members(&all).await?) {
        let members = match members {
            Members::Ids(ids) => ids.into_iter().filter(|id| exported_ids.contains(id)).collect(),
            Members::Range { start, stop } => {
                let within = objects.iter().filter(|id| (start..stop).contains(&id.0));
                within.copied().collect()
            }
        };
        groups.push(Group { name: catalogue.name(*group), members });
    }
    Ok(groups)
}

/// Reads the attributes of these groups.
async fn group_fields(
    level: &LevelReader,
    groups: &[u64],
    sentinels: &mut Sentinels,
) -> Result<Vec<Field>, Error> {
    let mut fields = Vec::new();
    for attribute in level.group_attributes().await? {
        fields.push(read_rows(&attribute, groups, sentinels).await?);
    }
    Ok(fields)
}

/// Columns of fragments that every writer derives from the objects.
const KEPT_COLUMNS: [&str; 2] = ["object_id", "segment_id"];
/// Attributes of objects that are ids in other formats.
const ID_FIELDS: [&str; 3] = ["segment_id", "annotation_id", "feature_id"];
/// Number of objects per piece.
const OBJECTS_OF_A_PIECE: usize = 65_536;
/// The note on an answer that a limit truncated.
pub const CUT_OFF: &str = "the answer was cut at the limit: there is more";

//! Rows that become a store, or are added to one.
//!
//! ```text
//! COPY … TO 'x.zarrvectors'    rows  ->  a Parquet file  ->  what `zvf create` makes of it
//! INSERT INTO                  rows  ->  a Parquet file  ->  `append` in a transaction, as `zvf edit` has it
//! ```
//!
//! The rows are written to a file first: a store is laid out by how many vertices there are and where, which is known at
//! the end. The writer holds as much as the session lets stores hold, and no more than the memory pool of the engine has left;
//! what it may hold is taken from the pool while it works.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::arrow::compute::cast;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures_util::StreamExt as _;
use zvf::OpenOptions;
use zvf::create::{Recipe, create};
use zvf::format::num::{saturating_usize, to_u64};

use crate::columns::{Layout, Origin, TableColumn};
use crate::handle::{StoreAddress, StoreHandle};
use crate::{bad_request, external};

/// Stores as what `COPY` writes, under one ending or word.
#[derive(Clone, Debug)]
pub(crate) struct StoreFormatFactory {
    pub(crate) word: &'static str,
    /// How stores are reached, and what they may hold.
    pub(crate) options: OpenOptions,
}

impl GetExt for StoreFormatFactory {
    fn get_ext(&self) -> String {
        self.word.to_owned()
    }
}

impl FileFormatFactory for StoreFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let parsed = StoreOptions::parse(options)?;
        Ok(Arc::new(StoreFormat { options: parsed, open: self.options.clone() }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(StoreFormat { options: StoreOptions::default(), open: self.options.clone() })
    }
}

/// What becomes what: the options of `COPY`.
#[derive(Clone, Debug, Default)]
struct StoreOptions {
    positions: Vec<String>,
    object: Option<String>,
    kind: Option<zvf::Kind>,
    chunk: Option<Vec<f64>>,
}

impl StoreOptions {
    fn parse(options: &HashMap<String, String>) -> Result<Self> {
        let mut parsed = Self::default();
        for (key, value) in options {
            let bad = |expected| bad_request(key, expected, value);
            let words = || value.split(',').map(|word| word.trim().to_owned());
            match key.strip_prefix("format.").unwrap_or(key) {
                "positions" => parsed.positions = words().collect(),
                "object" => parsed.object = Some(value.clone()),
                "kind" => {
                    let kind = value.parse().map_err(|_error| bad("a kind of geometry"))?;
                    parsed.kind = Some(kind);
                }
                "chunk_shape" => {
                    let sizes = words().map(|word| word.parse::<f64>());
                    let sizes = sizes.collect::<Result<Vec<_>, _>>();
                    parsed.chunk = Some(sizes.map_err(|_error| bad("numbers with commas"))?);
                }
                other => {
                    let known = "positions, object, kind or chunk_shape";
                    return Err(bad_request("an option of a store", known, other));
                }
            }
        }
        Ok(parsed)
    }

    /// How the store is made, by a writer that holds at most `memory` bytes and reaches the store with `open`.
    fn recipe(&self, open: &OpenOptions, memory: u64) -> Recipe {
        let mut recipe = Recipe { chunk: self.chunk.clone(), keep_ids: true, ..Recipe::default() };
        recipe.write.memory = memory;
        // What is on its way to the store has room for a shard, whatever the limit is.
        let budget_bytes = memory.max(MIN_UPLOAD_BYTES);
        recipe.write.build.store = OpenOptions { budget_bytes, cache_bytes: 0, ..open.clone() };
        recipe.read.memory = memory / 2;
        recipe.read.kind = self.kind;
        recipe.read.columns.positions.clone_from(&self.positions);
        recipe.read.columns.object.clone_from(&self.object);
        recipe
    }
}

/// A store as a file that is written.
#[derive(Clone, Debug)]
struct StoreFormat {
    options: StoreOptions,
    open: OpenOptions,
}

fn is_no_file() -> DataFusionError {
    bad_request("a store", "a table of it, as zvf('PATH') has", "a file")
}

#[async_trait]
impl FileFormat for StoreFormat {
    fn get_ext(&self) -> String {
        "zarrvectors".to_owned()
    }

    fn get_ext_with_compression(&self, _compression: &FileCompressionType) -> Result<String> {
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        Err(is_no_file())
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&schema))
    }

    async fn create_physical_plan(
        &self,
        _state: &dyn Session,
        _config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(is_no_file())
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sink = StoreSink {
            address: config.original_url.trim_end_matches('/').to_owned(),
            store: None,
            schema: Arc::clone(config.output_schema()),
            purpose: Purpose::Create(self.options.clone(), self.open.clone()),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        let scan = crate::scan::Scan::new(crate::TableName::Vertices, 0);
        let schema = Arc::clone(schema.table_schema());
        let address = StoreAddress::new("", Vec::new());
        Arc::new(crate::source::ZvfSource::at(address, scan, schema))
    }
}

/// What is done with rows.
#[derive(Clone, Debug)]
enum Purpose {
    Create(StoreOptions, OpenOptions),
    Append(Appended),
}

/// What columns of added rows are, by their names in the file of rows.
#[derive(Clone, Debug)]
struct Appended {
    kind: zvf::Kind,
    positions: Vec<String>,
    object: Option<String>,
    /// The attributes, by the names that the store has for them.
    attributes: Vec<String>,
    /// The names of all columns in the file of rows.
    columns: Vec<String>,
}

impl Appended {
    /// Attributes are called as in the store, where the table shows them under another name beside a column of theirs;
    /// that column gives way.
    fn new(layout: &Layout, kind: zvf::Kind) -> Self {
        let attributes: Vec<String> = layout.attributes().map(str::to_owned).collect();
        let in_file = |column: &TableColumn| {
            if let Origin::Attribute(name) = &column.origin {
                return name.clone();
            }
            let mut name = column.field.name().clone();
            while attributes.contains(&name) {
                name.insert(0, '_');
            }
            name
        };
        let columns: Vec<String> = layout.columns.iter().map(in_file).collect();
        let named = |test: fn(&Origin) -> bool| {
            let all = layout.columns.iter().zip(&columns);
            let own = all.filter(|(column, _)| test(&column.origin));
            own.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let positions = named(|origin| matches!(origin, Origin::Axis { .. }));
        let object = named(|origin| matches!(origin, Origin::Object(_))).pop();
        Self { kind, positions, object, attributes, columns }
    }
}

/// Where rows go.
#[derive(Clone, Debug)]
pub(crate) struct StoreSink {
    address: String,
    /// The tables that will see what was added.
    store: Option<StoreHandle>,
    schema: SchemaRef,
    purpose: Purpose,
}

impl StoreSink {
    /// Adds rows of a table of vertices to a store, which holds geometry of `kind`.
    pub(crate) fn append(store: &StoreHandle, layout: &Layout, kind: zvf::Kind) -> Self {
        let purpose = Purpose::Append(Appended::new(layout, kind));
        Self {
            address: store.address().path().to_owned(),
            store: Some(store.clone()),
            schema: layout.schema(),
            purpose,
        }
    }
}

impl DisplayAs for StoreSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreSink(store={})", self.address)
    }
}

#[async_trait]
impl DataSink for StoreSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("rows.parquet");
        let pool = context.memory_pool();
        let held = MemoryConsumer::new("the writer of a store").register(pool);
        let names = match &self.purpose {
            Purpose::Create(..) => None,
            Purpose::Append(appended) => Some(appended.columns.as_slice()),
        };
        let rows = spool(data, &path, names, free_bytes(pool.as_ref()), &held).await?;
        if rows == 0 {
            return match self.purpose {
                Purpose::Append(_) => Ok(0),
                Purpose::Create(..) => Err(bad_request("a new store", "a vertex", "no rows")),
            };
        }
        match &self.purpose {
            Purpose::Create(options, open) => {
                // The rows are on disk by now.
                let memory = free_bytes(pool.as_ref()).min(open.budget_bytes);
                held.try_resize(saturating_usize(memory))?;
                make(&self.address, path, options.recipe(open, memory)).await?;
            }
            Purpose::Append(Appended { kind, positions, object, attributes, .. }) => {
                if rows > MAX_ROWS_OF_A_TRANSACTION {
                    let expected = format!("at most {MAX_ROWS_OF_A_TRANSACTION} rows");
                    return Err(bad_request("INSERT", &expected, &rows.to_string()));
                }
                let mut line = serde_json::json!({
                    "op": "append", "file": path, "format": "parquet", "kind": kind.to_string(),
                    "positions": positions, "columns": attributes,
                });
                if let Some(object) = object {
                    line["object"] = object.as_str().into();
                }
                let Some(store) = &self.store else {
                    return Err(bad_request("INSERT", "a table of a store", "none"));
                };
                add(store, line).await?;
                store.reopen().await?;
            }
        }
        Ok(rows)
    }
}

/// Bytes that nobody has taken from the pool.
fn free_bytes(pool: &dyn MemoryPool) -> u64 {
    match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => to_u64(bytes).saturating_sub(to_u64(pool.reserved())), // others may have gone beyond
        MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
    }
}

/// Writes rows to a file of this machine, with the columns under `names` where there are any; groups of rows are closed
/// before they hold much of `memory`.
async fn spool(
    mut rows: SendableRecordBatchStream,
    path: &Path,
    names: Option<&[String]>,
    memory: u64,
    held: &MemoryReservation,
) -> Result<u64> {
    let schema = plain(&rows.schema(), names);
    let mut writer = ArrowWriter::try_new(File::create(path)?, Arc::clone(&schema), None)?;
    let most = saturating_usize(memory.min(MAX_SPOOL_BYTES) / 4);
    let mut count = 0_u64;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += to_u64(batch.num_rows());
        writer.write(&plain_batch(&batch, &schema)?)?;
        if writer.memory_size() > most {
            writer.flush()?;
        }
        held.try_resize(writer.memory_size())?;
    }
    writer.close()?;
    held.free();
    Ok(count)
}

/// The schema with text as every reader has it, and with these names.
fn plain(schema: &Schema, names: Option<&[String]>) -> SchemaRef {
    let field = |(place, field): (usize, &Arc<Field>)| {
        let field = match field.data_type() {
            DataType::Utf8View | DataType::LargeUtf8 => {
                field.as_ref().clone().with_data_type(DataType::Utf8)
            }
            _ => field.as_ref().clone(),
        };
        match names.and_then(|names| names.get(place)) {
            Some(name) => field.with_name(name),
            None => field,
        }
    };
    Arc::new(Schema::new(schema.fields().iter().enumerate().map(field).collect::<Fields>()))
}

fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Makes a store of a file.
async fn make(address: &str, path: PathBuf, recipe: Recipe) -> Result<()> {
    let looked = {
        let (path, recipe) = (path.clone(), recipe.clone());
        let look = move || {
            zvf::create::Layout::scan(&path, &recipe, &mut |_, _| ControlFlow::Continue(()))
        };
        tokio::task::spawn_blocking(look).await
    };
    let gone = |error: tokio::task::JoinError| DataFusionError::External(Box::new(error));
    let layout = looked.map_err(gone)?.map_err(external)?;
    let go = &mut |_, _| ControlFlow::Continue(());
    create(&path, address, &layout, &recipe, go).await.map_err(external)?;
    Ok(())
}

/// Adds what is in a file to a store, in one transaction.
async fn add(store: &StoreHandle, line: serde_json::Value) -> Result<()> {
    let store = store.clone();
    let work = move || append(&store, &line);
    let gone = |error: tokio::task::JoinError| DataFusionError::External(Box::new(error));
    tokio::task::spawn_blocking(work).await.map_err(gone)?
}

/// What is on its way to a new store may hold at least so much: a shard of the usual size.
const MIN_UPLOAD_BYTES: u64 = 64 << 20;
/// The file of rows is written from at most so much memory.
const MAX_SPOOL_BYTES: u64 = 256 << 20;
/// Rows that one transaction takes: it holds them in memory.
const MAX_ROWS_OF_A_TRANSACTION: u64 = 1_000_000;

fn append(store: &StoreHandle, line: &serde_json::Value) -> Result<()> {
    use zvf::edit::{CommitOptions, EditError, Editor, Place};
    let failed = |error: EditError| DataFusionError::External(Box::new(error));
    let place = Place::open(store.address().path(), &store.open_options()).map_err(failed)?;
    let mut editor =
        Editor::open(place, Path::new(""), CommitOptions::default()).map_err(failed)?;
    editor.line(1, &line.to_string()).map_err(failed)?;
    editor.finish().map_err(failed)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn a_new_store_is_written_as_the_session_opens_stores() {
        let open = OpenOptions { budget_bytes: 32 << 20, ..OpenOptions::default() };
        let open = open.with_storage_option("aws_region", "here");
        let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(8 << 20));
        assert_eq!(free_bytes(small.as_ref()), 8 << 20);
        let held = MemoryConsumer::new("a sort").register(&small);
        held.try_grow(3 << 20).unwrap();
        assert_eq!(free_bytes(small.as_ref()), 5 << 20);
        let memory = free_bytes(&UnboundedMemoryPool::default()).min(open.budget_bytes);
        assert_eq!(memory, 32 << 20);
        let recipe = StoreOptions::default().recipe(&open, memory);
        assert_eq!((recipe.write.memory, recipe.read.memory), (32 << 20, 16 << 20));
        let store = &recipe.write.build.store;
        assert_eq!(store.storage_options, [("aws_region".to_owned(), "here".to_owned())]);
        assert_eq!((store.budget_bytes, store.cache_bytes), (64 << 20, 0));
    }

    #[test]
    fn attributes_are_added_under_their_own_names() {
        let mut layout = Layout::default();
        layout.push("x", DataType::Float32, false, Origin::Axis { axis: 0, named: false });
        layout.push("object", DataType::Int64, true, Origin::Object(0));
        layout.push("chunk", DataType::Utf8, true, Origin::Chunk(0));
        for (shown, own) in [("vertex.x", "x"), ("vertex.chunk", "chunk"), ("mass", "mass")] {
            layout.push(shown, DataType::Int32, false, Origin::Attribute(own.to_owned()));
        }
        let appended = Appended::new(&layout, zvf::Kind::PointCloud);
        assert_eq!(appended.positions, ["_x"]);
        assert_eq!(appended.object.as_deref(), Some("object"));
        assert_eq!(appended.attributes, ["x", "chunk", "mass"]);
        assert_eq!(appended.columns, ["_x", "object", "_chunk", "x", "chunk", "mass"]);
        let schema = plain(&layout.schema(), Some(&appended.columns));
        assert_eq!(schema.field(4).name(), "chunk");
        assert_eq!(schema.field(4).data_type(), &DataType::Int32);
    }
}

//! Sinks: `COPY` writes rows to a new store, `INSERT` adds rows to a store.
//!
//! ```text
//! COPY … TO 'x.zarrvectors'    rows  ->  a Parquet file  ->  a store, as by `zvf create`
//! INSERT INTO                  rows  ->  a Parquet file  ->  a transaction with `append`, as by `zvf edit`
//! ```
//!
//! The rows are spooled to a file first, because the layout of a store depends on the number and the positions of all vertices.
//! The memory limit of the writer is that of the session for stores, and at most what is free in the memory pool of the engine;
//! it is reserved in the pool while the writer runs. A transaction holds its rows in memory, so that the free memory of the pool
//! limits their number.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
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

use crate::columns::{Origin, TableColumn, TableLayout};
use crate::handle::{StoreAddress, StoreHandle};
use crate::{bad_request, cast_batch, external_error};

/// The file format of stores for `COPY`, under one file extension.
#[derive(Clone, Debug)]
pub(crate) struct StoreFormatFactory {
    pub(crate) word: &'static str,
    /// Options for opening stores, with their memory limit.
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

/// The options of `COPY`.
#[derive(Clone, Debug, Default)]
struct StoreOptions {
    positions: Vec<String>,
    object: Option<String>,
    kind: Option<zvf::Kind>,
    chunk: Option<Vec<f64>>,
}

impl StoreOptions {
    /// Parses the options of `COPY`, whose keys may begin with `format.`.
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

    /// Returns the recipe for a writer that holds at most `memory` bytes and opens the store with `open`.
    fn recipe(&self, open: &OpenOptions, memory: u64) -> Recipe {
        let mut recipe = Recipe { chunk: self.chunk.clone(), keep_ids: true, ..Recipe::default() };
        recipe.write.memory = memory;
        // Uploads may hold one shard, even if the limit is lower.
        let budget_bytes = memory.max(MIN_UPLOAD_BYTES);
        recipe.write.build.store = OpenOptions { budget_bytes, cache_bytes: 0, ..open.clone() };
        recipe.read.memory = memory / 2;
        recipe.read.kind = self.kind;
        recipe.read.columns.positions.clone_from(&self.positions);
        recipe.read.columns.object.clone_from(&self.object);
        recipe
    }
}

/// A store as a file format that can only be written.
#[derive(Clone, Debug)]
struct StoreFormat {
    options: StoreOptions,
    open: OpenOptions,
}

/// Returns the error for a store that is read like a file.
fn not_a_file_error() -> DataFusionError {
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
        Err(not_a_file_error())
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
        Err(not_a_file_error())
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
            schema: Arc::clone(config.output_schema()),
            purpose: Purpose::Create(self.options.clone(), self.open.clone()),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        let scan = crate::Scan::default();
        let schema = Arc::clone(schema.table_schema());
        let address = StoreAddress::new("", Vec::new());
        Arc::new(crate::source::ZvfSource::from_address(address, scan, schema))
    }
}

/// The target of the rows.
#[derive(Clone, Debug)]
enum Purpose {
    Create(StoreOptions, OpenOptions),
    /// The store is reopened, so that its tables see the rows.
    Append(AppendColumns, StoreHandle),
}

/// The columns of added rows, by their names in the spool file.
#[derive(Clone, Debug)]
struct AppendColumns {
    kind: zvf::Kind,
    positions: Vec<String>,
    object: Option<String>,
    /// The attributes, by the names that the store has for them.
    attributes: Vec<String>,
    /// The names of all columns in the spool file.
    columns: Vec<String>,
}

impl AppendColumns {
    /// Names the columns of the spool file: attributes as in the store, other columns with `_` in front if an attribute has
    /// their name.
    fn new(layout: &TableLayout, kind: zvf::Kind) -> Self {
        let attributes: Vec<String> = layout.attributes().map(str::to_owned).collect();
        let spool_name = |column: &TableColumn| {
            if let Origin::Attribute(name) = &column.origin {
                return name.clone();
            }
            let mut name = column.field.name().clone();
            while attributes.contains(&name) {
                name.insert(0, '_');
            }
            name
        };
        let columns: Vec<String> = layout.columns.iter().map(spool_name).collect();
        let names_of = |test: fn(&Origin) -> bool| {
            let all = layout.columns.iter().zip(&columns);
            let own = all.filter(|(column, _)| test(&column.origin));
            own.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let positions = names_of(|origin| matches!(origin, Origin::Axis { .. }));
        let object = names_of(|origin| matches!(origin, Origin::Object(_))).pop();
        Self { kind, positions, object, attributes, columns }
    }

    /// Returns the memory that a transaction takes for a row.
    fn row_bytes(&self) -> u64 {
        ROW_BYTES + VALUE_BYTES * to_u64(self.positions.len() + self.attributes.len())
    }

    /// Returns the operation of a transaction that adds the rows of a spool file.
    fn operation(&self, path: &Path) -> serde_json::Value {
        let Self { kind, positions, object, attributes, .. } = self;
        let mut operation = serde_json::json!({
            "op": "append", "file": path, "format": "parquet", "kind": kind.to_string(),
            "positions": positions, "columns": attributes,
        });
        if let Some(object) = object {
            operation["object"] = object.as_str().into();
            operation["keep_ids"] = true.into();
        }
        operation
    }
}

/// A sink that writes rows to a store.
#[derive(Clone, Debug)]
pub(crate) struct StoreSink {
    address: String,
    schema: SchemaRef,
    purpose: Purpose,
}

impl StoreSink {
    /// Creates a sink that adds rows of a table of vertices with geometry of `kind`.
    pub(crate) fn append(store: &StoreHandle, layout: &TableLayout, kind: zvf::Kind) -> Self {
        let purpose = Purpose::Append(AppendColumns::new(layout, kind), store.clone());
        Self { address: store.address().path().to_owned(), schema: layout.schema(), purpose }
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
        let reservation = MemoryConsumer::new("the writer of a store").register(pool);
        let names = match &self.purpose {
            Purpose::Create(..) => None,
            Purpose::Append(append, _) => Some(append.columns.as_slice()),
        };
        let rows = spool(data, &path, names, free_bytes(pool.as_ref()), &reservation).await?;
        if rows == 0 {
            return match self.purpose {
                Purpose::Append(..) => Ok(0),
                Purpose::Create(..) => Err(bad_request("a new store", "a vertex", "no rows")),
            };
        }
        match &self.purpose {
            Purpose::Create(options, open) => {
                // The reservation of the spool is free by now.
                let memory = free_bytes(pool.as_ref()).min(open.budget_bytes);
                reservation.try_resize(saturating_usize(memory))?; // compared with the limit of the pool
                create_store(&self.address, path, options.recipe(open, memory)).await?;
            }
            Purpose::Append(append, store) => {
                let max_rows = free_bytes(pool.as_ref()) / append.row_bytes();
                if rows > max_rows {
                    let expected = format!(
                        "at most {max_rows} rows, for which there is free memory; COPY writes any number"
                    );
                    return Err(bad_request("INSERT", &expected, &rows.to_string()));
                }
                // No more than is free; compared with the limit of the pool.
                reservation.try_resize(saturating_usize(rows * append.row_bytes()))?;
                let (handle, operation) = (store.clone(), append.operation(&path));
                run_blocking(move || add_rows(&handle, &operation)).await?;
                store.reopen().await?;
            }
        }
        Ok(rows)
    }
}

/// Returns the free bytes of a memory pool.
fn free_bytes(pool: &dyn MemoryPool) -> u64 {
    match pool.memory_limit() {
        // Consumers may exceed the limit.
        MemoryLimit::Finite(bytes) => to_u64(bytes).saturating_sub(to_u64(pool.reserved())),
        MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
    }
}

/// Writes rows to a local Parquet file, with the columns renamed to `names`; flushes row groups from a quarter of `memory` on.
/// Returns the number of rows.
async fn spool(
    mut rows: SendableRecordBatchStream,
    path: &Path,
    names: Option<&[String]>,
    memory: u64,
    reservation: &MemoryReservation,
) -> Result<u64> {
    let schema = spool_schema(&rows.schema(), names);
    let mut writer = ArrowWriter::try_new(File::create(path)?, Arc::clone(&schema), None)?;
    let max_bytes = saturating_usize(memory.min(MAX_SPOOL_BYTES) / 4); // at most 64 MiB
    let mut count = 0_u64;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += to_u64(batch.num_rows());
        writer.write(&cast_batch(&batch, &schema)?)?;
        if writer.memory_size() > max_bytes {
            writer.flush()?;
        }
        reservation.try_resize(writer.memory_size())?;
    }
    writer.close()?;
    reservation.free();
    Ok(count)
}

/// Returns the schema of the spool file: text as `Utf8`, which every reader supports, and the columns renamed to `names`.
fn spool_schema(schema: &Schema, names: Option<&[String]>) -> SchemaRef {
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

/// Creates a store from a file.
async fn create_store(address: &str, path: PathBuf, recipe: Recipe) -> Result<()> {
    let scan = {
        let (path, recipe) = (path.clone(), recipe.clone());
        move || {
            let go = &mut |_, _| ControlFlow::Continue(());
            zvf::create::StoreLayout::scan(&path, &recipe, go).map_err(external_error)
        }
    };
    let layout = run_blocking(scan).await?;
    if !layout.header.left_out.is_empty() {
        let columns = layout.header.left_out.join(", ");
        return Err(bad_request(
            "a new store",
            "columns that it can hold: cast or omit others",
            &columns,
        ));
    }
    let go = &mut |_, _| ControlFlow::Continue(());
    create(&path, address, &layout, &recipe, go).await.map_err(external_error)?;
    Ok(())
}

/// Runs `work` on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let join_error = |error: tokio::task::JoinError| DataFusionError::External(Box::new(error));
    tokio::task::spawn_blocking(work).await.map_err(join_error)?
}

/// Minimum memory limit of uploads to a new store: one shard of the usual size.
const MIN_UPLOAD_BYTES: u64 = 64 << 20;
/// Maximum memory for writing the spool file.
const MAX_SPOOL_BYTES: u64 = 256 << 20;
/// Memory of a transaction for a row, by measurement (`zvf edit` with the operation `append`).
const ROW_BYTES: u64 = 128;
/// Memory of a transaction for a value of a row, by measurement.
const VALUE_BYTES: u64 = 128;

/// Runs one line of a transaction, as in the input of `zvf edit`.
fn add_rows(store: &StoreHandle, line: &serde_json::Value) -> Result<()> {
    use zvf::edit::{CommitOptions, Editor, Place};
    let place = Place::open(store.address().path(), &store.open_options());
    let editor =
        Editor::open(place.map_err(external_error)?, Path::new(""), CommitOptions::default());
    let mut editor = editor.map_err(external_error)?;
    editor.line(1, &line.to_string()).map_err(external_error)?;
    editor.finish().map_err(external_error)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn writes_a_new_store_with_the_options_of_the_session() {
        let options = OpenOptions { budget_bytes: 32 << 20, ..OpenOptions::default() };
        let options = options.with_storage_option("aws_region", "here");
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(8 << 20));
        assert_eq!(free_bytes(pool.as_ref()), 8 << 20);
        let reservation = MemoryConsumer::new("a sort").register(&pool);
        reservation.try_grow(3 << 20).unwrap();
        assert_eq!(free_bytes(pool.as_ref()), 5 << 20);
        let memory = free_bytes(&UnboundedMemoryPool::default()).min(options.budget_bytes);
        assert_eq!(memory, 32 << 20);
        let recipe = StoreOptions::default().recipe(&options, memory);
        assert_eq!((recipe.write.memory, recipe.read.memory), (32 << 20, 16 << 20));
        let store = &recipe.write.build.store;
        assert_eq!(store.storage_options, [("aws_region".to_owned(), "here".to_owned())]);
        assert_eq!((store.budget_bytes, store.cache_bytes), (64 << 20, 0));
    }

    #[test]
    fn appends_attributes_under_their_own_names() {
        let mut layout = TableLayout::default();
        layout.push("x", DataType::Float32, false, Origin::Axis { axis: 0, is_named: false });
        layout.push("object", DataType::Int64, true, Origin::Object(0));
        layout.push("chunk", DataType::Utf8, true, Origin::Chunk(0));
        for (name, attribute) in [("vertex.x", "x"), ("vertex.chunk", "chunk"), ("mass", "mass")] {
            layout.push(name, DataType::Int32, false, Origin::Attribute(attribute.to_owned()));
        }
        let append = AppendColumns::new(&layout, zvf::Kind::PointCloud);
        assert_eq!(append.positions, ["_x"]);
        assert_eq!(append.object.as_deref(), Some("object"));
        assert_eq!(append.attributes, ["x", "chunk", "mass"]);
        assert_eq!(append.columns, ["_x", "object", "_chunk", "x", "chunk", "mass"]);
        let schema = spool_schema(&layout.schema(), Some(&append.columns));
        assert_eq!(schema.field(4).name(), "chunk");
        assert_eq!(schema.field(4).data_type(), &DataType::Int32);
    }
}

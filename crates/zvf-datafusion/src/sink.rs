//! Rows that become a store, or are added to one.
//!
//! ```text
//! COPY … TO 'x.zarrvectors'    rows  ->  a Parquet file  ->  what `zvf create` makes of it
//! INSERT INTO                  rows  ->  a Parquet file  ->  `append` in a transaction, as `zvf edit` has it
//! ```
//!
//! The rows are written to a file first: a store is laid out by how many vertices there are and where, which is known at
//! the end. Memory is that of the writer.

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
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures_util::StreamExt as _;
use zvf::create::{Recipe, create};
use zvf::format::num::to_u64;

use crate::columns::{Layout, Origin};
use crate::handle::{StoreAddress, StoreHandle};
use crate::{bad_request, external};

/// Stores as what `COPY` writes, under one ending or word.
#[derive(Clone, Debug)]
pub(crate) struct StoreFormatFactory {
    pub(crate) word: &'static str,
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
        Ok(Arc::new(StoreFormat { options: StoreOptions::parse(options)? }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(StoreFormat::default())
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

    fn recipe(&self) -> Recipe {
        let mut recipe = Recipe { chunk: self.chunk.clone(), keep_ids: true, ..Recipe::default() };
        recipe.read.kind = self.kind;
        recipe.read.columns.positions.clone_from(&self.positions);
        recipe.read.columns.object.clone_from(&self.object);
        recipe
    }
}

/// A store as a file that is written.
#[derive(Clone, Debug, Default)]
struct StoreFormat {
    options: StoreOptions,
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
            purpose: Purpose::Create(self.options.clone()),
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
    Create(StoreOptions),
    Append(Appended),
}

/// What columns of added rows are.
#[derive(Clone, Debug)]
struct Appended {
    kind: zvf::Kind,
    positions: Vec<String>,
    object: Option<String>,
    /// The attributes, by the names of their columns.
    attributes: Vec<String>,
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
        let named = |test: &dyn Fn(&Origin) -> bool| {
            let own = layout.columns.iter().filter(|column| test(&column.origin));
            own.map(|column| column.field.name().clone()).collect::<Vec<_>>()
        };
        let appended = Appended {
            kind,
            positions: named(&|origin| matches!(origin, Origin::Axis { .. })),
            object: named(&|origin| matches!(origin, Origin::Object(_))).pop(),
            attributes: named(&|origin| matches!(origin, Origin::Attribute(_))),
        };
        let purpose = Purpose::Append(appended);
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
        _context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("rows.parquet");
        let rows = spool(data, &path).await?;
        if rows == 0 {
            return match self.purpose {
                Purpose::Append(_) => Ok(0),
                Purpose::Create(_) => Err(bad_request("a new store", "a vertex", "no rows")),
            };
        }
        match &self.purpose {
            Purpose::Create(options) => make(&self.address, path, options.recipe()).await?,
            Purpose::Append(Appended { kind, positions, object, attributes }) => {
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

/// Writes rows to a file of this machine.
async fn spool(mut rows: SendableRecordBatchStream, path: &Path) -> Result<u64> {
    let schema = plain(&rows.schema());
    let mut writer = ArrowWriter::try_new(File::create(path)?, Arc::clone(&schema), None)?;
    let mut count = 0_u64;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += to_u64(batch.num_rows());
        writer.write(&plain_batch(&batch, &schema)?)?;
    }
    writer.close()?;
    Ok(count)
}

/// The schema with text as every reader has it.
fn plain(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View | DataType::LargeUtf8 => {
            field.as_ref().clone().with_data_type(DataType::Utf8)
        }
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Fields>()))
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

//! The leaf of a plan: files whose rows are tasks of a scan.
//!
//! A "file" is a [`Task`]; nothing is read through the object store of the engine. Batches are cut to the size that the
//! engine wants, and what one holds is taken from its memory pool while it is passed on.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, PhysicalExpr};
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::OnceCell;
use zvf::OpenOptions;
use zvf::format::num::saturating_usize;

use crate::handle::{StoreAddress, StoreHandle};
use crate::join_filter::{self, Narrowed};
use crate::read::{Reading, Rows};
use crate::scan::{Scan, Task};

/// What reads the tasks of a [`Scan`].
#[derive(Clone)]
pub struct ZvfSource {
    address: StoreAddress,
    /// Ready with the first task: another process opens the store only then.
    reading: Arc<OnceCell<Reading>>,
    opened: Option<StoreHandle>,
    scan: Arc<Scan>,
    schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
    pool: Option<Arc<dyn MemoryPool>>,
    batch_size: usize,
    /// Chunks that planning left out.
    pruned_cells: u64,
    /// Whether rows are found by the object that they have.
    finds_objects: bool,
    /// Conditions on the object that joins fill in while the plan runs, and what they leave.
    join_filters: Vec<Arc<dyn PhysicalExpr>>,
    narrowed: Arc<OnceCell<Narrowed>>,
}

impl ZvfSource {
    /// A source of `scan`, whose columns are those of `schema`, from a store that is open.
    #[must_use]
    pub fn new(store: StoreHandle, scan: Scan, schema: SchemaRef) -> Self {
        let address = store.address().clone();
        Self { opened: Some(store), ..Self::at(address, scan, schema) }
    }

    /// The same of the store at `address`, opened with the first task.
    #[must_use]
    pub fn at(address: StoreAddress, scan: Scan, schema: SchemaRef) -> Self {
        Self {
            address,
            reading: Arc::default(),
            opened: None,
            scan: Arc::new(scan),
            schema: TableSchema::from(schema),
            metrics: ExecutionPlanMetricsSet::new(),
            pool: None,
            batch_size: 8192,
            pruned_cells: 0,
            finds_objects: false,
            join_filters: Vec::new(),
            narrowed: Arc::default(),
        }
    }

    /// Takes what batches hold from `pool`.
    #[must_use]
    pub fn with_pool(self, pool: Arc<dyn MemoryPool>) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Lets joins say which objects they want: rows have one object at most.
    pub(crate) fn finding_objects(self) -> Self {
        Self { finds_objects: true, ..self }
    }

    /// Where the store is.
    #[must_use]
    pub const fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// The columns of the answer.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.schema.table_schema()
    }

    /// What is read.
    #[must_use]
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// Lets `EXPLAIN ANALYZE` show that planning left out so many chunks.
    #[must_use]
    pub fn with_pruned_cells(self, cells: u64) -> Self {
        Self { pruned_cells: cells, ..self }
    }

    /// Chunks that planning left out.
    #[must_use]
    pub const fn pruned_cells(&self) -> u64 {
        self.pruned_cells
    }

    async fn reading(&self) -> Result<Reading> {
        let ready = self.reading.get_or_try_init(|| async {
            let store = match &self.opened {
                Some(store) => store.clone(),
                None => {
                    let options = OpenOptions::default();
                    StoreHandle::open_at(self.address.clone(), options).await?
                }
            };
            let schema = Arc::clone(self.schema.table_schema());
            Reading::new(store, self.scan.as_ref().clone(), schema).await
        });
        ready.await.cloned()
    }

    /// What joins leave of the scan, once they say it.
    async fn narrowed(&self, reading: &Reading) -> Result<Option<Narrowed>> {
        if self.join_filters.is_empty() {
            return Ok(None);
        }
        if let Some(known) = self.narrowed.get() {
            return Ok(Some(known.clone()));
        }
        let found = Narrowed::read(&reading.store, &reading.scan, &self.join_filters).await?;
        // Another partition may have been as fast: both found what is true.
        Ok(match found {
            Some(found) => Some(self.narrowed.get_or_init(|| async { found }).await.clone()),
            None => None,
        })
    }
}

impl fmt::Debug for ZvfSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZvfSource")
            .field("address", &self.address)
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}

/// The plan node that reads `groups` of tasks of `source`, each group a partition.
///
/// With `keeps_partitions` a task is read by the partition it is in: needed wherever partitions of one plan are run by
/// several processes, of which none sees what another one took.
#[must_use]
pub fn data_source(
    source: ZvfSource,
    groups: Vec<Vec<Task>>,
    statistics: Option<Statistics>,
    limit: Option<usize>,
    keeps_partitions: bool,
) -> Arc<dyn ExecutionPlan> {
    let scan = source.scan();
    let name = format!("{}/{}", scan.table, scan.level);
    let file = |(number, task): (usize, Task)| {
        let mut file = PartitionedFile::new(format!("{name}/{number}"), task.cells().max(1));
        file.extensions.insert(task);
        file
    };
    let mut number = 0_usize;
    let groups = groups.into_iter().map(|tasks| {
        let files = tasks.into_iter().map(|task| {
            number += 1;
            file((number, task))
        });
        FileGroup::new(files.collect())
    });
    let groups: Vec<FileGroup> = groups.collect();
    let mut builder =
        FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(groups)
            .with_limit(limit)
            .with_preserve_order(keeps_partitions);
    if let Some(statistics) = statistics {
        builder = builder.with_statistics(statistics);
    }
    DataSourceExec::from_data_source(builder.build())
}

impl FileSource for ZvfSource {
    fn create_file_opener(
        &self,
        _object_store: Arc<dyn ObjectStore>,
        _base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let counters = Counters {
            cells: counter("cells_read"),
            requests: counter("requests"),
            bytes: counter("bytes_read"),
            pruned: counter("cells_pruned"),
        };
        if partition == 0 {
            // Once for the whole plan, whose partitions may run in several processes.
            counters.pruned.add(saturating_usize(self.pruned_cells));
        }
        Ok(Arc::new(ZvfOpener { source: self.clone(), counters }))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size: batch_size.max(1), ..self.clone() })
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "zvf"
    }

    fn fmt_extra(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", store={}", self.address)?;
        if let Some(kind) = &self.scan.kind {
            write!(f, ", kind={kind}")?;
        }
        if let Some(predicate) = &self.scan.predicate {
            write!(f, ", where={predicate}")?;
        }
        if let Some(objects) = &self.scan.objects {
            write!(f, ", objects={}", objects.len())?;
        }
        if let Some(groups) = &self.scan.groups {
            write!(f, ", groups={}", groups.len())?;
        }
        if let Some(names) = &self.scan.group_names {
            write!(f, ", group_names={}", names.len())?;
        }
        if !self.join_filters.is_empty() {
            f.write_str(", objects_of_joins=true")?;
        }
        Ok(())
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        // Whatever is made of them, the engine asks again.
        let answered = vec![PushedDown::No; filters.len()];
        let found = FilterPushdownPropagation::with_parent_pushdown_result(answered);
        // Rows that a limit counts are those before any condition.
        if !self.finds_objects || self.scan.limit.is_some() {
            return Ok(found);
        }
        let usable = join_filter::usable(&filters);
        if usable.is_empty() {
            return Ok(found);
        }
        let mut source = Self { narrowed: Arc::default(), ..self.clone() };
        source.join_filters.extend(usable);
        Ok(found.with_updated_node(Arc::new(source)))
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // A join fills in a condition only where it finds it again here.
        for filter in &self.join_filters {
            if visit(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// What one partition counts.
#[derive(Clone, Debug)]
struct Counters {
    cells: Count,
    requests: Count,
    bytes: Count,
    pruned: Count,
}

#[derive(Debug)]
struct ZvfOpener {
    source: ZvfSource,
    counters: Counters,
}

impl FileOpener for ZvfOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let task = file.extensions.get::<Task>().cloned();
        let task =
            task.ok_or_else(|| crate::bad_request("a part of a scan", "a task", "a file"))?;
        let (source, counters) = (self.source.clone(), self.counters.clone());
        Ok(Box::pin(async move {
            let mut reading = source.reading().await?;
            let mut cells = task.cells();
            if let Some(narrowed) = source.narrowed(&reading).await? {
                if let Some(kept) = narrowed.cells(&task)? {
                    counters.pruned.add(saturating_usize(cells.saturating_sub(kept)));
                    cells = kept;
                }
                reading.scan.objects = Some(narrowed.objects);
            }
            counters.cells.add(saturating_usize(cells));
            if cells == 0 && task.cells() > 0 {
                return Ok(stream::empty().boxed());
            }
            let store = reading.store.clone();
            let rows = reading.rows(&task).await?;
            let held = source.pool.as_ref().map(|pool| MemoryConsumer::new("zvf").register(pool));
            let passing = Passing { rows, store, counters, held, batch_size: source.batch_size };
            Ok(stream::unfold(passing, Passing::next).flat_map(stream::iter).boxed())
        }))
    }
}

/// Rows on their way to the engine.
struct Passing {
    rows: Rows,
    store: StoreHandle,
    counters: Counters,
    held: Option<MemoryReservation>,
    batch_size: usize,
}

impl Passing {
    /// The next batch in slices of the size wanted.
    async fn next(mut self) -> Option<(Vec<Result<RecordBatch>>, Self)> {
        let next = self.rows.next().await;
        let (requests, bytes) = self.store.take_io();
        self.counters.requests.add(saturating_usize(requests));
        self.counters.bytes.add(saturating_usize(bytes));
        let slices = match next? {
            Ok(batch) => match self.hold(&batch) {
                Ok(()) => slices(&batch, self.batch_size),
                Err(error) => vec![Err(error)],
            },
            Err(error) => vec![Err(error)],
        };
        Some((slices, self))
    }

    fn hold(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.held {
            Some(held) => held.try_resize(batch.get_array_memory_size()),
            None => Ok(()),
        }
    }
}

fn slices(batch: &RecordBatch, rows: usize) -> Vec<Result<RecordBatch>> {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| Ok(batch.slice(start, rows.min(batch.num_rows() - start)))).collect()
}

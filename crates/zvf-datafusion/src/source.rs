//! `ZvfSource`: the file source of a scan, the leaf of a plan.
//!
//! A "file" is a [`Task`]; the object store of the engine is not used. Batches are sliced to the batch size of the engine, and
//! their bytes are reserved in its memory pool while they are passed on.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

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
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, PhysicalExpr};
use futures_util::stream::{self, StreamExt as _};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use zvf::OpenOptions;
use zvf::format::num::saturating_usize;

use crate::handle::{StoreAddress, StoreHandle};
use crate::join_filter::{self, JoinSelection};
use crate::read::{Rows, ScanContext};
use crate::scan::{Scan, Task};

/// The file source that reads the tasks of a [`Scan`].
#[derive(Clone)]
pub struct ZvfSource {
    address: StoreAddress,
    /// Created by the first task: a process that only forwards the plan does not open the store.
    context: Arc<OnceCell<ScanContext>>,
    opened: Option<StoreHandle>,
    scan: Arc<Scan>,
    schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
    pool: Option<Arc<dyn MemoryPool>>,
    batch_size: usize,
    /// Whether the source accepts dynamic filters on the object.
    takes_join_filters: bool,
    /// Dynamic filters on the object, which joins update while the plan runs.
    join_filters: Vec<Arc<dyn PhysicalExpr>>,
    join_selection: Arc<OnceCell<JoinSelection>>,
}

impl ZvfSource {
    /// Creates a source of `scan` with the columns of `schema` from an open store.
    pub fn new(store: StoreHandle, scan: Scan, schema: SchemaRef) -> Self {
        let address = store.address().clone();
        // Each state is seeded with another random number.
        let scan = Scan { plan: Some(RandomState::new().hash_one(0)), ..scan };
        Self { opened: Some(store), ..Self::from_address(address, scan, schema) }
    }

    /// Creates a source of the store at `address`, which the first task opens.
    pub fn from_address(address: StoreAddress, scan: Scan, schema: SchemaRef) -> Self {
        Self {
            address,
            context: Arc::default(),
            opened: None,
            scan: Arc::new(scan),
            schema: TableSchema::from(schema),
            metrics: ExecutionPlanMetricsSet::new(),
            pool: None,
            batch_size: 8192,
            takes_join_filters: false,
            join_filters: Vec::new(),
            join_selection: Arc::default(),
        }
    }

    /// Shares the open store with other tasks of the plan in this process: the first one opens it
    /// and reads its indexes. It is closed a few seconds after the last one.
    #[must_use]
    pub fn shared(self) -> Self {
        static ALL: Mutex<BTreeMap<u64, Weak<OnceCell<ScanContext>>>> = Mutex::new(BTreeMap::new());
        let (Some(plan), Ok(runtime)) = (self.scan.plan, Handle::try_current()) else {
            return self;
        };
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_plan, context| context.strong_count() > 0);
        if let Some(context) = all.get(&plan).and_then(Weak::upgrade) {
            return Self { context, ..self };
        }
        all.insert(plan, Arc::downgrade(&self.context));
        let context = Arc::clone(&self.context);
        runtime.spawn(async move {
            while Arc::strong_count(&context) > 1 {
                tokio::time::sleep(KEPT).await;
            }
        });
        self
    }

    /// Reserves the bytes of batches in `pool`.
    #[must_use]
    pub fn with_pool(self, pool: Arc<dyn MemoryPool>) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Accepts dynamic filters on the object; requires that each row has at most one object.
    pub(crate) fn with_join_filters(self) -> Self {
        Self { takes_join_filters: true, ..self }
    }

    /// Returns the address of the store.
    pub const fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// Returns the columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        self.schema.table_schema()
    }

    /// Returns the scan.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// Returns the context for reading tasks; opens the store if necessary.
    async fn open_context(&self) -> Result<ScanContext> {
        let context = self.context.get_or_try_init(|| async {
            let store = match &self.opened {
                Some(store) => store.clone(),
                None => {
                    let options = OpenOptions::default();
                    let store = StoreHandle::open_at(self.address.clone(), options).await?;
                    let state = store.state(self.scan.options.level).await?;
                    if self.scan.state.is_some_and(|planned| planned != state) {
                        let text = format!(
                            "{}: it is not as it was when the statement was planned; ask again, \
                             and give all machines the same store",
                            self.address
                        );
                        return Err(DataFusionError::External(text.into()));
                    }
                    store
                }
            };
            let schema = Arc::clone(self.schema.table_schema());
            ScanContext::new(store, self.scan.as_ref().clone(), schema).await
        });
        context.await.cloned()
    }

    /// Returns the objects that joins select; `None` as long as the dynamic filters are not filled in.
    async fn join_selection(&self, context: &ScanContext) -> Result<Option<JoinSelection>> {
        if self.join_filters.is_empty() {
            return Ok(None);
        }
        if let Some(selection) = self.join_selection.get() {
            return Ok(Some(selection.clone()));
        }
        let read = JoinSelection::read(&context.store, &context.scan, &self.join_filters).await?;
        // Partitions may race here; all of them read a valid selection.
        Ok(match read {
            Some(new) => Some(self.join_selection.get_or_init(|| async { new }).await.clone()),
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

/// Returns the plan node that reads `groups` of tasks of `source`, each group a partition.
///
/// With `keeps_partitions` each task is read by its own partition (no work stealing). This is necessary if several processes
/// run the partitions of one plan, because a process does not see which tasks another one has taken.
pub fn data_source(
    source: ZvfSource,
    groups: Vec<Vec<Task>>,
    statistics: Option<Statistics>,
    limit: Option<usize>,
    keeps_partitions: bool,
) -> Arc<dyn ExecutionPlan> {
    let scan = source.scan();
    let name = format!("{}/{}", scan.options.table, scan.options.level);
    let mut number = 0_usize;
    let mut file = |task: Task| {
        number += 1;
        let mut file = PartitionedFile::new(format!("{name}/{number}"), task.cells().max(1));
        file.extensions.insert(task);
        file
    };
    let group = |tasks: Vec<Task>| FileGroup::new(tasks.into_iter().map(&mut file).collect());
    let groups = groups.into_iter().map(group).collect();
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
            // Count them once per plan, whose partitions may run in several processes.
            counters.pruned.add(saturating_usize(self.scan.pruned));
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
        if let Some(kind) = self.scan.options.kind {
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
        // The engine tests all filters again.
        let results = vec![PushedDown::No; filters.len()];
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(results);
        // A limit counts the rows before these filters.
        if !self.takes_join_filters || self.scan.limit.is_some() {
            return Ok(propagation);
        }
        let usable = join_filter::select_usable(&filters);
        if usable.is_empty() {
            return Ok(propagation);
        }
        let mut source = Self { join_selection: Arc::default(), ..self.clone() };
        source.join_filters.extend(usable);
        Ok(propagation.with_updated_node(Arc::new(source)))
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // A join updates a dynamic filter only if it finds the filter in a leaf.
        for filter in &self.join_filters {
            if visit(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// The metrics of one partition. The engine counts in `usize`.
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
            let mut context = source.open_context().await?;
            let mut cells = task.cells();
            if let Some(selection) = source.join_selection(&context).await? {
                if let Some(kept_cells) = selection.count_cells(&task)? {
                    // Objects may name chunks that a faulty level does not have; then no chunk was pruned.
                    counters.pruned.add(saturating_usize(cells.saturating_sub(kept_cells)));
                    cells = kept_cells;
                }
                context.scan.objects = Some(selection.objects);
            }
            counters.cells.add(saturating_usize(cells));
            if cells == 0 && task.cells() > 0 {
                return Ok(stream::empty().boxed());
            }
            let store = context.store.clone();
            let rows = context.rows(&task).await;
            let rows = rows.map_err(|error| store.address().name_in(error))?;
            let reservation =
                source.pool.as_ref().map(|pool| MemoryConsumer::new("zvf").register(pool));
            let batch_size = source.batch_size;
            let slicer = BatchSlicer { rows, store, counters, reservation, batch_size };
            Ok(stream::unfold(slicer, BatchSlicer::next).flat_map(stream::iter).boxed())
        }))
    }
}

/// Slices record batches to the batch size of the engine, updates the metrics and reserves memory.
struct BatchSlicer {
    rows: Rows,
    store: StoreHandle,
    counters: Counters,
    reservation: Option<MemoryReservation>,
    batch_size: usize,
}

impl BatchSlicer {
    /// Returns the next batch in slices of at most `batch_size` rows.
    async fn next(mut self) -> Option<(Vec<Result<RecordBatch>>, Self)> {
        let next = self.rows.next().await;
        let (requests, bytes) = self.store.take_io();
        self.counters.requests.add(saturating_usize(requests));
        self.counters.bytes.add(saturating_usize(bytes));
        let slices = match next? {
            Ok(batch) => match self.reserve(&batch) {
                Ok(()) => slice_batch(&batch, self.batch_size),
                Err(error) => vec![Err(error)],
            },
            Err(error) => vec![Err(self.store.address().name_in(error))],
        };
        Some((slices, self))
    }

    fn reserve(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.reservation {
            Some(reservation) => reservation.try_resize(batch.get_array_memory_size()),
            None => Ok(()),
        }
    }
}

fn slice_batch(batch: &RecordBatch, rows: usize) -> Vec<Result<RecordBatch>> {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| Ok(batch.slice(start, rows.min(batch.num_rows() - start)))).collect()
}

/// How long an open store waits for another task of its plan.
const KEPT: Duration = Duration::from_secs(5);

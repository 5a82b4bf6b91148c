//! A table of a store, as DataFusion asks for it.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use zvf::format::key::ChunkKey;
use zvf::format::num::to_u64;
use zvf::predicate::Predicate;
use zvf::{Kind, OpenOptions};

use crate::columns::{Layout, Origin, open_level};
use crate::filter::{Pushed, Translated, translate};
use crate::handle::{StoreAddress, StoreHandle, wait};
use crate::links::stored_with;
use crate::scan::{Scan, Task};
use crate::sink::StoreSink;
use crate::source::{ZvfSource, data_source};
use crate::statistics::{TableStatistics, filtered};
use crate::table::{TableName, TableOptions};
use crate::{bad_request, external};

/// A table of a store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use std::sync::Arc;
///
/// use datafusion::prelude::SessionContext;
/// use zvf_datafusion::{StoreHandle, TableOptions, ZvfTable};
///
/// let store = StoreHandle::open(path, zvf::OpenOptions::default()).await?;
/// let context = SessionContext::new();
/// context.register_table("three", Arc::new(ZvfTable::open(store, TableOptions::default()).await?))?;
/// let rows = context.sql("SELECT * FROM three").await?.collect().await?;
/// assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ZvfTable {
    store: StoreHandle,
    options: TableOptions,
    layout: Layout,
    schema: SchemaRef,
    statistics: TableStatistics,
    /// Whether a row has one object at most, so that rows can be found by it.
    has_one_object: bool,
}

impl fmt::Debug for ZvfTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZvfTable")
            .field("store", self.store.address())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ZvfTable {
    /// The table that `options` name. What describes the level is read, and no row.
    ///
    /// # Errors
    ///
    /// When the store has no such level, kind or table, or cannot be read.
    pub async fn open(store: StoreHandle, options: TableOptions) -> Result<Self> {
        let TableOptions { table, level, kind, .. } = options;
        let layout = Layout::read(&store.reader(), options).await?;
        let schema = layout.schema();
        if table == TableName::Levels {
            let levels = store.reader().store().level_numbers().len();
            let statistics = TableStatistics::of_levels(levels, &layout);
            return Ok(Self { store, options, layout, schema, statistics, has_one_object: true });
        }
        let level = open_level(&store.reader(), level, kind).await?;
        let statistics = TableStatistics::read(&level, table, &layout).await?;
        let has_one_object = !level.node().meta().shared_fragments;
        Ok(Self { store, options, layout, schema, statistics, has_one_object })
    }

    /// The same of the store at `address`, from code that cannot await: plans of other processes are decoded so.
    ///
    /// # Errors
    ///
    /// As [`ZvfTable::open`], and when the store cannot be opened.
    pub fn open_blocking(address: StoreAddress, options: TableOptions) -> Result<Self> {
        wait(async move {
            let store = StoreHandle::open_at(address, OpenOptions::default()).await?;
            Self::open(store, options).await
        })
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &StoreHandle {
        &self.store
    }

    /// Which table of it.
    #[must_use]
    pub const fn options(&self) -> &TableOptions {
        &self.options
    }

    fn translate(&self, filter: &Expr) -> Option<Translated> {
        let found = translate(filter, &self.layout)?;
        let usable = match (self.options.table, &found.pushed) {
            (
                TableName::Vertices,
                Pushed::Objects(_) | Pushed::Groups(_) | Pushed::GroupNames(_),
            ) => self.has_one_object,
            (TableName::Vertices, Pushed::Rows(_) | Pushed::Chunks(_)) => true,
            (TableName::Links, Pushed::Objects(_) | Pushed::Chunks(_)) => true,
            (TableName::Objects, Pushed::Objects(_)) => true,
            (TableName::Groups, Pushed::Groups(_) | Pushed::GroupNames(_)) => true,
            (TableName::Members, Pushed::Groups(_)) => true,
            _ => false,
        };
        usable.then_some(found)
    }

    /// The scan that answers `filters`, and the chunks that they name.
    fn scan_of(
        &self,
        columns: Vec<String>,
        filters: &[Expr],
    ) -> (Scan, Option<Vec<ChunkKey>>, bool) {
        let TableOptions { table, level, kind, .. } = self.options;
        let mut scan = Scan::new(table, level);
        scan.geometry = self.options.geometry;
        scan.fragment_attributes = self.options.fragment_attributes;
        scan.group_attributes = self.options.group_attributes;
        scan.kind = kind.map(|kind| kind.to_string());
        scan.columns = columns;
        let (mut predicates, mut chunks, mut exact) = (Vec::new(), None, true);
        for filter in filters {
            let Some(found) = self.translate(filter) else {
                exact = false;
                continue;
            };
            exact &= found.exact;
            match found.pushed {
                Pushed::Rows(predicate) => predicates.push(predicate),
                // Of several lists one is enough: SQL asks for the others.
                Pushed::Objects(ids) => scan.objects = scan.objects.or(Some(ids)),
                Pushed::Chunks(keys) => chunks = chunks.or(Some(keys)),
                Pushed::Groups(numbers) => scan.groups = scan.groups.or(Some(numbers)),
                Pushed::GroupNames(names) => scan.group_names = scan.group_names.or(Some(names)),
            }
        }
        scan.predicate = match predicates.len() {
            0 => None,
            1 => predicates.pop().map(|one| one.to_string()),
            _ => Some(Predicate::All(predicates).to_string()),
        };
        (scan, chunks, exact)
    }

    /// Puts numbers in place of the names of groups that vertices are asked for, and leaves out what is no group.
    async fn resolve_groups(&self, scan: &mut Scan) -> Result<()> {
        if scan.table != TableName::Vertices || (&scan.groups, &scan.group_names) == (&None, &None)
        {
            return Ok(());
        }
        let level = open_level(&self.store.reader(), scan.level, self.options.kind).await?;
        let Some(groups) = level.groups().await.map_err(external)? else { return Ok(()) };
        let names = scan.group_names.take();
        let is_wanted = |group: &u64| {
            let named =
                |names: &Vec<String>| groups.name(*group).is_some_and(|name| names.contains(&name));
            scan.groups.as_ref().is_none_or(|numbers| numbers.contains(group))
                && names.as_ref().is_none_or(named)
        };
        let wanted = (0..groups.len()).filter(is_wanted).collect();
        scan.groups = Some(wanted);
        Ok(())
    }

    /// The tasks of a scan.
    async fn tasks(
        &self,
        scan: &Scan,
        named: Option<Vec<ChunkKey>>,
        most: usize,
    ) -> Result<Planned> {
        match scan.table {
            TableName::Vertices => self.chunk_tasks(scan, named, most).await,
            TableName::Objects if scan.objects.is_none() => {
                // Counted now: rows may have been added since the table was made.
                let level = open_level(&self.store.reader(), scan.level, self.options.kind).await?;
                let index = level.objects().await.map_err(external)?;
                let tasks = row_tasks(index.map_or(0, |index| index.slots()), most);
                Ok(Planned { tasks, chunks: None })
            }
            TableName::Links => self.link_tasks(scan, named, most).await,
            TableName::Objects | TableName::Groups | TableName::Members | TableName::Levels => {
                Ok(Planned { tasks: vec![Task::All], chunks: None })
            }
        }
    }

    /// The tasks of links: the chunks with which they are stored.
    async fn link_tasks(
        &self,
        scan: &Scan,
        named: Option<Vec<ChunkKey>>,
        most: usize,
    ) -> Result<Planned> {
        let reader = self.store.reader();
        let level = open_level(&reader, scan.level, self.options.kind).await?;
        let all = reader.chunks(&scan.base_query()?.vertices_only()).await.map_err(external)?;
        let total = to_u64(all.len());
        let ends = match (named, &scan.objects) {
            (Some(named), _) => Some(named),
            (None, Some(_)) => Some(reader.chunks(&scan.vertex_query()?).await.map_err(external)?),
            (None, None) => None,
        };
        let kept = match ends {
            Some(ends) => stored_with(&level, &ends).await?,
            None => None,
        };
        let (tasks, kept) = match kept {
            Some(kept) if kept.len() <= MAX_SINGLE_CHUNKS => {
                (kept.iter().map(alone).collect::<Result<Vec<_>>>()?, to_u64(kept.len()))
            }
            // Links without chunks break the rules: whoever reads them says so.
            Some(_) | None if all.is_empty() => (vec![Task::All], 0),
            Some(_) | None => (ranges(&all, self.count_tasks(most, total, total)), total),
        };
        Ok(Planned { tasks, chunks: Some((kept, total.max(kept))) })
    }

    /// Returns how many tasks are worth starting for `kept` of `all` chunks, at most `max`: each from some tens of thousands of
    /// rows on. A task plans its own question, so that many of them for a small box cost more than its rows.
    fn count_tasks(&self, max: usize, kept: u64, all: u64) -> usize {
        // Without a count every task is worth starting.
        let Some(rows) = self.statistics.rows.get_value() else { return max };
        let rows = u128::from(to_u64(*rows)) * u128::from(kept) / u128::from(all.max(1));
        // More tasks than that are never asked for.
        let tasks = usize::try_from(rows / ROWS_OF_A_TASK + 1).unwrap_or(usize::MAX);
        max.min(tasks)
    }

    async fn chunk_tasks(
        &self,
        scan: &Scan,
        named: Option<Vec<ChunkKey>>,
        most: usize,
    ) -> Result<Planned> {
        let reader = self.store.reader();
        let all = open_level(&reader, scan.level, self.options.kind).await?;
        let total = all.chunks().await.map_err(external)?.len();
        let mut keys = reader.chunks(&scan.vertex_query()?).await.map_err(external)?;
        if let Some(named) = &named {
            keys.retain(|key| named.contains(key));
        }
        let (kept, total) = (to_u64(keys.len()), to_u64(total));
        let tasks = match named {
            Some(_) => keys.iter().map(alone).collect::<Result<Vec<_>>>()?,
            None => ranges(&keys, self.count_tasks(most, kept, total)),
        };
        Ok(Planned { tasks, chunks: Some((kept, total)) })
    }

    /// What is known of the rows of a scan with so many of all chunks.
    fn statistics_of(
        &self,
        projection: Option<&[usize]>,
        scan: &Scan,
        is_filtered: bool,
        chunks: Option<(u64, u64)>,
    ) -> Statistics {
        let mut known = self.statistics.project(projection);
        if is_filtered {
            let (kept, all) = chunks.unwrap_or((1, 1));
            known = filtered(known, kept, all);
            if let (Some(ids), Some(all)) = (&scan.objects, self.statistics.objects) {
                known = filtered(known, to_u64(ids.len()).min(all), all);
            }
        }
        let place = self.layout.columns.iter().position(|column| column.origin == Origin::Chunk(0));
        let place =
            place.filter(|_| scan.table == TableName::Vertices).and_then(
                |place| match projection {
                    Some(places) => places.iter().position(|own| *own == place),
                    None => Some(place),
                },
            );
        let column = place.and_then(|place| known.column_statistics.get_mut(place));
        if let (Some(column), Some((kept, _))) = (column, chunks) {
            column.distinct_count =
                usize::try_from(kept).map_or(Precision::Absent, Precision::Inexact);
        }
        known
    }
}

/// The tasks of a scan, and how many chunks are read of how many, where it goes by chunks.
struct Planned {
    tasks: Vec<Task>,
    chunks: Option<(u64, u64)>,
}

#[async_trait]
impl TableProvider for ZvfTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            let found = self.translate(filter);
            found.map_or(TableProviderFilterPushDown::Unsupported, |found| found.support())
        };
        Ok(filters.iter().map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.project(None))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let (mut scan, chunks, exact) = self.scan_of(columns, filters);
        scan.limit = limit.filter(|_| exact).and_then(|limit| u64::try_from(limit).ok());
        let partitions = state.config().target_partitions().max(1);
        let most = partitions.saturating_mul(TASKS_OF_A_PARTITION);
        self.resolve_groups(&mut scan).await?;
        let Planned { tasks, chunks } = self.tasks(&scan, chunks, most).await?;
        if tasks.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let projection = projection.map(Vec::as_slice);
        let statistics = self.statistics_of(projection, &scan, !filters.is_empty(), chunks);
        let finds_objects = scan.table == TableName::Vertices && self.has_one_object;
        let (kept, all) = chunks.unwrap_or_default();
        let mut source = ZvfSource::new(self.store.clone(), scan, schema)
            .with_pool(Arc::clone(&state.runtime_env().memory_pool))
            .with_pruned_cells(all.saturating_sub(kept));
        if finds_objects {
            source = source.finding_objects();
        }
        let limit = limit.filter(|_| exact);
        Ok(data_source(source, divide(tasks, partitions), Some(statistics), limit, false))
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if operation != InsertOp::Append {
            let found = operation.to_string();
            return Err(bad_request("INSERT", "rows that are added", &found));
        }
        let TableOptions { table, level, kind, .. } = self.options;
        let opened = open_level(&self.store.reader(), level, kind).await?;
        let kind = kind.or_else(|| opened.kinds().first().copied());
        let is_plain = table == TableName::Vertices
            && level == 0
            && kind == Some(Kind::PointCloud)
            && !self.options.fragment_attributes
            && !self.options.group_attributes;
        let Some(kind) = kind.filter(|_| is_plain) else {
            let expected = "the vertices of a point cloud at level 0, with their own columns; what else a file holds is added with \
                            \"zvf edit append\"";
            return Err(bad_request("INSERT", expected, &format!("{table} of level {level}")));
        };
        let sink = StoreSink::append(&self.store, &self.layout, kind);
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// At most `most` tasks that cover all keys, of about as many of `keys` each.
fn ranges(keys: &[ChunkKey], most: usize) -> Vec<Task> {
    let parts = most.min(keys.len());
    let start = |part: usize| keys.len() * part / parts.max(1);
    let task = |part: usize| {
        let (first, end) = (start(part), start(part + 1));
        Task::Chunks {
            first: keys.get(first).filter(|_| part > 0).map(ToString::to_string),
            end: keys.get(end).map(ToString::to_string),
            cells: to_u64(end - first),
        }
    };
    (0..parts).map(task).collect()
}

/// The task of one chunk.
fn alone(key: &ChunkKey) -> Result<Task> {
    let mut next = key.components().to_vec();
    if let Some(last) = next.last_mut() {
        *last += 1;
    }
    let next = ChunkKey::new(&next).map_err(external)?;
    Ok(Task::Chunks { first: Some(key.to_string()), end: Some(next.to_string()), cells: 1 })
}

fn row_tasks(rows: u64, most: usize) -> Vec<Task> {
    let parts = to_u64(most).min(rows / OBJECTS_OF_A_TASK + 1).min(rows);
    let at = |part: u64| rows / parts * part + rows % parts * part / parts;
    (0..parts).map(|part| Task::Rows { start: at(part), end: at(part + 1) }).collect()
}

/// `tasks` for so many partitions, neighbours together.
fn divide(tasks: Vec<Task>, partitions: usize) -> Vec<Vec<Task>> {
    let each = tasks.len().div_ceil(partitions).max(1);
    tasks.chunks(each).map(<[Task]>::to_vec).collect()
}

/// Tasks that one partition can take: a long one then holds nobody up.
const TASKS_OF_A_PARTITION: usize = 4;
/// So many chunks of links are read one by one, at most: each looks through the list of all cells of links.
const MAX_SINGLE_CHUNKS: usize = 256;
/// Rows that are worth a task.
const ROWS_OF_A_TASK: u128 = 1 << 15;
/// Objects that are worth a task.
const OBJECTS_OF_A_TASK: u64 = 1 << 12;

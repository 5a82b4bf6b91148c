//! `ZvfTable`: a table of a store as a table provider of DataFusion.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use zvf::format::key::{ChunkKey, Delta};
use zvf::format::num::to_u64;
use zvf::predicate::Predicate;
use zvf::{Kind, OpenOptions};

use crate::columns::{Origin, TableLayout, open_level};
use crate::filter::{StoreCondition, Translation, translate};
use crate::handle::{StoreAddress, StoreHandle, wait};
use crate::links::find_source_chunks;
use crate::scan::{Scan, Task};
use crate::sink::StoreSink;
use crate::source::{ZvfSource, data_source};
use crate::statistics::{TableStatistics, inexact_count, scale};
use crate::table::{TableName, TableOptions};
use crate::{bad_request, external_error};

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
    layout: TableLayout,
    schema: SchemaRef,
    statistics: TableStatistics,
    /// Whether each row has at most one object, so that conditions on the object can select rows.
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
    /// Opens the table that `options` name. Reads the documents of the level, and no row.
    ///
    /// # Errors
    ///
    /// When the store has no such level, kind or table, or cannot be read.
    pub async fn open(store: StoreHandle, options: TableOptions) -> Result<Self> {
        let layout = TableLayout::read(&store.reader(), options).await?;
        let schema = layout.schema();
        if options.table == TableName::Levels {
            let levels = store.reader().store().level_numbers().len();
            let statistics = TableStatistics::for_levels(levels, &layout);
            return Ok(Self { store, options, layout, schema, statistics, has_one_object: true });
        }
        let level = open_level(&store.reader(), options).await?;
        let statistics = TableStatistics::read(&level, options.table, &layout).await?;
        let has_one_object = !level.node().meta().shared_fragments;
        Ok(Self { store, options, layout, schema, statistics, has_one_object })
    }

    /// Opens a table of the store at `address` from code that cannot await, such as decoders of plans.
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

    /// Returns the store.
    pub const fn store(&self) -> &StoreHandle {
        &self.store
    }

    /// Returns the table, its level and kind.
    pub const fn options(&self) -> &TableOptions {
        &self.options
    }

    /// Translates a condition; returns `None` where a scan of this table cannot use it.
    fn translate(&self, filter: &Expr) -> Option<Translation> {
        use StoreCondition::{Chunks, GroupNames, Groups, Objects, Rows};
        let translation = translate(filter, &self.layout)?;
        let is_usable = match (self.options.table, &translation.condition) {
            (TableName::Vertices, Objects(_) | Groups(_) | GroupNames(_)) => self.has_one_object,
            (TableName::Vertices, Rows(_) | Chunks(_)) => true,
            (TableName::Links, Objects(_) | Chunks(_)) => true,
            (TableName::Objects, Objects(_)) => true,
            (TableName::Groups, Groups(_) | GroupNames(_)) => true,
            (TableName::Members, Groups(_)) => true,
            _ => false,
        };
        is_usable.then_some(translation)
    }

    /// Plans the scan for `filters`; returns the chunks that they name and whether the scan answers them exactly, too.
    fn plan_scan(
        &self,
        columns: Vec<String>,
        filters: &[Expr],
    ) -> (Scan, Option<Vec<ChunkKey>>, bool) {
        let mut scan = Scan { options: self.options, columns, ..Scan::default() };
        let (mut predicates, mut chunks, mut is_exact) = (Vec::new(), None, true);
        for filter in filters {
            let Some(translation) = self.translate(filter) else {
                is_exact = false;
                continue;
            };
            is_exact &= translation.is_exact;
            match translation.condition {
                StoreCondition::Rows(predicate) => predicates.push(predicate),
                // The first list of each type is enough: SQL tests the others.
                StoreCondition::Objects(ids) => scan.objects = scan.objects.or(Some(ids)),
                StoreCondition::Chunks(keys) => chunks = chunks.or(Some(keys)),
                StoreCondition::Groups(numbers) => scan.groups = scan.groups.or(Some(numbers)),
                StoreCondition::GroupNames(names) => {
                    scan.group_names = scan.group_names.or(Some(names));
                }
            }
        }
        scan.predicate = match predicates.len() {
            0 => None,
            1 => predicates.pop().map(|one| one.to_string()),
            _ => Some(Predicate::All(predicates).to_string()),
        };
        (scan, chunks, is_exact)
    }

    /// Replaces names of groups in a scan of vertices by their numbers, and drops numbers of groups that do not exist.
    async fn resolve_groups(&self, scan: &mut Scan) -> Result<()> {
        if scan.options.table != TableName::Vertices
            || (&scan.groups, &scan.group_names) == (&None, &None)
        {
            return Ok(());
        }
        let level = open_level(&self.store.reader(), self.options).await?;
        let Some(groups) = level.groups().await.map_err(external_error)? else { return Ok(()) };
        scan.groups = Some(scan.select_groups(&groups)?);
        scan.group_names = None;
        Ok(())
    }

    /// Divides a scan into tasks for `partitions`; `named` are the chunks that conditions name.
    async fn plan_tasks(
        &self,
        scan: &Scan,
        named: Option<Vec<ChunkKey>>,
        partitions: usize,
    ) -> Result<TaskPlan> {
        match self.options.table {
            TableName::Vertices => self.plan_vertex_tasks(scan, named, partitions).await,
            TableName::Objects if scan.objects.is_none() => {
                // Count the rows now: some may have been added since the table was opened.
                let level = open_level(&self.store.reader(), self.options).await?;
                let index = level.objects().await.map_err(external_error)?;
                let tasks = split_rows(index.map_or(0, |index| index.slots()), partitions);
                Ok(TaskPlan { tasks, chunks: None })
            }
            TableName::Links => self.plan_link_tasks(scan, named, partitions).await,
            TableName::Objects | TableName::Groups | TableName::Members | TableName::Levels => {
                Ok(TaskPlan { tasks: vec![Task::All], chunks: None })
            }
        }
    }

    /// Divides a scan of links by the chunks with which they are stored.
    async fn plan_link_tasks(
        &self,
        scan: &Scan,
        named: Option<Vec<ChunkKey>>,
        partitions: usize,
    ) -> Result<TaskPlan> {
        let reader = self.store.reader();
        let level = open_level(&reader, self.options).await?;
        let family = level.links(Delta::SAME).await.map_err(external_error)?;
        if family.as_ref().is_some_and(|family| !family.is_complete()) {
            let found = "a store whose links cannot be listed";
            return Err(bad_request("links", "a folder or a bucket", found));
        }
        let all =
            reader.chunks(&scan.base_query().vertices_only()).await.map_err(external_error)?;
        let total = to_u64(all.len());
        let ends = match (named, &scan.objects) {
            (Some(named), _) => Some(named),
            (None, Some(_)) => {
                Some(reader.chunks(&scan.vertex_query()?).await.map_err(external_error)?)
            }
            (None, None) => None,
        };
        let kept = match ends {
            Some(ends) => find_source_chunks(family.as_ref(), &ends).await?,
            None => None,
        };
        let covered = kept.map(|kept| cover_keys(&kept, &all)).transpose()?;
        let (tasks, kept) = match covered {
            Some(covered) if covered.1 < total => covered,
            // Links without chunks violate the format: the reader reports the error.
            Some(_) | None if all.is_empty() => (vec![Task::All], 0),
            Some(_) | None => (split_keys(&all, self.count_tasks(partitions, total, total)), total),
        };
        Ok(TaskPlan { tasks, chunks: Some((kept, total)) })
    }

    /// Returns the number of tasks for `kept` of `all` chunks: about one for each [`MIN_TASK_ROWS`]
    /// rows. Each task plans its own query, so many tasks for a small box would cost more than
    /// reading its rows.
    fn count_tasks(&self, partitions: usize, kept: u64, all: u64) -> usize {
        let rows = self.statistics.table.num_rows.get_value().map(|rows| u128::from(to_u64(*rows)));
        let rows = rows.map(|rows| rows * u128::from(kept) / u128::from(all.max(1)));
        even_tasks(rows.map_or(u128::MAX, |rows| rows / MIN_TASK_ROWS), partitions)
    }

    /// Divides a scan of vertices by chunks.
    async fn plan_vertex_tasks(
        &self,
        scan: &Scan,
        named: Option<Vec<ChunkKey>>,
        partitions: usize,
    ) -> Result<TaskPlan> {
        let reader = self.store.reader();
        let all = open_level(&reader, self.options).await?;
        let total = all.chunks().await.map_err(external_error)?.len();
        let mut keys = reader.chunks(&scan.vertex_query()?).await.map_err(external_error)?;
        if let Some(named) = &named {
            keys.retain(|key| named.contains(key));
        }
        let (kept, total) = (to_u64(keys.len()), to_u64(total));
        let tasks = match named {
            Some(_) => keys.iter().map(chunk_task).collect::<Result<Vec<_>>>()?,
            None => split_keys(&keys, self.count_tasks(partitions, kept, total)),
        };
        Ok(TaskPlan { tasks, chunks: Some((kept, total)) })
    }

    /// Estimates the statistics of a scan; `chunks` are the number of chunks that it reads and that of all.
    fn scan_statistics(
        &self,
        projection: Option<&Vec<usize>>,
        scan: &Scan,
        is_filtered: bool,
        chunks: Option<(u64, u64)>,
    ) -> Statistics {
        let mut statistics = self.statistics.table.clone();
        if let (TableName::Vertices, Some((kept, _))) = (self.options.table, chunks) {
            let columns = self.layout.columns.iter().zip(&mut statistics.column_statistics);
            for (_, column) in columns.filter(|(column, _)| column.origin == Origin::Chunk(0)) {
                column.distinct_count = inexact_count(kept);
            }
        }
        let mut statistics = statistics.project(projection);
        if is_filtered {
            let (kept, all) = chunks.unwrap_or((1, 1));
            statistics = scale(statistics, kept, all);
            if let (Some(ids), Some(all)) = (&scan.objects, self.statistics.objects) {
                statistics = scale(statistics, to_u64(ids.len()).min(all), all);
            }
        }
        statistics
    }
}

/// The tasks of a scan; for a scan by chunks, the number of chunks that it reads and that of all.
struct TaskPlan {
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
            let translation = self.translate(filter);
            translation.map_or(TableProviderFilterPushDown::Unsupported, |known| known.support())
        };
        Ok(filters.iter().map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.table.clone())
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
        let (mut scan, chunks, is_exact) = self.plan_scan(columns, filters);
        scan.limit = limit.filter(|_| is_exact).map(to_u64);
        let partitions = state.config().target_partitions().clamp(1, MAX_PARTITIONS);
        self.resolve_groups(&mut scan).await?;
        let TaskPlan { tasks, chunks } = self.plan_tasks(&scan, chunks, partitions).await?;
        if tasks.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let statistics = self.scan_statistics(projection, &scan, !filters.is_empty(), chunks);
        let takes_join_filters = self.options.table == TableName::Vertices && self.has_one_object;
        scan.state = Some(self.store.state(self.options.level).await?);
        // Objects may name chunks that a faulty level does not have; then no chunk was pruned.
        scan.pruned = chunks.map_or(0, |(kept, all)| all.saturating_sub(kept));
        let mut source = ZvfSource::new(self.store.clone(), scan, schema)
            .with_pool(Arc::clone(&state.runtime_env().memory_pool));
        if takes_join_filters {
            source = source.with_join_filters();
        }
        let limit = limit.filter(|_| is_exact);
        Ok(data_source(source, distribute(tasks, partitions), Some(statistics), limit, false))
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
        let opened = open_level(&self.store.reader(), self.options).await?;
        let kind = kind.or_else(|| opened.kinds().first().copied());
        let is_plain = table == TableName::Vertices
            && level == 0
            && kind.is_some_and(|kind| kind == Kind::PointCloud || kind.is_chain())
            && !self.options.fragment_attributes
            && !self.options.group_attributes;
        let Some(kind) = kind.filter(|_| is_plain) else {
            let expected = "the vertices of points or lines at level 0, with their own columns; what else a file holds is added \
                            with \"zvf edit append\"";
            return Err(bad_request("INSERT", expected, &format!("{table} of level {level}")));
        };
        let sink = StoreSink::append(&self.store, &self.layout, kind);
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Returns the least number above `tasks` that gives equally many tasks to each of `partitions`,
/// or partitions to each task.
fn even_tasks(tasks: u128, partitions: usize) -> usize {
    let max_tasks = partitions * TASKS_PER_PARTITION;
    let tasks = usize::try_from(tasks).map_or(max_tasks, |tasks| tasks.saturating_add(1));
    let is_even =
        |tasks: &usize| tasks.is_multiple_of(partitions) || partitions.is_multiple_of(*tasks);
    (tasks..max_tasks).find(is_even).unwrap_or(max_tasks)
}

/// Divides all keys into at most `max_tasks` tasks of about equally many of `keys`.
fn split_keys(keys: &[ChunkKey], max_tasks: usize) -> Vec<Task> {
    let parts = max_tasks.min(keys.len());
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

/// Returns at most [`MAX_LINK_TASKS`] tasks that cover `kept`, divided at the largest gaps between its keys in `all`, and the
/// number of chunks in these tasks. Both lists ascend.
fn cover_keys(kept: &[ChunkKey], all: &[ChunkKey]) -> Result<(Vec<Task>, u64)> {
    let place = |key: &ChunkKey| all.partition_point(|other| other.components() < key.components());
    let places: Vec<usize> = kept.iter().map(place).collect();
    let mut starts: Vec<usize> = (1..kept.len()).collect();
    starts.sort_by_key(|start| Reverse(places[*start] - places[start - 1]));
    starts.truncate(MAX_LINK_TASKS - 1);
    starts.extend((!kept.is_empty()).then_some(0));
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([kept.len()]);
    let (mut tasks, mut count) = (Vec::new(), 0);
    for (start, end) in starts.iter().copied().zip(ends) {
        let cells = to_u64(places[end - 1] - places[start] + 1);
        count += cells;
        let end = key_behind(&kept[end - 1])?;
        tasks.push(Task::Chunks { first: Some(kept[start].to_string()), end, cells });
    }
    Ok((tasks, count))
}

/// Returns the task of one chunk.
fn chunk_task(key: &ChunkKey) -> Result<Task> {
    let end = key_behind(key)?;
    Ok(Task::Chunks { first: Some(key.to_string()), end, cells: 1 })
}

/// Returns the first key behind `key`, as text; `None` where it is the last one. A condition may name any key.
fn key_behind(key: &ChunkKey) -> Result<Option<String>> {
    let mut next = key.components().to_vec();
    let Some(place) = next.iter().rposition(|n| *n < i64::MAX) else { return Ok(None) };
    next[place] += 1;
    next[place + 1..].fill(i64::MIN);
    Ok(Some(ChunkKey::new(&next).map_err(external_error)?.to_string()))
}

/// Divides rows of the object index into tasks for `partitions`.
fn split_rows(rows: u64, partitions: usize) -> Vec<Task> {
    let parts = to_u64(even_tasks((rows / MIN_TASK_OBJECTS).into(), partitions)).min(rows);
    let start = |part: u64| rows / parts * part + rows % parts * part / parts;
    (0..parts).map(|part| Task::Rows { start: start(part), end: start(part + 1) }).collect()
}

/// Distributes `tasks` over `partitions`, neighbours in one partition.
fn distribute(tasks: Vec<Task>, partitions: usize) -> Vec<Vec<Task>> {
    let chunk_len = tasks.len().div_ceil(partitions).max(1);
    tasks.chunks(chunk_len).map(<[Task]>::to_vec).collect()
}

/// Maximum partitions of a scan; any number may be set.
const MAX_PARTITIONS: usize = 1 << 16;
/// Tasks per partition: several, so that idle partitions take over tasks of a slow one.
const TASKS_PER_PARTITION: usize = 4;
/// Maximum tasks of links that a condition chooses: each searches the list of all cells of links.
const MAX_LINK_TASKS: usize = 256;
/// Rows from which a task is worth its overhead.
const MIN_TASK_ROWS: u128 = 1 << 15;
/// Objects from which a task is worth its overhead.
const MIN_TASK_OBJECTS: u64 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(numbers: impl Iterator<Item = i64>) -> Vec<ChunkKey> {
        numbers.map(|n| ChunkKey::new(&[n, 0]).unwrap()).collect()
    }

    /// Returns the first chunk of each task, its exclusive end, and the number of chunks.
    fn ranges(tasks: &[Task]) -> Vec<(i64, i64, u64)> {
        let number = |key: &Option<String>| {
            key.as_ref().unwrap().split('.').next().unwrap().parse::<i64>().unwrap()
        };
        let range = |task: &Task| match task {
            Task::Chunks { first, end, cells } => (number(first), number(end), *cells),
            other => panic!("{other:?}"),
        };
        tasks.iter().map(range).collect()
    }

    #[test]
    fn partitions_have_equally_many_tasks() {
        for (tasks, partitions, even) in
            [(0, 18, 1), (3, 18, 6), (9, 18, 18), (20, 18, 36), (u128::MAX, 18, 72), (3, 2, 4)]
        {
            assert_eq!(even_tasks(tasks, partitions), even, "{tasks} for {partitions}");
        }
    }

    #[test]
    fn each_of_few_chunks_is_a_task() {
        let chunks = keys(0..10);
        let (tasks, count) = cover_keys(&keys([2, 3, 7].into_iter()), &chunks).unwrap();
        assert_eq!(ranges(&tasks), [(2, 2, 1), (3, 3, 1), (7, 7, 1)]);
        assert_eq!(count, 3);
        let Task::Chunks { end, .. } = &tasks[0] else { panic!("{tasks:?}") };
        assert_eq!(end.as_deref(), Some("2.1"));
        assert_eq!(cover_keys(&[], &chunks).unwrap(), (Vec::new(), 0));
    }

    #[test]
    fn each_key_but_the_last_has_one_behind_it() {
        for (key, behind) in [
            ("3.-1", Some("3.0")),
            ("3.9223372036854775807", Some("4.-9223372036854775808")),
            ("9223372036854775807.9223372036854775807", None),
        ] {
            let found = key_behind(&key.parse().unwrap()).unwrap();
            assert_eq!(found.as_deref(), behind, "{key}");
        }
    }

    #[test]
    fn many_chunks_are_divided_at_their_largest_gaps() {
        // 200 pairs of neighbours, ten chunks apart.
        let chunks = keys(0..2000);
        let needed = keys((0..200).flat_map(|n| [10 * n, 10 * n + 1]));
        let (tasks, count) = cover_keys(&needed, &chunks).unwrap();
        assert_eq!((tasks.len(), count), (MAX_LINK_TASKS, 400));
        // 1000 chunks, every second one: all gaps are equal, so some tasks hold chunks that are not needed.
        let needed = keys((0..1000).map(|n| 2 * n));
        let (tasks, count) = cover_keys(&needed, &chunks).unwrap();
        assert_eq!(tasks.len(), MAX_LINK_TASKS);
        assert_eq!(count, 1000 + 1000 - to_u64(MAX_LINK_TASKS));
        let ranges = ranges(&tasks);
        for key in &needed {
            let number = key.components()[0];
            let holds = |(first, end, _): &&(i64, i64, u64)| (*first..=*end).contains(&number);
            assert_eq!(ranges.iter().filter(holds).count(), 1, "{number}");
        }
    }
}

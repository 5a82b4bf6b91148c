//! Compares SQL with `zvf query` on one store: both must give the same answers.
//!
//! The expected values are computed from answers without conditions, so that errors of filter pushdown or of the division
//! into tasks cannot affect both sides in the same way.

#[path = "joined.rs"]
mod joined;
#[path = "values.rs"]
mod values;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures_util::stream::{self, StreamExt as _};
use zvf::inspect::GroupView;
use zvf::{Batch, Bounds, Columns, Kind, LevelId, Query, Reader};
use zvf_datafusion::{StoreHandle, TableName, TableOptions, ZvfTable};

/// The result of the comparison of a store.
#[derive(Debug, Default)]
struct Verdict {
    /// Number of equal answers.
    passed: usize,
    /// The differences, one line each.
    failed: Vec<String>,
}

impl Verdict {
    /// Compares two numbers; NaN equals NaN.
    fn same(&mut self, label: &str, sql: f64, expected: f64) {
        // Sums are computed in different orders.
        let is_near = sql == expected || (sql - expected).abs() <= 1e-6 * expected.abs().max(1.0);
        if is_near || (sql.is_nan() && expected.is_nan()) {
            self.passed += 1;
        } else {
            self.failed.push(format!("{label}: SQL gives {sql}, the store {expected}"));
        }
    }

    /// Records an error of SQL, which is correct if the store fails, too.
    fn record(&mut self, label: &str, is_equal: bool, error: &str) {
        match is_equal {
            true => self.passed += 1,
            false => self.failed.push(format!("{label}: {error}")),
        }
    }
}

/// Compares stores by path, each in its own session, several at once; returns the number of equal answers, and the
/// differences.
pub(crate) async fn check_all(
    stores: impl IntoIterator<Item = (String, SessionContext)>,
) -> (usize, Vec<String>) {
    let checks = stores.into_iter().map(|(path, context)| async move {
        let store = path.clone();
        (path, tokio::spawn(async move { check(&store, &context).await }).await.unwrap())
    });
    let (mut passed, mut failed) = (0, Vec::new());
    for (path, verdict) in stream::iter(checks).buffer_unordered(4).collect::<Vec<_>>().await {
        let lines = match verdict {
            Ok(verdict) => {
                passed += verdict.passed;
                verdict.failed
            }
            Err(error) => vec![error.to_string()],
        };
        failed.extend(lines.into_iter().map(|line| format!("{path}: {line}")));
    }
    (passed, failed)
}

/// Compares all tables of the store at `path`.
async fn check(path: &str, context: &SessionContext) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let store = StoreHandle::open(path, zvf::OpenOptions::default()).await?;
    let reader = store.reader();
    let numbers: Vec<u32> = reader.store().level_numbers().to_vec();
    let mut rows = 0;
    for level in numbers {
        let kinds = reader.level(LevelId(level)).await.map_err(fault)?.kinds().to_vec();
        rows += u32::try_from(kinds.len().max(1)).unwrap();
        for kind in kinds {
            let level_check = LevelCheck { store: &store, reader: &reader, level, kind };
            level_check.check_all(context, &mut verdict).await?;
        }
    }
    let options = TableOptions { table: TableName::Levels, ..TableOptions::default() };
    replace(context, "l", ZvfTable::open(store, options).await?)?;
    verdict.same("levels", number(context, "SELECT count(*) FROM l").await?, f64::from(rows));
    Ok(verdict)
}

fn fault(error: impl Into<zvf::Error>) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error.into()))
}

/// Registers a table; replaces one of the same name.
fn replace(context: &SessionContext, name: &str, table: ZvfTable) -> Result<()> {
    context.deregister_table(name)?;
    context.register_table(name, Arc::new(table)).map(drop)
}

/// Returns the single number of a statement; NaN for null or no row.
pub(crate) async fn number(context: &SessionContext, sql: &str) -> Result<f64> {
    Ok(first_row(context, sql).await?.first().copied().unwrap_or(f64::NAN))
}

/// Returns the numbers of the first row, NaN for null; none without a row.
async fn first_row(context: &SessionContext, sql: &str) -> Result<Vec<f64>> {
    let batches = context.sql(sql).await?.collect().await?;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0);
    let number = |column: &ArrayRef| {
        let numbers = cast(column, &DataType::Float64)?;
        Ok(numbers.as_primitive::<Float64Type>().iter().next().flatten().unwrap_or(f64::NAN))
    };
    batch.into_iter().flat_map(|batch| batch.columns()).map(number).collect()
}

/// A comparison of the tables of one kind of geometry at one level.
struct LevelCheck<'a> {
    store: &'a StoreHandle,
    reader: &'a Reader,
    level: u32,
    kind: Kind,
}

impl LevelCheck<'_> {
    fn query(&self) -> Query {
        Query::all().at_level(LevelId(self.level)).of_kind(self.kind)
    }

    fn name(&self, label: &str) -> String {
        format!("level {}, {}, {label}", self.level, self.kind)
    }

    /// Registers a table; returns whether the level has it.
    async fn add(&self, context: &SessionContext, name: &str, table: TableName) -> Result<bool> {
        let options = TableOptions {
            table,
            level: self.level,
            kind: Some(self.kind),
            ..TableOptions::default()
        };
        match ZvfTable::open(self.store.clone(), options).await {
            Ok(table) => replace(context, name, table).map(|()| true),
            Err(datafusion::error::DataFusionError::Plan(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn check_all(&self, context: &SessionContext, verdict: &mut Verdict) -> Result<()> {
        assert!(self.add(context, "v", TableName::Vertices).await?);
        let stored = self.query().vertices_only().with_owners().columns(Columns::None);
        let answer = self.reader.run(&stored).await.map_err(fault)?;
        self.vertices(context, &answer.batch, verdict).await?;
        self.boxes(context, &answer.batch, verdict).await?;
        self.attributes(context, verdict).await?;
        self.vertex_values(context, verdict).await?;
        if self.add(context, "o", TableName::Objects).await? {
            self.objects(context, &answer.batch, verdict).await?;
            self.object_values(context, verdict).await?;
        }
        if self.add(context, "g", TableName::Groups).await? {
            self.groups(context, verdict).await?;
            self.group_values(context, verdict).await?;
            self.vertices_of_groups(context, &answer.batch, verdict).await?;
        }
        self.attributes_of_fragments(context, verdict).await?;
        if self.add(context, "e", TableName::Links).await? {
            self.links(context, verdict).await?;
        }
        Ok(())
    }

    async fn vertices(
        &self,
        context: &SessionContext,
        batch: &Batch,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let sql = "SELECT count(*) FROM v";
        verdict.same(&self.name(sql), number(context, sql).await?, count(batch.len()));
        // `zvf query` without options returns the points of a point cloud.
        if self.kind == Kind::PointCloud {
            let counts = self.reader.count(&self.query()).await.map_err(fault)?;
            verdict.same(
                &self.name("zvf query --count"),
                count(batch.len()),
                counts.vertices as f64,
            );
        }
        for (axis, name) in axes(self.reader).iter().enumerate() {
            let sql = format!("SELECT sum(CAST({name} AS DOUBLE)) FROM v");
            let expected: f64 = values(batch, axis).sum();
            if !batch.is_empty() {
                verdict.same(&self.name(&sql), number(context, &sql).await?, expected);
            }
        }
        Ok(())
    }

    /// Compares boxes in several parts of the data, on all axes and on one.
    async fn boxes(
        &self,
        context: &SessionContext,
        batch: &Batch,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let names = axes(self.reader);
        let ends: Vec<(f64, f64)> = (0..names.len()).map(|axis| extent(batch, axis)).collect();
        if batch.is_empty() || ends.iter().any(|(low, high)| !(high - low).is_finite()) {
            return Ok(());
        }
        for (from, to) in [(0.0, 0.5), (0.25, 0.75), (0.9, 1.0), (2.0, 3.0)] {
            let sides: Vec<(f64, f64)> = ends
                .iter()
                .map(|(low, high)| (low + (high - low) * from, low + (high - low) * to))
                .collect();
            let ranges: Vec<String> = names
                .iter()
                .zip(&sides)
                .map(|(name, (low, high))| format!("{name} >= {low:?} AND {name} <= {high:?}"))
                .collect();
            let inside = |row: usize, axes: usize| {
                let test = |(axis, (low, high)): (usize, &(f64, f64))| {
                    batch.positions().float(row, axis).is_some_and(|x| x >= *low && x <= *high)
                };
                sides.iter().enumerate().take(axes).all(test)
            };
            for axes in [1, names.len()] {
                let sql = format!("SELECT count(*) FROM v WHERE {}", ranges[..axes].join(" AND "));
                let expected = (0..batch.len()).filter(|row| inside(*row, axes)).count();
                verdict.same(&self.name(&sql), number(context, &sql).await?, count(expected));
            }
            let (low, high): (Vec<f64>, Vec<f64>) = sides.iter().copied().unzip();
            let Ok(bounds) = Bounds::new(&low, &high) else { continue };
            let query = self.query().in_region(bounds).vertices_only();
            let actual = self.reader.count(&query).await.map_err(fault)?.vertices;
            let expected = (0..batch.len()).filter(|row| inside(*row, names.len())).count();
            verdict.same(&self.name("the same box"), actual as f64, count(expected));
        }
        Ok(())
    }

    /// Compares averages of attributes and conditions on them, with and without filter pushdown.
    async fn attributes(&self, context: &SessionContext, verdict: &mut Verdict) -> Result<()> {
        let schema = context.table("v").await?.schema().inner().clone();
        for field in schema.fields().iter().filter(|field| field.data_type().is_numeric()) {
            let name = format!("\"{}\"", field.name());
            let sql = format!("SELECT avg(CAST({name} AS DOUBLE)) FROM v");
            let mean = match number(context, &sql).await {
                Ok(mean) => mean,
                Err(error) => {
                    self.refused(&sql, field.name(), &error.to_string(), verdict).await;
                    continue;
                }
            };
            if !mean.is_finite() {
                continue;
            }
            let literal = match field.data_type().is_integer() {
                true => format!("{}", mean.round() as i64),
                false => format!("{mean:?}"),
            };
            let conditions = ["<", "<=", ">", ">=", "="].map(|op| format!("{op} {literal}"));
            let counts = conditions.each_ref().map(|is| format!("count(*) FILTER (WHERE a {is})"));
            // Filters are not pushed below a limit, so the engine evaluates these conditions.
            let engine_sql = format!(
                "SELECT {} FROM (SELECT {name} AS a FROM v LIMIT 1000000000)",
                counts.join(", ")
            );
            let expected = first_row(context, &engine_sql).await?;
            for (condition, expected) in conditions.iter().zip(expected) {
                let pushed = format!("SELECT count(*) FROM v WHERE {name} {condition}");
                verdict.same(&self.name(&pushed), number(context, &pushed).await?, expected);
            }
        }
        Ok(())
    }

    /// Checks that the store cannot read an attribute that SQL cannot read.
    async fn refused(&self, sql: &str, field: &str, error: &str, verdict: &mut Verdict) {
        let name = field.strip_prefix("vertex.").unwrap_or(field).to_owned();
        let query = self.query().vertices_only().columns(Columns::Named(vec![name.clone()]));
        let is_attribute = !["object", "chunk", "row"].contains(&&*name)
            && !axes(self.reader).contains(&format!("\"{name}\""));
        let refused = self.reader.run(&query).await.is_err();
        verdict.record(&self.name(sql), is_attribute && refused, error);
    }

    async fn objects(
        &self,
        context: &SessionContext,
        batch: &Batch,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let level =
            self.reader.level_of_kind(LevelId(self.level), self.kind).await.map_err(fault)?;
        let Some(index) = level.objects().await.map_err(fault)? else { return Ok(()) };
        let sql = "SELECT count(*) FROM o";
        verdict.same(&self.name(sql), number(context, sql).await?, index.slots() as f64);
        let ids = index.ids(0..index.slots()).await.map_err(fault)?;
        let sql = "SELECT sum(object) FROM o";
        if !ids.is_empty() {
            let expected: f64 = ids.iter().map(|id| id.0 as f64).sum();
            verdict.same(&self.name(sql), number(context, sql).await?, expected);
        }
        let mut owned: BTreeMap<i64, usize> = BTreeMap::new();
        for owner in batch.vertex_objects().unwrap_or_default().iter().flatten() {
            *owned.entry(owner.0).or_default() += 1;
        }
        let sql = "SELECT count(*) FROM v JOIN o ON v.object = o.object";
        let total: usize = owned.values().sum();
        verdict.same(&self.name(sql), number(context, sql).await?, count(total));
        let sql = "SELECT count(DISTINCT object) FROM v";
        verdict.same(&self.name(sql), number(context, sql).await?, count(owned.len()));
        let mut samples: Vec<i64> =
            owned.keys().copied().step_by((owned.len() / 3).max(1)).take(4).collect();
        // If objects share vertices although the store denies it, SQL answers conditions on objects from manifests.
        let mut denied = Vec::new();
        for id in &samples {
            let query = self.query().vertices_only().of_objects([zvf::ObjectId(*id)]);
            let by_manifest = self.reader.count(&query).await.map_err(fault)?.vertices;
            if !level.node().meta().shared_fragments && by_manifest as f64 != count(owned[id]) {
                denied.push(*id);
            }
        }
        samples.retain(|id| !denied.contains(id));
        for id in &samples {
            let sql = format!("SELECT count(*) FROM v WHERE object = {id}");
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(owned[id]));
            let sql = format!("SELECT count(*) FROM o WHERE object = {id}");
            let rows = ids.iter().filter(|row_id| row_id.0 == *id).count();
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(rows));
        }
        // `zvf query --objects` for chains that do not share fragments.
        if self.kind.is_chain() && !level.node().meta().shared_fragments {
            let query = self.query().of_objects(samples.iter().copied().map(zvf::ObjectId));
            let counts = self.reader.count(&query).await.map_err(fault)?;
            let expected: usize = samples.iter().map(|id| owned[id]).sum();
            verdict.same(
                &self.name("zvf query --objects"),
                counts.vertices as f64,
                count(expected),
            );
        }
        let list: Vec<String> = samples.iter().map(ToString::to_string).collect();
        if !list.is_empty() {
            let sql = format!("SELECT count(*) FROM v WHERE object IN ({})", list.join(", "));
            let expected: usize = samples.iter().map(|id| owned[id]).sum();
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(expected));
        }
        Ok(())
    }

    async fn groups(&self, context: &SessionContext, verdict: &mut Verdict) -> Result<()> {
        let level =
            self.reader.level_of_kind(LevelId(self.level), self.kind).await.map_err(fault)?;
        let groups = GroupView::read(&level, None, 0).await.map_err(fault)?;
        let sql = "SELECT count(*) FROM g";
        verdict.same(&self.name(sql), number(context, sql).await?, count(groups.len()));
        if groups.is_empty() {
            return Ok(());
        }
        let sql = "SELECT sum(members) FROM g";
        let members: u64 = groups.iter().map(|group| group.members).sum();
        verdict.same(&self.name(sql), number(context, sql).await?, members as f64);
        let is_listed = groups.iter().all(|group| group.range.is_none());
        for group in groups.iter().step_by((groups.len() / 3).max(1)) {
            let statements = [
                format!("SELECT sum(members) FROM g WHERE \"group\" = {}", group.group),
                format!("SELECT sum(members) FROM g WHERE \"group\" IN ({}, 12345)", group.group),
            ];
            for sql in statements {
                verdict.same(&self.name(&sql), number(context, &sql).await?, group.members as f64);
            }
        }
        if self.add(context, "m", TableName::Members).await? && is_listed {
            for group in groups.iter().step_by((groups.len() / 3).max(1)) {
                let sql = format!("SELECT count(*) FROM m WHERE \"group\" = {}", group.group);
                verdict.same(&self.name(&sql), number(context, &sql).await?, group.members as f64);
            }
            let sql = "SELECT count(*) FROM m JOIN g ON m.\"group\" = g.\"group\"";
            verdict.same(&self.name(sql), number(context, sql).await?, members as f64);
        }
        Ok(())
    }

    async fn links(&self, context: &SessionContext, verdict: &mut Verdict) -> Result<()> {
        let batch = self.reader.run(&self.query().with_places()).await.map_err(fault)?.batch;
        let links = batch.elements().map_or(0, zvf::Elements::len);
        let sql = "SELECT count(*) FROM e";
        verdict.same(&self.name(sql), number(context, sql).await?, count(links));
        let schema = context.table("e").await?.schema().inner().clone();
        let ends: Vec<String> = schema
            .fields()
            .iter()
            .filter_map(|field| Some(field.name().strip_suffix("_chunk")?.to_owned()))
            .collect();
        for (at, end) in ends.iter().enumerate() {
            let sql = format!(
                "SELECT count(*) FROM e JOIN v ON v.chunk = e.{end}_chunk AND v.row = e.{end}_row"
            );
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(links));
            let vertices = batch.elements().map(|elements| {
                elements.iter().filter_map(|rows| rows.get(at).copied()).collect::<HashSet<_>>()
            });
            let sql =
                format!("SELECT count(*) FROM (SELECT DISTINCT {end}_chunk, {end}_row FROM e)");
            let distinct = vertices.map_or(0, |vertices| vertices.len());
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(distinct));
        }
        self.link_values(context, &ends, verdict).await?;
        self.link_conditions(context, &ends, verdict).await?;
        Ok(())
    }
}

fn axes(reader: &Reader) -> Vec<String> {
    let axes = reader.store().root().axes();
    axes.iter().map(|axis| format!("\"{}\"", axis.name)).collect()
}

fn values(batch: &Batch, axis: usize) -> impl Iterator<Item = f64> {
    (0..batch.len()).filter_map(move |row| batch.positions().float(row, axis))
}

fn extent(batch: &Batch, axis: usize) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    values(batch, axis).fold(start, |(low, high), x| (low.min(x), high.max(x)))
}

fn count(count: usize) -> f64 {
    count as f64
}

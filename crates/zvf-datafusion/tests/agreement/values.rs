//! Compares values of every attribute and ends of links in SQL with those of the library.
//!
//! Values are weighted with the number of their row, so that the sum detects swapped rows.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use zvf::model::{LevelReader, RowAttribute};
use zvf::query::LOCATION_FIELD;
use zvf::{Batch, Columns, Elements, LevelId};

use super::{LevelCheck, Verdict, axes, count, fault, number};

impl LevelCheck<'_> {
    pub(super) async fn level(&self) -> Result<LevelReader> {
        self.reader.level_of_kind(LevelId(self.level), self.kind).await.map_err(fault)
    }

    /// Compares the sum of each attribute of vertices.
    pub(super) async fn vertex_values(
        &self,
        context: &SessionContext,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let axes = axes(self.reader);
        for (column, operand) in numbers(context, "v").await? {
            let is_location =
                ["object", "row"].contains(&&*column) || axes.contains(&format!("\"{column}\""));
            if is_location {
                continue;
            }
            let name = column.strip_prefix("vertex.").unwrap_or(&column).to_owned();
            let columns = Columns::Named(vec![name.clone()]);
            let query = self.query().vertices_only().columns(columns);
            let sql = format!("SELECT sum(CAST({operand} AS DOUBLE)) FROM v");
            let expected = self.reader.run(&query).await.map(|answer| {
                let column = answer.batch.field(&name).map(|field| &field.column);
                let value = |row| column.and_then(|column| column.float(row, 0));
                sum((0..answer.batch.len()).filter_map(value))
            });
            self.compare(context, &sql, expected.map_err(fault), verdict).await;
        }
        Ok(())
    }

    /// Compares the attributes of objects, and their numbers of fragments and chunks.
    pub(super) async fn object_values(
        &self,
        context: &SessionContext,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let level = self.level().await?;
        let Some(index) = level.objects().await.map_err(fault)? else { return Ok(()) };
        let rows: Vec<u64> = (0..index.slots()).collect();
        for (column, operand) in numbers(context, "o").await? {
            if ["object", "row", "fragments", "chunks"].contains(&&*column) {
                continue;
            }
            let name = column.strip_prefix("object.").unwrap_or(&column);
            let attribute = level.object_attribute(name).await.map_err(fault)?;
            let expected = weighted_sum(attribute, &rows).await;
            let sql =
                format!("SELECT sum(CAST({operand} AS DOUBLE) * (CAST(row AS DOUBLE) + 1)) FROM o");
            self.compare(context, &sql, expected, verdict).await;
        }
        let manifests = index.manifests(&rows).await.map_err(fault);
        for (column, of_chunks) in [("fragments", false), ("chunks", true)] {
            let expected = manifests.as_ref().map_err(ToString::to_string).and_then(|manifests| {
                let counted = manifests.iter().zip(&rows).map(|(manifest, row)| {
                    let references = manifest.references();
                    let mut chunks: Vec<String> =
                        references.map(|(key, _)| key.to_string()).collect();
                    if of_chunks {
                        chunks.sort_unstable();
                        chunks.dedup();
                    }
                    Ok(count(chunks.len()) * (*row as f64 + 1.0))
                });
                Ok(sum(counted.collect::<Result<Vec<f64>, String>>()?.into_iter()))
            });
            let sql =
                format!("SELECT sum(CAST({column} AS DOUBLE) * (CAST(row AS DOUBLE) + 1)) FROM o");
            let expected = expected.map_err(datafusion::error::DataFusionError::Execution);
            self.compare(context, &sql, expected, verdict).await;
        }
        Ok(())
    }

    /// Compares the attributes of groups.
    pub(super) async fn group_values(
        &self,
        context: &SessionContext,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let level = self.level().await?;
        let Some(groups) = level.groups().await.map_err(fault)? else { return Ok(()) };
        let rows: Vec<u64> = (0..groups.len()).collect();
        for (column, operand) in numbers(context, "g").await? {
            if ["group", "members"].contains(&&*column) {
                continue;
            }
            // An attribute named like a column has its scope as a prefix.
            let name = column.strip_prefix("group.").unwrap_or(&column);
            let attribute = level.group_attribute(name).await.map_err(fault)?;
            let expected = weighted_sum(attribute, &rows).await;
            let sql = format!(
                "SELECT sum(CAST({operand} AS DOUBLE) * (CAST(\"group\" AS DOUBLE) + 1)) FROM g"
            );
            self.compare(context, &sql, expected, verdict).await;
        }
        Ok(())
    }

    /// Compares the attributes of links, weighted with the rows of their first and last end.
    pub(super) async fn link_values(
        &self,
        context: &SessionContext,
        ends: &[String],
        verdict: &mut Verdict,
    ) -> Result<()> {
        let end_columns: Vec<String> = ends
            .iter()
            .flat_map(|end| END_SUFFIXES.map(|suffix| format!("{end}_{suffix}")))
            .collect();
        for (column, operand) in numbers(context, "e").await? {
            if end_columns.contains(&column) {
                continue;
            }
            let name = column.strip_prefix("link.").unwrap_or(&column);
            let columns = Columns::Named(vec![format!("link.{name}")]);
            let query = self.query().with_places().columns(columns);
            let expected = self.reader.run(&query).await.map(|answer| {
                let batch = answer.batch;
                let elements = batch.elements();
                sum(elements.into_iter().flat_map(|elements| link_terms(&batch, elements)))
            });
            let [source, target] = [&ends[0], ends.last().unwrap()];
            let sql = format!(
                "SELECT sum(CAST({operand} AS DOUBLE) * (1 + CAST({source}_row AS DOUBLE) + 3 * CAST({target}_row AS DOUBLE))) \
                 FROM e"
            );
            self.compare(context, &sql, expected.map_err(fault), verdict).await;
        }
        Ok(())
    }

    /// Compares conditions on the chunk and the object of each end, which prune cells of links.
    pub(super) async fn link_conditions(
        &self,
        context: &SessionContext,
        ends: &[String],
        verdict: &mut Verdict,
    ) -> Result<()> {
        let query = self.query().with_places().with_owners();
        let batch = self.reader.run(&query).await.map_err(fault)?.batch;
        let Some(elements) = batch.elements() else { return Ok(()) };
        let chunks = self.level().await?.chunks().await.map_err(fault)?;
        let has_objects = self.level().await?.objects().await.map_err(fault)?.is_some();
        for (at, end) in ends.iter().enumerate() {
            let chunk_of = |element: &[usize]| location(&batch, element[at]).0;
            let owner =
                |element: &[usize]| batch.vertex_objects().and_then(|owners| owners[element[at]]);
            for sample in elements.iter().step_by((elements.len() / 3).max(1)) {
                let chunk = chunk_of(sample);
                let key = chunks.get(chunk as usize).unwrap();
                let expected = elements.iter().filter(|link| chunk_of(link) == chunk).count();
                let sql = format!("SELECT count(*) FROM e WHERE {end}_chunk = '{key}'");
                self.compare(context, &sql, Ok(count(expected)), verdict).await;
                let Some(object) = owner(sample).filter(|_| has_objects) else { continue };
                let expected = elements.iter().filter(|link| owner(link) == Some(object)).count();
                let sql = format!("SELECT count(*) FROM e WHERE {end}_object = {}", object.0);
                self.compare(context, &sql, Ok(count(expected)), verdict).await;
            }
        }
        Ok(())
    }

    /// Compares a number of SQL with the expected one; both may fail, but not only one.
    async fn compare(
        &self,
        context: &SessionContext,
        sql: &str,
        expected: Result<f64>,
        verdict: &mut Verdict,
    ) {
        match (number(context, sql).await, expected) {
            (Ok(actual), Ok(expected)) => verdict.same(&self.name(sql), actual, expected),
            (Err(_), Err(_)) => verdict.record(&self.name(sql), true, ""),
            (actual, expected) => {
                let difference = format!("SQL gives {actual:?}, the store {expected:?}");
                verdict.record(&self.name(sql), false, &difference);
            }
        }
    }
}

/// Suffixes of the columns of an end.
const END_SUFFIXES: [&str; 3] = ["chunk", "row", "object"];

/// Returns the numeric columns of a table: their name, and an SQL expression for their value or the first item of a list.
async fn numbers(context: &SessionContext, table: &str) -> Result<Vec<(String, String)>> {
    let schema = context.table(table).await?.schema().inner().clone();
    let number = |field: &datafusion::arrow::datatypes::FieldRef| {
        let name = field.name().clone();
        match field.data_type() {
            DataType::FixedSizeList(item, _) if item.data_type().is_numeric() => {
                let operand = format!("\"{name}\"[1]");
                Some((name, operand))
            }
            data_type if data_type.is_numeric() => {
                let quoted = format!("\"{name}\"");
                Some((name, quoted))
            }
            _ => None,
        }
    };
    Ok(schema.fields().iter().filter_map(number).collect())
}

/// Returns the sum; NaN for no values, like `number`.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value)).unwrap_or(f64::NAN)
}

/// Returns the sum of the values of rows, each weighted with the number of its row plus 1.
async fn weighted_sum(attribute: Option<RowAttribute>, rows: &[u64]) -> Result<f64> {
    let attribute = attribute.expect("the table has a column of this attribute");
    let values = attribute.rows(rows).await.map_err(fault)?;
    let present = rows.iter().enumerate().filter(|(at, _)| values.is_present(*at));
    Ok(sum(
        present.filter_map(|(at, row)| Some(values.column().float(at, 0)? * (*row as f64 + 1.0)))
    ))
}

/// Returns the chunk and the row of a vertex of an answer with locations.
fn location(batch: &Batch, vertex: usize) -> (u32, u32) {
    let bytes: [u8; 8] =
        batch.field(LOCATION_FIELD).unwrap().column.row(vertex).try_into().unwrap();
    let packed = u64::from_le_bytes(bytes);
    ((packed >> 32) as u32, packed as u32)
}

/// Returns the terms of the weighted sum of an attribute of links.
fn link_terms<'a>(batch: &'a Batch, elements: &'a Elements) -> impl Iterator<Item = f64> + 'a {
    elements.iter().enumerate().filter_map(move |(at, ends)| {
        let value = elements.fields().first()?.column.float(at, 0)?;
        let row = |end: usize| f64::from(location(batch, end).1);
        Some(value * (1.0 + row(*ends.first()?) + 3.0 * row(*ends.last()?)))
    })
}

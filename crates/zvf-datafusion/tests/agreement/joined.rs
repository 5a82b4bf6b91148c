//! Compares columns of fragments and groups of vertices, and joins that select objects.

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use zvf::model::{LevelReader, Members};
use zvf::{Batch, Columns, LevelId, ObjectId};
use zvf_datafusion::{TableOptions, ZvfTable};

use super::{LevelCheck, Verdict, count, fault, number, replace};

impl LevelCheck<'_> {
    /// Registers the table of vertices as `name`, with the columns that `word` adds.
    async fn add_vertices(&self, context: &SessionContext, name: &str, word: &str) -> Result<()> {
        let mut options =
            TableOptions { level: self.level, kind: Some(self.kind), ..TableOptions::default() };
        assert!(options.set(word, "true")?);
        replace(context, name, ZvfTable::open(self.store.clone(), options).await?)
    }

    /// Compares vertices by group: by a column of lists, and by a join with the members. The expected counts come from the
    /// members and the owners of all vertices.
    pub(super) async fn vertices_of_groups(
        &self,
        context: &SessionContext,
        batch: &Batch,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let level =
            self.reader.level_of_kind(LevelId(self.level), self.kind).await.map_err(fault)?;
        let Some(groups) = level.groups().await.map_err(fault)? else { return Ok(()) };
        let owners = batch.vertex_objects().unwrap_or_default();
        if groups.is_empty() || self.denies_sharing(&level, owners).await? {
            return Ok(());
        }
        self.add_vertices(context, "vg", "group_attributes").await?;
        let indices: Vec<u64> = (0..groups.len()).collect();
        let members = groups.members(&indices).await.map_err(fault)?;
        let inside = |members: &[&Members]| {
            let is_inside = |id: &&ObjectId| members.iter().any(|members| members.contains(**id));
            count(owners.iter().flatten().filter(is_inside).count())
        };
        let lists: f64 = members.iter().map(|members| inside(&[members])).sum();
        let sql = "SELECT sum(cardinality(groups)) FROM vg";
        let actual = number(context, sql).await?;
        // The sum of no rows is null.
        verdict.same(&self.name(sql), if batch.is_empty() { 0.0 } else { actual }, lists);
        for (group, ids) in indices.iter().zip(&members).step_by((members.len() / 3).max(1)) {
            for sql in [
                format!("SELECT count(*) FROM vg WHERE array_has(groups, {group})"),
                format!("SELECT count(*) FROM vg WHERE {group} = ANY(groups)"),
                format!("SELECT count(*) FROM vg WHERE array_has_any(groups, [{group}, 12345])"),
            ] {
                verdict.same(&self.name(&sql), number(context, &sql).await?, inside(&[ids]));
            }
            let name = groups.name(*group).unwrap_or_default();
            let is_named =
                |(index, _): &(&u64, &Members)| groups.name(**index).as_ref() == Some(&name);
            let named = indices.iter().zip(&members).filter(is_named).map(|(_, members)| members);
            let named: Vec<&Members> = named.collect();
            let name = name.replace('\'', "''");
            let sql = format!("SELECT count(*) FROM vg WHERE array_has(\"group.name\", '{name}')");
            verdict.same(&self.name(&sql), number(context, &sql).await?, inside(&named));
            // The join reads its smaller side first and filters the other one.
            let sql = format!(
                "SELECT count(*) FROM v WHERE object IN (SELECT object FROM m WHERE \"group\" = {group})"
            );
            verdict.same(&self.name(&sql), number(context, &sql).await?, inside(&[ids]));
        }
        Ok(())
    }

    /// Returns whether objects share vertices although the store denies it; then SQL finds vertices by the manifest.
    async fn denies_sharing(
        &self,
        level: &LevelReader,
        owners: &[Option<ObjectId>],
    ) -> Result<bool> {
        if level.node().meta().shared_fragments {
            return Ok(false);
        }
        let mut owned: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for owner in owners.iter().flatten() {
            *owned.entry(*owner).or_default() += 1;
        }
        for (id, rows) in owned {
            let query = self.query().vertices_only().of_objects([id]);
            if self.reader.count(&query).await.map_err(fault)?.vertices as f64 != count(rows) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares attributes of fragments as columns of vertices, and conditions on them.
    pub(super) async fn attributes_of_fragments(
        &self,
        context: &SessionContext,
        verdict: &mut Verdict,
    ) -> Result<()> {
        self.add_vertices(context, "vf", "fragment_attributes").await?;
        let schema = context.table("vf").await?.schema().inner().clone();
        for field in schema.fields() {
            let name = field.name();
            if !name.starts_with("fragment.") || !field.data_type().is_numeric() {
                continue;
            }
            let query = self.query().vertices_only().columns(Columns::Named(vec![name.clone()]));
            let sql = format!("SELECT sum(CAST(\"{name}\" AS DOUBLE)) FROM vf");
            let batch = match (self.reader.run(&query).await, number(context, &sql).await) {
                (Ok(answer), Ok(actual)) => {
                    let batch = answer.batch;
                    let values = values(&batch, name);
                    let sum = if values.is_empty() { f64::NAN } else { values.iter().sum() };
                    verdict.same(&self.name(&sql), actual, sum);
                    batch
                }
                (Err(_), Err(_)) => {
                    verdict.record(&self.name(&sql), true, "");
                    continue;
                }
                (_, actual) => {
                    verdict.record(&self.name(&sql), false, &format!("{actual:?}"));
                    continue;
                }
            };
            let values = values(&batch, name);
            // Larger ids are not exact as floats.
            let is_exact = |value: &f64| value.abs() < 9_007_199_254_740_992.0;
            let Some(sample) = values.first().copied().filter(is_exact) else { continue };
            let literal = match field.data_type().is_integer() {
                true => format!("{}", sample as i64),
                false => format!("{sample:?}"),
            };
            let expected = values.iter().filter(|value| **value == sample).count();
            let sql = format!("SELECT count(*) FROM vf WHERE \"{name}\" = {literal}");
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(expected));
            let expected = values.iter().filter(|value| **value < sample).count();
            let sql = format!("SELECT count(*) FROM vf WHERE \"{name}\" < {literal}");
            verdict.same(&self.name(&sql), number(context, &sql).await?, count(expected));
        }
        Ok(())
    }
}

/// Returns the values of a column of an answer.
fn values(batch: &Batch, name: &str) -> Vec<f64> {
    let column = batch.field(name).map(|field| &field.column);
    let values = column.map(|column| (0..batch.len()).filter_map(move |row| column.float(row, 0)));
    values.map(Iterator::collect).unwrap_or_default()
}

//! One file for each object: an output whose name has `{id}` or `{name}`.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use zvf::convert::Format;
use zvf::export::Export;
use zvf::model::{ObjectId, Value};
use zvf::{BadQuery, Error, Kind, LevelId, Reader};

use super::{Convert, StoreQueries};
use crate::commands::job::{self, Job};
use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::target::check_overwrite;

impl Convert {
    /// Returns whether each object gets a file of its own.
    pub(super) fn is_for_each_object(&self) -> bool {
        self.output.contains("{id}") || self.output.contains("{name}")
    }

    /// Writes the objects of a store, each to a file of its own.
    pub(super) async fn convert_objects(
        &self,
        session: &Session,
        store: &str,
        format: Format,
    ) -> CommandResult {
        let queries = self.plan_queries(session, store, false).await?;
        let StoreQueries { reader, query, kinds, mut notes } = queries;
        let Some(kind) = kinds.first().copied() else { return Ok(Outcome::Clean) };
        let asked = query.objects.clone();
        let files = self.name_files(&reader, kind, asked).await?;
        let mut is_repeated = false;
        for (id, output) in files {
            let export = Export::open(&reader, query.clone().of_objects([id]), Some(kind)).await?;
            let export = export.count_expected().await?;
            if export.expected_vertices == Some(0) {
                continue; // removed, or not in the region
            }
            if let Some(folder) = Path::new(&output).parent().filter(|_| !self.dry_run) {
                std::fs::create_dir_all(folder)?;
            }
            let job = Job { output, is_repeated, ..self.job() };
            let sources: Vec<job::Input> = vec![(Box::new(export), None)];
            let sources = (sources, std::mem::take(&mut notes));
            self.write(session, (job, format), sources).await?;
            is_repeated = true;
        }
        Ok(Outcome::Clean)
    }

    /// Returns the file of each object that is asked for, or of all.
    async fn name_files(
        &self,
        reader: &Reader,
        kind: Kind,
        asked: Option<Vec<ObjectId>>,
    ) -> anyhow::Result<Vec<(ObjectId, String)>> {
        let level = reader.level_of_kind(LevelId(0), kind).await?;
        let index = level.objects().await?;
        let Some(index) = index else { return refuse("the store has no objects") };
        let ids = match asked {
            Some(asked) => BTreeSet::from_iter(asked).into_iter().collect(),
            None => index.ids_of(&(0..index.slots()).collect::<Vec<u64>>()).await?,
        };
        let rows = index.find(&ids).await?.into_iter().zip(&ids);
        let rows = rows.map(|(row, id)| row.ok_or(BadQuery::NoSuchObject(*id)));
        let rows: Vec<u64> = rows.collect::<Result<_, _>>().map_err(Error::from)?;
        let names = match level.object_attribute("name").await? {
            Some(names) => Some(names.rows(&rows).await?),
            None if self.output.contains("{name}") => {
                return refuse("the objects of the store have no attribute \"name\"; use {id}");
            }
            None => None,
        };
        let (mut files, mut taken) = (Vec::new(), HashSet::new());
        for (row, id) in ids.into_iter().enumerate() {
            let name = match names.as_ref().map(|names| names.column().value(row, 0)) {
                Some(Value::Text(name)) if !name.is_empty() => name,
                _ => id.0.to_string(),
            };
            let name = zvf::metadata::path_segment(&name);
            let output = self.output.replace("{id}", &id.0.to_string()).replace("{name}", &name);
            if !taken.insert(output.clone()) {
                return refuse(format!(
                    "two objects would be written to {output}; use {{id}}, which is unique"
                ));
            }
            if !self.dry_run {
                check_overwrite(Path::new(&output), self.options.overwrite)?;
            }
            files.push((id, output));
        }
        Ok(files)
    }
}

//! Converts a store to many files, or many files to as many: one part per task.
//!
//! ```text
//! points                ranges of chunks
//! lines with objects    ranges of rows of the object index
//! what has links        one task, or ranges of rows of the object index where that is asked for
//! files                 one task each
//! ```
//!
//! Ranges of chunks and of lines lose nothing: concatenated, the parts are the whole. Edges and
//! faces may cross chunks and may join objects, so separate objects may be less than the whole.
//!
//! Not here: writing a part (the caller, using the arguments in the plan); the location of parts
//! until the end ([`super::parts`]).

use std::fs;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_model::{Kind, LevelReader};
use zvf_query::predicate::Scope;
use zvf_query::{Query, Reader, UnknownIds};
use zvf_store::OpenOptions;

use super::folder::new_run;
use super::identity::StoreIdentity;
use super::parts::{FoundPart, PartRun, PartsFolder, WrittenPart};
use super::record::{Record, key};
use super::run_folder::path_error;
use super::{Job, Plan, TaskLine, TaskOutcome, Tasks};
use crate::Error;
use crate::error::bad_request_error;

/// The parts and their destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertJob {
    /// The destination of parts, and how they are written.
    pub target: ConvertTarget,
    /// The content of each part.
    pub parts: Vec<ConvertPart>,
}

/// The destination of parts, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertTarget {
    /// The folder of all parts, a path or a URL, which does not exist before the work is finished.
    pub output: String,
    /// The extension of each part, without a dot.
    pub extension: String,
    /// Arguments for the writer of parts, such as the options of `zvf convert`.
    pub words: Vec<String>,
}

/// The content of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum ConvertPart {
    /// The vertices of some chunks, in a range of keys.
    #[non_exhaustive]
    Chunks {
        /// The first key; `None` for the beginning.
        first: Option<String>,
        /// The first key after the range; `None` for the end.
        end: Option<String>,
        /// Number of chunks.
        count: u64,
    },
    /// Some rows of the object index.
    #[non_exhaustive]
    Rows {
        /// The first row.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// The whole query.
    Whole,
    /// A file.
    #[non_exhaustive]
    File {
        /// Its path.
        path: PathBuf,
        /// Its length; `None` for a folder.
        bytes: Option<u64>,
        /// When it was last changed, in nanoseconds since 1970.
        modified: Option<u64>,
    },
}

impl ConvertPart {
    /// Returns the query for this part of `query` on geometry of `kind`, at the level that `query`
    /// selects for the whole.
    ///
    /// # Errors
    ///
    /// When the objects cannot be read.
    #[boxed]
    pub async fn narrow(&self, reader: &Reader, query: Query, kind: Kind) -> Result<Query, Error> {
        let parse = |key: &Option<String>| {
            let key = key.as_ref().map(|text| text.parse::<ChunkKey>()).transpose();
            key.map_err(Error::from)
        };
        if matches!(self, Self::Whole | Self::File { .. }) {
            return Ok(query);
        }
        // The query for a part could select another level.
        let (level, _kind) = reader.resolve(&query.clone().of_kind(kind)).await?;
        let query = query.at_level(level);
        match self {
            Self::Whole | Self::File { .. } => Ok(query),
            Self::Chunks { first, end, .. } => Ok(query.in_chunks(parse(first)?, parse(end)?)),
            Self::Rows { start, end } => {
                let index = reader.level_of_kind(level, kind).await?.objects().await?;
                let Some(index) = index else {
                    return Err(bad_request_error("the store", "an index of objects", "none"));
                };
                let ids = index.ids(*start..*end).await?;
                Ok(query.of_objects(ids).unknown_ids(UnknownIds::Skip))
            }
        }
    }

    /// Returns the file that is the input of the part.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Chunks { .. } | Self::Rows { .. } | Self::Whole => None,
        }
    }

    /// Refuses a file that has changed.
    fn check_file(&self) -> Result<(), Error> {
        let Self::File { path, .. } = self else { return Ok(()) };
        if Self::file(path)? == *self {
            return Ok(());
        }
        let text = format!(
            "{}: the file changed after the plan was written; plan again in another folder",
            path.display()
        );
        Err(Error::custom(Class::Conflict, text).with_op("read"))
    }

    fn file(path: &Path) -> Result<Self, Error> {
        let about = fs::metadata(path).map_err(|error| path_error("read", path, &error))?;
        let since = about.modified().ok();
        let since = since.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        Ok(Self::File {
            path: path.to_owned(),
            bytes: about.is_file().then_some(about.len()),
            modified: since.and_then(|since| u64::try_from(since.as_nanos()).ok()),
        })
    }

    fn description(&self) -> String {
        match self {
            Self::Chunks { first, count, .. } => {
                format!("{count} chunks from {}", first.as_deref().unwrap_or("the first"))
            }
            Self::Rows { start, end } => {
                format!("{} objects from row {start}", end.abs_diff(*start))
            }
            Self::Whole => "everything, which is not divided".to_owned(),
            Self::File { path, .. } => path.display().to_string(),
        }
    }
}

impl ConvertJob {
    pub(super) fn lines(&self) -> Vec<TaskLine> {
        self.parts
            .iter()
            .map(|part| TaskLine { stage: "parts".into(), what: part.description() })
            .collect()
    }

    /// Returns the name of part `number`.
    fn name(&self, number: usize) -> String {
        let stem = match self.parts.get(number) {
            Some(ConvertPart::File { path, .. }) => path.file_stem().and_then(|stem| stem.to_str()),
            _ => None,
        };
        let extension = &self.target.extension;
        match stem {
            Some(stem) => format!("{stem}.{extension}"),
            None => format!("part-{number:05}.{extension}"),
        }
    }

    pub(super) fn folder(&self, options: &OpenOptions) -> Result<PartsFolder, Error> {
        PartsFolder::open(&self.target.output, options)
    }
}

/// Returns the size of a share.
fn share(count: usize, shares: usize) -> usize {
    count.div_ceil(shares.max(1)).max(1)
}

/// Divides the chunks that `query` reads into ranges.
async fn divide_chunks(
    reader: &Reader,
    query: &Query,
    shares: usize,
) -> Result<Vec<ConvertPart>, Error> {
    let keys = reader.chunks(&query.clone().vertices_only()).await?;
    let shares: Vec<&[ChunkKey]> = keys.chunks(share(keys.len(), shares)).collect();
    let first = |number: usize| shares.get(number)?.first().map(ToString::to_string);
    let part = |(number, some): (usize, &&[ChunkKey])| ConvertPart::Chunks {
        first: first(number).filter(|_| number > 0),
        end: first(number + 1),
        count: to_u64(some.len()),
    };
    Ok(shares.iter().enumerate().map(part).collect())
}

/// Divides the rows of the object index into ranges; `None` if several levels form the answer, or
/// there are no objects.
async fn divide_rows(
    reader: &Reader,
    (query, kind): (&Query, Kind),
    shares: usize,
) -> Result<Vec<ConvertPart>, Error> {
    let (level, _kind) = reader.resolve(query).await?;
    if LevelReader::chain(reader.store(), level).await?.len() > 1 {
        return Ok(Vec::new());
    }
    let index = reader.level_of_kind(level, kind).await?.objects().await?;
    let Some(slots) = index.map(|index| index.slots()).filter(|slots| *slots > 0) else {
        return Ok(Vec::new());
    };
    let size = slots.div_ceil(to_u64(shares.max(1)));
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < slots {
        let end = start + size.min(slots - start);
        parts.push(ConvertPart::Rows { start, end });
        start = end;
    }
    Ok(parts)
}

impl Plan {
    /// Divides `query` on geometry of `kind` in a store into about `shares` parts. Kinds with links
    /// are divided only `by_objects`: elements between objects of two parts, and elements without
    /// an object, are then in none of them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
    /// # let dir = tempfile::tempdir()?;
    /// # let at = |name: &str| dir.path().join(name).to_str().map(str::to_owned).ok_or("a path");
    /// use zvf_convert::Format;
    /// use zvf_convert::write::{self, Target, FormatOptions};
    /// use zvf_jobs::export::Export;
    /// use zvf_jobs::tasks::{ConvertTarget, Job, Plan, WorkFolder};
    /// use zvf_model::Kind;
    /// use zvf_query::Query;
    ///
    /// let (open, kind) = (zvf_store::OpenOptions::default(), Kind::PointCloud);
    /// let reader = zvf_query::Reader::new(zvf_store::Store::open(path, open.clone()).await?);
    /// let target = ConvertTarget { output: at("parts")?, extension: "csv".into(), words: Vec::new() };
    /// let asked = (&Query::all(), kind);
    /// let plan = Plan::convert_store((&reader, path, &open), asked, target, (4, false)).await?;
    /// let tasks = plan.create(&WorkFolder::open(&at("work")?, &open)?).await?;
    /// let Job::Convert(job) = &tasks.plan().job else { return Err("another job".into()) };
    /// for number in 0..tasks.plan().lines().len() {
    ///     let Some(run) = tasks.begin_part(number, None).await? else { continue };
    ///     let query = job.parts[number].narrow(&reader, Query::all(), kind).await?;
    ///     let mut export = Export::open(&reader, query, Some(kind)).await?;
    ///     let mut file = std::fs::File::create(run.path())?;
    ///     let options = FormatOptions::default();
    ///     let mut writer = write::open(Format::Csv, Target::stream(&mut file), &options)?;
    ///     writer.begin(&export.header)?;
    ///     while let Some(piece) = export.next().await? {
    ///         writer.write(piece)?;
    ///     }
    ///     writer.finish()?;
    ///     assert!(tasks.finish_part(number, run).await?);
    /// }
    /// let names = tasks.finish_convert().await?;
    /// assert_eq!(names.first().map(String::as_str), Some("part-00000.csv"));
    /// assert!(dir.path().join("parts/part-00000.csv").exists());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the output exists, or the store cannot be read.
    #[boxed]
    pub async fn convert_store(
        (reader, address, open): (&Reader, &str, &OpenOptions),
        (query, kind): (&Query, Kind),
        target: ConvertTarget,
        (shares, by_objects): (usize, bool),
    ) -> Result<Self, Error> {
        PartsFolder::open(&target.output, open)?.check_free().await?;
        let identity = StoreIdentity::read(reader.store(), address, open).await?;
        let query = query.clone().of_kind(kind);
        let is_of_rows = |scope: Scope| matches!(scope, Scope::Vertex | Scope::Fragment);
        let asks_rows = query
            .filter
            .as_ref()
            .is_none_or(|asked| asked.columns().iter().all(|column| is_of_rows(column.scope)));
        let mut parts = if kind == Kind::PointCloud && asks_rows {
            divide_chunks(reader, &query, shares).await?
        } else if kind.is_chain() || by_objects {
            divide_rows(reader, (&query, kind), shares).await?
        } else {
            Vec::new()
        };
        if parts.len() < 2 {
            parts = vec![ConvertPart::Whole];
        }
        let job = Job::Convert(ConvertJob { target, parts });
        Ok(Self::new(Some(address.to_owned()), Some(identity), job))
    }

    /// Plans one part for each of `files`.
    ///
    /// # Errors
    ///
    /// When the output exists, a file cannot be used, or two parts would have the same name.
    #[boxed]
    pub async fn convert_files(
        files: &[PathBuf],
        target: ConvertTarget,
        open: &OpenOptions,
    ) -> Result<Self, Error> {
        PartsFolder::open(&target.output, open)?.check_free().await?;
        let parts = files.iter().map(|path| ConvertPart::file(path));
        let job = ConvertJob { target, parts: parts.collect::<Result<_, Error>>()? };
        let mut names: Vec<String> = (0..files.len()).map(|number| job.name(number)).collect();
        names.sort();
        let twice = names.windows(2).find(|pair| pair.first() == pair.last());
        if let Some(name) = twice.and_then(|pair| pair.first()) {
            let expected = "files whose parts have different names";
            return Err(bad_request_error("the input", expected, &format!("two for {name}")));
        }
        Ok(Self::new(None, None, Job::Convert(job)))
    }
}

impl Tasks {
    /// Begins part `number`; `None` if it is already written and intact. A part for an object store
    /// is first written below `scratch`, or the folder for temporary files.
    ///
    /// # Errors
    ///
    /// When there is no such task, nothing can be written, or a file changed since the plan.
    #[boxed]
    pub async fn begin_part(
        &self,
        number: usize,
        scratch: Option<&Path>,
    ) -> Result<Option<PartRun>, Error> {
        let record = self.find_whole_record(number).await?;
        let job = self.convert_job()?;
        let folder = job.folder(&self.folder.options)?;
        if let Some(record) = record {
            if let Ok(written) = read_written(&record) {
                if folder.find(&written).await?.is_some() {
                    return Ok(None);
                }
                folder.forget(&written)?;
            }
            self.folder.remove(&[key(number)]).await?;
        }
        if let Some(part) = job.parts.get(number) {
            part.check_file()?;
        }
        folder.begin(&job.name(number), scratch).map(Some)
    }

    /// Registers a written part; returns false if another run had done it.
    ///
    /// # Errors
    ///
    /// When the part cannot be read or kept, a file changed since the plan, or the record cannot be
    /// created.
    #[boxed]
    pub async fn finish_part(&self, number: usize, run: PartRun) -> Result<bool, Error> {
        let job = self.convert_job()?;
        if let Some(part) = job.parts.get(number) {
            part.check_file()?;
        }
        let folder = job.folder(&self.folder.options)?;
        let written = folder.keep(&run).await?;
        let report = serde_json::to_value(&written).map_err(|error| bad_record(number, &error))?;
        let record = Record::new(&self.digest, number, (new_run(), Vec::new()), report);
        let made = record.publish(&self.folder).await? == TaskOutcome::Done;
        folder.end(run, made).await?;
        Ok(made)
    }

    /// Compares all parts with their records and publishes the output; returns the names of the
    /// parts. When repeated, it resumes.
    ///
    /// # Errors
    ///
    /// `Unavailable` when a task is not done, `Checksum` when a part differs from its record,
    /// `AlreadyExists` when there is another output.
    #[boxed]
    pub async fn finish_convert(&self) -> Result<Vec<String>, Error> {
        let job = self.convert_job()?;
        let folder = job.folder(&self.folder.options)?;
        let records = self.records(job.parts.len(), "to finish").await?;
        let mut parts: Vec<(FoundPart, WrittenPart)> = Vec::new();
        for (number, record) in records.iter().enumerate() {
            let written = read_written(record)?;
            let Some(found) = folder.find(&written).await? else {
                self.folder.remove(&[key(number)]).await?;
                folder.forget(&written)?;
                let text = format!(
                    "{}: expected what task {number} wrote, found something else or nothing; run the task again",
                    written.name
                );
                return Err(Error::custom(Class::Checksum, text).with_op("read"));
            };
            parts.push((found, written));
        }
        folder.publish(&parts).await?;
        folder.remove_staging().await?;
        Ok(parts.into_iter().map(|(_, part)| part.name).collect())
    }

    fn convert_job(&self) -> Result<&ConvertJob, Error> {
        let Job::Convert(job) = &self.plan.job else {
            return Err(self.other_kind_error("one of zvf task plan convert"));
        };
        Ok(job)
    }
}

fn read_written(record: &Record) -> Result<WrittenPart, Error> {
    WrittenPart::deserialize(&record.report).map_err(|error| bad_record(record.task, &error))
}

fn bad_record(number: usize, error: &serde_json::Error) -> Error {
    let text = format!(
        "the record of task {number}: expected the files of a part, found {error}; run the task again"
    );
    Error::custom(Class::Encoding, text).with_op("read")
}

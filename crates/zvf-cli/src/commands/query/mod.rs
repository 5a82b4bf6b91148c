//! `zvf query`.

mod count;
mod lacking;
mod output;
pub(crate) mod region;
mod write;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use zvf::export::Export;
use zvf::format::num::to_u64;
use zvf::inspect::advise;
use zvf::{
    Answer, Columns, Counts, Kind, LevelId, LevelRule, Missing, Mode, Notice, ObjectId, Order,
    Plan, QueryStats, Reader, Store, UnknownIds,
};

use self::lacking::ListedParts;
use self::output::Output;
use self::region::Where;
use self::write::{AnswerSink, Format};
use crate::commands::group;
use crate::commands::job::Job;
use crate::outcome::{Outcome, Usage, refuse};
use crate::session::{Session, sentences};
use crate::size::size;
use crate::table;
use crate::target::{self, NewFile, Out};

/// Read geometry from a store: by region, by object, by value.
///
/// Every filter is optional and restricts the answer. Points are returned if they are inside the region; other geometry
/// is returned whole where it touches the region, unless --mode selects another relation. Vertices of graphs, skeletons
/// and meshes have the id of their object; formats that can hold edges or faces include them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Query {
    /// The store: a folder or a URL.
    store: String,
    /// The level: a number, or a rule: vertices=N, bytes=SIZE, error=X, screen=WIDTH/PIXELS.
    #[arg(long, value_name = "N|RULE", default_value = "0", value_parser = level_rule)]
    level: LevelRule,
    #[command(flatten)]
    place: Where,
    /// The spatial relation between geometry and region, and which part of a match is returned.
    #[arg(long, value_enum)]
    mode: Option<ModeWord>,
    /// The kind of geometry, where the store holds several [default: that of the first of
    /// --objects, or else the
    /// first].
    #[arg(long)]
    kind: Option<Kind>,
    /// Only these objects, in this order: 7,9,20..30 (the end of a range is not included).
    #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true, help_heading = "Selection")]
    objects: Option<Ids>,
    /// Only objects in one of these groups, by number or name: 0,left.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', help_heading = "Selection")]
    groups: Vec<String>,
    /// Only rows for which this is true, such as "intensity > 3 and object.kind in (1, 2)".
    #[arg(long = "where", value_name = "EXPR", help_heading = "Selection")]
    predicate: Option<String>,
    /// What to do when an object id does not exist.
    #[arg(long = "unknown-objects", alias = "unknown", value_enum, default_value_t = Unknown::Error, help_heading = "Selection")]
    unknown: Unknown,
    /// Attributes to read: names separated by commas, "all" or "none".
    #[arg(long = "attributes", alias = "columns", value_name = "NAMES", default_value = "all")]
    columns: String,
    /// Add the id of its object to each vertex, for every kind.
    #[arg(long = "object-ids", alias = "owners")]
    owners: bool,
    /// The order of the answer.
    #[arg(long, value_enum)]
    order: Option<OrderWord>,
    /// Return at most N vertices; an object or element is never cut. 0 returns all.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Skip missing cells, and attributes and links that the backend cannot list; a note names
    /// them.
    #[arg(long)]
    allow_missing: bool,
    /// Read only what an additive level adds to the next coarser one.
    #[arg(long = "increment-only", alias = "own-level-only")]
    own_level_only: bool,
    /// Print what will be read, and afterwards what was read; the data itself only with --output.
    #[arg(long)]
    explain: bool,
    /// Print the number of vertices, parts and elements of the answer, instead of the answer.
    #[arg(long, conflicts_with_all = ["explain", "output", "elements", "format"])]
    count: bool,
    /// The format [default: by the extension of the file; csv on standard output, or jsonl with --json].
    #[arg(long, value_enum, help_heading = "Output")]
    format: Option<Format>,
    /// Write to this file, atomically; - is standard output.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Do not add the id of its object to each vertex of a graph, skeleton or mesh.
    #[arg(long, conflicts_with = "owners")]
    no_object_ids: bool,
    /// Replace output files that exist.
    #[arg(long, help_heading = "Output")]
    overwrite: bool,
    /// Write edges or faces to this file, where the format holds one table per file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    elements: Option<PathBuf>,
    /// Do not write edges and faces.
    #[arg(long, conflicts_with = "elements", help_heading = "Output")]
    no_elements: bool,
    /// Write batch by batch, in bounded memory.
    #[arg(long, conflicts_with_all = ["explain", "allow_missing"], help_heading = "Output")]
    stream: bool,
}

impl Query {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        if let Some(format) = self.other_format() {
            return self.export(session, format, out).await;
        }
        let output = self.outputs(session)?;
        let reader = session.reader(&self.store).await?;
        let axes: Vec<String> =
            reader.store().root().axes().iter().map(|axis| axis.name.clone()).collect();
        let mut query = self.query(&axes)?;
        let mut kind = self.kind;
        if kind.is_none() && reader.store().root().zarr_vectors.geometry_types.len() > 1 {
            kind = self.kind_of_objects(&reader).await?;
            let notice = self.note_other_kinds(&reader).await.filter(|_| kind.is_none());
            session.print_notices(&mut *out, notice)?;
            query = kind.into_iter().fold(query, zvf::Query::of_kind);
        }
        let kind = match kind {
            Some(kind) => kind,
            None => self.first_kind(session, &reader).await?,
        };
        if self.elements.is_some() && !kind.has_links() {
            return refuse(format!(
                "{kind} geometry has no edges or faces to write; leave --elements out"
            ));
        }
        if !self.groups.is_empty() {
            query = query.in_groups(self.group_numbers(session, &reader).await?);
        }
        let progress = session.progress("reading");
        if self.count {
            let counts = with_advice(&reader, reader.count(&query).await).await?;
            drop(progress);
            count::print(&counts, session.json(), out)?;
            print_notices(session, out, reader.store(), Some(Remarks::from_counts(&counts)))?;
            return Ok(Outcome::Clean);
        }
        if kind.has_links() && !self.no_object_ids {
            query = query.with_owners();
        }
        if self.explain {
            let plan = with_advice(&reader, reader.plan(&query).await).await?;
            let query = limit_to_memory(query, session);
            let answer = with_advice(&reader, reader.run(&query).await).await?;
            drop(progress);
            self.check_lacking(&reader, &output)?;
            if output.file.is_some() {
                let mut sink = self.sink(session, &output, None, &axes)?;
                sink.write(answer.batch.clone())?;
                sink.finish(kind)?;
            }
            explain(&plan, &answer, session.json(), out)?;
            print_notices(session, out, reader.store(), Some(Remarks::from_answer(&answer)))?;
            return Ok(Outcome::Clean);
        }
        let mut sink = self.sink(session, &output, Some(&mut *out), &axes)?;
        let (written, remarks) = if self.stream || self.streams_rows(kind, &output) {
            let on_progress = |n| progress.count("", to_u64(n), "vertex");
            let check = || self.check_lacking(&reader, &output);
            (stream(&reader, query, &mut sink, &on_progress, &check).await?, None)
        } else {
            let query = limit_to_memory(query, session);
            let answer = with_advice(&reader, reader.run(&query).await).await?;
            self.check_lacking(&reader, &output)?;
            let (written, remarks) = (answer.batch.len(), Remarks::from_answer(&answer));
            sink.write(answer.batch)?;
            (written, Some(remarks))
        };
        drop(progress);
        let left_out = sink.finish(kind)?;
        print_notices(session, out, reader.store(), remarks)?;
        session.print_notices(out, left_out_words(kind, left_out))?;
        session
            .print_notices(out, output.file.as_ref().map(|path| format_written(written, path)))?;
        Ok(Outcome::Clean)
    }

    /// Returns the format of the output name, where it is not a table of vertices.
    fn other_format(&self) -> Option<zvf::convert::Format> {
        let path = self.output.as_deref().filter(|_| self.format.is_none())?;
        let format = zvf::convert::Format::from_extension(path);
        format.filter(|format| Format::from_extension(path).is_none() && format.is_written())
    }

    /// Writes the answer with all attributes of its objects, as `zvf convert` does.
    async fn export(
        &self,
        session: &Session,
        format: zvf::convert::Format,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        for (option, given) in [
            ("--elements", self.elements.is_some()),
            ("--no-elements", self.no_elements),
            ("--stream", self.stream),
            ("--explain", self.explain),
            ("--count", self.count),
        ] {
            if given {
                return refuse(format!(
                    "{option} is not for {format}; write npy, csv, jsonl, ply or parquet"
                ));
            }
        }
        let reader = session.reader(&self.store).await?;
        let axes: Vec<String> =
            reader.store().root().axes().iter().map(|axis| axis.name.clone()).collect();
        let mut query = self.query(&axes)?;
        if !self.groups.is_empty() {
            query = query.in_groups(self.group_numbers(session, &reader).await?);
        }
        let kind = match self.kind {
            Some(kind) => Some(kind),
            None => self.kind_of_objects(&reader).await?,
        };
        let export = Export::open(&reader, limit_to_memory(query, session), kind).await?;
        let output = self.output.as_ref().map(|path| path.display().to_string());
        let job = Job {
            inputs: self.store.clone(),
            output: output.unwrap_or_default(), // there is one: its name chose the format
            strict: false,
            dry_run: false,
            overwrite: self.overwrite,
            scratch: None,
            extra: serde_json::Map::new(),
            is_repeated: false,
        };
        job.write(session, format, vec![(Box::new(export), None)], Vec::new(), out).await
    }

    /// Returns the files to write; invalid combinations are refused before any work.
    fn outputs(&self, session: &Session) -> anyhow::Result<Output> {
        let (file, elements) = (self.output.as_deref(), self.elements.as_deref());
        let output = Output::choose(self.format, session.json(), file, elements)?;
        if self.stream && !output.format.streams() {
            return refuse(
                "this format cannot be written batch by batch; leave --stream out, or write csv, \
                 jsonl or npy",
            );
        }
        let elements = output.elements.as_ref().map(|(path, _)| path);
        for path in output.file.iter().chain(elements) {
            target::check_overwrite(path, self.overwrite)?;
        }
        Ok(output)
    }

    /// Returns whether the answer is streamed by default: vertices without edges or faces give the same file either
    /// way, and may exceed memory.
    fn streams_rows(&self, kind: Kind, output: &Output) -> bool {
        let whole = self.objects.is_none() && self.groups.is_empty() && self.limit.is_none();
        let plain = self.order.is_none() && !self.owners && !self.allow_missing;
        output.format.streams() && output.file.is_some() && !kind.has_links() && whole && plain
    }

    /// Refuses an answer that may lack what could not be listed, unless that is allowed.
    fn check_lacking(&self, reader: &Reader, output: &Output) -> anyhow::Result<()> {
        if self.allow_missing {
            return Ok(());
        }
        let writes_elements = output.format.holds_elements() || output.elements.is_some();
        let parts = ListedParts {
            all_attributes: self.columns == "all",
            elements: writes_elements && !self.no_elements,
        };
        Ok(lacking::check(reader.store(), parts)?)
    }

    /// Returns the kind that a query without `--kind` reads: of the level, or of level 0 where a rule chooses it.
    async fn first_kind(&self, session: &Session, reader: &Reader) -> anyhow::Result<Kind> {
        let number = self.number().map_or(0, |level| level.0);
        let level = session.level(reader.store(), number).await?;
        let kind = level.kinds().first().copied();
        kind.ok_or_else(|| Usage::new(format!("level {number} holds no geometry")).into())
    }

    /// Returns the query that the arguments state.
    fn query(&self, axes: &[String]) -> anyhow::Result<zvf::Query> {
        let mut query = zvf::Query::all().level(self.level).unknown_ids(self.unknown.into());
        if let Some(region) = self.place.region(axes)? {
            query = query.in_region(region);
        }
        if let Some(mode) = self.mode {
            query = query.mode(mode.into());
        }
        if let Some(kind) = self.kind {
            query = query.of_kind(kind);
        }
        if let Some(Ids(ids)) = &self.objects {
            query = query.of_objects(ids.iter().copied());
        }
        if let Some(text) = &self.predicate {
            let predicate: zvf::predicate::Predicate = text.parse().map_err(zvf::Error::from)?;
            query = query.filter(predicate);
        }
        query = query.columns(match self.columns.as_str() {
            "all" => Columns::All,
            "none" | "" => Columns::None,
            names => Columns::Named(names.split(',').map(|name| name.trim().to_owned()).collect()),
        });
        if let Some(order) = self.order {
            query = query.order(order.into());
        }
        if let Some(limit) = self.limit.filter(|limit| *limit > 0) {
            query = query.limit(limit);
        }
        if self.owners {
            query = query.with_owners();
        }
        if self.allow_missing {
            query = query.allow_missing();
        }
        if self.own_level_only {
            query = query.increment_only();
        }
        Ok(if self.stream { query.uncached() } else { query })
    }

    /// Returns the requested groups; names are those of the level, or of level 0 where a rule chooses it.
    async fn group_numbers(&self, session: &Session, reader: &Reader) -> anyhow::Result<Vec<u64>> {
        let numbers: Option<Vec<u64>> = self.groups.iter().map(|name| name.parse().ok()).collect();
        if let Some(numbers) = numbers {
            return Ok(numbers);
        }
        let level = self.number().map_or(0, |level| level.0);
        group::numbers(&session.level(reader.store(), level).await?, &self.groups).await
    }

    /// Returns the level, where it is given by number.
    const fn number(&self) -> Option<LevelId> {
        if let LevelRule::Number(level) = self.level { Some(level) } else { None }
    }

    /// Returns the kind of the requested objects, where the store holds several.
    async fn kind_of_objects(&self, reader: &Reader) -> Result<Option<Kind>, zvf::Error> {
        match (&self.objects, self.number()) {
            (Some(Ids(ids)), Some(level)) => match ids.first() {
                Some(id) => with_advice(reader, reader.find_kind(level, *id).await).await,
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Returns a note about the kinds that are not read.
    async fn note_other_kinds(&self, reader: &Reader) -> Option<String> {
        let level = reader.level(self.number()?).await.ok()?;
        let first = level.kinds().first()?;
        let other_kinds: Vec<&str> = level.extra_kinds().map(Kind::token).collect();
        let names = other_kinds.join(", ");
        (!other_kinds.is_empty()).then(|| {
            format!(
                "this is the {first} of the store, which also holds {names}: choose with --kind"
            )
        })
    }

    /// Returns the output of the answer: the file, or `out`.
    fn sink<'a>(
        &self,
        session: &Session,
        output: &Output,
        out: Option<&'a mut dyn Write>,
        axes: &'a [String],
    ) -> anyhow::Result<AnswerSink<'a>> {
        let file = |path: &PathBuf| NewFile::create(path, session.interrupt()).map(Out::File);
        let target = match (&output.file, out) {
            (Some(path), _) => file(path)?,
            (None, Some(out)) => output.format.to_stream(out),
            (None, None) => return refuse("there is nowhere to write to"),
        };
        let elements = match &output.elements {
            Some((path, format)) => Some((*format, file(path)?)),
            None => None,
        };
        let memory = session.memory_limit();
        let format = output.format;
        Ok(AnswerSink::new(format, target, elements, self.no_elements, axes, memory)?)
    }
}

/// Returns the query for an answer that is collected in memory: bounded by the memory limit, where one is given.
pub(crate) fn limit_to_memory(query: zvf::Query, session: &Session) -> zvf::Query {
    match session.memory_limit() {
        Some(limit) => query.limit_bytes(limit / MEMORY_OF_AN_ANSWER),
        None => query,
    }
}

/// Writes batch by batch and returns the number of vertices. An answer without batches still makes a file with a
/// header.
async fn stream(
    reader: &Reader,
    query: zvf::Query,
    sink: &mut AnswerSink<'_>,
    on_progress: &dyn Fn(usize),
    check: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let mut batches = reader.stream(query.clone());
    let mut written = 0_usize;
    while let Some(batch) = batches.next().await {
        let batch = with_advice(reader, batch).await?;
        check()?;
        written += batch.len();
        sink.write(batch)?;
        on_progress(written);
    }
    if written == 0 {
        let answer = reader.run(&query).await?;
        check()?;
        sink.write(answer.batch)?;
    }
    Ok(written)
}

/// Returns the result, or the error with advice that depends on the store.
pub(crate) async fn with_advice<T>(
    reader: &Reader,
    found: Result<T, zvf::Error>,
) -> Result<T, zvf::Error> {
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(advise(error, reader.store()).await),
    }
}

fn format_written(vertices: usize, path: &std::path::Path) -> String {
    format!("{} in {}", table::format_count(vertices, "vertex"), path.display())
}

/// Returns the note about edges or faces that the format cannot hold.
fn left_out_words(kind: Kind, left_out: u64) -> Option<String> {
    let thing = if kind == Kind::Mesh { "face" } else { "edge" };
    (left_out > 0).then(|| {
        format!(
            "{} left out, which this format cannot hold: write them with --elements FILE, or the \
             answer as jsonl or ply",
            table::format_count(left_out, thing)
        )
    })
}

/// Notices about an answer, or about the count of one.
struct Remarks {
    notices: Vec<Notice>,
    missing: Vec<Missing>,
    unknown_objects: Vec<ObjectId>,
    is_empty: bool,
    truncated: bool,
}

impl Remarks {
    fn from_answer(answer: &Answer) -> Self {
        Self {
            notices: answer.notices.clone(),
            missing: answer.missing.clone(),
            unknown_objects: answer.unknown_objects.clone(),
            is_empty: answer.batch.is_empty(),
            truncated: answer.truncated,
        }
    }

    fn from_counts(counts: &Counts) -> Self {
        Self {
            notices: Vec::new(),
            missing: counts.missing.clone(),
            unknown_objects: counts.unknown_objects.clone(),
            is_empty: counts.vertices == 0,
            truncated: counts.truncated,
        }
    }
}

/// Prints the notices of the store and of the answer.
fn print_notices(
    session: &Session,
    out: &mut dyn Write,
    store: &Store,
    answer: Option<Remarks>,
) -> anyhow::Result<()> {
    let mut words = sentences(&store.notices());
    if let Some(answer) = answer {
        words.extend(sentences(&answer.notices));
        words.extend(answer.missing.iter().map(|Missing { array, chunk }| {
            format!("{array} lists chunk {chunk}, which does not exist: left out")
        }));
        let unknown: Vec<String> = answer.unknown_objects.iter().map(ToString::to_string).collect();
        if !unknown.is_empty() {
            words.push(format!("there is no object {}", unknown.join(", ")));
        }
        if answer.truncated && answer.is_empty {
            words.push(
                "the first object has more vertices than --limit, and objects are not cut: raise \
                 --limit"
                    .to_owned(),
            );
        } else if answer.truncated {
            words.push("the answer was cut at --limit: there is more".to_owned());
        }
    }
    Ok(session.print_notices(out, words)?)
}

fn explain(plan: &Plan, answer: &Answer, as_json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if as_json {
        return table::json(&json!({"plan": plan_json(plan), "answer": answer_json(answer)}), out);
    }
    writeln!(out, "{plan}\n")?;
    let vertices = table::format_count(answer.batch.len(), "vertex");
    let parts = table::format_count(answer.batch.parts().len(), "part");
    writeln!(out, "answer    {vertices}, {parts}")?;
    if let Some(elements) = answer.batch.elements() {
        let count = table::count(to_u64(elements.len()));
        writeln!(out, "elements  {count} of {} vertices each", elements.width())?;
    }
    writeln!(out, "{}", answer.figures)?;
    Ok(())
}

fn plan_json(plan: &Plan) -> Value {
    json!({
        "level": plan.level.0,
        "kind": plan.kind.to_string(),
        "mode": plan.mode.map(|mode| mode.to_string()),
        "chunks": plan.chunks,
        "cells": plan.cells,
        "rows_before": plan.rows_before,
        "rows": plan.rows,
        "objects": plan.objects,
        "requests": plan.requests,
        "bytes": plan.bytes,
    })
}

fn answer_json(answer: &Answer) -> Value {
    let QueryStats { cells, rows, requests, bytes, elapsed, .. } = answer.figures;
    json!({
        "vertices": answer.batch.len(),
        "parts": answer.batch.parts().len(),
        "elements": answer.batch.elements().map(zvf::Elements::len),
        "complete": answer.complete,
        "truncated": answer.truncated,
        "missing": answer.missing.len(),
        "unknown_objects": answer.unknown_objects.iter().map(|object| object.0).collect::<Vec<_>>(),
        "cells": cells,
        "rows": rows,
        "requests": requests,
        "bytes": bytes,
        "seconds": elapsed.as_secs_f64(),
    })
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModeWord {
    /// All vertices are inside.
    Inside,
    /// A point is in the region; returned whole.
    Touch,
    /// Cut at the boundary.
    Clip,
    /// The stored vertices inside, in runs.
    Crop,
    /// All rows of chunks that meet the region, untested.
    Cells,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Self {
        match word {
            ModeWord::Inside => Self::Inside,
            ModeWord::Touch => Self::Touch,
            ModeWord::Clip => Self::Clip,
            ModeWord::Crop => Self::Crop,
            ModeWord::Cells => Self::Cells,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OrderWord {
    /// Chunk by chunk, every stored row once.
    Storage,
    /// Object by object.
    Objects,
}

impl From<OrderWord> for Order {
    fn from(word: OrderWord) -> Self {
        match word {
            OrderWord::Storage => Self::Storage,
            OrderWord::Objects => Self::Objects,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Unknown {
    /// Fail.
    Error,
    /// Leave it out and report it.
    Report,
    /// Leave it out.
    Skip,
}

impl From<Unknown> for UnknownIds {
    fn from(word: Unknown) -> Self {
        match word {
            Unknown::Error => Self::Error,
            Unknown::Report => Self::Report,
            Unknown::Skip => Self::Skip,
        }
    }
}

/// Object ids in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids(pub(crate) Vec<ObjectId>);

/// Parses ids and half-open ranges, separated by commas.
pub(crate) fn ids(text: &str) -> Result<Ids, String> {
    let wrong = |part: &str| format!("{part:?} is not an object id or a range such as 20..30");
    let mut ids = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_no_number| wrong(part));
        match part.split_once("..") {
            None => ids.push(ObjectId(number(part)?)),
            Some((start, end)) => {
                let range = number(start)?..number(end)?;
                if range.is_empty() {
                    return Err(format!(
                        "the range {part:?} is empty: its end must be above its start"
                    ));
                }
                if range.start.abs_diff(range.end) > MAX_IDS {
                    return Err(format!("{part:?} has more than {MAX_IDS} ids"));
                }
                ids.extend(range.map(ObjectId));
            }
        }
    }
    Ok(Ids(ids))
}

/// Parses a level by its number, or by a rule.
pub(crate) fn level_rule(text: &str) -> Result<LevelRule, String> {
    let wrong =
        || "expected a number, vertices=N, bytes=SIZE, error=X or screen=WIDTH/PIXELS".to_owned();
    let Some((rule, value)) = text.split_once('=') else {
        return text
            .parse()
            .map(|number| LevelRule::Number(LevelId(number)))
            .map_err(|_no_number| wrong());
    };
    let positive = |text: &str| text.parse().ok().filter(|x: &f64| *x > 0.0 && x.is_finite());
    let rule = match rule {
        "vertices" => value.parse().ok().map(LevelRule::MaxVertices),
        "bytes" => size(value).ok().map(LevelRule::MaxBytes),
        "error" => positive(value).map(LevelRule::Error),
        "screen" => value.split_once('/').and_then(|(width, pixels)| {
            Some(LevelRule::Screen { width: positive(width)?, pixels: pixels.parse().ok()? })
        }),
        _ => None,
    };
    rule.ok_or_else(wrong)
}

/// The largest number of ids in one range.
const MAX_IDS: u64 = 100_000_000;

const EXAMPLES: &str = "Examples:
  zvf query brain.zarrvectors --bbox 0,0,0:100,100,50
  zvf query brain.zarrvectors --bbox 0,0,0:100,100,50 --mode clip -o part.ply
  zvf query tracts.zarrvectors --objects 7,9,20..30 --format jsonl
  zvf query scan.zarrvectors --where \"intensity > 3\" --attributes intensity --limit 1000 -o some.npy
  zvf query scan.zarrvectors --level vertices=100000 --stream -o overview.csv
  zvf query net.zarrvectors --ball 5,5,5:2 -o nodes.csv --elements edges.csv
  zvf query s3://bucket/scan.zarrvectors --bbox 0,0,0:1,1,1 --explain";

/// The factor between the memory limit and the columns of an answer: they are read, sorted and written.
const MEMORY_OF_AN_ANSWER: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ids_and_ranges() {
        let parse =
            |text: &str| ids(text).map(|Ids(ids)| ids.iter().map(|id| id.0).collect::<Vec<_>>());
        assert_eq!(parse("7"), Ok(vec![7]));
        assert_eq!(parse("7, -9,2..4,7"), Ok(vec![7, -9, 2, 3, 7]));
        assert_eq!(parse("-2..0"), Ok(vec![-2, -1]));
        for range in ["4..4", "9..2"] {
            let text = format!("the range {range:?} is empty: its end must be above its start");
            assert_eq!(parse(range), Err(text));
        }
        assert_eq!(parse("a"), Err("\"a\" is not an object id or a range such as 20..30".into()));
        assert!(parse("").is_err() && parse("1..").is_err() && parse("1,,2").is_err());
        assert_eq!(
            parse("-9223372036854775808..9223372036854775807").unwrap_err(),
            "\"-9223372036854775808..9223372036854775807\" has more than 100000000 ids"
        );
    }

    #[test]
    fn parses_levels_by_number_or_rule() {
        for (text, rule) in [
            ("3", LevelRule::Number(LevelId(3))),
            ("vertices=100", LevelRule::MaxVertices(100)),
            ("bytes=2MiB", LevelRule::MaxBytes(2 << 20)),
            ("error=0.5", LevelRule::Error(0.5)),
            ("screen=100/800", LevelRule::Screen { width: 100.0, pixels: 800 }),
        ] {
            assert_eq!(level_rule(text), Ok(rule), "{text}");
        }
        for text in
            ["", "-1", "x", "vertices=x", "bytes=", "error=0", "error=nan", "screen=1", "size=1"]
        {
            assert!(level_rule(text).is_err(), "{text}");
        }
    }
}

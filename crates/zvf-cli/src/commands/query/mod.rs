//! `zvf query`.

mod output;
pub(crate) mod region;

use std::io::Cursor;
use std::path::PathBuf;

use clap::Args;
use futures_util::stream::{self, LocalBoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use zvf::convert::write::{self, FormatOptions, Target};
use zvf::convert::{Format, elements_as_rows};
use zvf::export::Export;
use zvf::format::num::to_u64;
use zvf::inspect::advise;
use zvf::metadata::Dtype;
use zvf::model::flow::{Header, Loss, Piece, Sink};
use zvf::question::{axis_names, parse_columns};
use zvf::region::Region;
use zvf::{
    Answer, Batch, Column, Counts, Kind, LevelId, Missing, Mode, ObjectId, QueryPlan, QueryStats,
    Reader, Store, UnknownIds,
};

use self::output::{Output, TABLES, check_lacking, holds_elements, streams};
use crate::commands::how::written_format;
use crate::commands::job::Job;
use crate::commands::narrow::{Narrow, first_set};
use crate::commands::{join_kinds, text_of};
use crate::outcome::{CommandResult, Outcome, Usage, refuse};
use crate::session::{Session, sentences};
use crate::table;
use crate::target::{self, Out};

/// Read geometry from a store: by region, by object, by value.
///
/// Every filter is optional and restricts the answer. Points are returned if they are inside the region; other geometry
/// is returned whole where it touches the region, unless --mode selects another relation. Vertices of graphs, skeletons
/// and meshes have the id of their object; formats that can hold edges or faces include them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Query {
    /// The store: a folder or a URL.
    store: String,
    #[command(flatten)]
    narrow: Narrow,
    /// The kind of geometry, where the store holds several [default: that of the first of
    /// --objects, or else the
    /// first].
    #[arg(long)]
    kind: Option<Kind>,
    /// Attributes to read: names separated by commas, "all" or "none".
    #[arg(long = "attributes", alias = "columns", value_name = "NAMES", default_value = "all")]
    columns: String,
    /// Add the id of its object to each vertex, for every kind.
    #[arg(long = "object-ids", alias = "owners")]
    owners: bool,
    /// Print what will be read, and afterwards what was read; the data itself only with --output.
    #[arg(long)]
    explain: bool,
    /// Print the number of vertices, parts and elements of the answer, instead of the answer.
    #[arg(long, conflicts_with_all = ["explain", "output", "elements", "format"])]
    count: bool,
    /// The format: npy, csv, jsonl, ply, arrow, arrows or parquet, one row for each vertex, or
    /// another of "zvf formats" [default: by the extension of the file; csv on standard output, or
    /// jsonl with --json].
    #[arg(long, value_parser = written_format, help_heading = "Output")]
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
    /// Write batch by batch, in bounded memory; vertices with edges in several batches are repeated.
    #[arg(long, conflicts_with_all = ["explain", "allow_missing"], help_heading = "Output")]
    stream: bool,
}

impl Query {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if let Some(format) = self.other_format() {
            return self.export(session, format).await;
        }
        let output = self.outputs(session)?;
        let reader = session.reader(&self.store).await?;
        let mut query = self.query(session, &reader).await?;
        let mut kind = self.kind;
        if kind.is_none() && reader.store().root().zarr_vectors.geometry_types.len() > 1 {
            kind = self.kind_of_objects(&reader).await?;
            let notice = self.note_other_kinds(&reader).await.filter(|_| kind.is_none());
            session.print_notices(notice)?;
            query.kind = kind;
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
        let outside = query.region.as_ref().and_then(|region| note_outside(region, reader.store()));
        let progress = session.progress("reading");
        if self.count {
            let counts = with_advice(&reader, reader.count(&query).await).await?;
            drop(progress);
            if !self.narrow.allow_missing {
                check_lacking(reader.store(), false, true)?;
            }
            print_counts(&counts, session)?;
            let is_empty = counts.vertices == 0;
            let Counts { missing, unknown_objects, truncated, .. } = &counts;
            let words = describe_gaps(missing, unknown_objects, *truncated, is_empty);
            print_notices(session, reader.store(), words)?;
            session.print_notices(outside.filter(|_| is_empty))?;
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
            self.check_lacking((&reader, &query), &output)?;
            if output.file.is_some() {
                let batches = stream::iter([Ok(answer.batch.clone())]).boxed_local();
                self.write(session, (&output, kind), (&reader, &query), batches).await?;
            }
            explain(&plan, &answer, session)?;
            print_notices(session, reader.store(), describe_answer(&answer))?;
            return Ok(Outcome::Clean);
        }
        let (mut remarks, mut read) = (Vec::new(), 0);
        let batches = if self.stream || self.streams_rows(kind, &output) {
            let count = |batch: &Batch| {
                read += to_u64(batch.len());
                progress.count("", read, "vertex");
            };
            reader.stream(query.clone()).inspect_ok(count).boxed_local()
        } else {
            let (whole, reader) = (limit_to_memory(query.clone(), session), &reader);
            let remarks = &mut remarks;
            let answer = async move {
                let answer = reader.run(&whole).await?;
                *remarks = describe_answer(&answer);
                Ok(answer.batch)
            };
            stream::once(answer).boxed_local()
        };
        let question = (&reader, &query);
        let (written, left_out) = self.write(session, (&output, kind), question, batches).await?;
        drop(progress);
        print_notices(session, reader.store(), remarks)?;
        session.print_notices(outside.filter(|_| written == 0))?;
        session.print_notices(left_out_words(kind, left_out))?;
        let repeats = "--stream repeats a vertex in each batch that has an edge or face of it";
        session.print_notices((self.stream && kind.has_links()).then(|| repeats.to_owned()))?;
        session.print_notices(output.file.as_ref().map(|path| format_written(written, path)))?;
        Ok(Outcome::Clean)
    }

    /// Returns the format to write, where it is not a table of vertices.
    fn other_format(&self) -> Option<Format> {
        let by_name = || self.output.as_deref().and_then(Format::from_extension);
        let format = self.format.or_else(by_name)?;
        (!TABLES.contains(&format) && format.is_written()).then_some(format)
    }

    /// Writes the answer with all attributes of its objects, as `zvf convert` does.
    async fn export(&self, session: &Session, format: Format) -> CommandResult {
        let given = first_set(&[
            ("--elements", self.elements.is_some()),
            ("--no-elements", self.no_elements),
            ("--stream", self.stream),
            ("--explain", self.explain),
            ("--count", self.count),
        ]);
        if let Some(option) = given {
            return refuse(format!(
                "{option} is not for {format}; write npy, csv, jsonl, ply or parquet"
            ));
        }
        let Some(path) = &self.output else {
            return refuse(format!("--format {} needs --output FILE", format.token()));
        };
        let reader = session.reader(&self.store).await?;
        let query = self.query(session, &reader).await?;
        let kind = match self.kind {
            Some(kind) => Some(kind),
            None => self.kind_of_objects(&reader).await?,
        };
        let export = Export::open(&reader, limit_to_memory(query, session), kind).await?;
        let export = export.count_expected().await?;
        let job = Job {
            inputs: self.store.clone(),
            output: text_of(path)?.to_owned(),
            overwrite: self.overwrite,
            ..Job::default()
        };
        job.write(session, format, vec![(Box::new(export), None)], Vec::new()).await
    }

    /// Returns the files to write; invalid combinations are refused before any work.
    fn outputs(&self, session: &Session) -> anyhow::Result<Output> {
        let (file, elements) = (self.output.as_deref(), self.elements.as_deref());
        let output = Output::choose(self.format, session.json(), file, elements)?;
        if self.stream && !streams(output.format) {
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
        let narrow = &self.narrow;
        let whole = narrow.objects.is_none() && narrow.groups.is_empty() && narrow.limit.is_none();
        let plain = narrow.order.is_none() && !self.owners && !narrow.allow_missing;
        streams(output.format) && output.file.is_some() && !kind.has_links() && whole && plain
    }

    /// Refuses an answer that may lack what could not be listed, unless that is allowed.
    fn check_lacking(
        &self,
        (reader, query): (&Reader, &zvf::Query),
        output: &Output,
    ) -> anyhow::Result<()> {
        if self.narrow.allow_missing {
            return Ok(());
        }
        let writes_elements = holds_elements(output.format) || output.elements.is_some();
        let by_vertex = matches!(query.mode, Some(Mode::Inside | Mode::Crop | Mode::Cells));
        let by_links = query.region.is_some() && !by_vertex;
        let links = writes_elements && !self.no_elements || by_links;
        Ok(check_lacking(reader.store(), self.columns == "all", links)?)
    }

    /// Returns the kind that a query without `--kind` reads: of the level, or of level 0 where a rule chooses it.
    async fn first_kind(&self, session: &Session, reader: &Reader) -> anyhow::Result<Kind> {
        let level = self.narrow.level(session, reader).await?;
        let kind = level.kinds().first().copied();
        let number = self.narrow.number();
        kind.ok_or_else(|| Usage::new(format!("level {number} holds no geometry")).into())
    }

    /// Returns the query that the arguments state.
    async fn query(&self, session: &Session, reader: &Reader) -> anyhow::Result<zvf::Query> {
        let mut query = self.narrow.query(session, reader).await?;
        query.unknown_ids = self.narrow.unknown.unwrap_or(UnknownIds::Error);
        query.kind = self.kind;
        query.columns = parse_columns(&self.columns);
        query.with_owners = self.owners;
        query.uncached = self.stream;
        Ok(query)
    }

    /// Returns the kind of the requested objects, where the level is given by number.
    async fn kind_of_objects(&self, reader: &Reader) -> Result<Option<Kind>, zvf::Error> {
        let first = self.narrow.objects.as_ref().and_then(|ids| ids.first());
        match first.filter(|_| !self.narrow.has_rule()) {
            Some(id) => {
                let level = LevelId(self.narrow.number());
                with_advice(reader, reader.find_kind(level, *id).await).await
            }
            None => Ok(None),
        }
    }

    /// Returns a note about the kinds that are not read.
    async fn note_other_kinds(&self, reader: &Reader) -> Option<String> {
        if self.narrow.has_rule() {
            return None;
        }
        let level = reader.level(LevelId(self.narrow.number())).await.ok()?;
        let first = level.kinds().first()?;
        let names = join_kinds(level.extra_kinds());
        (!names.is_empty()).then(|| {
            format!(
                "this is the {first} of the store, which also holds {names}: choose with --kind"
            )
        })
    }

    /// Writes the answer about `kind`, which comes in `batches`, to the file or to standard output; files get their
    /// names only at the end. Returns the number of vertices, and of elements that the format cannot hold.
    async fn write(
        &self,
        session: &Session,
        (output, kind): (&Output, Kind),
        (reader, query): (&Reader, &zvf::Query),
        batches: LocalBoxStream<'_, Result<Batch, zvf::Error>>,
    ) -> anyhow::Result<(u64, u64)> {
        let mut stdout = session.out();
        let open = |path: &PathBuf| Out::file(path, session.interrupt());
        let mut file = match &output.file {
            Some(path) => open(path)?,
            None if output.format == Format::Npy => Out::Held(Cursor::default(), &mut stdout),
            None => Out::Stream(&mut stdout),
        };
        let mut beside = match &output.elements {
            Some((path, format)) => Some((open(path)?, *format)),
            None => None,
        };
        let mut options = FormatOptions::default();
        options.memory = session.memory_limit().unwrap_or(options.memory);
        let axes = axis_names(reader.store());
        let mut vertices = Table::new(output.format, &mut file, axes, &options)?;
        options.first_column = "vertices";
        let corners = (0..MAX_CORNERS).map(|at| format!("v{at}")).collect();
        let elements = beside.as_mut();
        let elements = elements.map(|(file, format)| Table::new(*format, file, corners, &options));
        let mut elements = elements.transpose()?;
        let (mut batches, mut written, mut left_out) = (batches.fuse(), 0, 0);
        loop {
            let batch = match batches.next().await {
                Some(batch) => with_advice(reader, batch).await?,
                // An answer without batches still makes a file with a header.
                None if !vertices.has_begun => reader.run(query).await?.batch,
                None => break,
            };
            self.check_lacking((reader, query), output)?;
            let mut omits = self.no_elements;
            if let Some(table) = &mut elements {
                elements_as_rows(&batch, written)?.map_or(Ok(()), |rows| table.write(rows))?;
            } else if !omits && !holds_elements(output.format) {
                left_out += batch.elements().map_or(0, |elements| to_u64(elements.len()));
                omits = true;
            }
            written += to_u64(batch.len());
            vertices.write(if omits { batch.without_elements() } else { batch })?;
        }
        if let Some(table) = elements.as_mut().filter(|table| !table.has_begun) {
            let nothing = Column::new(Dtype::INT64, EDGE_CORNERS, Vec::new().into())?;
            table.write(Batch::new(kind, nothing))?;
        }
        let mut lost = vertices.finish()?;
        file.finish()?;
        lost.extend(elements.map_or(Ok(Vec::new()), Table::finish)?);
        beside.map_or(Ok(()), |(file, _)| file.finish())?;
        session.print_notices(lost.iter().map(ToString::to_string))?;
        Ok((written, left_out))
    }
}

/// A file with a row for each vertex, or for each element.
struct Table<'a> {
    sink: Box<dyn Sink + 'a>,
    axes: Vec<String>,
    has_begun: bool,
}

impl<'a> Table<'a> {
    fn new(
        format: Format,
        out: &'a mut Out<'_>,
        axes: Vec<String>,
        options: &FormatOptions,
    ) -> Result<Self, zvf::Error> {
        let sink = write::open(format, Target::file(out), options)?;
        Ok(Self { sink, axes, has_begun: false })
    }

    fn write(&mut self, batch: Batch) -> Result<(), zvf::Error> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.sink.begin(&Header::from_batch(&batch, self.axes.clone()))?;
        }
        self.sink.write(Piece::Vertices(batch))
    }

    fn finish(self) -> Result<Vec<Loss>, zvf::Error> {
        Ok(self.sink.finish()?.losses)
    }
}

/// Returns the query for an answer that is collected in memory: bounded by the memory limit, where one is given.
pub(crate) fn limit_to_memory(query: zvf::Query, session: &Session) -> zvf::Query {
    match session.memory_limit() {
        Some(limit) => query.limit_bytes(limit / MEMORY_OF_AN_ANSWER),
        None => query,
    }
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

fn format_written(vertices: u64, path: &std::path::Path) -> String {
    let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let lines = if is_json { ", a JSON value in each line" } else { "" };
    format!("{} in {}{lines}", table::format_count(vertices, "vertex"), path.display())
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

/// Says that a region lies outside of the bounds of the store; `None` if it does not.
fn note_outside(region: &Region, store: &Store) -> Option<String> {
    let (hull, [low, high]) = (region.hull(), &store.root().zarr_vectors.bounds);
    let mut axes = hull.low().iter().zip(hull.high()).zip(low.iter().zip(high));
    axes.any(|((from, to), (low, high))| from > high || to < low).then(|| {
        let (low, high) = (table::floats(low), table::floats(high));
        format!("the region lies outside of the bounds of the store, {low} to {high}")
    })
}

/// Returns the notices of an answer.
fn describe_answer(answer: &Answer) -> Vec<String> {
    let Answer { missing, unknown_objects, truncated, .. } = answer;
    let gaps = describe_gaps(missing, unknown_objects, *truncated, answer.batch.is_empty());
    [sentences(&answer.notices), gaps].concat()
}

/// Returns the notices about what an answer, or the count of one, lacks.
fn describe_gaps(
    missing: &[Missing],
    unknown_objects: &[ObjectId],
    is_cut: bool,
    is_empty: bool,
) -> Vec<String> {
    let chunks = missing.iter().map(|Missing { array, chunk }| {
        format!("{array} lists chunk {chunk}, which does not exist: left out")
    });
    let mut words: Vec<String> = chunks.collect();
    let unknown: Vec<String> = unknown_objects.iter().map(ToString::to_string).collect();
    if !unknown.is_empty() {
        words.push(format!("there is no object {}", unknown.join(", ")));
    }
    let cut = if is_empty {
        "the first object has more vertices than --limit, and objects are not cut: raise --limit"
    } else {
        "the answer was cut at --limit: there is more"
    };
    words.extend(is_cut.then(|| cut.to_owned()));
    words
}

/// Prints the notices of the store, and those of the answer.
fn print_notices(session: &Session, store: &Store, of_answer: Vec<String>) -> anyhow::Result<()> {
    let of_store = sentences(&store.notices());
    Ok(session.print_notices(of_store.into_iter().chain(of_answer))?)
}

fn explain(plan: &QueryPlan, answer: &Answer, session: &Session) -> CommandResult {
    let explained = json!({"plan": plan, "answer": answer_json(answer)});
    session.print(&explained, |out| {
        writeln!(out, "{plan}\n")?;
        let vertices = table::format_count(answer.batch.len(), "vertex");
        let parts = table::format_count(answer.batch.parts().len(), "part");
        writeln!(out, "answer    {vertices}, {parts}")?;
        if let Some(elements) = answer.batch.elements() {
            let count = table::count(to_u64(elements.len()));
            writeln!(out, "elements  {count} of {} vertices each", elements.width())?;
        }
        Ok(writeln!(out, "{}", answer.figures)?)
    })
}

fn print_counts(counts: &Counts, session: &Session) -> CommandResult {
    let Counts { vertices, parts, elements, .. } = *counts;
    let value = json!({"vertices": vertices, "parts": parts, "elements": elements});
    session.print(&value, |out| {
        let parts = (parts > 0).then_some((parts, "part"));
        let further = parts.into_iter().chain(elements.map(|elements| (elements, "element")));
        Ok(writeln!(out, "{}", table::counts([(vertices, "vertex")].into_iter().chain(further)))?)
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
/// The columns of an empty table of elements.
const EDGE_CORNERS: u32 = 2;
/// The largest number of vertices of an element.
const MAX_CORNERS: usize = 8;

//! `zvf query`.

pub(crate) mod region;
mod write;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use zvf::inspect::advise;
use zvf::metadata::GeometryType;
use zvf::{
    Answer, Columns, Figures, Kind, Level, LevelRule, Missing, Mode, ObjectId, Order, Plan,
    QueryError, Reader, Store, UnknownIds,
};

use self::region::Where;
use self::write::{Format, Sink};
use crate::cli::size;
use crate::commands::group;
use crate::outcome::{Outcome, Usage};
use crate::session::{Session, sentences};
use crate::table;
use crate::target::{NewFile, Out};

/// Get geometry out of a store: by place, by object, by value.
///
/// Everything is optional and narrows the answer. Points are those inside a region; other geometry comes
/// whole where it touches the region, unless --mode says otherwise.
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
    /// How geometry must lie to the region, and what is given of it.
    #[arg(long, value_enum)]
    mode: Option<ModeWord>,
    /// Geometry of this kind, where the store holds several [default: the kind of the first object that is
    /// named, else the first kind of the store].
    #[arg(long)]
    kind: Option<Kind>,
    /// Only these objects, in this order: 7,9,20..30 (the last one is left out).
    #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true, help_heading = "Which")]
    objects: Option<Ids>,
    /// Only objects in one of these groups, by number or name: 0,left.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', help_heading = "Which")]
    groups: Vec<String>,
    /// Only what this holds for, such as "intensity > 3 and object.kind in (1, 2)".
    #[arg(long = "where", value_name = "EXPR", help_heading = "Which")]
    predicate: Option<String>,
    /// What an object id means that is not there.
    #[arg(long, value_enum, default_value_t = Unknown::Error, help_heading = "Which")]
    unknown: Unknown,
    /// Which attributes come along: their names with commas between, "all" or "none".
    #[arg(long, value_name = "NAMES", default_value = "all")]
    columns: String,
    /// Say for each vertex which object it belongs to.
    #[arg(long)]
    owners: bool,
    /// The order of the answer.
    #[arg(long, value_enum)]
    order: Option<OrderWord>,
    /// At most so many vertices; an object or element is never cut for it.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Answer without cells that are recorded and not there; they are told.
    #[arg(long)]
    allow_missing: bool,
    /// Read what a level itself holds, where it is an addition to the next coarser one.
    #[arg(long)]
    own_level_only: bool,
    /// Show what will be read, and then what was; data only with --output.
    #[arg(long)]
    explain: bool,
    /// The format [default: by the name of the file, else csv, or jsonl with --json].
    #[arg(long, value_enum, help_heading = "Output")]
    format: Option<Format>,
    /// Write to this file, which gets its name when it is whole; - is standard output.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write edges or faces to this file, where the format holds one table a file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    elements: Option<PathBuf>,
    /// Leave edges and faces out.
    #[arg(long, conflicts_with = "elements", help_heading = "Output")]
    no_elements: bool,
    /// Write batch by batch, in bounded memory: for answers larger than that.
    #[arg(long, conflicts_with_all = ["explain", "allow_missing"], help_heading = "Output")]
    stream: bool,
}

impl Query {
    pub(crate) async fn run(
        mut self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        self.output = self.output.filter(|path| path.as_os_str() != "-");
        let usual = if session.json() { Format::Jsonl } else { Format::Csv };
        let format = self.format.or_else(|| Format::of(self.output.as_ref()?)).unwrap_or(usual);
        if self.stream && !format.streams() {
            let usage = Usage::new("this format is written at once, not batch by batch");
            return Err(usage.with_hint("leave --stream out, or write csv, jsonl or npy").into());
        }
        if self.elements.is_some() && format.holds_elements() {
            let usage = Usage::new("this format holds edges and faces in the same file");
            return Err(usage.with_hint("leave --elements out").into());
        }
        let reader = session.reader(&self.store).await?;
        let axes: Vec<String> =
            reader.store().root().axes().iter().map(|axis| axis.name.clone()).collect();
        let mut query = self.query(&axes)?;
        if self.kind.is_none() && reader.store().root().zarr_vectors.geometry_types.len() > 1 {
            let kind = self.kind_of_objects(&reader).await?;
            let others = self.kinds_beside(&reader).await.filter(|_| kind.is_none());
            session.tell(&mut *out, others)?;
            query = kind.into_iter().fold(query, zvf::Query::of_kind);
        }
        if !self.groups.is_empty() {
            query = query.in_groups(self.group_numbers(session, &reader).await?);
        }
        let progress = session.progress("reading");
        if self.explain {
            let plan = advised(&reader, reader.plan(&query).await).await?;
            let answer = advised(&reader, reader.run(&query).await).await?;
            drop(progress);
            if self.output.is_some() {
                let mut sink = self.sink(session, format, None, &axes)?;
                sink.write(&answer.batch)?;
                sink.finish()?;
            }
            explain(&plan, &answer, session.json(), out)?;
            tell(session, out, reader.store(), Some(&answer))?;
            return Ok(Outcome::Clean);
        }
        let mut sink = self.sink(session, format, Some(&mut *out), &axes)?;
        if self.stream || self.streams_points(&reader, format) {
            let written =
                stream(&reader, query, &mut sink, &|n| progress.set(format!("{n} vertices")))
                    .await?;
            drop(progress);
            let left_out = sink.left_out();
            sink.finish()?;
            session.tell(&mut *out, left_out)?;
            tell(session, out, reader.store(), None)?;
            session.tell(out, self.output.as_ref().map(|path| wrote(written, path)))?;
            return Ok(Outcome::Clean);
        }
        let answer = advised(&reader, reader.run(&query).await).await?;
        drop(progress);
        sink.write(&answer.batch)?;
        let left_out = sink.left_out();
        sink.finish()?;
        session.tell(&mut *out, left_out)?;
        tell(session, out, reader.store(), Some(&answer))?;
        session.tell(out, self.output.as_ref().map(|path| wrote(answer.batch.len(), path)))?;
        Ok(Outcome::Clean)
    }

    /// Whether the answer is written as it comes without being told so: points alone, of which a file holds
    /// the same either way, and of which there may be more than memory holds.
    fn streams_points(&self, reader: &Reader, format: Format) -> bool {
        let kinds = &reader.store().root().zarr_vectors.geometry_types;
        let points = kinds.iter().all(|kind| kind.known() == Some(GeometryType::PointCloud));
        let whole = self.objects.is_none() && self.groups.is_empty() && self.limit.is_none();
        let plain = self.order.is_none() && !self.owners && !self.allow_missing;
        format == Format::Npy && self.output.is_some() && points && whole && plain
    }

    /// The question that the arguments ask.
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
        if let Some(limit) = self.limit {
            query = query.limit(limit);
        }
        if self.owners {
            query = query.with_owners();
        }
        if self.allow_missing {
            query = query.allow_missing();
        }
        if self.own_level_only {
            query = query.own_level_only();
        }
        Ok(if self.stream { query.uncached() } else { query })
    }

    /// The groups asked for; names are those of the level, or of level 0 where a rule chooses it.
    async fn group_numbers(&self, session: &Session, reader: &Reader) -> anyhow::Result<Vec<u64>> {
        let numbers: Option<Vec<u64>> = self.groups.iter().map(|name| name.parse().ok()).collect();
        if let Some(numbers) = numbers {
            return Ok(numbers);
        }
        let level = if let LevelRule::Number(level) = self.level { level.0 } else { 0 };
        group::numbers(&session.level(reader.store(), level).await?, &self.groups).await
    }

    /// The level, where it is named.
    const fn number(&self) -> Option<Level> {
        if let LevelRule::Number(level) = self.level { Some(level) } else { None }
    }

    /// The kind of the objects that are named, where the store holds several.
    async fn kind_of_objects(&self, reader: &Reader) -> Result<Option<Kind>, zvf::Error> {
        match (&self.objects, self.number()) {
            (Some(Ids(ids)), Some(level)) => match ids.first() {
                Some(id) => advised(reader, reader.kind_of(level, *id).await).await,
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// A word about the kinds that are not asked for.
    async fn kinds_beside(&self, reader: &Reader) -> Option<String> {
        let level = reader.level(self.number()?).await.ok()?;
        let first = level.kinds().first()?;
        let beside: Vec<&str> = level.kinds_beside().map(Kind::token).collect();
        let others = beside.join(", ");
        (!beside.is_empty()).then(|| {
            format!("this is the {first} of the store; it holds also {others}: ask with --kind")
        })
    }

    /// Where the answer goes: the file asked for, or `out`.
    fn sink<'a>(
        &self,
        session: &Session,
        format: Format,
        out: Option<&'a mut dyn Write>,
        axes: &'a [String],
    ) -> anyhow::Result<Sink<'a>> {
        let file = |path: &PathBuf| NewFile::create(path, session.interrupt()).map(Out::File);
        let target = match (&self.output, out) {
            (Some(path), _) => file(path)?,
            (None, Some(out)) => format.to_stream(out),
            (None, None) => return Err(Usage::new("there is nowhere to write to").into()),
        };
        let elements = self.elements.as_ref().map(file).transpose()?;
        Ok(Sink::new(format, target, elements, self.no_elements, axes))
    }
}

/// Writes batch by batch; how many vertices there were. No batch at all still makes a file with a header.
async fn stream(
    reader: &Reader,
    query: zvf::Query,
    sink: &mut Sink<'_>,
    progress: &dyn Fn(usize),
) -> anyhow::Result<usize> {
    let mut batches = reader.stream(query.clone());
    let mut written = 0_usize;
    while let Some(batch) = batches.next().await {
        let batch = advised(reader, batch).await?;
        written = written.saturating_add(batch.len());
        sink.write(&batch)?;
        progress(written);
    }
    if written == 0 {
        let answer = reader.run(&query).await.map_err(zvf::Error::from)?;
        sink.write(&answer.batch)?;
    }
    Ok(written)
}

/// What was found, or the error with advice that only the store can give.
pub(crate) async fn advised<T>(
    reader: &Reader,
    found: Result<T, QueryError>,
) -> Result<T, zvf::Error> {
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(advise(error.into(), reader.store()).await),
    }
}

fn wrote(vertices: usize, path: &std::path::Path) -> String {
    let vertices = u64::try_from(vertices).unwrap_or(u64::MAX);
    let vertices = if vertices == 1 {
        "1 vertex".to_owned()
    } else {
        format!("{} vertices", table::count(vertices))
    };
    format!("{vertices} in {}", path.display())
}

/// What the answer says besides its geometry.
fn tell(
    session: &Session,
    out: &mut dyn Write,
    store: &Store,
    answer: Option<&Answer>,
) -> anyhow::Result<()> {
    let mut words = sentences(&store.notices());
    if let Some(answer) = answer {
        words.extend(sentences(&answer.notices));
        words.extend(answer.missing.iter().map(|Missing { array, chunk }| {
            format!("{array} has no chunk {chunk} although it is recorded: left out")
        }));
        let unknown: Vec<String> = answer.unknown_objects.iter().map(ToString::to_string).collect();
        if !unknown.is_empty() {
            words.push(format!("there is no object {}", unknown.join(", ")));
        }
        if answer.truncated && answer.batch.is_empty() {
            words.push(
                "the limit is below the first object, which is not cut: raise --limit".to_owned(),
            );
        } else if answer.truncated {
            words.push("the limit cut the answer off: there is more".to_owned());
        }
    }
    Ok(session.tell(out, words)?)
}

fn explain(plan: &Plan, answer: &Answer, as_json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if as_json {
        return table::json(&json!({"plan": plan_json(plan), "answer": answer_json(answer)}), out);
    }
    writeln!(out, "{plan}\n")?;
    writeln!(
        out,
        "answer    {} vertices, {} parts",
        answer.batch.len(),
        answer.batch.parts().len()
    )?;
    if let Some(elements) = answer.batch.elements() {
        writeln!(out, "elements  {} of {} vertices", elements.len(), elements.width())?;
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
    let Figures { cells, rows, requests, bytes, elapsed, .. } = answer.figures;
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
enum ModeWord {
    /// With all vertices inside.
    Inside,
    /// With a point in the region, whole.
    Touch,
    /// Cut at the boundary.
    Clip,
    /// The stored vertices inside, in runs.
    Crop,
    /// Whatever is in chunks that meet the region, untested.
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
enum OrderWord {
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
enum Unknown {
    /// A fault.
    Error,
    /// Left out, and told.
    Report,
    /// Left out.
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

/// Ids and half-open ranges of them, with commas between.
pub(crate) fn ids(text: &str) -> Result<Ids, String> {
    let wrong = |part: &str| format!("{part:?} is no id and no range such as 20..30");
    let mut ids = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_no_number| wrong(part));
        match part.split_once("..") {
            None => ids.push(ObjectId(number(part)?)),
            Some((start, end)) => {
                let range = number(start)?..number(end)?;
                if range.start.abs_diff(range.end.max(range.start)) > MOST_IDS {
                    return Err(format!("{part:?} are more than {MOST_IDS} ids"));
                }
                ids.extend(range.map(ObjectId));
            }
        }
    }
    Ok(Ids(ids))
}

/// A level by its number, or by what is wanted of it.
pub(crate) fn level_rule(text: &str) -> Result<LevelRule, String> {
    let wrong =
        || "a number, vertices=N, bytes=SIZE, error=X or screen=WIDTH/PIXELS is wanted".to_owned();
    let Some((rule, value)) = text.split_once('=') else {
        return text
            .parse()
            .map(|number| LevelRule::Number(Level(number)))
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

/// Ids that one range may name.
const MOST_IDS: u64 = 100_000_000;

const EXAMPLES: &str = "Examples:
  zvf query brain.zarrvectors --bbox 0,0,0:100,100,50
  zvf query brain.zarrvectors --bbox 0,0,0:100,100,50 --mode clip -o part.ply
  zvf query tracts.zarrvectors --objects 7,9,20..30 --format jsonl
  zvf query scan.zarrvectors --where \"intensity > 3\" --columns intensity --limit 1000 -o some.npy
  zvf query scan.zarrvectors --level vertices=100000 --stream -o overview.csv
  zvf query net.zarrvectors --ball 5,5,5:2 -o nodes.csv --elements edges.csv
  zvf query s3://bucket/scan.zarrvectors --bbox 0,0,0:1,1,1 --explain";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_ranges() {
        let plain =
            |text: &str| ids(text).map(|Ids(ids)| ids.iter().map(|id| id.0).collect::<Vec<_>>());
        assert_eq!(plain("7"), Ok(vec![7]));
        assert_eq!(plain("7, -9,2..4,7"), Ok(vec![7, -9, 2, 3, 7]));
        assert_eq!(plain("4..4,9..2,-2..0"), Ok(vec![-2, -1]));
        assert_eq!(plain("a"), Err("\"a\" is no id and no range such as 20..30".into()));
        assert!(plain("").is_err() && plain("1..").is_err() && plain("1,,2").is_err());
        assert_eq!(
            plain("-9223372036854775808..9223372036854775807").unwrap_err(),
            "\"-9223372036854775808..9223372036854775807\" are more than 100000000 ids"
        );
    }

    #[test]
    fn levels_by_number_or_rule() {
        for (text, rule) in [
            ("3", LevelRule::Number(Level(3))),
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

//! The part that has the reference library write fresh stores, and asks of them what brute force knows.
//!
//! What was written is known from the arrays given to the writer alone, so nothing here depends on how
//! the reference reads, or on how we do. Each store is asked with boxes of every size, some with faces
//! through vertices, in every mode; points also by predicates and objects, collected and streamed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use futures_util::TryStreamExt as _;
use serde_json::Value;
use tokio::runtime::Runtime;
use zvf_format::Class;
use zvf_model::{Batch, Bounds, Kind, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};
use zvf_store::{OpenOptions, Store};

use crate::golden_part::boxes::{self, Piece};
use crate::naive::Cube;
use crate::npy;
use crate::peers;
use crate::random::Random;
use crate::report::Report;
use crate::tally::Tally;
use crate::whole;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) seed: u64,
    pub(crate) stores: usize,
    pub(crate) boxes: usize,
}

/// Writes stores and asks.
pub(crate) fn run(
    effort: Effort,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    write(folder.path(), effort.seed, effort.stores)?;
    let list = std::fs::read_to_string(folder.path().join("stores.json"))?;
    let list: Value = serde_json::from_str(&list)?;
    for (turn, about) in list.as_array().into_iter().flatten().enumerate() {
        let id = about["id"].as_str().context("a store without an id")?;
        let mut report = Report::new(format!("live/{}/{id}", effort.seed));
        let written = Written::read(&folder.path().join(id), about)?;
        let random = Random::new(effort.seed ^ (turn as u64) << 32);
        runtime.block_on(ask(&mut report, &written, random, effort.boxes));
        tally.add(report)?;
    }
    Ok(())
}

/// Has the reference write `stores` stores into `folder`.
pub(crate) fn write(folder: &Path, seed: u64, stores: usize) -> anyhow::Result<()> {
    let python = peers::python("reference-0.9.2", &["zarr-vectors==0.9.2"])?;
    let writer = &mut Command::new(python);
    let writer = writer.arg(peers::script("write_stores.py")).arg(folder);
    peers::run(writer.args([seed.to_string(), stores.to_string()]))?;
    Ok(())
}

/// What a writer was given.
struct Written {
    store: PathBuf,
    kind: Kind,
    points: Vec<Vec<f64>>,
    /// Chains, or elements, as their points; nothing for points.
    pieces: Vec<Piece>,
    columns: Vec<(String, Vec<f64>)>,
    owners: Option<Vec<i64>>,
}

impl Written {
    fn read(folder: &Path, about: &Value) -> anyhow::Result<Self> {
        let kind = match about["kind"].as_str().context("a store without a kind")? {
            "points" | "point_objects" | "by_attribute" => Kind::PointCloud,
            name => name.parse()?,
        };
        let points = npy::floats(&folder.join("positions.npy"))?.rows();
        let columns = about["columns"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let column = |name: &str| {
            let values = npy::floats(&folder.join(format!("{name}.npy")))?;
            Ok((name.to_owned(), values.values))
        };
        let columns = columns.map(column).collect::<anyhow::Result<_>>()?;
        let mut pieces = Vec::new();
        if folder.join("parts.npy").exists() {
            let parts = npy::ints(&folder.join("parts.npy"))?.values;
            let part = |pair: &[i64]| points[pair[0] as usize..pair[1] as usize].to_vec();
            pieces = parts.windows(2).map(part).collect();
        }
        if folder.join("ends.npy").exists() {
            let ends = npy::ints(&folder.join("ends.npy"))?.rows();
            let piece =
                |row: &Vec<i64>| row.iter().map(|&at| points[at as usize].clone()).collect();
            pieces = ends.iter().map(piece).collect();
        }
        let owners = folder.join("objects.npy");
        let owners = owners.exists().then(|| npy::ints(&owners)).transpose()?.map(|npy| npy.values);
        Ok(Self { store: folder.join("store.zarrvectors"), kind, points, pieces, columns, owners })
    }

    /// A box around a place where something is; now and then with a face through a vertex.
    fn cube(&self, random: &mut Random) -> Cube {
        let axes = self.points[0].len();
        let side = |axis: usize| {
            let all = || self.points.iter().map(|point| point[axis]);
            all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min)
        };
        let share = [0.0, 0.02, 0.1, 0.3, 0.7, 1.5][random.below(6)];
        let centre = &self.points[random.below(self.points.len())];
        let corner = &self.points[random.below(self.points.len())];
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for axis in 0..axes {
            let half = 0.5 * share * side(axis) * (0.5 + random.unit());
            let shift = if share == 0.0 { 0.0 } else { (random.unit() - 0.5) * half };
            let mut ends = [centre[axis] + shift - half, centre[axis] + shift + half];
            if share > 0.0 && random.below(3) == 0 {
                ends[random.below(2)] = corner[axis];
            }
            low.push(ends[0].min(ends[1]));
            high.push(ends[0].max(ends[1]));
        }
        Cube { low, high }
    }

    /// The rows that `keep` names, each as its point and then its columns, in the order of the values.
    fn rows(&self, keep: impl Fn(usize) -> bool) -> Vec<Vec<u64>> {
        let row = |at: usize| {
            let values =
                self.points[at].iter().chain(self.columns.iter().map(|(_, column)| &column[at]));
            values.map(|x| x.to_bits()).collect()
        };
        sorted((0..self.points.len()).filter(|&at| keep(at)).map(row).collect())
    }
}

async fn ask(report: &mut Report, written: &Written, mut random: Random, boxes: usize) {
    let store = Store::open(&written.store.to_string_lossy(), OpenOptions::default()).await;
    let Some(store) = report.keep("open", store) else { return };
    let reader = Reader::new(store);
    let names: Vec<String> = written.columns.iter().map(|(name, _)| name.clone()).collect();
    let whole = Query::all().columns(Columns::Named(names.clone()));
    if let Some(answer) = report.keep("all", reader.run(&whole).await) {
        let told = written.rows(|_| true);
        report.holds("all", found(&answer.batch, &names) == told, "other rows than were written");
    }
    for turn in 0..boxes {
        let cube = written.cube(&mut random);
        let bounds = Bounds::new(&cube.low, &cube.high);
        let at = format!("box {turn}");
        let Some(bounds) = report.keep(&at, bounds) else { continue };
        let query = Query::within(bounds);
        if written.kind == Kind::PointCloud {
            points(report, &at, written, &reader, query, &cube, &mut random).await;
        } else {
            boxes::geometry(
                report,
                &at,
                &reader,
                written.kind,
                query.clone(),
                &written.pieces,
                &cube,
            )
            .await;
            let query = query.mode(Mode::Crop).columns(Columns::Named(names.clone()));
            let query = query.order(zvf_query::Order::Storage);
            let told = written.rows(|at| cube.contains(&written.points[at]));
            same_rows(report, &format!("{at}/crop"), &reader, &query, &names, &told).await;
        }
    }
}

/// Points in a box: all of them, those a predicate holds for, those of some objects, and as a stream.
async fn points(
    report: &mut Report,
    at: &str,
    written: &Written,
    reader: &Reader,
    query: Query,
    cube: &Cube,
    random: &mut Random,
) {
    let names: Vec<String> = written.columns.iter().map(|(name, _)| name.clone()).collect();
    let query = query.columns(Columns::Named(names.clone()));
    let inside = |at: usize| cube.contains(&written.points[at]);
    let told = written.rows(inside);
    same_rows(report, at, reader, &query, &names, &told).await;

    let batches: Result<Vec<Batch>, _> = reader.stream(query.clone()).try_collect().await;
    if let Some(batches) = report.keep(&format!("{at}/stream"), batches) {
        let rows = sorted(batches.iter().flat_map(|batch| found(batch, &names)).collect());
        report.holds(&format!("{at}/stream"), rows == told, "a stream of other rows");
    }

    let column =
        |name: &str| written.columns.iter().find(|(found, _)| found == name).map(|(_, of)| of);
    if let (Some(a), Some(n)) = (column("a"), column("n")) {
        let (least, one) = ((random.below(16) as f64) / 16.0, random.below(5));
        let text = format!("a >= {least} and not n = {one}");
        let told = written.rows(|at| inside(at) && a[at] >= least && n[at] != one as f64);
        if let Some(predicate) = report.keep(&text, text.parse()) {
            let what = format!("{at}/{text}");
            same_rows(report, &what, reader, &query.clone().filter(predicate), &names, &told).await;
        }
    }
    if let Some(owners) = &written.owners {
        let some: Vec<i64> = (0..3).map(|turn| turn * 10 + random.below(10) as i64).collect();
        let told = written.rows(|at| inside(at) && some.contains(&owners[at]));
        let what = format!("{at}/objects {some:?}");
        let query = query.of_objects(some.iter().map(|id| ObjectId(*id)));
        same_rows(report, &what, reader, &query, &names, &told).await;
    }
}

async fn same_rows(
    report: &mut Report,
    what: &str,
    reader: &Reader,
    query: &Query,
    names: &[String],
    told: &[Vec<u64>],
) {
    let answer = match reader.run(query).await {
        Err(error) if error.class() == Class::Unsupported => return report.skip(error.to_string()),
        answer => answer,
    };
    let Some(answer) = report.keep(what, answer) else { return };
    let rows = found(&answer.batch, names);
    report.holds(what, rows == told, format!("expected {} rows, found {}", told.len(), rows.len()));
}

/// The rows of an answer, each as its point and then the named columns, in the order of the values.
fn found(batch: &Batch, names: &[String]) -> Vec<Vec<u64>> {
    let columns: Vec<_> = names.iter().filter_map(|name| batch.field(name)).collect();
    let row = |at: usize| {
        let values = columns.iter().map(|field| field.column.float(at, 0).unwrap_or(f64::NAN));
        whole::point(batch.positions(), at).into_iter().chain(values).map(f64::to_bits).collect()
    };
    sorted((0..batch.len()).map(row).collect())
}

fn sorted(mut rows: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    rows.sort_unstable();
    rows
}

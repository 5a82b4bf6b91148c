//! The part that has zarr-vectors write new stores, and compares queries with brute force.
//!
//! The contents are known from the arrays given to the writer, so the comparison does not depend on
//! how either side reads. Each store is queried with boxes of every size, some with faces through
//! vertices, in every mode; points also by predicates and objects, collected and streamed; chains
//! by id and by group. Coarser levels, which zarr-vectors derives itself, are only compared with
//! the contents of their own cells. The validator must find no error.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use zvf_model::{Batch, Bounds, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::region::Region;
use zvf_query::{Columns, Mode, Order, Query, Reader};
use zvf_store::Store;

use crate::contents::{self, LevelContents};
use crate::golden_part::boxes::{self, PointList};
use crate::input::Input;
use crate::naive::{self, Cube};
use crate::peers;
use crate::report::{Report, Run};
use crate::{corpus, validate_part, written_part};
use archives::random::Random;

/// The number of stores, boxes and levels.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) seed: u64,
    pub(crate) stores: usize,
    pub(crate) boxes: usize,
}

/// Writes stores and queries them.
pub(crate) fn run(effort: Effort, run: &mut Run<'_>) -> anyhow::Result<()> {
    let folder = archives::scratch();
    let mut writer = peers::reference_script("write_stores.py")?;
    let words = [effort.seed.to_string(), effort.stores.to_string()];
    peers::run_command(writer.arg(folder.path()).args(words))?;
    let inputs = Input::read_all(folder.path())?;
    for (turn, input) in inputs.iter().enumerate() {
        let id = &input.id;
        run.case(format!("live/{}/{id}", effort.seed), async |report| {
            let store = folder.path().join(id).join("store.zarrvectors");
            let mut random = Random::new(effort.seed ^ (turn as u64) << 32);
            if let Some(opened) = report.ok_or_report("open", corpus::open(&store).await) {
                check_store(report, opened, input, effort.boxes, &mut random).await?;
            }
            validate_part::check_sound(report, &store).await
        })?;
    }
    written_part::check_twins(folder.path(), &inputs, run)
}

/// Queries every level of a store.
async fn check_store(
    report: &mut Report,
    store: Store,
    input: &Input,
    boxes: usize,
    random: &mut Random,
) -> anyhow::Result<()> {
    let (reader, kind, pieces) = (&Reader::new(store), input.kind()?, input.pieces());
    let (points, columns) = (&*input.positions, &input.columns);
    // Faces between chunks of Draco streams are left out.
    let written =
        Level { reader, number: LevelId(0), points, columns, is_whole: !input.is_draco() };
    written.check_rows(report, "all", &Query::all(), |_| true).await;
    written.check_objects(report, input, kind, &pieces, random).await;
    for turn in 0..boxes {
        let (at, cube) = (format!("box {turn}"), random_cube(points, random));
        let bounds = report.ok_or_report(&at, Bounds::new(&cube.low, &cube.high));
        let Some(bounds) = bounds else { continue };
        if kind == Kind::PointCloud {
            written.check_points(report, &at, bounds, (&cube, input), random).await;
        } else {
            let query = Query::all().in_region(bounds);
            let all = query.clone();
            boxes::check_geometry(report, &at, reader, kind, all, &pieces, &cube).await;
            written.check_crop(report, &format!("{at}/crop"), query.mode(Mode::Crop), &cube).await;
        }
    }
    let mode = if kind == Kind::PointCloud { Mode::Inside } else { Mode::Crop };
    for number in reader.store().level_numbers().into_iter().filter(|number| *number > 0) {
        let number = LevelId(number);
        let contents =
            LevelContents::read(LevelReader::open(reader.store(), number).await?).await?;
        let (points, columns) = (&*contents.points(), &BTreeMap::new());
        let level = Level { reader, number, points, columns, is_whole: true };
        for turn in 0..boxes {
            let cube = random_cube(&input.positions, random);
            let query = Query::all().in_region(Bounds::new(&cube.low, &cube.high)?).mode(mode);
            level.check_crop(report, &format!("level {number}/box {turn}"), query, &cube).await;
        }
    }
    Ok(())
}

/// A level of a store of zarr-vectors, and its vertices.
struct Level<'a> {
    reader: &'a Reader,
    number: LevelId,
    points: &'a [Vec<f64>],
    columns: &'a BTreeMap<String, Vec<f64>>,
    /// Whether answers contain all.
    is_whole: bool,
}

/// Whether a row belongs to the answer.
type Keep<'a> = Box<dyn Fn(usize) -> bool + 'a>;

impl Level<'_> {
    /// Returns the rows that `keep` accepts, each as its point and then its columns, sorted by
    /// value.
    fn rows(&self, keep: impl Fn(usize) -> bool) -> Vec<Vec<u64>> {
        let row = |at: usize| {
            let columns = self.columns.values().map(|column| &column[at]);
            self.points[at].iter().chain(columns).map(|x| x.to_bits()).collect()
        };
        sort_rows((0..self.points.len()).filter(|&at| keep(at)).map(row).collect())
    }

    /// Returns the rows of an answer in the same form.
    fn rows_of(&self, batch: &Batch) -> Vec<Vec<u64>> {
        let fields: Vec<_> = self.columns.keys().filter_map(|name| batch.field(name)).collect();
        let row = |(at, point): (usize, Vec<f64>)| {
            let values = fields.iter().map(|field| field.column.float(at, 0).unwrap_or(f64::NAN));
            point.into_iter().chain(values).map(f64::to_bits).collect()
        };
        sort_rows(contents::points(batch.positions()).into_iter().enumerate().map(row).collect())
    }

    /// Returns a query with all columns.
    fn query(&self, query: &Query) -> Query {
        let names = self.columns.keys().cloned().collect();
        query.clone().at_level(self.number).columns(Columns::Named(names))
    }

    /// Compares the rows of an answer, with their columns, with the rows that `keep` accepts.
    async fn check_rows(
        &self,
        report: &mut Report,
        what: &str,
        query: &Query,
        keep: impl Fn(usize) -> bool,
    ) {
        let answer = self.reader.run(&self.query(query)).await;
        let Some(answer) = report.ok_or_report(what, answer) else { return };
        let (expected, rows) = (self.rows(keep), self.rows_of(&answer.batch));
        let why = format!("expected {} rows, found {}", expected.len(), rows.len());
        report.check(what, rows == expected && answer.complete == self.is_whole, why);
    }

    /// Compares the vertices in a box.
    async fn check_crop(&self, report: &mut Report, what: &str, query: Query, cube: &Cube) {
        let keep = |at: usize| cube.contains(&self.points[at]);
        self.check_rows(report, what, &query.order(Order::Storage), keep).await;
    }

    /// Compares objects by their ids and by their groups: chains point by point, in the requested
    /// order.
    async fn check_objects(
        &self,
        report: &mut Report,
        input: &Input,
        kind: Kind,
        pieces: &[PointList],
        random: &mut Random,
    ) {
        let group = |(number, members): (usize, &Vec<i64>)| {
            let query = Query::all().in_groups([number as u64]);
            (format!("group {number}"), query, members.clone())
        };
        let mut asked: Vec<_> = input.groups.iter().enumerate().map(group).collect();
        for _ in 0..if kind.is_chain() { 4 } else { 0 } {
            let some: Vec<i64> = (0..5).map(|_| random.next_below(pieces.len()) as i64).collect();
            let query = Query::all().of_objects(some.iter().map(|id| ObjectId(*id)));
            asked.push((format!("objects {some:?}"), query, some));
        }
        for (what, query, ids) in asked {
            if kind == Kind::PointCloud {
                let Some(owners) = &input.objects else { return };
                self.check_rows(report, &what, &query, |at| ids.contains(&owners[at])).await;
                continue;
            }
            let query = query.order(Order::Objects).columns(Columns::None);
            let answer = report.ok_or_report(&what, self.reader.run(&query).await);
            let Some(answer) = answer else { continue };
            let expected: Vec<&PointList> = ids.iter().map(|id| &pieces[*id as usize]).collect();
            let found = boxes::collect_pieces(&answer.batch, kind);
            let why = format!("expected {} chains, found {}", expected.len(), found.len());
            report.check(&what, found.iter().eq(expected), why);
        }
    }

    /// Compares points in a box: all of them, those that match a predicate, those of some objects,
    /// and as a stream; then those in a ball around its centre, and in the half-open box.
    async fn check_points(
        &self,
        report: &mut Report,
        at: &str,
        bounds: Bounds,
        (cube, input): (&Cube, &Input),
        random: &mut Random,
    ) {
        let (points, columns) = (self.points, self.columns);
        let query = Query::all().in_region(bounds);
        let inside = |at: usize| cube.contains(&points[at]);
        let streamed = self.reader.stream(self.query(&query)).try_collect::<Vec<Batch>>().await;
        if let Some(batches) = report.ok_or_report(&format!("{at}/stream"), streamed) {
            let rows = batches.iter().flat_map(|batch| self.rows_of(batch));
            let is_same = sort_rows(rows.collect()) == self.rows(inside);
            report.check(&format!("{at}/stream"), is_same, "other rows");
        }
        let half_open = Query::all().in_region(Region::from(bounds).into_half_open());
        let keep: Keep<'_> = Box::new(|at| cube.contains_half_open(&points[at]));
        let mut asked: Vec<(String, Query, Keep<'_>)> = vec![
            ("inside".to_owned(), query.clone(), Box::new(inside)),
            ("half open".to_owned(), half_open, keep),
        ];
        if let (Some(a), Some(n)) = (columns.get("a"), columns.get("n")) {
            let (least, excluded) = ((random.next_below(16) as f64) / 16.0, random.next_below(5));
            let text = format!("a >= {least} and not n = {excluded}");
            if let Some(predicate) = report.ok_or_report(&text, text.parse()) {
                let keep = move |at| inside(at) && a[at] >= least && n[at] != excluded as f64;
                asked.push((text, query.clone().filter(predicate), Box::new(keep)));
            }
        }
        if let Some(owners) = &input.objects {
            let some: Vec<i64> =
                (0..3).map(|turn| turn * 10 + random.next_below(10) as i64).collect();
            let query = query.of_objects(some.iter().map(|id| ObjectId(*id)));
            let what = format!("objects {some:?}");
            let keep = move |at| inside(at) && some.contains(&owners[at]);
            asked.push((what, query, Box::new(keep)));
        }
        let (centre, radius) = (cube.centre(), 0.5 * cube.longest_side());
        if let Some(ball) = report.ok_or_report("ball", Region::ball(&centre, radius)) {
            let keep = move |at: usize| naive::distance(&centre, &points[at]) <= radius;
            asked.push(("ball".to_owned(), Query::all().in_region(ball), Box::new(keep)));
        }
        for (what, query, keep) in asked {
            self.check_rows(report, &format!("{at}/{what}"), &query, keep).await;
        }
    }
}

/// Returns a box around a random point; sometimes with a face through a point.
fn random_cube(points: &[Vec<f64>], random: &mut Random) -> Cube {
    let share = [0.0, 0.02, 0.1, 0.3, 0.7, 1.5][random.next_below(6)];
    let [centre, corner] = [(); 2].map(|()| &points[random.next_below(points.len())]);
    let side = |axis: usize| -> [f64; 2] {
        let all = || points.iter().map(|point| point[axis]);
        let side = all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min);
        let half = 0.5 * share * side * (0.5 + random.next_unit());
        let shift = if share == 0.0 { 0.0 } else { (random.next_unit() - 0.5) * half };
        let mut ends = [centre[axis] + shift - half, centre[axis] + shift + half];
        if share > 0.0 && random.next_below(3) == 0 {
            ends[random.next_below(2)] = corner[axis];
        }
        [ends[0].min(ends[1]), ends[0].max(ends[1])]
    };
    let (low, high) = (0..centre.len()).map(side).map(|[low, high]| (low, high)).unzip();
    Cube { low, high }
}

fn sort_rows(mut rows: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    rows.sort_unstable();
    rows
}

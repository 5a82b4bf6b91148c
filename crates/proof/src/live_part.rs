//! The part that has zarr-vectors write new stores, and compares queries with brute force.
//!
//! The contents are known from the arrays given to the writer, so the comparison does not depend on
//! how either side reads. Each store is queried with boxes of every size, some with faces through
//! vertices, in every mode; points also by predicates and objects, collected and streamed; chains
//! by id and by group. Coarser levels, which zarr-vectors derives itself, are only compared with
//! the contents of their own cells. The validator must find no error.

use futures_util::TryStreamExt as _;
use zvf_model::{Batch, Bounds, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::region::Region;
use zvf_query::{Columns, Mode, Order, Query, Reader};

use crate::contents::{self, LevelContents};
use crate::golden_part::boxes::{self, Piece};
use crate::input::Input;
use crate::naive::{self, Cube};
use crate::peers;
use crate::report::{Report, Run};
use crate::{corpus, validate_part, written_part};
use archives::random::Random;

/// The number of stores, boxes and levels.
#[derive(Clone, Copy, Debug)]
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
            let random = Random::new(effort.seed ^ (turn as u64) << 32);
            if let Some(opened) = report.ok_or_report("open", corpus::open(&store).await) {
                let names = input.columns.keys().cloned().collect();
                let (reader, kind, pieces) = (Reader::new(opened), input.kind()?, input.pieces());
                let written = Written { reader, kind, pieces, input, names };
                written.check(report, random, effort.boxes).await;
            }
            validate_part::check_sound(report, &store).await
        })?;
    }
    written_part::check_twins(folder.path(), &inputs, run)
}

/// A store of zarr-vectors, and its input.
struct Written<'a> {
    reader: Reader,
    kind: Kind,
    pieces: Vec<Piece>,
    input: &'a Input,
    /// The names of the columns.
    names: Vec<String>,
}

impl Written<'_> {
    /// Whether answers contain all: faces between chunks of Draco streams are left out.
    fn is_whole(&self) -> bool {
        !self.input.is_draco()
    }

    /// Returns a box around a random vertex; sometimes with a face through a vertex.
    fn cube(&self, random: &mut Random) -> Cube {
        let axes = self.input.positions[0].len();
        let side = |axis: usize| {
            let all = || self.input.positions.iter().map(|point| point[axis]);
            all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min)
        };
        let share = [0.0, 0.02, 0.1, 0.3, 0.7, 1.5][random.next_below(6)];
        let centre = &self.input.positions[random.next_below(self.input.positions.len())];
        let corner = &self.input.positions[random.next_below(self.input.positions.len())];
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for axis in 0..axes {
            let half = 0.5 * share * side(axis) * (0.5 + random.next_unit());
            let shift = if share == 0.0 { 0.0 } else { (random.next_unit() - 0.5) * half };
            let mut ends = [centre[axis] + shift - half, centre[axis] + shift + half];
            if share > 0.0 && random.next_below(3) == 0 {
                ends[random.next_below(2)] = corner[axis];
            }
            low.push(ends[0].min(ends[1]));
            high.push(ends[0].max(ends[1]));
        }
        Cube { low, high }
    }

    /// Returns the rows that `keep` accepts, each as its point and then its columns, sorted by
    /// value.
    fn rows(&self, keep: impl Fn(usize) -> bool) -> Vec<Vec<u64>> {
        let row = |at: usize| {
            let values = self.input.positions[at]
                .iter()
                .chain(self.input.columns.values().map(|column| &column[at]));
            values.map(|x| x.to_bits()).collect()
        };
        sort_rows((0..self.input.positions.len()).filter(|&at| keep(at)).map(row).collect())
    }

    /// Queries the store.
    async fn check(&self, report: &mut Report, mut random: Random, boxes: usize) {
        self.check_rows(report, "all", &Query::all(), |_| true).await;
        self.check_objects(report, &mut random).await;
        for turn in 0..boxes {
            let cube = self.cube(&mut random);
            let at = format!("box {turn}");
            let Some(bounds) = report.ok_or_report(&at, Bounds::new(&cube.low, &cube.high)) else {
                continue;
            };
            if self.kind == Kind::PointCloud {
                self.check_points(report, &at, bounds, &cube, &mut random).await;
            } else {
                self.check_geometry(report, &at, Query::all().in_region(bounds), &cube).await;
            }
        }
        for number in self.reader.store().level_numbers().into_iter().filter(|number| *number > 0) {
            let level = LevelId(number);
            let coarser = self.check_coarser_level(report, level, &mut random, boxes).await;
            report.ok_or_report(&format!("level {number}"), coarser);
        }
    }

    /// Compares the rows of an answer, with their columns, with the written rows that `keep`
    /// accepts.
    async fn check_rows(
        &self,
        report: &mut Report,
        what: &str,
        query: &Query,
        keep: impl Fn(usize) -> bool,
    ) {
        let (expected, names) = (self.rows(keep), &self.names);
        let query = query.clone().columns(Columns::Named(names.clone()));
        let Some(answer) = report.ok_or_report(what, self.reader.run(&query).await) else { return };
        let rows = rows_of_answer(&answer.batch, names);
        let why = || format!("expected {} rows, found {}", expected.len(), rows.len());
        report.check(what, rows == expected && answer.complete == self.is_whole(), why());
    }

    /// Compares objects by their ids and by their groups: chains point by point, in the requested
    /// order.
    async fn check_objects(&self, report: &mut Report, random: &mut Random) {
        let Self { kind, input, pieces, .. } = self;
        for (number, members) in input.groups.iter().enumerate() {
            let what = format!("group {number}");
            let query = Query::all().in_groups([number as u64]);
            if *kind == Kind::PointCloud {
                let Some(owners) = &input.objects else { return };
                self.check_rows(report, &what, &query, |at| members.contains(&owners[at])).await;
            } else {
                self.check_chains(report, &what, query, members).await;
            }
        }
        if kind.is_chain() {
            for _ in 0..4 {
                let count = pieces.len();
                let some: Vec<i64> = (0..5).map(|_| random.next_below(count) as i64).collect();
                let query = Query::all().of_objects(some.iter().map(|id| ObjectId(*id)));
                self.check_chains(report, &format!("objects {some:?}"), query, &some).await;
            }
        }
    }

    async fn check_chains(&self, report: &mut Report, what: &str, query: Query, expected: &[i64]) {
        let query = query.order(Order::Objects).columns(Columns::None);
        let Some(answer) = report.ok_or_report(what, self.reader.run(&query).await) else { return };
        let expected: Vec<&Piece> = expected.iter().map(|id| &self.pieces[*id as usize]).collect();
        let found = boxes::collect_pieces(&answer.batch, self.kind);
        let same = found.iter().collect::<Vec<_>>() == expected;
        report.check(
            what,
            same,
            format!("expected {} chains, found {}", expected.len(), found.len()),
        );
    }

    /// Compares chains and elements in a box, in every mode.
    async fn check_geometry(&self, report: &mut Report, at: &str, query: Query, cube: &Cube) {
        let Self { kind, pieces, input, .. } = self;
        let all = query.clone();
        boxes::check_geometry(report, at, &self.reader, *kind, all, pieces, cube).await;
        let query = query.mode(Mode::Crop).order(Order::Storage);
        self.check_rows(report, &format!("{at}/crop"), &query, |at| {
            cube.contains(&input.positions[at])
        })
        .await;
    }

    /// Compares points in a box: all of them, those that match a predicate, those of some objects,
    /// and as a stream; then those in a ball around its centre, and in the half-open box.
    async fn check_points(
        &self,
        report: &mut Report,
        at: &str,
        bounds: Bounds,
        cube: &Cube,
        random: &mut Random,
    ) {
        let Input { positions: points, columns, objects, .. } = self.input;
        let query = Query::all().in_region(bounds);
        let inside = |at: usize| cube.contains(&points[at]);
        self.check_rows(report, at, &query, inside).await;
        self.check_stream(report, &format!("{at}/stream"), query.clone(), inside).await;

        if let (Some(a), Some(n)) = (columns.get("a"), columns.get("n")) {
            let (least, excluded) = ((random.next_below(16) as f64) / 16.0, random.next_below(5));
            let text = format!("a >= {least} and not n = {excluded}");
            if let Some(predicate) = report.ok_or_report(&text, text.parse()) {
                let query = query.clone().filter(predicate);
                let keep = |at| inside(at) && a[at] >= least && n[at] != excluded as f64;
                self.check_rows(report, &format!("{at}/{text}"), &query, keep).await;
            }
        }
        if let Some(owners) = objects {
            let some: Vec<i64> =
                (0..3).map(|turn| turn * 10 + random.next_below(10) as i64).collect();
            let query = query.of_objects(some.iter().map(|id| ObjectId(*id)));
            let keep = |at| inside(at) && some.contains(&owners[at]);
            self.check_rows(report, &format!("{at}/objects {some:?}"), &query, keep).await;
        }

        let half_open = Query::all().in_region(Region::from(bounds).into_half_open());
        let keep = |at: usize| cube.contains_half_open(&points[at]);
        self.check_rows(report, &format!("{at}/half open"), &half_open, keep).await;

        let (centre, radius) = (cube.centre(), 0.5 * cube.longest_side());
        if let Some(ball) = report.ok_or_report("ball", Region::ball(&centre, radius)) {
            let keep = |at: usize| naive::distance(&centre, &points[at]) <= radius;
            let query = Query::all().in_region(ball);
            self.check_rows(report, &format!("{at}/ball"), &query, keep).await;
        }
    }

    async fn check_stream(
        &self,
        report: &mut Report,
        what: &str,
        query: Query,
        keep: impl Fn(usize) -> bool,
    ) {
        let query = query.columns(Columns::Named(self.names.clone()));
        let batches: Result<Vec<Batch>, _> = self.reader.stream(query).try_collect().await;
        if let Some(batches) = report.ok_or_report(what, batches) {
            let rows = batches.iter().flat_map(|batch| rows_of_answer(batch, &self.names));
            report.check(what, sort_rows(rows.collect()) == self.rows(keep), "other rows");
        }
    }

    /// Compares boxes of a level that zarr-vectors built with the contents of its cells.
    async fn check_coarser_level(
        &self,
        report: &mut Report,
        level: LevelId,
        random: &mut Random,
        boxes: usize,
    ) -> anyhow::Result<()> {
        let contents =
            LevelContents::read(LevelReader::open(self.reader.store(), level).await?).await?;
        let points = contents.points();
        let mode = if self.kind == Kind::PointCloud { Mode::Inside } else { Mode::Crop };
        for turn in 0..boxes {
            let cube = self.cube(random);
            let query = Query::all().in_region(Bounds::new(&cube.low, &cube.high)?).at_level(level);
            let query = query.mode(mode).order(Order::Storage).columns(Columns::None);
            let what = format!("level {level}/box {turn}");
            let Some(answer) = report.ok_or_report(&what, self.reader.run(&query).await) else {
                continue;
            };
            let expected = points.iter().filter(|point| cube.contains(point));
            let expected = sort_rows(
                expected.map(|point| point.iter().map(|x| x.to_bits()).collect()).collect(),
            );
            let rows = rows_of_answer(&answer.batch, &[]);
            let why = format!("expected {} rows, found {}", expected.len(), rows.len());
            report.check(&what, rows == expected, why);
        }
        Ok(())
    }
}

/// Returns the rows of an answer, each as its point and then the named columns, sorted by value.
fn rows_of_answer(batch: &Batch, names: &[String]) -> Vec<Vec<u64>> {
    let columns: Vec<_> = names.iter().filter_map(|name| batch.field(name)).collect();
    let row = |(at, point): (usize, Vec<f64>)| {
        let values = columns.iter().map(|field| field.column.float(at, 0).unwrap_or(f64::NAN));
        point.into_iter().chain(values).map(f64::to_bits).collect()
    };
    sort_rows(contents::points(batch.positions()).into_iter().enumerate().map(row).collect())
}

fn sort_rows(mut rows: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    rows.sort_unstable();
    rows
}

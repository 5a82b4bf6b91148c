//! Every mode, kind of geometry and kind of bounds, compared with brute force.

use std::collections::BTreeSet;

use proptest::prelude::*;
use zvf_model::{Batch, Kind, ObjectId};
use zvf_query::{BadQuery, Mode, Query};

use crate::fixtures::{Data, Fixture};
use crate::naive::Shape;

/// Pseudo-random numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number of at least `low` and below `high`.
    pub(crate) fn random_integer(&mut self, low: i64, high: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + ((self.0 >> 11) % (high - low) as u64) as i64
    }

    fn index(&mut self, end: usize) -> usize {
        self.random_integer(0, end as i64) as usize
    }
}

const KINDS: [Kind; 6] =
    [Kind::PointCloud, Kind::Line, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh];

/// Returns random geometry of `kind` with integer coordinates.
pub(crate) fn random(kind: Kind, axes: usize, random: &mut Random) -> Data {
    let n = 2 + random.index(22);
    let n = if kind == Kind::Line { n / 2 * 2 } else { n };
    let point =
        |random: &mut Random| (0..axes).map(|_| random.random_integer(-9, 25) as f32).collect();
    let points: Vec<Vec<f32>> = (0..n).map(|_| point(random)).collect();
    let mut data = Data::new(kind, 8.0, points);
    match kind {
        Kind::PointCloud if random.index(2) == 0 => data.bins = 2,
        Kind::Line => data = data.objects((0..n / 2).map(|i| vec![2 * i, 2 * i + 1]).collect()),
        Kind::Polyline | Kind::Skeleton => {
            let (mut objects, mut next) = (Vec::new(), 0);
            while next < n {
                let len = (1 + random.index(7)).min(n - next);
                objects.push((next..next + len).collect::<Vec<_>>());
                next += len;
            }
            data = data.objects(objects);
        }
        _ => {
            let mut objects = vec![Vec::new(); 3];
            (0..n).for_each(|vertex| objects[random.index(3)].push(vertex));
            data = data.objects(objects);
        }
    }
    match kind {
        Kind::Graph => {
            data.elements = (0..n).map(|_| vec![random.index(n), random.index(n)]).collect();
        }
        Kind::Mesh => {
            let mut face = || (0..3).map(|_| random.index(n)).collect::<Vec<_>>();
            let faces = (0..2 * n).map(|_| face());
            let corners = |face: &Vec<usize>| face.iter().collect::<BTreeSet<_>>().len() == 3;
            data.elements = faces.filter(corners).collect();
        }
        Kind::Skeleton => {
            for object in &data.objects {
                for (at, child) in object.iter().enumerate().skip(1) {
                    data.elements.push(vec![*child, object[random.index(at)]]);
                }
            }
        }
        _ => {}
    }
    data
}

fn shape(axes: usize, random: &mut Random) -> Shape {
    let low: Vec<f64> = (0..axes).map(|_| random.random_integer(-10, 22) as f64).collect();
    if random.index(4) == 0 {
        // No integer point lies on the surface of such a ball, so that no verdict depends on the
        // last bit of a root.
        return Shape::Ball { centre: low, radius: random.random_integer(0, 12) as f64 + 0.31 };
    }
    let high = low.iter().map(|x| x + random.random_integer(0, 17) as f64).collect();
    Shape::Box { low, high, closed: random.index(2) == 0 }
}

/// Returns the numbers of the vertices.
pub(crate) fn numbers(batch: &Batch) -> Vec<usize> {
    let field = batch.field("v").unwrap();
    (0..batch.len()).map(|row| field.column.float(row, 0).unwrap() as usize).collect()
}

/// Returns the elements by the numbers of their vertices.
pub(crate) fn elements(batch: &Batch) -> Vec<Vec<usize>> {
    let numbers = numbers(batch);
    let elements =
        batch.elements().map(|all| all.iter().map(<[usize]>::to_vec).collect::<Vec<_>>());
    let named = |element: Vec<usize>| element.into_iter().map(|row| numbers[row]).collect();
    elements.unwrap_or_default().into_iter().map(named).collect()
}

/// Returns each part: its object, and the numbers of its vertices.
pub(crate) fn parts(batch: &Batch) -> Vec<(i64, Vec<usize>)> {
    let numbers = numbers(batch);
    batch.parts().iter().map(|part| (part.object.0, numbers[part.rows].to_vec())).collect()
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

impl Data {
    fn point(&self, vertex: usize) -> Vec<f64> {
        self.points[vertex].iter().map(|x| f64::from(*x)).collect()
    }

    /// Returns whether a vertex is selected: in the region, or in one of its chunks.
    fn counts(&self, vertex: usize, shape: &Shape, mode: Mode) -> bool {
        if mode != Mode::Cells {
            return shape.contains(&self.point(vertex));
        }
        let (low, high) = shape.hull();
        let chunk = self.chunk_of(vertex);
        (0..chunk.len()).all(|axis| {
            let at = |x: f64| (x / self.chunk).floor() as i64;
            (at(low[axis])..=at(high[axis])).contains(&chunk[axis])
        })
    }

    /// Returns the expected vertices of each object, all or in runs; `cut_chains` handles cuts.
    fn chains(&self, shape: &Shape, mode: Mode) -> Vec<(i64, Vec<usize>)> {
        let mut expected = Vec::new();
        for (object, id) in self.objects.iter().zip(&self.ids) {
            let inside = |vertex: &usize| self.counts(*vertex, shape, mode);
            let touches = || match object.as_slice() {
                [single] => inside(single),
                _ => object
                    .windows(2)
                    .any(|pair| shape.clip(&self.point(pair[0]), &self.point(pair[1])).is_some()),
            };
            let keeps_all = match mode {
                Mode::Inside => object.iter().all(inside),
                Mode::Touch => touches(),
                Mode::Cells => object.iter().any(inside),
                Mode::Clip | Mode::Crop => {
                    let runs = object.chunk_by(|a, b| inside(a) == inside(b));
                    expected
                        .extend(runs.filter(|run| inside(&run[0])).map(|run| (*id, run.to_vec())));
                    false
                }
                other => unreachable!("no expectation for {other:?}"),
            };
            if keeps_all {
                expected.push((*id, object.clone()));
            }
        }
        expected
    }

    /// Returns the runs of each object inside the shape, as points.
    fn cut_chains(&self, shape: &Shape) -> Vec<(i64, Vec<Vec<f64>>)> {
        let mut all = Vec::new();
        for (object, id) in self.objects.iter().zip(&self.ids) {
            let points: Vec<Vec<f64>> = object.iter().map(|vertex| self.point(*vertex)).collect();
            if let [point] = points.as_slice() {
                all.extend(shape.contains(point).then(|| (*id, vec![point.clone()])));
                continue;
            }
            let mut run: Vec<Vec<f64>> = Vec::new();
            for pair in points.windows(2) {
                let at = |t: f64| -> Vec<f64> {
                    pair[0].iter().zip(&pair[1]).map(|(a, b)| a + (b - a) * t).collect()
                };
                let Some((from, to)) = shape.clip(&pair[0], &pair[1]) else {
                    all.extend((!run.is_empty()).then(|| (*id, std::mem::take(&mut run))));
                    continue;
                };
                if from > 0.0 {
                    all.extend((!run.is_empty()).then(|| (*id, std::mem::take(&mut run))));
                }
                if run.is_empty() {
                    run.push(at(from));
                }
                if to > from {
                    run.push(at(to));
                }
                if to < 1.0 {
                    all.push((*id, std::mem::take(&mut run)));
                }
            }
            all.extend((!run.is_empty()).then_some((*id, run)));
        }
        all
    }

    /// Returns the elements that are certainly selected, and those that only touch.
    fn select_elements(&self, shape: &Shape, mode: Mode) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let (mut certain, mut grazing) = (Vec::new(), Vec::new());
        for element in &self.elements {
            let points: Vec<Vec<f64>> = element.iter().map(|vertex| self.point(*vertex)).collect();
            let verdict = match (mode, points.len()) {
                (Mode::Touch | Mode::Clip, 2) => Some(shape.clip(&points[0], &points[1]).is_some()),
                (Mode::Touch | Mode::Clip, _) => shape.meets_triangle(&points),
                _ => Some(element.iter().all(|vertex| self.counts(*vertex, shape, mode))),
            };
            match verdict {
                Some(true) => certain.push(element.clone()),
                Some(false) => {}
                None => grazing.push(element.clone()),
            }
        }
        (certain, grazing)
    }
}

/// Checks the answer in `mode` against brute force.
fn check(data: &Data, fixture: &Fixture, shape: &Shape, mode: Mode) {
    let context = || format!("{mode} {shape:?}\n{data:?}");
    let query = Query::all().in_region(shape.region()).mode(mode).with_owners();
    if data.kind == Kind::Mesh && mode == Mode::Clip && matches!(shape, Shape::Ball { .. }) {
        let error = fixture.run(&query).unwrap_err();
        assert!(error.cause_as::<BadQuery>().is_some());
        return;
    }
    let answer = fixture.run(&query).unwrap_or_else(|e| panic!("{e}\n{}", context()));
    assert!(answer.complete && !answer.truncated);
    let batch = &answer.batch;
    let matches_position = |row: usize| {
        let (at, x) = (batch.field("at").unwrap(), batch.positions().float(row, 0).unwrap());
        (at.column.float(row, 0).unwrap() - x).abs() < 1e-4
    };
    assert!(
        (0..batch.len()).all(matches_position),
        "values that are not those of the place: {}",
        context()
    );
    if mode != Mode::Clip || data.kind == Kind::PointCloud {
        for (vertex, owner) in numbers(batch).iter().zip(batch.vertex_objects().unwrap()) {
            let object = data.objects.iter().position(|object| object.contains(vertex));
            assert_eq!(*owner, object.map(|row| ObjectId(data.ids[row])), "{}", context());
        }
    }
    let selected = |mode| -> Vec<usize> {
        (0..data.points.len()).filter(|vertex| data.counts(*vertex, shape, mode)).collect()
    };
    if data.kind == Kind::PointCloud {
        assert_eq!(sorted(numbers(batch)), selected(mode), "{}", context());
    } else if data.kind.is_chain() && mode == Mode::Clip {
        let expected = data.cut_chains(shape);
        let found: Vec<(i64, Vec<Vec<f64>>)> = batch
            .parts()
            .iter()
            .map(|part| (part.object.0, part.rows.map(|row| place(batch, row)).collect()))
            .collect();
        assert_eq!(found.len(), expected.len(), "{found:?}\n{expected:?}\n{}", context());
        for ((id, found), (object, expected)) in found.iter().zip(&expected) {
            assert_eq!((id, found.len()), (object, expected.len()), "{}", context());
            let is_near = |(a, b): (&Vec<f64>, &Vec<f64>)| close(a, b);
            assert!(
                found.iter().zip(expected).all(is_near),
                "{found:?}\n{expected:?}\n{}",
                context()
            );
        }
    } else if data.kind.is_chain() {
        assert_eq!(parts(batch), data.chains(shape, mode), "{}", context());
    } else {
        check_elements(data, shape, mode, batch, &selected(mode));
    }
}

fn check_elements(data: &Data, shape: &Shape, mode: Mode, batch: &Batch, selected: &[usize]) {
    let context = || format!("{mode} {shape:?}\n{data:?}");
    let (expected_certain, grazing) = data.select_elements(shape, mode);
    if mode == Mode::Clip {
        if data.kind != Kind::Mesh {
            let expected = expected_certain.iter().filter_map(|edge| {
                let (a, b) = (data.point(edge[0]), data.point(edge[1]));
                let (from, to) = shape.clip(&a, &b)?;
                let at =
                    |t: f64| a.iter().zip(&b).map(|(a, b)| a + (b - a) * t).collect::<Vec<_>>();
                (from < to).then(|| [at(from), at(to)].concat())
            });
            let expected: Vec<Vec<f64>> = expected.collect();
            let rows = batch.elements().unwrap();
            let found: Vec<Vec<f64>> = rows
                .iter()
                .map(|edge| edge.iter().flat_map(|row| place(batch, *row)).collect())
                .collect();
            assert_eq!(found.len(), expected.len(), "{}", context());
            let mut unmatched = expected;
            for edge in &found {
                let at = unmatched.iter().position(|candidate| close(candidate, edge));
                unmatched.swap_remove(at.unwrap_or_else(|| panic!("{edge:?} {}", context())));
            }
        }
        return;
    }
    let found = sorted(elements(batch));
    let mut grazing = grazing;
    let mut certain = Vec::new();
    for element in &found {
        match grazing.iter().position(|grazed| grazed == element) {
            Some(at) => {
                grazing.swap_remove(at);
            }
            None => certain.push(element.clone()),
        }
    }
    assert_eq!(certain, sorted(expected_certain), "{}", context());
    let mut vertices: BTreeSet<usize> = selected.iter().copied().collect();
    vertices.extend(found.iter().flatten());
    assert_eq!(sorted(numbers(batch)), vertices.into_iter().collect::<Vec<_>>(), "{}", context());
}

fn place(batch: &Batch, row: usize) -> Vec<f64> {
    (0..batch.positions().width() as usize)
        .map(|axis| batch.positions().float(row, axis).unwrap())
        .collect()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 0, ..ProptestConfig::default() })]
    #[test]
    fn answers_are_those_of_brute_force(seed: u64, axes in 2_usize..4) {
        let mut numbers = Random::new(seed);
        for kind in KINDS {
            let data = random(kind, axes, &mut numbers);
            let shape = shape(axes, &mut numbers);
            let fixture = data.fixture();
            Mode::ALL.iter().for_each(|&mode| check(&data, &fixture, &shape, mode));
        }
    }

    /// Adjacent boxes, each without its upper faces, share no vertex and miss none; the parts that
    /// they cut from a mesh add up to its area.
    #[test]
    fn tiles_sum_to_the_full_area(seed: u64) {
        let mut numbers_of = Random::new(seed);
        for kind in [Kind::PointCloud, Kind::Mesh] {
            let data = random(kind, 2, &mut numbers_of);
            let fixture = data.fixture();
            let (mut vertices, mut found) = (Vec::new(), 0.0);
            for tile in 0..16 {
                let low = [f64::from(tile % 4) * 9.0 - 10.0, f64::from(tile / 4) * 9.0 - 10.0];
                let high = low.map(|x| x + 9.0);
                let tile = Shape::Box { low: low.to_vec(), high: high.to_vec(), closed: false };
                let query = Query::all().in_region(tile.region());
                let points = fixture.run(&query.clone().mode(Mode::Crop)).unwrap();
                vertices.extend(numbers(&points.batch));
                let clip = fixture.run(&query.mode(Mode::Clip)).unwrap();
                found += area(&clip.batch);
            }
            prop_assert_eq!(sorted(vertices), (0..data.points.len()).collect::<Vec<_>>());
            let total = area(&fixture.run(&Query::all()).unwrap().batch);
            prop_assert!((found - total).abs() < 1e-3 * (1.0 + total), "{} of {}", found, total);
        }
    }
}

/// Returns the area of all triangles.
fn area(batch: &Batch) -> f64 {
    let triangle = |face: &[usize]| {
        let [a, b, c] = [0, 1, 2].map(|corner| place(batch, face[corner]));
        ((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])).abs() / 2.0
    };
    batch.elements().map_or(0.0, |faces| faces.iter().map(triangle).sum())
}

//! The parts of the benchmark: one file and one table entry each.
//!
//! A part makes its data below the folder of the run, unless it exists, and adds its rows and
//! series to the page. With no turns it must still run each workload once and compare answers: the
//! tests do that.

mod ask;
mod cores;
mod edit;
mod files;
mod formats;
mod grow;
mod lines;
mod open;
pub(crate) mod packed;
mod points;
mod python;
#[cfg(feature = "remote")]
mod remote;

use crate::results::Needs::{Nothing, Others, Processes};
use crate::results::{BenchPart, Needs, Results};
use crate::{pyramid, tensor, validate, write};

/// All parts, in the order of the page.
pub(crate) const ALL: &[BenchPart] = &[
    part("ask", "Queries, compared with zarr-vectors", Others, ask::run),
    part("points", "Points: Parquet, DuckDB, COPC, LAZ", Nothing, points::run),
    part("lines", "Streamlines: TRX and FlatGeobuf", Nothing, lines::run),
    part("open", "Opening a store", Nothing, open::run),
    part("packed", "One file against a folder", Nothing, packed::run),
    #[cfg(feature = "remote")]
    part("remote", "Over HTTP, 20 ms away", Nothing, remote::run),
    part("write", "Writing", Nothing, write::run),
    part("files", "Creating stores from files", Processes, files::run),
    part("formats", "Reading files of other formats", Others, formats::run),
    part("pyramid", "Building levels", Processes, pyramid::run),
    part("validate", "Validating", Nothing, validate::run),
    part("tensor", "Dense arrays", Nothing, tensor::run),
    part("python", "From Python", Nothing, python::run),
    part("edit", "Editing", Nothing, edit::run),
    part("cores", "A second processor", Processes, cores::run),
    part("grow", "Growth", Nothing, grow::run),
];

const fn part(
    name: &'static str,
    title: &'static str,
    needs: Needs,
    run: fn(&mut Results<'_>) -> anyhow::Result<()>,
) -> BenchPart {
    BenchPart { name, title, needs, run }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::settings::Bench;

    /// Runs every part without peers once, on the smallest data: all answers agree.
    #[test]
    fn answers_agree() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench { folder: folder.path().to_owned(), ..Bench::with_turns(0) };
        let mut counts = std::collections::BTreeMap::new();
        for part in ALL.iter().filter(|part| part.needs.are_met(&bench)) {
            let mut results = Results::new(&bench, part);
            (part.run)(&mut results).unwrap();
            assert!(!results.rows.is_empty(), "{}", part.name);
            counts.extend(results.rows.into_iter().map(|row| ((part.name, row.work), row.count)));
        }
        for (part, work, count) in count_expected() {
            assert_eq!(counts[&(part, work.to_owned())], Some(count), "{part}: {work}");
        }
    }

    /// Counts without a store: the generated points, and the number of them in boxes.
    fn count_expected() -> [(&'static str, &'static str, u64); 13] {
        let points = data::Points { count: 10_000, chunks: 8, shard: None };
        let places: Vec<[f32; 3]> = points
            .make_batches()
            .flat_map(|batch| {
                let positions = batch.unwrap().positions().clone();
                positions.as_slice::<f32>().unwrap().as_chunks::<3>().0.to_vec()
            })
            .collect();
        let inside = |boxes: Vec<[[f64; 3]; 2]>| {
            let within = |[low, high]: &[[f64; 3]; 2], place: &[f32; 3]| {
                (0..3).all(|axis| (low[axis]..high[axis]).contains(&f64::from(place[axis])))
            };
            let count = |bounds| places.iter().filter(|place| within(bounds, place)).count() as u64;
            boxes.iter().map(count).sum()
        };
        [
            ("points", "a box of 1/1000, of 10000 points", inside(data::make_boxes(1, 0.001))),
            ("points", "20 boxes of 1 %, of 10000 points", inside(data::make_boxes(20, 0.01))),
            ("points", "all points and an attribute, of 10000 points", 10_000),
            ("lines", "one streamline, of 200", 100),
            ("lines", "all streamlines, of 200", 200 * 100),
            ("packed", "20 boxes of 1/1000 of 10000 points", inside(data::make_boxes(20, 0.001))),
            ("packed", "all of 10000 points", 10_000),
            ("grow", "all points, of 1000 points", 1000),
            ("grow", "one streamline, of 10 streamlines", 100),
            ("grow", "a box of a graph, of 1000 vertices", 1000),
            ("grow", "all of a graph, of 1000 vertices", 1000),
            ("grow", "a box of a mesh, of 1024 vertices", 1024),
            ("grow", "all of a mesh, of 1024 vertices", 1024),
        ]
    }
}

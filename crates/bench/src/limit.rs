//! The plain cost of the same work: opening and reading the files of the cells it must touch, each with
//! one call into fresh memory, and nothing else.
//!
//! For boxes these are the cells of the vertices that meet the box; for a scan all cells of the arrays
//! asked for. For objects and whole lines it is not known beforehand, and nothing is said.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::work::{Ask, Work};

const CELL: f64 = 12.5;
const ACROSS: i64 = 8;

/// The seconds that reading takes; NaN where it is not known what must be read.
pub(crate) fn read_same(stores: &Path, work: &Work) -> anyhow::Result<f64> {
    let level = stores.join(format!("{}.zarrvectors/0", work.store));
    let files: Vec<PathBuf> = match &work.ask {
        Ask::Boxes { boxes, whole: false } => {
            boxes.iter().flat_map(|bounds| cells(&level.join("vertices"), bounds)).collect()
        }
        Ask::Scan(names) => {
            let everything = [[0.0; 3], [100.0; 3]];
            let attributes = names.iter().map(|name| level.join("vertex_attributes").join(name));
            let arrays = std::iter::once(level.join("vertices")).chain(attributes);
            arrays.flat_map(|array| cells(&array, &everything)).collect()
        }
        Ask::Boxes { .. } | Ask::Objects(_) => return Ok(f64::NAN),
    };
    let start = Instant::now();
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => drop(std::hint::black_box(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn cells(array: &Path, [low, high]: &[[f64; 3]; 2]) -> Vec<PathBuf> {
    let range = |axis: usize| {
        let first = (low[axis] / CELL).floor() as i64;
        let last = ((high[axis] / CELL).floor() as i64).min(ACROSS);
        first..=last
    };
    let mut files = Vec::new();
    for i in range(0) {
        for j in range(1) {
            files.extend(range(2).map(|k| array.join(format!("c/{i}/{j}/{k}"))));
        }
    }
    files
}

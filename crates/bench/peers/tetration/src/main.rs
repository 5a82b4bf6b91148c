//! Answers slices of `.tet` files through tetration, one request at a time.
//!
//! A line asks `{"work": "slice" | "open", "file", "query", "enough"}`; the work is done again until `enough`
//! seconds are full, and a line answers `{"seconds", "count"}`: the mean, and the elements of one answer.

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use serde_json::{Value, json};
use tetration::catalog::TetFile;
use tetration::prelude::*;
use tetration::query::materialize_query_selection;

fn main() -> Result<(), Box<dyn Error>> {
    let mut open: Option<(String, TetFile)> = None;
    for line in std::io::stdin().lock().lines() {
        let ask: Value = serde_json::from_str(&line?)?;
        let path = ask["file"].as_str().unwrap_or_default().to_owned();
        let enough = ask["enough"].as_f64().unwrap_or(0.0);
        if open.as_ref().is_none_or(|(name, _)| *name != path) {
            open = Some((path.clone(), TetFile::open(&path)?));
        }
        let doc = parse_query_json(&ask["query"].to_string())?;
        let (start, mut times, mut count) = (Instant::now(), 0_u32, 0);
        while times == 0 || start.elapsed().as_secs_f64() < enough {
            if ask["work"] == "open" {
                let file = TetFile::open(&path)?;
                count = read_tet_summary_v1(file.mmap())?.datasets.len();
            } else if let Some((_, file)) = &open {
                let outcome = materialize_query_selection(&doc, file.mmap())?;
                count = outcome.shape.iter().product::<u64>() as usize;
                black_box(outcome);
            }
            times += 1;
        }
        let seconds = start.elapsed().as_secs_f64() / f64::from(times);
        println!("{}", json!({"seconds": seconds, "count": count}));
        std::io::stdout().flush()?;
    }
    Ok(())
}

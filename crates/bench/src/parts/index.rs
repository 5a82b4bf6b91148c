//! Fragment indexes: parsed, and looked at in three places each.
//!
//! The limit is copying their bytes.

use std::fs;

use serde_json::json;
use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder};

use crate::clock::measure_repeated;
use crate::contest::Contender;
use crate::peer::Other;
use crate::results::Results;
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let count = if bench.largest < 10 { 100 } else { 100_000 };
    let work = format!("{count} fragment indexes decoded, three lookups each");
    if !bench.is_selected(&work) {
        return Ok(());
    }
    let reference = Other::reference(bench);
    let blobs = (0..count).map(make_index).collect::<Result<Vec<_>, _>>()?;
    let bytes = blobs.concat();
    let file = bench.create_folder("index")?.join(format!("indexes-{count}.bin"));
    let sizes = blobs.iter().flat_map(|blob| (blob.len() as u32).to_le_bytes());
    let head = u32::to_le_bytes(count).into_iter().chain(sizes).collect::<Vec<_>>();
    fs::write(&file, [head.as_slice(), &bytes].concat())?;
    let ask = json!({"work": "indexes", "path": file, "lookups": LOOKUPS});
    let size = Cost { bytes: Some(bytes.len() as u64), ..Cost::default() };
    let mut rows = 0;
    let contenders = vec![
        Contender::new("zvf", Role::Zvf, || {
            let seconds = measure_repeated(|| {
                rows = count_looked_up_rows(&blobs)?;
                Ok(())
            })?;
            Ok(Turn { cost: size, ..Turn::from_seconds(seconds).with_count(rows) })
        }),
        reference.contender(ask),
        Contender::copying("memcpy of their bytes", bytes),
    ];
    results.contest(bench, work, contenders)?;
    Ok(())
}

/// An index of 16 fragments: runs of rows, and every fourth one a list.
fn make_index(number: u32) -> anyhow::Result<Vec<u8>> {
    let mut index = FragmentIndexBuilder::new();
    let mut row = u64::from(number % 7);
    for fragment in 0..16_u64 {
        let count = 5 + (u64::from(number) + fragment) % 9;
        if fragment % 4 == 3 {
            let rows: Vec<u64> = (0..count).map(|i| row + i * 3).collect();
            index.push_rows(&rows)?;
        } else {
            index.push_range(row, count)?;
        }
        row += count;
    }
    Ok(index.encode())
}

/// The rows that the fragments at some places name.
fn count_looked_up_rows(blobs: &[Vec<u8>]) -> anyhow::Result<u64> {
    let mut rows = 0;
    for blob in blobs {
        let index = FragmentIndex::parse(blob)?;
        for place in LOOKUPS {
            rows += match index.get(place) {
                Some(Fragment::Range { count, .. }) => count,
                Some(Fragment::Rows(list)) => list.len() as u64,
                None => 0,
            };
        }
    }
    Ok(rows)
}

const LOOKUPS: [u64; 3] = [2, 7, 12];

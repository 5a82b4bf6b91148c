//! Growth: the same work on one, ten and a hundred times the data, and by which power of it the time
//! grows.
//!
//! Chunks grow in number, not in size, as they would in a real store. A box of a fixed size keeps the
//! number of points in it by shrinking with the data; all else looks at everything.

use futures_executor::block_on;
use serde_json::json;
use zvf_query::{Columns, Query};
use zvf_validate::{Observer, Options, validate};

use crate::clock::repeated;
use crate::contest::{Contender, Role, Turn, contest};
use crate::page::{Page, Series};
use crate::parts::Bench;
use crate::parts::made::{Points, boxes, open, within};
use crate::parts::packed::turn;
use crate::peer::Reference;

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    let mut reference = Reference::of(bench);
    let mut grown: Vec<Series> = Vec::new();
    let mut times = 1;
    while times <= bench.largest.max(1) {
        let count = (1e5 * bench.scale) as u64 * u64::from(times);
        let chunks = (f64::from(times).cbrt() * 4.0).round() as u32;
        for row in rows(bench, &mut reference, Points { count, chunks, shard: None })? {
            for side in &row.sides {
                let Ok(turn) = &side.result else { continue };
                let work = row.work.split(", of ").next().unwrap_or_default();
                let point = (count as f64, turn.seconds);
                match grown.iter_mut().find(|one| one.work == work && one.who == side.name) {
                    Some(one) => one.points.push(point),
                    None => grown.push(Series {
                        part: "grow",
                        work: work.to_owned(),
                        who: side.name.clone(),
                        points: vec![point],
                    }),
                }
            }
            page.row(row);
        }
        times *= 10;
    }
    grown.into_iter().filter(|one| one.points.len() > 1).for_each(|one| page.series(one));
    Ok(())
}

/// Every work on one amount of data.
fn rows(
    bench: &Bench,
    reference: &mut Reference,
    points: Points,
) -> anyhow::Result<Vec<crate::contest::Row>> {
    let count = points.count;
    let folder = bench.below("grow")?;
    let store = points.store(&folder)?;
    let reader = open(&store)?;
    // A thousand points, however many there are.
    let small = boxes(1, (1000.0 / count as f64).min(1.0));
    let one = vec![within(&small[0])?];
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let mut rows = Vec::new();
    let new = folder.join("new.zarrvectors");
    let mut wanted = |work: &str, contenders: Vec<Contender<'_>>| -> anyhow::Result<()> {
        let work = format!("{work}, of {count} points");
        if bench.wants(&work) {
            rows.push(contest("grow", work, bench.turns, contenders)?);
        }
        Ok(())
    };
    let written = || {
        if new.exists() {
            std::fs::remove_dir_all(&new)?;
        }
        let start = std::time::Instant::now();
        points.write(&new)?;
        Ok(Turn::of(start.elapsed().as_secs_f64()))
    };
    wanted("make and write", vec![Contender::new("zvf", Role::Zvf, written)])?;
    let ask = json!({"work": "boxes", "path": store, "boxes": small});
    let ours = Contender::new("zvf", Role::Zvf, || turn(&reader, &one));
    wanted("a box of a thousand points", vec![ours, reference.contender(ask)])?;
    let ask = json!({"work": "scan", "path": store});
    let ours = Contender::new("zvf", Role::Zvf, || turn(&reader, &all));
    wanted("all points", vec![ours, reference.contender(ask)])?;
    let ask = json!({"work": "validate", "path": store, "level": 5});
    let checked = || {
        let mut sound = 0;
        let seconds = repeated(|| {
            let store = open(&store)?.store().clone();
            let report = block_on(validate(&store, &Options::default(), &Observer::default()))?;
            sound = u64::from(report.is_clean());
            Ok(())
        })?;
        Ok(Turn::of(seconds).counting(sound))
    };
    let ours = Contender::new("zvf", Role::Zvf, checked);
    wanted("validate all levels", vec![ours, reference.contender(ask)])?;
    Ok(rows)
}

//! What was measured, as a table.

use crate::work::Work;

/// One workload and its medians, in seconds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) work: Work,
    pub(crate) theirs: f64,
    pub(crate) ours: f64,
    pub(crate) limit: f64,
    pub(crate) count: u64,
}

/// The middle one.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A line for the row that was just measured.
pub(crate) fn print_last(rows: &[Row]) {
    if let Some(row) = rows.last() {
        eprintln!("{}: {:.1} times faster", row.work.name, row.theirs / row.ours);
    }
}

/// The whole table, as Markdown.
pub(crate) fn print_all(rows: &[Row]) {
    println!("| work | rows | reference | zvf | ratio | wanted | times the plain reads |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for Row { work, theirs, ours, limit, count } in rows {
        let plain = ours / limit;
        let plain = if plain.is_nan() { "-".to_owned() } else { format!("{plain:.2}") };
        println!(
            "| {} | {count} | {:.3} ms | {:.3} ms | {:.1} | {} | {plain} |",
            work.name,
            theirs * 1e3,
            ours * 1e3,
            theirs / ours,
            work.bar,
        );
    }
}

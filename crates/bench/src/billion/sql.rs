//! SQL statements, run by one process, by one executor and by three; for points, also by DataFusion
//! and DuckDB on Parquet that is sorted by the same cells.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use archives::peers::install_python;

use super::cluster::Cluster;
use super::{Data, LARGEST_BESIDE_PARQUET, MEMORY, Trial};
use crate::contest::summarize_turns;
use crate::data::to_address;
use crate::process::{self, ProcessRun, find_program, find_zvf};
use crate::row::{Role, Side, Turn};

/// Queries the store of a trial; if it has points, and not too many, also Parquet of the same rows.
pub(super) fn run_statements(trial: &mut Trial<'_>) -> anyhow::Result<()> {
    let programs = find_program("zvf-sql").and_then(|sql| Ok((sql, find_program("zvf-cluster")?)));
    let (sql, cluster) = match programs {
        Ok(both) => both,
        Err(error) => {
            let absent = Side::new("zvf", Role::Zvf, Err(format!("{error:#}")));
            trial.add_row("SQL", vec![absent]);
            return Ok(());
        }
    };
    let store = trial.store.clone();
    let parquet = match trial.data {
        Data::Points => {
            compare_with_query(trial, &sql)?;
            let beside = trial.vertices <= LARGEST_BESIDE_PARQUET;
            if beside { Some(export_parquet(trial, &sql)?) } else { None }
        }
        Data::Streamlines => None,
    };
    // Statements whose answers do not depend on the order of additions.
    let mut all: HashMap<&str, Vec<(&str, &str)>> =
        serde_json::from_str(include_str!("statements.json"))?;
    let all = all.remove(trial.data.about().name).context("no statements")?;
    let row = |(work, statement)| StatementRow { work, statement, answer: None, sides: Vec::new() };
    let mut rows: Vec<StatementRow<'_>> = all.into_iter().map(row).collect();
    let limit = ["--memory-limit", MEMORY];
    ask_statements(&mut rows, "zvf-sql", Role::Zvf, |statement| {
        ask_sql(&sql, &store, &limit, &[], statement)
    })?;
    for (executors, name) in [(1, "one executor"), (3, "three executors")] {
        let running = Cluster::start(&cluster, executors)?;
        let (address, processes) = (running.address(), running.processes());
        ask_statements(&mut rows, name, Role::Variant, |statement| {
            ask_sql(&sql, &store, &["--cluster", &address], &processes, statement)
        })?;
    }
    if let Some(parquet) = &parquet {
        ask_statements(&mut rows, "DataFusion, Parquet", Role::Peer, |statement| {
            ask_sql(&sql, parquet, &limit, &[], statement)
        })?;
        let (name, role) = ("DuckDB, Parquet", Role::Peer);
        match install_python(&trial.results.bench.folder.join("duckdb"), &["duckdb"]) {
            Ok(python) => ask_statements(&mut rows, name, role, |statement| {
                ask_duckdb(&python, parquet, statement)
            })?,
            Err(why) => {
                for row in &mut rows {
                    row.sides.push(Side::new(name, role, Err(format!("{why:#}"))));
                }
            }
        }
        fs::remove_file(parquet)?;
    }
    for row in rows {
        trial.add_row(row.work, row.sides);
    }
    Ok(())
}

/// A statement, the answer of the first side, and the results of all.
struct StatementRow<'a> {
    work: &'a str,
    statement: &'a str,
    answer: Option<Vec<f64>>,
    sides: Vec<Side>,
}

/// Writes the same rows with SQL and with `zvf query`, each into an Arrow file.
fn compare_with_query(trial: &mut Trial<'_>, sql: &Path) -> anyhow::Result<()> {
    let (out, zvf) = (trial.folder.join("rows.arrow"), find_zvf()?);
    let (store, file) = (to_address(&trial.store)?.to_owned(), to_address(&out)?.to_owned());
    let table = format!("t={store}");
    let in_a_box = " WHERE x BETWEEN 40 AND 42 AND y BETWEEN 40 AND 42 AND z BETWEEN 40 AND 42";
    for (work, condition, words) in [
        ("SQL, all rows to Arrow", "", &[][..]),
        ("SQL, rows of a box to Arrow", in_a_box, &["--bbox", "40,40,40:42,42,42"]),
    ] {
        let statement = format!("SELECT x, y, z, intensity FROM t{condition}");
        let select = ["--table", &table, "--overwrite", "-o", &file, &statement];
        let query = [&["query", &store, "--overwrite", "-o", &file][..], words].concat();
        let mut sides = [
            ("zvf-sql", Role::Zvf, sql, &select[..], Vec::new()),
            ("zvf query", Role::Variant, &zvf, &query, Vec::new()),
        ];
        // The first turn reads documents and cells that are not cached.
        for _ in 0..TURNS {
            for (_, _, program, words, turns) in &mut sides {
                turns.push(trial.measure_command(program, words)?.turn());
                // Removed now; otherwise the next turn would pay for the removal of gigabytes.
                fs::remove_file(&out)?;
            }
        }
        let side = |(name, role, _, _, turns): (_, _, _, _, Vec<Turn>)| {
            Side::new(name, role, Ok(summarize_turns(Turn::default(), &turns)))
        };
        trial.add_row(work, sides.map(side).into());
    }
    Ok(())
}

type Answer = (Turn, Vec<f64>);

/// Runs every statement on one side; all sides must give the same answer.
fn ask_statements(
    rows: &mut [StatementRow<'_>],
    name: &str,
    role: Role,
    ask: impl Fn(&str) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    for StatementRow { work, statement, answer: expected, sides } in rows {
        let (turn, found) = ask(statement).with_context(|| format!("{work}: {name}"))?;
        let expected = expected.get_or_insert_with(|| found.clone());
        let same = expected.len() == found.len()
            && expected.iter().zip(&found).all(|(a, b)| is_same_number(*a, *b));
        ensure!(same, "{work}: {name} says {found:?}, zvf-sql {expected:?}");
        sides.push(Side::new(name, role, Ok(turn)));
    }
    Ok(())
}

/// Returns whether two answers are equal; an empty value is NaN. Counts and other integers must be
/// equal; numbers with a fraction are 32-bit floats, which some sides print with more digits.
fn is_same_number(a: f64, b: f64) -> bool {
    let is_fraction = a.fract() != 0.0 || b.fract() != 0.0;
    a == b || (a.is_nan() && b.is_nan()) || (is_fraction && a as f32 == b as f32)
}

/// Runs a process of zvf-sql to its end. What the processes `others` take meanwhile is included.
fn ask_sql(
    sql: &Path,
    table: &Path,
    words: &[&str],
    others: &[u32],
    statement: &str,
) -> anyhow::Result<Answer> {
    let watches = process::watch_processes(others)?;
    let mut command = Command::new(sql);
    command.args(["--table", &format!("t={}", to_address(table)?), "--format", "csv", "--quiet"]);
    let done = process::run_command(command.args(words).arg(statement))?;
    let all = process::stats_since(&watches)?.plus(&done.stats, |a, b| a + b);
    Ok((all.turn(done.seconds), parse_numbers(done.stdout.lines().skip(1))?))
}

fn ask_duckdb(python: &Path, parquet: &Path, statement: &str) -> anyhow::Result<Answer> {
    let mut command = Command::new(python);
    let ProcessRun { stats, stdout, .. } =
        process::run_command(command.args(["-c", DUCKDB]).arg(parquet).arg(statement))?;
    let mut lines = stdout.lines();
    let seconds = lines.next().context("DuckDB says nothing")?.parse()?;
    Ok((stats.turn(seconds), parse_numbers(lines)?))
}

/// Returns all numbers of an answer, line by line; NaN for a missing value, which is empty in
/// `zvf-sql` and None in Python.
fn parse_numbers<'a>(lines: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<f64>> {
    let number = |field: &str| match field {
        "" | "None" => Ok(f64::NAN),
        field => field.parse().with_context(|| format!("{field:?} is no number")),
    };
    lines.flat_map(|line| line.split(',')).map(number).collect()
}

/// Exports the vertices of the store as Parquet, with one column per axis, in the order of its
/// cells; one partition keeps this order.
fn export_parquet(trial: &mut Trial<'_>, sql: &Path) -> anyhow::Result<PathBuf> {
    let path = trial.folder.join("all.parquet");
    let (table, out) = (format!("t={}", to_address(&trial.store)?), to_address(&path)?.to_owned());
    let words = ["--table", &table, "--overwrite", "-o", &out, EXPORT];
    let turn = trial.measure_command(sql, &words)?.turn();
    trial.add_zvf("SQL, all rows to Parquet", "zvf-sql", turn);
    Ok(path)
}

const EXPORT: &str =
    "SET datafusion.execution.target_partitions = 1; SELECT x, y, z, intensity FROM t";

/// The number of times that each side returns rows.
const TURNS: usize = 3;

const DUCKDB: &str = "import sys, time, duckdb
con = duckdb.connect()
con.execute(f\"create view t as select * from '{sys.argv[1]}'\")
start = time.perf_counter()
rows = con.execute(sys.argv[2]).fetchall()
print(time.perf_counter() - start)
for row in rows:
    print(','.join(str(value) for value in row))
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_equal_and_fractions_are_numbers_of_32_bits() {
        assert!(
            is_same_number(1e9, 1e9)
                && !is_same_number(1e9, 1e9 + 1.0)
                && !is_same_number(0.0, 1.0)
        );
        assert!(is_same_number(99.999_99, 99.999_992_370_605_47), "the same number of 32 bits");
        assert!(!is_same_number(99.999_99, 99.999_98) && !is_same_number(f64::NAN, 0.0));
        assert!(is_same_number(f64::NAN, f64::NAN));
    }
}

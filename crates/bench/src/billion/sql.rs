//! Five statements: by one process, by one executor and by three; and beside them DataFusion and DuckDB on Parquet that
//! is sorted by the same cells.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::cluster::Cluster;
use super::{MEMORY, Trial, side, turn_of};
use crate::contest::{Role, Side, Turn};
use crate::parts::Bench;
use crate::parts::made::text;
use crate::peer::Environment;
use crate::pyramid::zvf;

/// The condition of the box of all statements.
macro_rules! in_the_box {
    () => {
        "x BETWEEN 40 AND 42 AND y BETWEEN 40 AND 42 AND z BETWEEN 40 AND 42"
    };
}

/// Asks the store of a trial; `beside` also Parquet of the same rows.
pub(super) fn ask(trial: &mut Trial<'_>, bench: &Bench, beside: bool) -> anyhow::Result<()> {
    let (sql, cluster) = match (program("zvf-sql"), program("zvf-cluster")) {
        (Ok(sql), Ok(cluster)) => (sql, cluster),
        (Err(error), _) | (_, Err(error)) => {
            let absent = side("zvf", Role::Zvf, Err(format!("{error:#}")));
            trial.add("SQL", vec![absent]);
            return Ok(());
        }
    };
    let store = trial.store.clone();
    beside_query(trial, &sql)?;
    let parquet = match beside {
        true => Some(export(trial, &sql)?),
        false => None,
    };
    let mut rows: Vec<(Vec<f64>, Vec<Side>)> = Vec::new();
    for (_, statement) in STATEMENTS {
        let (turn, answer) = local(&sql, &store, statement)?;
        rows.push((answer, vec![side("zvf-sql", Role::Zvf, Ok(turn))]));
    }
    for (executors, name) in [(1, "one executor"), (3, "three executors")] {
        let running = Cluster::start(&cluster, executors)?;
        let address = running.address();
        ask_all(&mut rows, name, Role::Variant, |statement| {
            run(&sql, &store, &["--cluster", &address], statement)
        })?;
    }
    if let Some(parquet) = &parquet {
        ask_all(&mut rows, "DataFusion, Parquet", Role::Peer, |statement| {
            local(&sql, parquet, statement)
        })?;
        match Environment::install(&bench.folder, "duckdb", &["duckdb"]) {
            Ok(duckdb) => ask_all(&mut rows, "DuckDB, Parquet", Role::Peer, |statement| {
                ask_duckdb(duckdb.python(), parquet, statement)
            })?,
            Err(why) => {
                for (_, sides) in &mut rows {
                    sides.push(side("DuckDB, Parquet", Role::Peer, Err(format!("{why:#}"))));
                }
            }
        }
        fs::remove_file(parquet)?;
    }
    for ((work, _), (_, sides)) in STATEMENTS.iter().zip(rows) {
        trial.add(work, sides);
    }
    Ok(())
}

/// The same rows in SQL and by `zvf query`, each into a file of Arrow.
fn beside_query(trial: &mut Trial<'_>, sql: &Path) -> anyhow::Result<()> {
    let out = trial.folder.join("rows.arrow");
    let (store, file) = (text(&trial.store)?.to_owned(), text(&out)?.to_owned());
    let table = format!("t={store}");
    for (work, condition, words) in [
        ("SQL, all rows to Arrow", "", &[][..]),
        (
            "SQL, rows of a box to Arrow",
            concat!(" WHERE ", in_the_box!()),
            &["--bbox", "40,40,40:42,42,42"][..],
        ),
    ] {
        let statement = format!("SELECT x, y, z, intensity FROM t{condition}");
        let select = ["--table", &table, "--overwrite", "-o", &file, &statement];
        let query = [&["query", &store, "--overwrite", "-o", &file][..], words].concat();
        let mut sides = Vec::new();
        for (name, role, program, words) in [
            ("zvf-sql", Role::Zvf, sql.to_owned(), &select[..]),
            ("zvf query", Role::Variant, zvf()?, &query),
        ] {
            let (seconds, seen) = trial.measured(program, words)?;
            sides.push(side(name, role, Ok(turn_of(seconds, &seen))));
        }
        trial.add(work, sides);
    }
    Ok(fs::remove_file(out)?)
}

type Answer = (Turn, Vec<f64>);

/// Has somebody answer every statement; all must say the same.
fn ask_all(
    rows: &mut [(Vec<f64>, Vec<Side>)],
    name: &str,
    role: Role,
    ask: impl Fn(&str) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    for ((work, statement), (expected, sides)) in STATEMENTS.iter().zip(rows) {
        let (turn, found) = ask(statement).with_context(|| format!("{work}: {name}"))?;
        let same = expected.len() == found.len()
            && expected.iter().zip(&found).all(|(a, b)| is_same(*a, *b));
        ensure!(same, "{work}: {name} says {found:?}, zvf-sql {expected:?}");
        sides.push(side(name, role, Ok(turn)));
    }
    Ok(())
}

/// Whether two say the same, but for how they round; what is nothing is NaN.
fn is_same(a: f64, b: f64) -> bool {
    a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * a.abs().max(1.0)
}

fn local(sql: &Path, table: &Path, statement: &str) -> anyhow::Result<Answer> {
    run(sql, table, &["--memory-limit", MEMORY], statement)
}

/// A process of zvf-sql, from its start to its end.
fn run(sql: &Path, table: &Path, words: &[&str], statement: &str) -> anyhow::Result<Answer> {
    let begun = Instant::now();
    let mut command = Command::new(sql);
    command.args(["--table", &format!("t={}", text(table)?), "--format", "csv", "--quiet"]);
    let output = command.args(words).arg(statement).stdin(Stdio::null()).output()?;
    let turn = Turn::from_seconds(begun.elapsed().as_secs_f64());
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let said = String::from_utf8(output.stdout)?;
    Ok((turn, numbers(said.lines().skip(1))?))
}

fn ask_duckdb(python: &Path, parquet: &Path, statement: &str) -> anyhow::Result<Answer> {
    let mut command = Command::new(python);
    let output = command.args(["-c", DUCKDB]).arg(parquet).arg(statement).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let said = String::from_utf8(output.stdout)?;
    let mut lines = said.lines();
    let seconds = lines.next().context("DuckDB says nothing")?.parse()?;
    Ok((Turn::from_seconds(seconds), numbers(lines)?))
}

/// All numbers of an answer, line by line; NaN for nothing, which `zvf-sql` leaves empty and Python calls None.
fn numbers<'a>(lines: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<f64>> {
    let number = |field: &str| match field {
        "" | "None" => Ok(f64::NAN),
        field => field.parse().with_context(|| format!("{field:?} is no number")),
    };
    lines.flat_map(|line| line.split(',')).map(number).collect()
}

/// The vertices of the store as Parquet, with a column for each axis, in the order of its cells: one partition keeps it.
fn export(trial: &mut Trial<'_>, sql: &Path) -> anyhow::Result<PathBuf> {
    let path = trial.folder.join("all.parquet");
    let (table, out) = (format!("t={}", text(&trial.store)?), text(&path)?.to_owned());
    let words = ["--table", &table, "--overwrite", "-o", &out, EXPORT];
    let (seconds, seen) = trial.measured(sql.to_owned(), &words)?;
    let row = vec![side("zvf-sql", Role::Zvf, Ok(turn_of(seconds, &seen)))];
    trial.add("SQL, all rows to Parquet", row);
    Ok(path)
}

/// A program that was built beside this one.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "there is no {name} beside this program: build it");
    Ok(path)
}

const EXPORT: &str =
    "SET datafusion.execution.target_partitions = 1; SELECT x, y, z, intensity FROM t";

/// Answers that do not depend on the order in which rows are added.
const STATEMENTS: [(&str, &str); 5] = [
    ("SQL, count", "SELECT count(*) FROM t"),
    (
        "SQL, a box",
        concat!("SELECT count(*), min(intensity), max(intensity) FROM t WHERE ", in_the_box!()),
    ),
    ("SQL, by value", "SELECT count(*), min(x), max(x) FROM t WHERE intensity > 99"),
    (
        "SQL, groups of places",
        "SELECT CAST(floor(x / 10) AS INT) AS slab, count(*), max(intensity) FROM t \
         GROUP BY CAST(floor(x / 10) AS INT) ORDER BY slab",
    ),
    (
        "SQL, the ten largest",
        "SELECT intensity FROM t WHERE x < 50 ORDER BY intensity DESC LIMIT 10",
    ),
];

const DUCKDB: &str = "import sys, time, duckdb
con = duckdb.connect()
con.execute(f\"create view t as select * from '{sys.argv[1]}'\")
start = time.perf_counter()
rows = con.execute(sys.argv[2]).fetchall()
print(time.perf_counter() - start)
for row in rows:
    print(','.join(str(value) for value in row))
";

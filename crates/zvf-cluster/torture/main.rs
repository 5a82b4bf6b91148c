//! `cargo xtask torture cluster`: statements on one to three executors against one process, and
//! processes that are lost.
//!
//! ```text
//! cluster-torture [--rounds N] [--moments N]
//! ```
//!
//! First, twenty statements have the same answer, byte for byte, with the same names and types.
//! Then a statement of three stages runs while an executor, the scheduler or the client is killed
//! at each of N moments: it has the right answer, or an error that names what was lost within twice
//! the timeout, and the next statement works.

mod processes;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::arrow::csv::Writer;
use datafusion::error::Result;
use datafusion::physical_plan::common::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::task::JoinHandle;
use zvf_datafusion::{OpenOptions, with_paths_as_tables};

use crate::processes::{Cluster, EXECUTOR_TIMEOUT};

/// The results of all checks.
#[derive(Debug, Default)]
struct Report {
    checks: u32,
    failures: u32,
    /// Statements that were answered although something was lost.
    answers: u32,
}

impl Report {
    fn check(&mut self, is_right: bool, what: &str) {
        self.checks += 1;
        if !is_right {
            self.failures += 1;
            eprintln!("{what}");
        }
    }
}

/// The process that is killed.
#[derive(Clone, Copy, Debug)]
enum Role {
    Executor,
    Scheduler,
    Client,
}

fn argument(name: &str, default: u32) -> u32 {
    let words: Vec<String> = std::env::args().collect();
    let given = words.iter().position(|word| word == name).map(|at| words[at + 1].parse().unwrap());
    given.unwrap_or(default)
}

fn main() {
    let (rounds, moments) = (argument("--rounds", 1), argument("--moments", 12));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        make_stores(folder.path()).await;
        let mut report = Report::default();
        for _ in 0..rounds {
            compare(folder.path(), &mut report).await;
            lose(folder.path(), moments, &mut report).await;
        }
        report
    });
    runtime.shutdown_background();
    let Report { checks, failures, answers } = report;
    println!(
        "{{\"name\":\"cluster\",\"n\":{checks},\"failures\":{failures},\"seed\":0,\"answered\":{answers}}}"
    );
    assert_eq!(failures, 0);
}

/// Makes a store of points with text, one of lines with objects, and one of two levels.
async fn make_stores(folder: &Path) {
    let context = local();
    let points = "SELECT CAST(value % 400 AS FLOAT) AS x, CAST(value / 400 % 400 AS FLOAT) AS y, \
         CAST(value % 7 AS FLOAT) AS z, CAST(value % 11 AS INT) AS w, \
         arrow_cast(CASE value % 5 WHEN 0 THEN 'roof' WHEN 1 THEN 'wall' WHEN 2 THEN 'tree' ELSE 'road' END, \
         'Dictionary(Int32, Utf8)') AS class FROM generate_series(1, 300000)";
    let path = folder.join("points.zarrvectors");
    let copy =
        format!("COPY ({points}) TO '{}' OPTIONS ('chunk_shape' '50,50,50')", path.display());
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    for id in ["sl3_streamlines", "sl3_pyramid"] {
        archives::unpack_cached(folder, id);
    }
}

fn local() -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    prepare(context)
}

fn prepare(context: SessionContext) -> SessionContext {
    let context = with_paths_as_tables(context, OpenOptions::default());
    zvf_datafusion::register(&context, OpenOptions::default());
    context
}

async fn remote(cluster: &Cluster) -> SessionContext {
    prepare(zvf_cluster::connect(&cluster.url()).await.unwrap())
}

/// Returns names, types and rows of an answer; rows without an order are sorted.
async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let rows = context.sql(sql).await?.execute_stream().await?;
    let mut text = String::new();
    for field in rows.schema().fields() {
        writeln!(text, "{} {}", field.name(), field.data_type()).unwrap();
    }
    let mut csv = Writer::new(Vec::new());
    for batch in collect(rows).await? {
        csv.write(&batch)?;
    }
    let csv = String::from_utf8(csv.into_inner()).unwrap();
    let mut lines: Vec<&str> = csv.lines().skip(1).collect();
    if !sql.contains("ORDER BY") {
        lines.sort_unstable();
    }
    Ok(text + &lines.join("\n"))
}

/// Compares statements on one, two and three executors with one process.
async fn compare(folder: &Path, report: &mut Report) {
    let single = local();
    let statements = statements(folder);
    let mut expected = Vec::new();
    for sql in &statements {
        expected.push(answer(&single, sql).await.map_err(|error| error.to_string()));
    }
    for executors in 1..=3 {
        let cluster = Cluster::start(executors, 1);
        let context = remote(&cluster).await;
        for (sql, expected) in statements.iter().zip(&expected) {
            let found = answer(&context, sql).await.map_err(|error| error.to_string());
            let is_same = match (expected, &found) {
                (Ok(expected), Ok(found)) => expected == found,
                (Err(_), Err(_)) => true,
                _ => false,
            };
            let what =
                format!("{executors} executors, {sql}:\n{found:?}, in one process\n{expected:?}");
            report.check(is_same, &what);
        }
    }
}

fn statements(folder: &Path) -> Vec<String> {
    let name = |id: &str| folder.join(format!("{id}.zarrvectors")).display().to_string();
    let points = format!("'{}'", name("points"));
    let lines = archives::unpack_cached(folder, "sl3_streamlines").display().to_string();
    let levels = archives::unpack_cached(folder, "sl3_pyramid").display().to_string();
    vec![
        format!("SELECT class, count(*) FROM {points} GROUP BY class"),
        format!(
            "SELECT class, count(*) AS n, min(x), max(y) FROM {points} GROUP BY class ORDER BY class"
        ),
        format!("SELECT DISTINCT class FROM {points} ORDER BY class DESC"),
        format!("SELECT class, x, y FROM {points} WHERE z = 1 ORDER BY class, y, x LIMIT 20"),
        format!(
            "SELECT class, y FROM {points} WHERE class IN ('roof') AND x < 1 AND y < 20 ORDER BY y, class"
        ),
        format!(
            "SELECT a.class, count(*) AS n FROM {points} a JOIN (VALUES ('roof', 1), ('wall', 2)) AS b(name, k) \
             ON a.class = b.name GROUP BY a.class ORDER BY a.class"
        ),
        format!(
            "SELECT class, x, y, row_number() OVER (PARTITION BY class ORDER BY y, x, z) AS k FROM {points} \
             WHERE x < 3 ORDER BY class, k LIMIT 30"
        ),
        format!(
            "SELECT class, count(*) FROM {points} WHERE class LIKE 'ro%' GROUP BY class ORDER BY class"
        ),
        format!("SELECT class || '!' AS t, sum(w) FROM {points} GROUP BY t ORDER BY t"),
        format!(
            "SELECT nullif(class, 'tree') AS t, count(*) FROM {points} GROUP BY t ORDER BY t NULLS FIRST"
        ),
        format!("SELECT count(*), min(x), max(y), sum(w) FROM {points}"),
        format!(
            "SELECT chunk, count(*) FROM {points} WHERE x < 60 AND y BETWEEN 100 AND 200 GROUP BY chunk"
        ),
        format!("SELECT count(*) FROM {points} WHERE w > (SELECT avg(w) FROM {points})"),
        format!("SELECT x, y FROM {points} WHERE x < 0"),
        format!("SELECT class, x FROM {points} WHERE false"),
        format!(
            "SELECT class FROM {points} WHERE w = 3 AND x = 3 UNION SELECT 'none' ORDER BY class"
        ),
        format!("SELECT count(*), sum(object) FROM '{lines}'"),
        format!(
            "SELECT o.object, o.fragments, count(*) AS n FROM zvf('{lines}') v JOIN zvf('{lines}', 'objects') o \
             ON v.object = o.object GROUP BY o.object, o.fragments ORDER BY o.object"
        ),
        format!("SELECT level, kind, vertices FROM zvf('{levels}', 'levels') ORDER BY level"),
        format!("SELECT count(*) FROM zvf('{levels}', level => 1)"),
        format!("SELECT nothing FROM {points}"),
        format!("SELECT count(*) FROM '{}'", name("missing")),
        format!("SELECT 1 / (w - w) FROM {points}"),
    ]
}

/// Kills one process of each role at each moment of a statement.
async fn lose(folder: &Path, moments: u32, report: &mut Report) {
    let points = folder.join("points.zarrvectors").display().to_string();
    let sql = format!(
        "SELECT a.class, count(*) AS n, sum(a.w + b.w) AS s FROM '{points}' a JOIN '{points}' b \
         ON a.x = b.y AND a.w = b.w AND b.x < 20 GROUP BY a.class ORDER BY a.class"
    );
    let expected = answer(&local(), &sql).await.unwrap();
    let mut cluster = Cluster::start(3, 1);
    let start = Instant::now();
    let warm = answer(&remote(&cluster).await, &sql).await;
    report.check(warm.as_ref().is_ok_and(|found| *found == expected), &format!("{warm:?}"));
    let length = start.elapsed();
    eprintln!("the statement takes {length:.1?}");
    let limit = 2 * EXECUTOR_TIMEOUT + 4 * length;
    for moment in 0..moments {
        for role in [Role::Executor, Role::Scheduler, Role::Client] {
            let context = remote(&cluster).await;
            let statement = sql.clone();
            let running = tokio::spawn(async move { answer(&context, &statement).await });
            tokio::time::sleep(length * moment / moments).await;
            let what = format!("{role:?}, moment {moment} of {moments}");
            match role {
                Role::Executor => {
                    let number = cluster.kill_any_executor();
                    eprintln!("{what}: executor {number}");
                }
                Role::Scheduler => cluster.kill_scheduler(),
                Role::Client => running.abort(),
            }
            judge(running, &expected, limit, role, &what, report).await;
            match role {
                Role::Executor => cluster.add_executor(),
                Role::Scheduler => cluster.restart_scheduler(),
                Role::Client => {}
            }
            cluster.wait_until_ready();
            let context = remote(&cluster).await;
            let next = tokio::time::timeout(limit, answer(&context, &sql)).await;
            let next = next.map(|next| next.map_err(|error| error.to_string()));
            let is_right = matches!(&next, Ok(Ok(found)) if *found == expected);
            let logs = if is_right { String::new() } else { cluster.logs() };
            report.check(is_right, &format!("{what}, the next statement: {next:?}\n{logs}"));
        }
    }
}

/// Checks what became of the statement.
async fn judge(
    running: JoinHandle<Result<String>>,
    expected: &str,
    limit: Duration,
    role: Role,
    what: &str,
    report: &mut Report,
) {
    let start = Instant::now();
    let ended = tokio::time::timeout(limit, running).await;
    eprintln!("{what}: after {:.1?}", start.elapsed());
    match ended {
        Err(_late) => report.check(false, &format!("{what}: silence for {limit:?}")),
        // The client is gone.
        Ok(Err(_aborted)) => report.check(matches!(role, Role::Client), what),
        Ok(Ok(Ok(found))) => {
            report.answers += 1;
            report.check(found == expected, &format!("{what}: {found}"));
        }
        Ok(Ok(Err(error))) => {
            let text = error.to_string();
            let names = match role {
                Role::Executor => text.contains("executor 127.0.0.1:"),
                Role::Scheduler => text.contains("the scheduler 127.0.0.1:"),
                Role::Client => false,
            };
            report.check(names, &format!("{what}: {text}"));
        }
    }
}

//! `cargo xtask torture cluster`: statements on one to three executors against one process, and
//! processes that are lost.
//!
//! ```text
//! cluster-torture [--rounds N] [--moments N]
//! ```
//!
//! First, the statements of statements.sql have the same answer, byte for byte, with the same names and types.
//! Then a statement of three stages runs while an executor, the scheduler or the client is killed
//! at each of N moments: it has the right answer, or an error that names what was lost within twice
//! the timeout, and the next statement works.

#[path = "../tests/cluster/processes.rs"]
mod processes;
mod session;

use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::error::Result;
use tokio::task::JoinHandle;

use crate::processes::{Cluster, EXECUTOR_TIMEOUT};
use crate::session::{answer, differences, local, remote, statements};

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
        let statements = statements(folder.path()).await;
        let mut report = Report::default();
        for _ in 0..rounds {
            for executors in 1..=3 {
                let start = Instant::now();
                let found = differences(&Cluster::start(executors, 1), &statements).await;
                eprintln!("{executors} executors: {:.1?}", start.elapsed());
                for (number, sql) in statements.iter().enumerate() {
                    let found = found.iter().find(|text| text.starts_with(sql));
                    let what = format!("{executors} executors, statement {number}: {found:?}");
                    report.check(found.is_none(), &what);
                }
            }
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

/// Kills one process of each role at each moment of a statement.
async fn lose(folder: &Path, moments: u32, report: &mut Report) {
    let points = folder.join("points.zarrvectors").display().to_string();
    let sql = format!(
        "SELECT a.class, count(*) AS n, sum(a.w + b.w) AS s FROM zvf('{points}') a JOIN zvf('{points}') b \
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
            let failures = report.failures;
            judge(running, &expected, limit, role, &what, report).await;
            if report.failures > failures {
                eprintln!("{}", cluster.logs());
            }
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

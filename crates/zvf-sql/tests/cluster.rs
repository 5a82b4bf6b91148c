//! Tests `zvf-sql --cluster` with a scheduler and an executor in this process.
#![cfg(feature = "cluster")]

#[path = "../../zvf-cluster/tests/cluster/processes.rs"]
mod processes;

use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use clap::Parser as _;
use zvf_cluster::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler};

use crate::processes::{TIMEOUT, free_port, get};

/// Starts a scheduler and an executor that run until the process ends; returns the address of the scheduler.
fn start(folder: &Path) -> String {
    let port = free_port();
    let [scheduler, listen] = [port, free_port()].map(|port| format!("127.0.0.1:{port}"));
    let control = free_port().to_string();
    let options = SchedulerOptions::parse_from(["scheduler", "--listen", &scheduler]);
    spawn(async move { run_scheduler(&options).await });
    wait_for(port, "/healthz");
    let mut words = vec!["executor", "--scheduler", &scheduler, "--listen", &listen];
    words.extend(["--control-port", &control, "--cores", "2", "--heartbeat", "1"]);
    words.extend(["--work-dir", folder.to_str().unwrap()]);
    let options = ExecutorOptions::parse_from(words);
    spawn(async move { run_executor(&options).await });
    wait_for(port, "/readyz");
    scheduler
}

/// Runs `work` on a new thread, which ends with the process.
fn spawn(work: impl Future<Output = datafusion::error::Result<()>> + Send + 'static) {
    thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(work).unwrap();
    });
}

/// Waits until the scheduler answers `page` with status 200.
fn wait_for(port: u16, page: &str) {
    let begun = Instant::now();
    while !get(port, page).is_some_and(|reply| reply.starts_with("HTTP/1.1 200")) {
        assert!(begun.elapsed() < TIMEOUT, "the scheduler does not answer {page}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("zvf-sql").unwrap();
    command.current_dir(folder).args(args).args(["--format", "csv"]).output().unwrap()
}

/// Returns the lines of an answer.
fn lines(folder: &Path, args: &[&str]) -> Vec<String> {
    let output = run(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn answers_from_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let copy = "COPY (SELECT CAST(value % 40 AS FLOAT) AS x, CAST(value / 40 AS FLOAT) AS y, value % 7 AS w \
                FROM generate_series(0, 999)) TO 'p.zarrvectors' \
                OPTIONS ('positions' 'x,y', 'chunk_shape' '10,10')";
    assert_eq!(lines(path, &[copy]), ["count", "1000"]);
    let work = path.join("work");
    std::fs::create_dir(&work).unwrap();
    let address = start(&work);
    let cluster = ["--cluster", &address];
    // Tables by path, by function and by name; the program resolves the paths.
    for (args, expected) in [
        (&["SELECT count(*) AS n FROM 'p.zarrvectors' WHERE x < 10"][..], &["n", "250"][..]),
        (&["SELECT sum(w) AS s FROM zvf('p.zarrvectors', level => 0)"], &["s", "2997"]),
        (
            &[
                "--table",
                "p=p.zarrvectors",
                "SELECT chunk, count(*) AS n FROM p WHERE y < 10 GROUP BY chunk ORDER BY chunk",
            ],
            &["chunk,n", "0.0,100", "1.0,100", "2.0,100", "3.0,100"],
        ),
        (&["--table", "p=p.zarrvectors", "SELECT vertices FROM p.levels"], &["vertices", "1000"]),
    ] {
        assert_eq!(lines(path, &[&cluster[..], args].concat()), expected, "{args:?}");
        assert_eq!(lines(path, args), expected, "in one process: {args:?}");
    }
    // The cluster answers, and the program writes.
    for target in ["q.zarrvectors", "q.parquet", "q.csv"] {
        let copy = format!("COPY (SELECT x, y, w FROM 'p.zarrvectors' WHERE w = 3) TO '{target}'");
        assert_eq!(lines(path, &[&cluster[..], &[&copy]].concat()), ["count", "143"]);
        let count = format!("SELECT count(*) AS n, sum(w) AS s FROM '{target}'");
        assert_eq!(lines(path, &[&count]), ["n,s", "143,429"], "{target}");
    }
    // The columns have their names, and errors name the store.
    let least = "SELECT min(x) FROM 'p.zarrvectors'";
    assert_eq!(lines(path, &[&cluster[..], &[least]].concat()), lines(path, &[least]));
    for (sql, code, name) in [
        ("SELECT x FROM 'r.zarrvectors'", 4, "r.zarrvectors"),
        ("SELECT nothing FROM 'p.zarrvectors'", 2, "\"p.zarrvectors\".x"),
        ("SELECT q.x FROM 'p.zarrvectors' AS \"Q.1\"", 2, "\"Q.1\".x"),
    ] {
        for args in [&[][..], &cluster] {
            let output = run(path, &[args, &[sql]].concat());
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{stderr}");
            assert!(stderr.contains(name), "{stderr}");
        }
    }
    let output = run(
        path,
        &[
            "--cluster",
            &format!("127.0.0.1:{}", free_port()),
            "SELECT count(*) FROM 'p.zarrvectors'",
        ],
    );
    assert!(!output.status.success(), "no scheduler listens there");
    let has_results = std::fs::read_dir(&work).unwrap().next().is_some();
    assert!(has_results, "the executor has worked");
}

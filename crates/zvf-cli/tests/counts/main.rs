//! The requests, reads, writes and memory of commands on small stores, compared with a table. This
//! detects a slower algorithm without a clock.
//!
//! The commands of `table.txt` run one after the other in one process, on one computing thread.
//! Requests and bytes are those that an answer reports, and must be equal. System calls, their
//! bytes, and the peak of the heap have a tolerance, because a runtime may or may not still hold a
//! buffer. With `ZVF_WRITE_COUNTS=1` the table is rewritten: state in the commit why a number grew.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use peak_alloc::PeakAlloc;
use zvf_cli::{Stop, call};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[test]
fn commands_do_no_more_work_than_before() {
    if env::var_os(CHILD).is_none() {
        // A separate process, because the thread pool is created once, with this variable.
        let mut child = Command::new(env::current_exe().unwrap());
        child.env(CHILD, "1").env("RAYON_NUM_THREADS", "1").env_remove("RUST_BACKTRACE");
        assert!(child.arg("--nocapture").status().unwrap().success(), "the counts differ");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counts/table.txt");
    let table = fs::read_to_string(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    env::set_current_dir(&folder).unwrap();
    fs::write("points.csv", points()).unwrap();
    let (mut text, mut problems) = (String::new(), Vec::new());
    for line in table.lines() {
        if line.starts_with('#') {
            writeln!(text, "{line}").unwrap();
            continue;
        }
        let (numbers, command) = line.split_once("zvf ").expect(line);
        let found = measure(command);
        let expected: Vec<u64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
        for (at, (column, room)) in COLUMNS.iter().enumerate() {
            let (found, expected) = (found[at], expected.get(at).copied().unwrap_or(0));
            if found.abs_diff(expected) * 100 > expected * room {
                problems.push(format!("zvf {command}: {found} {column}, {expected} in the table"));
            }
        }
        for number in found {
            write!(text, "{number:9} ").unwrap();
        }
        writeln!(text, " zvf {command}").unwrap();
    }
    if env::var_os("ZVF_WRITE_COUNTS").is_some() {
        fs::write(path, text).unwrap();
    } else {
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}

/// Runs a command, and returns the numbers of [`COLUMNS`].
fn measure(command: &str) -> [u64; COLUMNS.len()] {
    let words = ["zvf"].into_iter().chain(command.split_whitespace()).map(Into::into);
    let before = system_counts();
    HEAP.reset_peak_usage();
    let held = HEAP.current_usage();
    let reply =
        call(words, &Stop::default()).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    let peak = HEAP.peak_usage().saturating_sub(held) as u64 / 1024;
    let after = system_counts();
    let answer: serde_json::Value = serde_json::from_slice(&reply.output).unwrap_or_default();
    let reported = |name: &str| answer["answer"][name].as_u64().unwrap_or(0);
    let [calls_to_read, read, calls_to_write, written] =
        std::array::from_fn(|at| after[at].saturating_sub(before[at]));
    [
        reported("requests"),
        reported("bytes"),
        calls_to_read,
        read / 1024,
        calls_to_write,
        written / 1024,
        peak,
    ]
}

/// Returns the system counters of this process: read calls, their bytes, write calls, their bytes.
fn system_counts() -> [u64; 4] {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    ["syscr:", "rchar:", "syscw:", "wchar:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse().unwrap()
    })
}

/// Returns points as a table, the same on every run.
fn points() -> String {
    let mut text = String::from("x,y,z,intensity\n");
    let mut state = 7_u32;
    for row in 0..20_000 {
        let [x, y, z] = std::array::from_fn(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 16) / 655.36
        });
        writeln!(text, "{x:.3},{y:.3},{z:.3},{}", row % 256).unwrap();
    }
    text
}

const CHILD: &str = "ZVF_COUNTS_CHILD";
/// The columns of the table, each with its tolerance in percent.
const COLUMNS: [(&str, u64); 7] = [
    ("requests", 0),
    ("bytes asked for", 0),
    ("calls that read", 5),
    ("KiB read", 5),
    ("calls that write", 5),
    ("KiB written", 5),
    ("KiB of heap", 25),
];

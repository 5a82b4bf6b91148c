//! Runs the job scripts of the documentation page on schedulers, as SLURM and Kubernetes would.
//!
//! The store and the folder of the plan are on an emulated S3.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use archives::s3::S3;
use archives::{tree, without_journal_mark};
use serde_json::Value;
use tempfile::TempDir;

use super::rows;

/// The documentation page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/guide/schedulers.md");
/// The store in the page's job for Kubernetes; the next constant is its plan folder.
const STORE: &str = "s3://bucket/brain.zarrvectors";
const WORK: &str = "s3://bucket/plan";

/// The scheduler that starts the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    Slurm,
    Kubernetes,
}

/// A bucket with a store, and a folder in which commands run.
struct Cluster {
    s3: S3,
    folder: TempDir,
    page: String,
}

impl Cluster {
    fn new(files: &[(String, Vec<u8>)]) -> Self {
        let (s3, folder) = (S3::start().unwrap(), TempDir::new().unwrap());
        s3.put("brain.zarrvectors", files);
        Self { s3, folder, page: fs::read_to_string(PAGE).unwrap() }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Replaces the objects on S3 with the store.
    fn reset(&self, files: &[(String, Vec<u8>)]) {
        self.s3.remove("brain.zarrvectors");
        self.s3.remove("brain.zarrvectors.zvf");
        self.s3.put("brain.zarrvectors", files);
    }

    /// Runs a shell line with access to `zvf` and the bucket.
    fn shell(&self, line: &str, number: Option<usize>) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_zvf")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("PATH", path).current_dir(self.folder.path());
        command.env("TMPDIR", self.folder.path());
        for (name, value) in self.s3.options() {
            command.env(name.to_ascii_uppercase(), value);
        }
        if let Some(number) = number {
            let number = number.to_string();
            command.env("SLURM_ARRAY_TASK_ID", &number).env("JOB_COMPLETION_INDEX", number);
        }
        command.output().unwrap()
    }

    fn run_ok(&self, line: &str, number: Option<usize>) -> String {
        let output = self.shell(line, number);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Plans with `line` and returns the numbers of the tasks of each stage.
    fn plan(&self, line: &str) -> Vec<Vec<usize>> {
        let plan = self.run_ok(&format!("{line} --json"), None);
        let plan: Value = serde_json::from_str(&plan).unwrap();
        let tasks = plan["tasks"].as_array().unwrap();
        let stages = tasks.chunk_by(|left, right| left["stage"] == right["stage"]);
        let number = |task: &Value| task["task"].as_u64().unwrap().try_into().unwrap();
        stages.map(|stage| stage.iter().map(number).collect()).collect()
    }

    /// Runs all tasks of the plan in `work` with the script of the page.
    fn run(&self, scheduler: Scheduler, work: &str, stages: &[Vec<usize>]) {
        match scheduler {
            Scheduler::Slurm => {
                let script = slurm_script(&self.page).replace("/scratch/plan", work);
                fs::write(self.at("task.sh"), script).unwrap();
                // Each array waits for the previous one; within an array, the scheduler chooses the
                // order.
                for number in stages.iter().flat_map(|stage| stage.iter().rev()) {
                    self.run_ok("bash task.sh", Some(*number));
                }
            }
            Scheduler::Kubernetes => {
                let line = kubernetes_line(&self.page).replace(WORK, work);
                // Only pods that start too early are restarted.
                let mut pods: VecDeque<_> =
                    stages.iter().flatten().rev().map(|n| (*n, 0)).collect();
                while let Some((number, tries)) = pods.pop_front() {
                    let output = self.shell(&line, Some(number));
                    match output.status.code() {
                        Some(0) => {}
                        Some(5) if tries < 20 => pods.push_back((number, tries + 1)),
                        _ => panic!("{line}, pod {number}: {output:?}"),
                    }
                }
            }
        }
        let repeated = self.run_ok(&format!("zvf task run {work} --all --quiet"), None);
        let count: usize = stages.iter().map(Vec::len).sum();
        assert_eq!(repeated.matches("already done").count(), count, "{repeated}");
    }
}

/// Returns the script that the page passes to `sbatch`.
fn slurm_script(page: &str) -> String {
    let start = page.find("#!/bin/bash").unwrap();
    let script = page[start..].split("```").next().unwrap();
    assert!(script.contains("$SLURM_ARRAY_TASK_ID"), "{script}");
    script.to_owned()
}

/// Returns the command line of the pod on the page.
fn kubernetes_line(page: &str) -> String {
    let line = page.lines().find_map(|line| line.trim().strip_prefix("args: ['")).unwrap();
    let line = line.strip_suffix("']").unwrap();
    assert!(line.contains("$JOB_COMPLETION_INDEX") && line.contains(WORK), "{line}");
    line.to_owned()
}

/// Returns a command from the page, such as `zvf task plan validate ...`, with fewer tasks.
fn command_of(page: &str, start: &str) -> String {
    let mut codes = page.split('`').filter(|code| code.starts_with(start) && code.contains(WORK));
    codes.next().unwrap().replace("--shares 64", "--shares 2")
}

const SCHEDULERS: [Scheduler; 2] = [Scheduler::Slurm, Scheduler::Kubernetes];

#[test]
fn a_divided_validation_on_s3_gives_the_same_report() {
    let cluster = Cluster::new(&archives::files("pc3_objects"));
    let expected = cluster.run_ok(&format!("zvf validate {STORE}"), None);
    for scheduler in SCHEDULERS {
        let stages = cluster.plan(&command_of(&cluster.page, "zvf task plan validate"));
        assert!(stages.len() > 1, "{stages:?}");
        cluster.run(scheduler, WORK, &stages);
        let report = cluster.run_ok(&command_of(&cluster.page, "zvf task finish"), None);
        assert_eq!(report, expected, "{scheduler:?}");
        assert!(cluster.s3.tree("plan").is_empty(), "{scheduler:?}");
    }
}

#[test]
fn a_divided_conversion_on_s3_writes_the_same_rows() {
    let cluster = Cluster::new(&archives::files("pc3_objects"));
    fs::create_dir(cluster.at("whole")).unwrap();
    cluster.run_ok(&format!("zvf convert {STORE} whole/whole.csv --quiet"), None);
    for scheduler in SCHEDULERS {
        let stages = cluster.plan(&format!(
            "zvf task plan convert {STORE} s3://bucket/{scheduler:?} --to csv --work-dir {WORK} --shares 3"
        ));
        assert_eq!(stages.len(), 1);
        assert!(stages[0].len() > 1, "{stages:?}");
        cluster.run(scheduler, WORK, &stages);
        let output = format!("{scheduler:?}");
        assert!(cluster.s3.tree(&output).is_empty(), "nothing is published before the end");
        cluster.run_ok(&format!("zvf task finish {WORK} --remove"), None);
        let parts: Vec<_> = cluster.s3.tree(&output).into_iter().collect();
        assert_eq!(parts.len(), stages[0].len());
        archives::write(&cluster.folder.path().join(&output), &parts);
        assert_eq!(rows(&cluster.at(&output)), rows(&cluster.at("whole")), "{scheduler:?}");
    }
}

impl Cluster {
    fn check_no_scratch(&self) {
        let mut names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.to_string_lossy().starts_with("zvf-levels")));
    }
}

#[test]
fn one_command_builds_levels_on_s3_and_undo_removes_them() {
    let files = archives::files("sl3_streamlines");
    let cluster = Cluster::new(&files);
    let before = cluster.s3.tree("brain.zarrvectors");
    archives::write(Path::new(&cluster.at("whole.zarrvectors")), &files);
    let mut built = Vec::new();
    for options in ["--levels 2 --tolerance 1 --links explicit", "--levels 1 --tolerance 2"] {
        cluster.run_ok(&format!("zvf pyramid whole.zarrvectors --in-place {options}"), None);
        let plan = cluster.run_ok(&format!("zvf pyramid {STORE} --dry-run {options}"), None);
        assert!(plan.starts_with("level 0:"), "{plan}");
        cluster.run_ok(&format!("zvf pyramid {STORE} --in-place {options}"), None);
        let expected = without_journal_mark(tree(Path::new(&cluster.at("whole.zarrvectors"))));
        built.push(cluster.s3.tree("brain.zarrvectors"));
        assert_eq!(without_journal_mark(built.last().unwrap().clone()), expected, "{options}");
    }
    cluster.run_ok(&format!("zvf validate {STORE}"), None);
    cluster.run_ok(&format!("zvf history undo {STORE}"), None);
    assert_eq!(
        without_journal_mark(cluster.s3.tree("brain.zarrvectors")),
        without_journal_mark(built.swap_remove(0))
    );
    cluster.run_ok(&format!("zvf pyramid {STORE} --in-place --levels 0"), None);
    let left = without_journal_mark(cluster.s3.tree("brain.zarrvectors"));
    assert!(left.1.keys().all(
        |key| key.starts_with("0/") && before.contains_key(key) || key.starts_with("0/links/")
    ));

    cluster.reset(&files);
    cluster.run_ok(
        &format!("zvf pyramid {STORE} s3://bucket/coarse.zarrvectors --levels 1 --tolerance 2"),
        None,
    );
    assert_eq!(cluster.s3.tree("brain.zarrvectors"), before, "the first store stays as it was");
    cluster
        .run_ok(&format!("zvf pyramid {STORE} coarse.zarrvectors --levels 1 --tolerance 2"), None);
    let local = without_journal_mark(tree(Path::new(&cluster.at("coarse.zarrvectors"))));
    assert_eq!(without_journal_mark(cluster.s3.tree("coarse.zarrvectors")), local);
    for option in ["--additive", "--reference 2,1"] {
        let refused = cluster.shell(&format!("zvf pyramid {STORE} --in-place {option}"), None);
        assert_eq!(refused.status.code(), Some(2), "{option}");
    }
    cluster.check_no_scratch();
}

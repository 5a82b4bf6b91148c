//! Commands beside commits that are not applied yet, or are made meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use archives::{tree, unapply_half};

use crate::stores::{Folder, done, zvf};

/// A store of points in several cells, from which a commit removed some points; the commit is half
/// applied.
struct HalfApplied {
    folder: Folder,
    /// The points after the commit.
    points: String,
}

impl HalfApplied {
    fn new() -> Self {
        let folder = Folder::new();
        let store = folder.at("s.zv");
        let rows: String =
            (0..4000).map(|n| format!("{},{},{}\n", n % 100, n % 77, n % 50)).collect();
        let points = folder.write("points.csv", format!("x,y,z\n{rows}"));
        zvf(&["create", "-q", &points, &store, "--chunk-shape", "40,40,40"]).clean();
        let before = tree(Path::new(&store));
        zvf(&["edit", "rm", &store, "--bbox", "0,0,0:100,100,20"]).clean();
        let made = Self { points: read(&store), folder };
        let count = made.points.lines().count();
        assert!(count > 1000 && count < 4000);
        unapply_half(Path::new(&store), &before);
        made
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        tree(self.folder.0.path())
    }
}

fn read(store: &str) -> String {
    zvf(&["query", store, "--level", "0", "--format", "csv"]).clean()
}

#[test]
fn readers_see_all_of_a_half_applied_commit_and_write_nothing() {
    let half = HalfApplied::new();
    let (store, link) = (half.folder.at("s.zv"), half.folder.at("link.zv"));
    let before = half.files();
    assert_eq!(read(&store), half.points);
    assert_eq!(zvf(&["info", "--json", &store]).json()["journal"]["head"], 1);
    done(&["validate", "-q", &store]);
    let packed = half.folder.at("s.tet");
    zvf(&["pack", "-q", &store, &packed]).clean();
    assert_eq!(read(&packed), half.points);
    fs::remove_file(&packed).unwrap();
    assert!(half.files() == before);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("s.zv", &link).unwrap();
        assert_eq!(read(&link), half.points);
    }
}

#[test]
fn tasks_build_on_a_half_applied_commit() {
    let half = HalfApplied::new();
    let (store, work) = (half.folder.at("s.zv"), half.folder.at("work"));
    let plan =
        ["task", "plan", "pyramid", &store, "--in-place", "--levels", "1", "--work-dir", &work];
    done(&plan);
    for step in [["task", "run", &work, "--all"].as_slice(), &["task", "finish", &work]] {
        done(step);
    }
    assert_eq!(read(&store), half.points);
    done(&["validate", "-q", &store]);
}

#[test]
fn plans_are_made_of_a_half_applied_commit() {
    for (kind, options) in [("validate", ""), ("convert", "PARTS --to csv"), ("vacuum", "")] {
        let half = HalfApplied::new();
        let (store, work, parts) =
            (half.folder.at("s.zv"), half.folder.at("work"), half.folder.at("parts"));
        let mut plan = vec!["task", "plan", kind, &store];
        let options = options.replace("PARTS", &parts);
        plan.extend(options.split_whitespace().chain(["--work-dir", &work]));
        for step in [&plan[..], &["task", "run", &work, "--all"], &["task", "finish", &work]] {
            done(step);
        }
        assert_eq!(read(&store), half.points, "{kind}");
        if kind == "convert" {
            let parts = tree(Path::new(&parts)).into_values();
            let rows: usize =
                parts.map(|part| String::from_utf8(part).unwrap().lines().count() - 1).sum();
            assert_eq!(rows + 1, half.points.lines().count());
        }
    }
}

#[test]
fn a_long_reader_is_not_in_the_way() {
    let half = HalfApplied::new();
    let store = half.folder.at("s.zv");
    let mut reader = Command::new(env!("CARGO_BIN_EXE_zvf"))
        .args(["query", &store, "--level", "0", "--format", "jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = reader.stdout.take().unwrap();
    let mut first = [0];
    out.read_exact(&mut first).unwrap();
    // The output fills the pipe, so that the command waits while others read and commit.
    let start = std::time::Instant::now();
    let edited = zvf(&["edit", "rm", &store, "--bbox", "0,0,0:100,100,30"]).clean();
    assert!(!edited.contains("not applied"), "{edited}");
    assert!(read(&store).lines().count() < half.points.lines().count());
    assert!(start.elapsed().as_secs() < 25, "somebody waited for the reader");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(reader.wait().unwrap().success());
    assert_eq!(rest.lines().count() + 1, half.points.lines().count(), "one header line");
}

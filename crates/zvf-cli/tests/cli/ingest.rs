//! Stores that several processes build, and processes that are killed.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use archives::tree;

use crate::stores::zvf;

fn start(args: &[&str]) -> Child {
    command(args).spawn().unwrap()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvf"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Writes a mesh of `side` by `side` vertices as a binary PLY.
fn mesh(file: &Path, side: u32) {
    let mut out = std::io::BufWriter::new(fs::File::create(file).unwrap());
    let faces = (side - 1) * (side - 1);
    write!(
        out,
        "ply\nformat binary_little_endian 1.0\nelement vertex {}\nproperty float x\nproperty float y\n\
         property float z\nelement face {}\nproperty list uchar int vertex_indices\nend_header\n",
        side * side,
        faces
    )
    .unwrap();
    for n in 0..side * side {
        for x in [(n % side) as f32, (n / side) as f32, (n % 7) as f32] {
            out.write_all(&x.to_le_bytes()).unwrap();
        }
    }
    for row in 0..side - 1 {
        for column in 0..side - 1 {
            let at = row * side + column;
            out.write_all(&[3]).unwrap();
            for corner in [at, at + 1, at + side] {
                out.write_all(&corner.to_le_bytes()).unwrap();
            }
        }
    }
    out.flush().unwrap();
}

/// A folder with a mesh, and two places for stores of one name.
struct Place(tempfile::TempDir);

impl Place {
    fn new(side: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("one")).unwrap();
        fs::create_dir(folder.path().join("many")).unwrap();
        mesh(&folder.path().join("mesh.ply"), side);
        Self(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Compares both stores, and checks that nothing else is left.
    fn check(&self) {
        self.same();
        assert_eq!(fs::read_dir(self.0.path().join("many")).unwrap().count(), 1);
    }

    /// Compares both stores.
    fn same(&self) {
        let [one, many] = ["one/a.zv", "many/a.zv"].map(|name| tree(&self.0.path().join(name)));
        assert_eq!(one.keys().collect::<Vec<_>>(), many.keys().collect::<Vec<_>>());
        assert!(one.iter().all(|(name, bytes)| *bytes == many[name]));
    }
}

const LITTLE: [&str; 4] = ["--memory-limit", "2MiB", "--per-chunk", "1000"];

#[test]
fn processes_that_are_killed_and_started_again_make_the_same_store() {
    let place = Place::new(400);
    let (file, one, many) = (place.at("mesh.ply"), place.at("one/a.zv"), place.at("many/a.zv"));
    // What fits in memory is written directly.
    assert_eq!(zvf(&["create", "-q", &file, &one, "--per-chunk", "1000", "--no-shard"]).code, 0);
    let plan =
        [&["ingest", "plan", &file, &many, "--json", "--shares", "3", "--no-shard"], &LITTLE[..]];
    let plan = zvf(&plan.concat()).json();
    let tasks = plan["tasks"].as_array().unwrap();
    let stages: Vec<&str> = tasks.iter().map(|task| task["stage"].as_str().unwrap()).collect();
    assert!(stages.iter().filter(|stage| **stage == "route").count() > 3, "{stages:?}");
    let last = (stages.len() - 1).to_string();
    let early = zvf(&["ingest", "run", &many, "--task", &last]).refused(5);
    assert!(early.contains("expected every route task to be done before"), "{early}");
    let early = zvf(&["ingest", "finish", &many]).refused(5);
    assert!(early.contains("not done: route 0, route 1"), "{early}");

    let mut killed = 0;
    for (round, stage) in ["route", "cells", "join", "links"].into_iter().enumerate() {
        let own: Vec<String> = (0..stages.len())
            .filter(|number| stages[*number] == stage)
            .map(|number| number.to_string())
            .collect();
        // Every task runs in its own process, all at once; some are killed in the middle.
        let mut running: Vec<Child> = own
            .iter()
            .map(|task| start(&["ingest", "run", &many, "--task", task, "--memory-limit", "2MiB"]))
            .collect();
        for (number, child) in running.iter_mut().enumerate() {
            if number % 2 == round % 2 {
                std::thread::sleep(Duration::from_millis(7));
                child.kill().unwrap();
                killed += 1;
            }
        }
        for mut child in running {
            child.wait().unwrap();
        }
        for task in &own {
            let ran = zvf(&["ingest", "run", &many, "--task", task, "--memory-limit", "2MiB"]);
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
    }
    assert!(killed > 4);
    assert!(!Path::new(&many).exists(), "nothing is to be seen yet");
    let mut finish = start(&["ingest", "finish", &many]);
    std::thread::sleep(Duration::from_millis(10));
    finish.kill().unwrap();
    finish.wait().unwrap();
    let again = zvf(&["ingest", "finish", &many, "-q"]);
    // It may have been finished before it was killed.
    assert!(again.code == 0 || Path::new(&many).join("zarr.json").exists(), "{}", again.err);
    place.check();
    let plan = zvf(&["ingest", "finish", &many]).refused(2);
    assert!(plan.contains("expected a plan"), "{plan}");
}

#[test]
fn a_killed_create_goes_on() {
    let place = Place::new(300);
    let (file, one, many) = (place.at("mesh.ply"), place.at("one/a.zv"), place.at("many/a.zv"));
    let args = |store| [&["create", file.as_str(), store, "-q"], &LITTLE[..]].concat();
    assert_eq!(zvf(&args(&one)).code, 0);
    for wait in [0, 30, 60, 120, 200, 300] {
        let mut child = start(&args(&many));
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // If it was published before the last kill, the store is complete, with scratch next to it.
    let exists = Path::new(&many).exists();
    if exists {
        place.same();
    }
    let ran = zvf(&args(&many));
    assert_eq!(ran.code, if exists { 4 } else { 0 }, "{}", ran.err);
    place.check();
}

#[test]
fn a_store_that_is_replaced_is_the_old_one_or_the_new_one() {
    let place = Place::new(300);
    let (file, one, many) = (place.at("mesh.ply"), place.at("one/a.zv"), place.at("many/a.zv"));
    let args = |store, more: &[&'static str]| {
        [&["create", file.as_str(), store, "-q"], &LITTLE[..], more].concat()
    };
    assert_eq!(zvf(&args(&one, &["--codec", "zstd"])).code, 0);
    assert_eq!(zvf(&args(&many, &[])).code, 0);
    let old = tree(Path::new(&many));
    let mut published = false;
    for wait in [0, 40, 90, 170, 260, 350] {
        let mut child = start(&args(&many, &["--codec", "zstd", "--overwrite"]));
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = tree(Path::new(&many));
        published |= now != old;
        assert!(!published || now == tree(Path::new(&one)), "neither the old nor the new one");
    }
    assert_eq!(zvf(&args(&many, &["--codec", "zstd", "--overwrite"])).code, 0);
    place.check();
}

#[test]
fn what_killed_commands_left_is_said_and_removed() {
    let place = Place::new(20);
    let (file, store) = (place.at("mesh.ply"), place.at("many/a.zv"));
    assert_eq!(zvf(&["create", &file, &store, "-q"]).code, 0);
    let leave = || {
        let scratch = place.at("many/.a.zv.zvf-build-0123456789abcdef/store/0");
        fs::create_dir_all(scratch).unwrap();
    };
    let names = || fs::read_dir(place.at("many")).unwrap().count();
    leave();
    let ran = zvf(&["validate", &store]);
    assert_eq!((ran.code, names()), (0, 2), "{}", ran.err);
    assert!(
        ran.err.contains(
            ".a.zv.zvf-build-0123456789abcdef was left by a command that was killed, and nothing in it is \
             needed; \"zvf repair --in-place\" and the next \"zvf create\" remove it"
        ),
        "{}",
        ran.err
    );
    let ran = zvf(&["repair", "--plan", &store]);
    assert_eq!((ran.code, names()), (1, 2), "{}", ran.err);
    assert!(ran.out.contains("(scratch of a killed command)\nnothing to repair\n"), "{}", ran.out);
    let plan = zvf(&["repair", "--plan", "--json", &store]);
    let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap();
    assert_eq!(plan["scratch"].as_array().unwrap().len(), 1);
    assert_eq!((zvf(&["repair", "--apply", &store]).code, names()), (0, 1));
    leave();
    assert_eq!((zvf(&["create", &file, &store, "-q"]).code, names()), (4, 1));
    leave();
    assert_eq!((zvf(&["create", &file, &store, "-q", "--overwrite"]).code, names()), (0, 1));

    // A plan can be continued and is not scratch.
    let other = place.at("many/b.zv");
    assert_eq!(zvf(&["ingest", "plan", &file, &other, "-q"]).code, 0);
    let ran = zvf(&["validate", &other]);
    assert!(ran.err.contains("is a build that was not finished"), "{}", ran.err);
    zvf(&["repair", "-q", "--apply", &other]).refused(4);
    assert_eq!(zvf(&["ingest", "run", &other, "--all", "-q"]).code, 0);
    fs::create_dir(place.at("many/.b.zv.zvf-build-1")).unwrap();
    assert_eq!((zvf(&["ingest", "finish", &other, "-q"]).code, names()), (0, 2));
}

#[test]
fn files_in_the_folder_of_a_plan_are_not_removed() {
    let place = Place::new(20);
    let (file, store, work) = (place.at("mesh.ply"), place.at("many/a.zv"), place.at("one"));
    fs::write(place.at("one/notes.txt"), "mine").unwrap();
    let refused = zvf(&["ingest", "plan", &file, &store, "--work", &work]).refused(3);
    assert!(refused.contains("expected an empty folder"), "{refused}");
    fs::remove_file(place.at("one/notes.txt")).unwrap();
    assert_eq!(zvf(&["ingest", "plan", &file, &store, "--work", &work, "-q"]).code, 0);
    assert_eq!(zvf(&["ingest", "run", &store, "--work", &work, "--all", "-q"]).code, 0);
    fs::write(place.at("one/notes.txt"), "mine").unwrap();
    assert_eq!(zvf(&["ingest", "finish", &store, "--work", &work, "-q"]).code, 0);
    let left: Vec<_> = fs::read_dir(&work).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
}

/// Returns the resident memory of a running process, without the pages of the program and of files.
#[cfg(target_os = "linux")]
fn held_memory(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_bounded_for_ten_times_as_much_input() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let limit = 4_u64 << 20;
    mesh(folder.path().join("mesh.ply").as_ref(), 1300); // 20 MB of vertices and 22 MB of faces
    assert!(fs::metadata(at("mesh.ply")).unwrap().len() > 10 * limit);
    // Chains of many runs, each a fragment and an entry of a manifest.
    let mut rows = String::from("x,y,object\n");
    for n in 0..600_000_u32 {
        use std::fmt::Write as _;
        writeln!(rows, "{},{},{}", n * 37 % 1000, n / 600, n / 40).unwrap();
    }
    fs::write(at("chains.csv"), rows).unwrap();
    for (file, more) in [("mesh.ply", &[][..]), ("chains.csv", &["--kind", "polyline"])] {
        let (file, store) = (at(file), at(&format!("{file}.zv")));
        let args = ["create", &file, &store, "-q", "--memory-limit", "4MiB", "--per-chunk", "2000"];
        // The allocator of glibc retains a varying number of freed megabytes, unless its thresholds are fixed.
        let mut child = command(&[&args, more].concat())
            .env("MALLOC_MMAP_THRESHOLD_", "65536")
            .env("MALLOC_TRIM_THRESHOLD_", "65536")
            .spawn()
            .unwrap();
        let mut max_bytes = 0;
        let status = loop {
            max_bytes = max_bytes.max(held_memory(&child).unwrap_or(0));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{file}");
        assert!(max_bytes <= limit + (40 << 20), "{file}: {max_bytes}");
    }
}

#[test]
fn tasks_read_files_by_the_options_of_the_plan() {
    let place = Place::new(2);
    let (stl, csv) = (place.at("square.stl"), place.at("lines.csv"));
    let corner = |x: u8, y: u8| format!("vertex {x} {y} 0\n");
    let facet = |corners: [(u8, u8); 3]| {
        let corners: String = corners.iter().map(|(x, y)| corner(*x, *y)).collect();
        format!("facet normal 0 0 1\nouter loop\n{corners}endloop\nendfacet\n")
    };
    let facets = [facet([(0, 0), (1, 0), (1, 1)]), facet([(0, 0), (1, 1), (0, 1)])].concat();
    fs::write(&stl, format!("solid square\n{facets}endsolid square\n")).unwrap();
    fs::write(&csv, "x,y,object\n0,0,7\n3,4,7\n3,5,7\n9,9,8\n9,9,8\n").unwrap();
    for (file, words, count) in [
        (&stl, &["--no-weld"][..], 6),
        (&csv, &["--kind", "polyline", "--object-attr", "tortuosity", "--compute-length"], 5),
    ] {
        let [one, many] = ["one/a.zv", "many/a.zv"].map(|name| place.at(name));
        let words = [words, &["--no-shard", "--overwrite", "-q"]].concat();
        assert_eq!(zvf(&[&["create", file, &one][..], &words].concat()).code, 0);
        assert_eq!(zvf(&[&["ingest", "plan", file, &many][..], &words].concat()).code, 0);
        assert_eq!(zvf(&["ingest", "run", "-q", &many, "--all"]).code, 0);
        assert_eq!(zvf(&["ingest", "finish", "-q", &many]).code, 0);
        place.check();
        let found = zvf(&["query", &one, "--count", "--json"]).json();
        assert_eq!(found["vertices"], count, "{found}");
    }
    let about = zvf(&["object", "--json", &place.at("many/a.zv"), "7"]).json().to_string();
    assert!(about.contains("\"length\":6.0"), "{about}");
    let out = place.at("x.zv");
    let refused = zvf(&["convert", &place.at("one/a.zv"), &out, "--object-attr", "length"]);
    assert!(refused.refused(2).contains("--object-attr says how a file is read"));
    let refused = zvf(&["create", &csv, &out, "--frags-dir", "a"]).refused(2);
    assert!(refused.contains("--frags-dir"), "{refused}");
}

//! Stores built by several processes, and processes that are killed.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use archives::tree;

use crate::stores::{Folder, check_has, done, kill, start, zvf};

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

/// Returns a folder with a mesh, and two subfolders for stores of the same name.
fn folder_of_stores(side: u32) -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.at("one")).unwrap();
    fs::create_dir(folder.at("many")).unwrap();
    mesh(folder.at("mesh.ply").as_ref(), side);
    folder
}

/// Compares both stores, and checks that nothing else is left.
fn check_finished(folder: &Folder) {
    check_same(folder);
    assert_eq!(fs::read_dir(folder.at("many")).unwrap().count(), 1);
}

/// Compares both stores.
fn check_same(folder: &Folder) {
    let [expected, actual] = ["one/a.zv", "many/a.zv"].map(|name| tree(folder.at(name).as_ref()));
    assert_eq!(expected.keys().collect::<Vec<_>>(), actual.keys().collect::<Vec<_>>());
    assert!(expected.iter().all(|(name, bytes)| *bytes == actual[name]));
}

const LIMITS: [&str; 4] = ["--memory-limit", "2MiB", "--per-chunk", "1000"];

#[test]
fn killed_and_restarted_processes_build_the_same_store() {
    let folder = folder_of_stores(400);
    let (file, expected, store) =
        (folder.at("mesh.ply"), folder.at("one/a.zv"), folder.at("many/a.zv"));
    // Data that fits in memory is written directly.
    done(&["create", "-q", &file, &expected, "--per-chunk", "1000", "--shard", "none"]);
    let plan = [
        &["ingest", "plan", &file, &store, "--json", "--shares", "3", "--shard", "none"],
        &LIMITS[..],
    ];
    let plan = zvf(&plan.concat()).json();
    let tasks = plan["tasks"].as_array().unwrap();
    let stages: Vec<&str> = tasks.iter().map(|task| task["stage"].as_str().unwrap()).collect();
    assert!(stages.iter().filter(|stage| **stage == "route").count() > 3, "{stages:?}");
    let last = (stages.len() - 1).to_string();
    zvf(&["ingest", "run", &store, "--task", &last])
        .refused_with(5, "expected every route task to be done before");
    let refused = zvf(&["ingest", "finish", &store]).refused(5);
    assert!(refused.contains("not done: route 0, route 1"), "{refused}");

    let mut killed = 0;
    for (round, stage) in ["route", "cells", "join", "links"].into_iter().enumerate() {
        let tasks_of_stage: Vec<String> = (0..stages.len())
            .filter(|number| stages[*number] == stage)
            .map(|number| number.to_string())
            .collect();
        // Every task runs in its own process, all at once; some are killed in the middle.
        let mut running: Vec<Child> = tasks_of_stage
            .iter()
            .map(|task| start(&["ingest", "run", &store, "--task", task, "--memory-limit", "2MiB"]))
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
        for task in &tasks_of_stage {
            done(&["ingest", "run", &store, "--task", task, "--memory-limit", "2MiB"]);
        }
    }
    assert!(killed > 4);
    assert!(!Path::new(&store).exists(), "nothing is published yet");
    kill(start(&["ingest", "finish", &store]), 10);
    let finished = zvf(&["ingest", "finish", &store, "-q"]);
    // It may have finished before the kill.
    assert!(finished.code == 0 || Path::new(&store).join("zarr.json").exists(), "{}", finished.err);
    check_finished(&folder);
    zvf(&["ingest", "finish", &store]).refused_with(2, "expected a plan");
}

#[test]
fn a_killed_create_is_continued() {
    let folder = folder_of_stores(300);
    let (file, expected, actual) =
        (folder.at("mesh.ply"), folder.at("one/a.zv"), folder.at("many/a.zv"));
    let args = |store| [&["create", file.as_str(), store, "-q"], &LIMITS[..]].concat();
    done(&args(&expected));
    for wait in [0, 30, 60, 120, 200, 300] {
        kill(start(&args(&actual)), wait);
    }
    // If it was published before the last kill, the store is complete, with scratch files beside
    // it.
    let exists = Path::new(&actual).exists();
    if exists {
        check_same(&folder);
    }
    let ran = zvf(&args(&actual));
    assert_eq!(ran.code, if exists { 4 } else { 0 }, "{}", ran.err);
    check_finished(&folder);
}

#[test]
fn a_killed_replacement_leaves_the_old_or_the_new_store() {
    let folder = folder_of_stores(300);
    let (file, replacement, target) =
        (folder.at("mesh.ply"), folder.at("one/a.zv"), folder.at("many/a.zv"));
    let args = |store, options: &[&'static str]| {
        [&["create", file.as_str(), store, "-q"], &LIMITS[..], options].concat()
    };
    done(&args(&replacement, &["--codec", "zstd"]));
    done(&args(&target, &[]));
    let old = tree(Path::new(&target));
    let mut published = false;
    for wait in [0, 40, 90, 170, 260, 350] {
        kill(start(&args(&target, &["--codec", "zstd", "--overwrite"])), wait);
        let current = tree(Path::new(&target));
        published |= current != old;
        assert!(
            !published || current == tree(Path::new(&replacement)),
            "the store is neither the old nor the new one"
        );
    }
    done(&args(&target, &["--codec", "zstd", "--overwrite"]));
    check_finished(&folder);
}

#[test]
fn scratch_of_killed_commands_is_reported_and_removed() {
    let folder = folder_of_stores(20);
    let (file, store) = (folder.at("mesh.ply"), folder.at("many/a.zv"));
    done(&["create", &file, &store, "-q"]);
    let create_scratch = || {
        let scratch = folder.at("many/.a.zv.zvf-build-0123456789abcdef/store/0");
        fs::create_dir_all(scratch).unwrap();
    };
    let entries = || fs::read_dir(folder.at("many")).unwrap().count();
    create_scratch();
    let ran = zvf(&["validate", &store]);
    assert_eq!((ran.code, entries()), (0, 2), "{}", ran.err);
    assert!(
        ran.err.contains(
            ".a.zv.zvf-build-0123456789abcdef was left by a killed command and is not needed; \
             \"zvf repair --in-place\" and the next \"zvf create\" remove it"
        ),
        "{}",
        ran.err
    );
    let ran = zvf(&["repair", "--plan", &store]);
    assert_eq!((ran.code, entries()), (1, 2), "{}", ran.err);
    check_has(&ran.out, "(temporary files of a killed command)\nnothing to repair\n");
    let plan = zvf(&["repair", "--plan", "--json", &store]);
    let plan = plan.value();
    assert_eq!(plan["scratch"].as_array().unwrap().len(), 1);
    assert_eq!((zvf(&["repair", "--apply", &store]).code, entries()), (0, 1));
    create_scratch();
    assert_eq!((zvf(&["create", &file, &store, "-q"]).code, entries()), (4, 1));
    create_scratch();
    assert_eq!((zvf(&["create", &file, &store, "-q", "--overwrite"]).code, entries()), (0, 1));

    // A plan can be continued and is not scratch.
    let planned = folder.at("many/b.zv");
    done(&["ingest", "plan", &file, &planned, "-q"]);
    let ran = zvf(&["validate", &planned]);
    assert!(ran.err.contains("is an unfinished build"), "{}", ran.err);
    zvf(&["repair", "-q", "--apply", &planned]).refused(4);
    done(&["ingest", "run", &planned, "--all", "-q"]);
    fs::create_dir(folder.at("many/.b.zv.zvf-build-1")).unwrap();
    assert_eq!((zvf(&["ingest", "finish", &planned, "-q"]).code, entries()), (0, 2));
}

#[test]
fn files_in_the_folder_of_a_plan_are_not_removed() {
    let folder = folder_of_stores(20);
    let (file, store, work) = (folder.at("mesh.ply"), folder.at("many/a.zv"), folder.at("one"));
    fs::write(folder.at("one/notes.txt"), "mine").unwrap();
    zvf(&["ingest", "plan", &file, &store, "--work", &work])
        .refused_with(3, "expected an empty folder");
    fs::remove_file(folder.at("one/notes.txt")).unwrap();
    done(&["ingest", "plan", &file, &store, "--work", &work, "-q"]);
    done(&["ingest", "run", &store, "--work", &work, "--all", "-q"]);
    fs::write(folder.at("one/notes.txt"), "mine").unwrap();
    done(&["ingest", "finish", &store, "--work", &work, "-q"]);
    let names: Vec<_> = fs::read_dir(&work).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["notes.txt"]);
}

/// Returns the resident memory of a running process, without the pages of the program and of files.
#[cfg(target_os = "linux")]
fn held_memory(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Runs a command, and returns the most memory that it held.
#[cfg(target_os = "linux")]
fn peak_memory(args: &[&str]) -> u64 {
    // The glibc allocator retains a varying number of freed megabytes, unless its thresholds are
    // fixed.
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvf"));
    command.env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_TRIM_THRESHOLD_", "65536");
    let command = command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut max_bytes = 0;
    while child.try_wait().unwrap().is_none() {
        max_bytes = max_bytes.max(held_memory(&child).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success(), "{args:?}");
    max_bytes
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_bounded_for_ten_times_as_much_input() {
    let folder = Folder::new();
    let limit = 4_u64 << 20;
    mesh(folder.at("mesh.ply").as_ref(), 1300); // 20 MB of vertices and 22 MB of faces
    assert!(fs::metadata(folder.at("mesh.ply")).unwrap().len() > 10 * limit);
    // Chains of many runs, each a fragment and an entry of a manifest.
    let row = |n: u32| format!("{},{},{}\n", n * 37 % 1000, n / 600, n / 40);
    let rows: String = (0..600_000).map(row).collect();
    folder.write("chains.csv", format!("x,y,object\n{rows}"));
    for (file, options) in [("mesh.ply", &[][..]), ("chains.csv", &["--kind", "polyline"])] {
        let (file, store) = (folder.at(file), folder.at(&format!("{file}.zv")));
        let args = ["create", &file, &store, "-q", "--memory-limit", "4MiB", "--per-chunk", "2000"];
        let max_bytes = peak_memory(&[&args, options].concat());
        assert!(max_bytes <= limit + (40 << 20), "{file}: {max_bytes}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn edits_hold_a_part_of_what_they_change() {
    let folder = Folder::new();
    let values = |n: u32| format!(",{}", f64::from(n) / 7.0).repeat(18);
    let row = |n: u32| format!("{}.25,{}.5,{}{}\n", n * 37 % 1000, n / 120, n % 11, values(n));
    let names: String = (0..18).map(|n| format!(",a{n}")).collect();
    let rows: String = (0..120_000).map(row).collect();
    folder.write("a.csv", format!("x,y,z{names}\n{rows}"));
    let store = folder.at("a.zv");
    done(&["create", &folder.at("a.csv"), &store, "-q", "--per-chunk", "8000"]);
    let args = ["edit", "move", "-q", &store, "--all", "--by", "0,0,1"];
    // Without a folder for temporary files nothing is done, rather than all of it in memory.
    let mut homeless = Command::new(env!("CARGO_BIN_EXE_zvf"));
    let homeless = homeless.args(args).env("TMPDIR", folder.at("missing")).output().unwrap();
    let error = String::from_utf8_lossy(&homeless.stderr);
    assert!(!homeless.status.success() && error.contains("(set TMPDIR)"), "{error}");
    let held = peak_memory(&args) >> 20;
    assert!(held <= 80, "{held} MiB"); // 113 while all that it changed was in memory
    done(&["validate", "-q", &store]);
}

#[test]
#[cfg(target_os = "linux")]
fn lines_are_appended_and_joined_chunk_by_chunk() {
    let folder = Folder::new();
    let row = |n: u32| format!("{},{},{},{}\n", n * 7 % 1000, n / 300, n % 11, n / 100);
    let rows: String = (0..200_000).map(row).collect();
    folder.write("a.csv", format!("x,y,z,object\n{rows}"));
    let [csv, a, b] = ["a.csv", "a.zv", "b.zv"].map(|name| folder.at(name));
    for store in [&a, &b] {
        let args = ["create", &csv, store, "-q", "--kind", "polyline", "--per-chunk", "5000"];
        done(&args);
    }
    for args in [&["edit", "append", "-q", &a, &csv][..], &["join", "-q", &a, &b]] {
        let held = peak_memory(args) >> 20;
        assert!(held <= 92, "{args:?}: {held} MiB"); // 107 while all new vertices were in memory
    }
    done(&["validate", "-q", &a]);
}

#[test]
fn tasks_read_files_by_the_options_of_the_plan() {
    let folder = folder_of_stores(2);
    let (stl, csv) = (folder.at("square.stl"), folder.at("lines.csv"));
    let corner = |x: u8, y: u8| format!("vertex {x} {y} 0\n");
    let facet = |corners: [(u8, u8); 3]| {
        let corners: String = corners.iter().map(|(x, y)| corner(*x, *y)).collect();
        format!("facet normal 0 0 1\nouter loop\n{corners}endloop\nendfacet\n")
    };
    let facets = [facet([(0, 0), (1, 0), (1, 1)]), facet([(0, 0), (1, 1), (0, 1)])].concat();
    fs::write(&stl, format!("solid square\n{facets}endsolid square\n")).unwrap();
    fs::write(&csv, "x,y,object\n0,0,7\n3,4,7\n3,5,7\n9,9,8\n9,9,8\n").unwrap();
    for (file, options, count) in [
        (&stl, &["--no-weld"][..], 6),
        (&csv, &["--kind", "polyline", "--object-attr", "tortuosity", "--compute-length"], 5),
    ] {
        let [single, shared] = ["one/a.zv", "many/a.zv"].map(|name| folder.at(name));
        let options = [options, &["--shard", "none", "--overwrite", "-q"]].concat();
        done(&[&["create", file, &single][..], &options].concat());
        done(&[&["ingest", "plan", file, &shared][..], &options].concat());
        done(&["ingest", "run", "-q", &shared, "--all"]);
        done(&["ingest", "finish", "-q", &shared]);
        check_finished(&folder);
        let report = zvf(&["query", &single, "--count", "--json"]).json();
        assert_eq!(report["vertices"], count, "{report}");
    }
    let object =
        zvf(&["inspect", "objects", "--json", &folder.at("many/a.zv"), "7"]).json().to_string();
    assert!(object.contains("\"length\":6.0"), "{object}");
    let out = folder.at("x.zv");
    let refused = zvf(&["convert", &folder.at("one/a.zv"), &out, "--object-attr", "length"]);
    assert!(refused.refused(2).contains("--object-attr is for files"));
    zvf(&["create", &csv, &out, "--frags-dir", "a"]).refused_with(2, "--frags-dir");
}

//! Work divided between processes, which are killed and repeated.

#[cfg(all(unix, feature = "s3"))]
mod schedulers;
mod vacuum;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use archives::{Unpacked, tree};

use crate::stores::{Folder, done, kill, start, zvf};

/// Returns the store, its address, and a sibling folder.
fn beside(store: Unpacked) -> (Unpacked, String, String) {
    let work = store.path().with_file_name("work").to_str().unwrap().to_owned();
    let address = store.path().to_str().unwrap().to_owned();
    (store, address, work)
}

/// Returns a store of lines at several levels.
fn unpack() -> (Unpacked, String, String) {
    beside(Unpacked::new("sl3_pyramid"))
}

/// Plans with `--json`; returns the number of tasks.
fn plan(kind: &str, work: &str, args: &[&str]) -> usize {
    let plan = ["task", "plan", kind, "--work-dir", work, "--json"];
    let plan = done(&[&plan[..], args].concat()).value();
    assert_eq!(plan["kind"], kind);
    plan["tasks"].as_array().unwrap().len()
}

fn count(work: &str, store: &str) -> usize {
    plan("validate", work, &[store, "--shares=3"])
}

#[test]
fn the_report_is_that_of_one_process_in_every_format() {
    let (_store, address, work) = unpack();
    fs::write(Path::new(&address).join("0/vertices/notes.txt"), "x").unwrap();
    let level = Path::new(&address).join("0/zarr.json");
    let text = fs::read_to_string(&level).unwrap();
    let changed = text.replacen("\"vertex_count\":", "\"vertex_count\": 1, \"was\":", 1);
    assert_ne!(text, changed);
    fs::write(&level, changed).unwrap();
    let count = count(&work, &address);
    assert!(count > 4, "{count}");
    run_with_kills(&work, count, || ());
    let repeated = done(&["task", "run", &work, "--all"]).out;
    assert_eq!(repeated.matches("already done").count(), count, "{repeated}");
    for form in [&[][..], &["--json"], &["--sarif", "-"]] {
        let single = zvf(&[&["validate", &address], form].concat());
        let joined = zvf(&[&["task", "finish", &work], form].concat());
        assert_eq!((single.code, joined.code), (1, 1));
        assert_eq!(joined.out, single.out, "{form:?}");
    }
    zvf(&["task", "finish", &work, "--remove"]);
    assert!(!Path::new(&work).exists());
    assert_eq!(zvf(&["task", "finish", &work]).code, 4);
}

#[test]
fn failures_have_the_exit_code_of_their_cause() {
    let (_store, address, work) = unpack();
    let count = count(&work, &address);
    let last = (count - 1).to_string();
    let early = zvf(&["task", "run", &work, "--task", &last]);
    assert_eq!(early.code, 5, "a retry may succeed");
    assert_eq!(zvf(&["task", "finish", &work]).code, 5);
    let unknown = zvf(&["task", "run", &work, "--task", &count.to_string()]);
    assert_eq!(unknown.code, 2);
    let other_plan = ["task", "plan", "validate", &address, "--work-dir", &work, "--depth", "3"];
    assert_eq!(zvf(&other_plan).code, 4, "the folder holds another plan");
    fs::write(Path::new(&address).join("notes.txt"), "x").unwrap();
    for args in [&["task", "run", &work, "--task", "0"][..], &["task", "run", &work, "--all"]] {
        check_changed(args);
    }
}

/// Checks that a command is refused because the store changed since it was planned.
#[track_caller]
fn check_changed(args: &[&str]) {
    let changed = zvf(args);
    assert!(changed.code == 6 && changed.err.contains(" changed after "), "{args:?}: {changed:?}");
}

/// Returns every row of the files of a folder without its line number, which restarts in each file.
fn rows(folder: &str) -> Vec<String> {
    let texts =
        names(folder).into_iter().map(|name| fs::read_to_string(Path::new(folder).join(name)));
    texts.flat_map(|text| rows_without_part(&text.unwrap())).collect()
}

fn rows_without_part(text: &str) -> Vec<String> {
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let row = |line: &str| {
        let fields = line.split(',').zip(&header).filter(|(_, name)| **name != "part");
        fields.map(|(field, _)| field).collect::<Vec<_>>().join(",")
    };
    text.lines().skip(1).map(row).collect()
}

fn names(folder: &str) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn plan_parts(work: &str, args: &[&str]) -> usize {
    plan("convert", work, &[&["--shares=3"], args].concat())
}

/// Runs every task: once killed, then twice at the same time.
fn run_with_kills(work: &str, count: usize, before_each: impl Fn()) {
    for task in (0..count).map(|task| task.to_string()) {
        before_each();
        let run = ["task", "run", work, "--task", &task];
        kill(start(&run), 0);
        let ends = [0, 1].map(|_| start(&run)).map(|mut child: Child| child.wait().unwrap());
        assert!(ends.iter().all(|end| end.success()), "task {task}");
    }
}

#[test]
fn a_divided_conversion_writes_the_same_rows() {
    let no_filter: &[&str] = &[];
    let filter = &["--bbox", "0,0,0:250,900,900"][..];
    for (id, divided, options) in [
        ("pc3_basic", true, no_filter),
        ("pc3_objects", true, no_filter),
        ("pc3_objects", true, filter),
        ("sl3_streamlines", true, no_filter),
        ("sl3_streamlines", true, filter),
        ("pc3_zero_points", false, no_filter),
        ("ms3_tri", false, no_filter),
    ] {
        let store = Unpacked::new(id);
        let at = |name: &str| store.path().with_file_name(name).to_str().unwrap().to_owned();
        let (address, work, out) = (at(&format!("{id}.zarrvectors")), at("work"), at("parts"));
        assert_eq!(address, store.path().to_str().unwrap());
        fs::create_dir(at("whole")).unwrap();
        let expected = format!("{}/whole.csv", at("whole"));
        done(&[&["convert", &address, &expected], options].concat());
        let args = [&[address.as_str(), &out, "--to", "csv"], options].concat();
        let count = plan_parts(&work, &args);
        assert_eq!(count > 1, divided, "{id}");
        run_with_kills(&work, count, || {
            assert!(!Path::new(&out).exists(), "the output is not published before the end");
        });
        let repeated = done(&["task", "run", &work, "--all"]).out;
        assert_eq!(repeated.matches("already done").count(), count, "{repeated}");
        let stdout = done(&["task", "finish", &work]).out;
        let noun = if count == 1 { "part" } else { "parts" };
        assert_eq!(stdout, format!("{count} {noun} in {out}\n"));
        assert_eq!(
            done(&["task", "finish", &work, "--remove"]).out,
            stdout,
            "a repeated finish reports the same"
        );
        assert_eq!(rows(&out), rows(&at("whole")), "{id}");
        assert_eq!(names(&out).len(), count);
        let siblings = names(store.path().parent().unwrap().to_str().unwrap());
        assert!(
            siblings.iter().all(|name| !name.ends_with(".zvf-task") && name != "work"),
            "{siblings:?}"
        );
    }
}

#[test]
fn by_objects_divides_meshes() {
    let store = Unpacked::new("sk3_trees");
    let at = |name: &str| store.path().with_file_name(name).to_str().unwrap().to_owned();
    let (address, work, out) = (at("sk3_trees.zarrvectors"), at("work"), at("parts"));
    let args = [address.as_str(), &out, "--to=csv", "--by-objects"];
    let count = plan_parts(&work, &args);
    assert!(count > 1, "{count}");
    run_with_kills(&work, count, || ());
    let report = done(&["task", "finish", &work, "--json"]).value();
    assert_eq!(report["parts"].as_array().unwrap().len(), count);
    fs::create_dir(at("whole")).unwrap();
    done(&["convert", &address, &format!("{}/whole.csv", at("whole"))]);
    let sorted = |folder: &str| {
        let mut rows = rows(folder);
        rows.sort();
        rows
    };
    assert_eq!(sorted(&out), sorted(&at("whole")));
}

#[test]
fn files_are_parts_and_changed_files_are_refused() {
    let folder = Folder::new();
    let first = folder.write("a.csv", "x;y\n1;2\n");
    let second = folder.write("b.csv", "x;y\n3;4\n5;6\n");
    let (work, out) = (folder.at("work"), folder.at("out"));
    let args = [first.as_str(), &second, &out, "--separator", ";", "--to", "jsonl"];
    assert_eq!(plan_parts(&work, &args), 2);
    done(&["task", "run", &work, "--task", "0"]);
    fs::write(&second, "x;y\n3;4\n5;6\n7;8\n").unwrap();
    assert_eq!(zvf(&["task", "run", &work, "--all"]).code, 6);
    assert_eq!(zvf(&["task", "finish", &work]).code, 5, "a part is missing");
    done(&["task", "remove", &work]);
    assert_eq!(names(folder.0.path().to_str().unwrap()), ["a.csv", "b.csv"]);
    assert_eq!(plan_parts(&work, &args), 2);
    let ran = done(&["task", "run", &work, "--all", "--json"]).out;
    assert!(ran.contains(r#""ran":true"#) || ran.contains(r#""ran": true"#), "{ran}");
    done(&["task", "finish", &work, "--remove"]);
    assert_eq!(fs::read_to_string(folder.at("out/b.jsonl")).unwrap().lines().count(), 3);
    let plan = [&["task", "plan", "convert", "--work-dir", &work][..], &args].concat();
    assert_eq!(zvf(&plan).code, 4, "the output exists");
}

#[test]
fn conversion_tasks_refuse_a_changed_store() {
    let (_store, address, work) = unpack();
    let out = format!("{work}-out");
    assert!(plan_parts(&work, &[&address, &out, "--to", "csv"]) > 1);
    fs::write(Path::new(&address).join("notes.txt"), "x").unwrap();
    check_changed(&["task", "run", &work, "--all"]);
}

#[test]
fn options_that_cannot_be_divided_are_refused() {
    let (_store, address, work) = unpack();
    let out = format!("{work}-out");
    for (args, message) in [
        (&["--limit", "3", "--to", "csv"][..], "--limit"),
        (&["--objects", "1,2", "--to", "csv"], "--objects"),
        (&[], "--to"),
        (&["--to", "csv", "--dry-run"], "--dry-run"),
        (&["--to", "csv", "--overwrite"], "--overwrite"),
        (&["--to", "store"], "folder of stores"),
        (&["--to", "csv", "--separator", ";"], "--separator"),
        (&["--to", "csv", "--nonsense"], "--nonsense"),
    ] {
        let plan = ["task", "plan", "convert", "--work-dir", &work, &address, &out];
        zvf(&[&plan[..], args].concat()).refused_with(2, message);
    }
    assert!(!Path::new(&work).exists());
}

#[test]
fn paths_of_options_are_those_of_the_process_that_planned() {
    let (_store, address, work) = unpack();
    let out = format!("{work}-out");
    let folder = Path::new(&work).parent().unwrap();
    done(&["convert", "-q", &address, folder.join("image.trk").to_str().unwrap()]);
    let plan = ["task", "plan", "convert", "--work-dir", &work, &address, &out, "--to", "trk"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_zvf"));
    let command = command.args(plan).args(["--reference", "image.trk"]).current_dir(folder);
    assert!(command.output().unwrap().status.success());
    done(&["task", "run", &work, "--all"]);
    done(&["task", "finish", &work]);
    assert!(Path::new(&out).join("part-00000.trk").exists());
}

#[test]
fn levels_built_by_tasks_are_those_of_zvf_pyramid() {
    let links = &["--levels", "2", "--cross-level-storage", "explicit"][..];
    for (id, options) in [
        ("pc3_objects", &["--levels", "3", "--cell-size", "9"][..]),
        ("sl3_streamlines", links),
        ("ms3_tri", &["--max-vertices", "10"]),
    ] {
        let (expected, store) = (Unpacked::new(id), Unpacked::new(id));
        let (address, before) = (store.path().to_str().unwrap(), tree(store.path()));
        let work = store.path().with_file_name("work").to_str().unwrap().to_owned();
        done(&[&["pyramid", "--in-place", expected.path().to_str().unwrap()], options].concat());
        let count = plan("pyramid", &work, &[&[address], options].concat());
        assert!(count > 1, "{id}: {count}");
        assert_eq!(zvf(&["task", "run", &work, "--task", "1"]).code, 5, "too early");
        run_with_kills(&work, count, || assert_eq!(tree(store.path()), before));
        kill(start(&["task", "finish", &work]), 0);
        done(&["task", "finish", &work]);
        assert_eq!(tree(store.path()), tree(expected.path()), "{id}");
        let repeated = done(&["task", "finish", &work, "--remove"]).out;
        assert_eq!(repeated, format!("{address} was finished by an earlier run\n"));
        let files = names(store.path().parent().unwrap().to_str().unwrap());
        assert_eq!(files, [format!("{id}.zarrvectors")]);
    }
}

#[test]
fn levels_are_not_published_into_a_changed_store() {
    let (_store, address, work) = unpack();
    let plan = ["task", "plan", "pyramid", "--work-dir", &work, &address, "--levels", "1"];
    done(&plan);
    done(&["task", "run", &work, "--all"]);
    let notes = Path::new(&address).join("notes.txt");
    fs::write(&notes, "x").unwrap();
    assert_eq!(zvf(&["task", "finish", &work]).code, 6);
    fs::remove_file(notes).unwrap();
    let report = done(&["task", "finish", &work, "--json"]).value();
    assert_eq!(report["levels"].as_array().unwrap().len(), 1);
    for option in ["--additive", "--dry-run"] {
        zvf(&[&plan[..], &[option]].concat()).refused_with(2, option);
    }
}

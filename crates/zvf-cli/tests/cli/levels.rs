//! `zvf pyramid` and `zvf inspect lineage`: plans, builds, rebuilds and kills; and the output of `zvf info`
//! afterwards.

use std::fs;

use serde_json::Value;

use crate::stores::{Folder, done, kill, start, words, zvf};

/// Creates a store of `count` points in a plane, with an attribute.
fn points(folder: &Folder, count: u32) -> String {
    let row = |n: u32| format!("{},{},{}\n", f64::from(n % 97), f64::from(n / 97) * 0.5, n % 5);
    let rows: String = (0..count).map(row).collect();
    let file = folder.write("points.csv", format!("x,y,n\n{rows}"));
    let store = folder.at("points.zarrvectors");
    done(&["create", "-q", &file, &store, "--per-chunk", "500"]);
    fs::remove_file(file).unwrap();
    store
}

fn vertices(json: &Value) -> Vec<u64> {
    let levels = json["levels"].as_array().unwrap();
    levels.iter().map(|level| level["vertices"].as_u64().unwrap()).collect()
}

#[test]
fn a_dry_run_prints_the_plan_and_changes_nothing() {
    let folder = Folder::new();
    let store = points(&folder, 5000);
    let args = ["pyramid", "--dry-run", &store, "--levels", "2", "--size", "4"];
    let text = zvf(&args).clean();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "level 0: 5,000 vertices"));
    assert!(lines[1].starts_with("level 1: cluster 4, chunks of "), "{text}");
    assert!(lines[2].starts_with("level 2: cluster 8, chunks of "), "{text}");
    let json = zvf(&[&args[..], &["--json"]].concat()).json();
    assert_eq!((&json["vertices"], &json["levels"][1]["size"]), (&5000.into(), &8.0.into()));
    assert!(json["levels"][1]["about_bytes"].as_u64().unwrap() > 0);
    assert_eq!(zvf(&["info", "--json", &store]).json()["levels"].as_array().unwrap().len(), 1);
}

#[test]
fn levels_are_built_listed_and_replaced() {
    let folder = Folder::new();
    let store = points(&folder, 5000);
    let build = format!("pyramid --in-place --json {store} --levels 2 --size 4 --rule n=max");
    let built = zvf(&words(&build)).value();
    let [first, second] = vertices(&built)[..] else { panic!("{built}") };
    assert!(first < 5000 / 4 && second < first / 3, "{built}");
    assert!(built["levels"][0]["bytes"].as_u64().unwrap() > first * 16);
    let error = built["levels"][1]["error"].as_f64().unwrap();
    assert!(error > 1.0 && error < 12.0, "{error}");

    let info = zvf(&["info", "--json", &store]).json();
    assert_eq!(vertices(&info), [5000, first, second]);
    assert_eq!(info["levels"][2]["error"], built["levels"][1]["error"]);
    let text = zvf(&["info", &store]).clean();
    let shown: f64 = format!("{error:.3e}").parse().unwrap();
    assert!(text.contains(&format!("cluster from 1, within {shown}")), "{text}");
    let coarsest = zvf(&["query", &store, "--level", "2", "--output", "-", "--columns", "n"]);
    assert_eq!(coarsest.out.lines().count() as u64, second + 1);
    assert!(coarsest.out.lines().skip(1).all(|line| line.ends_with(",4")), "{}", coarsest.out);
    done(&["validate", "-q", &store]);

    let subset = format!("pyramid --in-place -q {store} --levels 1 --method subset --keep 0.5");
    let rebuilt = zvf(&words(&subset));
    assert_eq!((rebuilt.code, rebuilt.err.as_str()), (0, ""));
    assert_eq!(vertices(&zvf(&["info", "--json", &store]).json()).len(), 2);
    let unchanged = zvf(&["pyramid", "--in-place", "-q", &store, "--until", "5000"]);
    assert_eq!(unchanged.out, "no coarser levels: the store has at most 5,000 vertices\n");
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "no scratch is left");
}

#[test]
fn a_refresh_reports_the_rebuilt_chunks_of_each_level() {
    let folder = Folder::new();
    let store = points(&folder, 5000);
    done(&["pyramid", "--in-place", "-q", &store, "--levels", "2", "--size", "4"]);
    let corner = ["--bbox", "0,0:1,1", "--by", "0.25,0.25"];
    let run_lines = |args: &[&str]| -> Vec<String> {
        done(&[&["edit", "move", &store], &corner[..]].concat());
        let out = zvf(args).out;
        out.lines().map(str::to_owned).collect()
    };
    let text = run_lines(&["pyramid", &store, "--refresh"]);
    let json = run_lines(&["pyramid", "--json", &store, "--refresh"]).concat();
    let report: Value = serde_json::from_str(&json).unwrap();
    let rebuilt = report["commits"][0]["levels_rebuilt"].as_array().unwrap();
    assert_eq!((rebuilt.len(), text.len()), (2, 3), "{text:?} {report}");
    for (entry, line) in rebuilt.iter().zip(&text[1..]) {
        let (level, built, all) = (&entry["level"], &entry["built"], &entry["all"]);
        let start = format!("level {level}, point_cloud: {built} of {all} chunks built again");
        assert!(entry["text"].as_str().unwrap().starts_with(&start), "{entry}");
        assert!(line.starts_with(&format!("  level {level}, point_cloud: ")), "{line}");
        assert!(line.contains(" chunks built again"), "{line}");
    }
    done(&["edit", "rm", &store, "--bbox", "0,0:95.5,100"]);
    done(&["edit", "rm", &store, "--bbox", "96,0.3:96,100"]);
    let ended = zvf(&["pyramid", &store, "--refresh"]).out;
    assert!(ended.contains("\n  level 1 would be the same as level 0, with 1 vertex"), "{ended}");
}

#[test]
fn builds_additive_levels() {
    let folder = Folder::new();
    let store = points(&folder, 4000);
    let query = ["query", &store, "--output", "-", "--columns", "n"];
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let before = sorted(zvf(&query).out);
    let build = format!("pyramid --in-place {store} --additive --levels 2 --keep 0.25");
    let built = zvf(&words(&build)).clean();
    let lines: Vec<&str> = built.lines().collect();
    assert!(lines[0].starts_with("level 0: ") && lines[0].ends_with(", added to the next level"));
    assert!(lines[2].starts_with("level 2: ") && lines[2].ends_with("vertices"), "{built}");
    assert!(lines[3].starts_with("readers without support for additive levels"), "{built}");
    assert_eq!(sorted(zvf(&query).out), before);
    let info = zvf(&["info", "--json", &store]).json();
    assert_eq!(vertices(&info).iter().sum::<u64>(), 4000);
    let additive = |at: usize| info["levels"][at]["additive"].as_bool();
    assert_eq!([0, 1, 2].map(additive), [Some(true), Some(true), Some(false)]);
    let text = zvf(&["info", &store]).clean();
    assert!(text.contains("complete together with level 1"), "{text}");
    assert!(text.contains("subset from 0, additive"), "{text}");
    done(&["validate", "-q", &store]);
    done(&["render", "-q", &store, "--level", "1", "--output", &folder.at("picture.png")]);

    #[cfg(feature = "reference")]
    {
        zvf(&["pyramid", "--in-place", "-q", &store, "--reference", "2,1"])
            .refused_with(2, "put it together first");
    }
    let plan = zvf(&["pyramid", "-q", "--dry-run", &store, "--levels", "0"]).clean();
    assert_eq!(plan, "level 0: 4,000 vertices\n");
    let rebuild = ["pyramid", "--in-place", "-q", &store, "--additive", "--levels", "1"];
    assert_eq!(zvf(&rebuild).clean().lines().count(), 3);
    assert_eq!(sorted(zvf(&query).out), before);
    let plain = zvf(&["pyramid", "--in-place", "-q", &store, "--levels", "1"]).clean();
    assert!(plain.starts_with("level 0: 4,000 vertices\nlevel 1: "), "{plain}");
    assert_eq!(sorted(zvf(&query).out), before);
    let none = zvf(&["pyramid", "--in-place", "-q", &store, "--levels", "0"]).clean();
    assert_eq!(none, "no coarser levels\n");
    let info = zvf(&["info", "--json", &store]).json();
    assert_eq!(vertices(&info), [4000]);
    assert_eq!(info["levels"][0]["additive"], false);
    let other_folder = Folder::new();
    let store = points(&other_folder, 600);
    zvf(&["pyramid", "--in-place", "-q", &store, "--additive", "--method", "cluster"])
        .refused_with(2, "expected keep or subset, which leave what they keep as it is");
}

#[test]
fn lineage_lists_parents_and_children() {
    let folder = Folder::new();
    let store = points(&folder, 2000);
    done(&words(&format!("pyramid --in-place -q {store} --levels 2 --size 6 --links implicit")));
    let up = ["inspect", "lineage", "--json", &store, "--to", "2", "--vertex", "0.0/3"];
    let json = zvf(&up).json();
    let [link] = &json["links"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&link["from"]["chunk"], &link["from"]["row"]), (&"0.0".into(), &3.into()));
    let to = format!("{}/{}", link["to"]["chunk"].as_str().unwrap(), link["to"]["row"]);
    let down =
        ["inspect", "lineage", &store, "--from=2", "--to=0", "--vertex", &to, "--limit=1000"];
    let text = zvf(&down).clean();
    let in_chunk = |line: &&str| line.split_whitespace().nth(4) == Some("0.0");
    assert!(text.starts_with("level 2") && text.lines().filter(in_chunk).count() > 3, "{text}");
    let limited = zvf(&[&down[..7], &["--limit=1"]].concat());
    assert!(limited.out.contains(" more: see --limit"), "{}", limited.out);
    assert!(zvf(&["info", "--full", &store]).out.contains("links to level 1, 2 vertices each"));

    zvf(&["inspect", "lineage", &store, "--to", "1"])
        .refused_with(2, "no vertex or object is given");
    done(&["pyramid", "--in-place", "-q", &store, "--levels", "1", "--size", "6"]);
    zvf(&["inspect", "lineage", &store, "--to", "1", "--vertex", "0.0/3"])
        .refused_with(2, "no links from level 0 to level 1");
}

/// Creates a store of a surface, points and two trees.
fn store_of_kinds(folder: &Folder) -> String {
    let corner = |n: u32| format!("{} {} {}\n", n / 20, n % 20, (n % 7) as f64 * 0.1);
    let corners: String = (0..400).map(corner).collect();
    let square = |n: u32| {
        (n % 20 < 19)
            .then(|| format!("3 {} {} {}\n3 {} {} {}\n", n, n + 20, n + 21, n, n + 21, n + 1))
    };
    let squares: String = (0..380).filter_map(square).collect();
    let header = "property float x\nproperty float y\nproperty float z\nelement face 722\n\
                  property list uchar int vertex_indices\nend_header\n";
    let ply = format!("ply\nformat ascii 1.0\nelement vertex 400\n{header}{corners}{squares}");
    let row = |n: u32| format!("{},{},{},{}\n", n % 19, n / 19 % 17, n % 5, n % 3);
    let rows: String = (0..900).map(row).collect();
    let points = folder.write("p.csv", format!("x,y,z,n\n{rows}"));
    let mut files = vec![folder.write("f.ply", ply), points];
    for tree in 0..2 {
        let node = |n: u32| {
            format!(
                "{} 3 {} {} {tree} 1 {}\n",
                n + 1,
                n as f64 * 0.1,
                f64::from(n).sin(),
                i64::from(n) - i64::from(n == 0)
            )
        };
        let nodes: String = (0..150).map(node).collect();
        files.push(folder.write(&format!("{tree}.swc"), nodes));
    }
    let mut args = vec!["create", "-q", "--per-chunk", "200"];
    args.extend(files.iter().map(String::as_str));
    let store = folder.at("all.zarrvectors");
    args.push(&store);
    done(&args);
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
    store
}

#[test]
fn every_kind_of_a_store_gets_levels() {
    let folder = Folder::new();
    let store = store_of_kinds(&folder);
    let kinds = ["mesh", "point_cloud", "skeleton"];
    let args = format!("pyramid --in-place {store} --levels 2 --links explicit --depth -1");
    let args = words(&args);
    let plan = zvf(&[&args[..], &["--dry-run"]].concat()).clean();
    let prefixes =
        ["level 0: 1,600 vertices", "level 1, mesh: collapse, ", "level 1, point_cloud: cluster "];
    for (line, prefix) in plan.lines().zip(prefixes) {
        assert!(line.starts_with(prefix), "{plan}");
    }
    assert_eq!(plan.lines().count(), 7, "{plan}");
    let plan = zvf(&[&args[..], &["--dry-run", "--json"]].concat()).json();
    assert_eq!(plan["levels"][5]["kind"], "skeleton");

    let built = zvf(&[&args[..], &["--json", "-q"]].concat()).json();
    let info = zvf(&["info", "--json", &store]).json();
    for level in 1..=2_usize {
        let (built_level, info_of_level) = (&built["levels"][level - 1], &info["levels"][level]);
        let mut total = 0;
        for (at, kind) in kinds.iter().enumerate() {
            let level_info = if at == 0 { info_of_level } else { &info_of_level["beside"][at - 1] };
            let vertices = built_level["kinds"][kind]["vertices"].as_u64().unwrap();
            assert_eq!(level_info["vertices"].as_u64(), Some(vertices), "{kind}: {info}");
            assert_eq!(level_info["error"], built_level["kinds"][kind]["error"]);
            let number = level.to_string();
            let query = ["query", &store, "--kind", kind, "--level", &number, "--columns", "none"];
            let rows = zvf(&[&query[..], &["--no-elements"]].concat()).clean();
            assert_eq!(rows.lines().count() as u64, vertices + 1, "{kind}");
            total += vertices;
        }
        assert_eq!(built_level["vertices"].as_u64(), Some(total));
    }
    done(&["validate", "-q", &store]);
    let text = zvf(&["info", &store]).clean();
    assert!(text.contains("2 skeleton") && text.contains("simplify from 1, within "), "{text}");
    let lineage = ["inspect", "lineage", "--json", &store, "--to", "2", "--object", "2"];
    assert_eq!(zvf(&lineage).json()["all"], 150);
    let wrong_kind = ["inspect", "lineage", &store, "--to", "1", "--object", "2", "--kind", "mesh"];
    assert!(zvf(&wrong_kind).refused(2).contains("object 2 is a skeleton, not a mesh"));

    let methods = "--method subset --method mesh=cluster --size mesh=2 --keep 0.5";
    let again = format!("pyramid --in-place {store} -q --levels 1 --sparsity skeleton=2");
    done(&words(&format!("{again} {methods}")));
    let info = zvf(&["info", "--json", &store]).json();
    let level = &info["levels"][1];
    let methods = [&level["method"], &level["beside"][0]["method"], &level["beside"][1]["method"]];
    assert_eq!(methods, ["cluster", "subset", "simplify"]);
    assert_eq!(level["beside"][1]["object_sparsity"], 0.5);
    done(&["validate", "-q", &store]);
    for (args, message) in [
        (
            &["--method", "decimate"][..],
            "found decimate of mesh, decimate of point_cloud, decimate of skeleton",
        ),
        (&["--size", "line=2"], "settings of a kind: expected those of the store, found line"),
        (&["--additive"], "one, to be spread over levels, found point_cloud"),
        #[cfg(feature = "reference")]
        (&["--reference", "2,1"], "the reference makes levels of the first and loses the others"),
    ] {
        let error = zvf(&[&["pyramid", "--in-place", "-q", &store], args].concat()).refused(2);
        assert!(error.contains(message), "{args:?}: {error}");
    }
}

#[test]
fn invalid_settings_are_refused() {
    let folder = Folder::new();
    let store = points(&folder, 600);
    let before = fs::read_dir(folder.0.path()).unwrap().count();
    for (args, message) in [
        (&["--method", "collapse"][..], "found collapse of point_cloud"),
        (&["--prune", "3"], "expected skeletons to simplify"),
        (&["--growth", "0.5"], "growth: expected 1 or more, found 0.5"),
        (&["--sparsity", "2", "--levels", "1"], "a level with objects"),
    ] {
        let error = zvf(&[&["pyramid", "--in-place", "-q", &store], args].concat()).refused(2);
        assert!(error.contains(message), "{args:?}: {error}");
        // Nothing of a new store is left, and its name stays free.
        let new = format!("{store}.new");
        let error = zvf(&[&["pyramid", "-q", &store, &new], args].concat()).refused(2);
        assert!(error.contains(message), "{args:?}: {error}");
    }
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), before);
    assert_eq!(zvf(&["pyramid", "--in-place", &store, "--links", "some"]).code, 2);
    assert_eq!(vertices(&zvf(&["info", "--json", &store]).json()), [600]);
}

/// A run that is killed at any time leaves the old levels or the new ones, and the next run
/// succeeds.
#[test]
fn a_killed_run_leaves_a_complete_store() {
    let folder = Folder::new();
    let store = points(&folder, 60_000);
    let build = ["pyramid", "--in-place", "-q", &store, "--size", "2", "--links", "explicit"];
    let build = |levels| [&build[..], &["--levels", levels]].concat();
    done(&build("1"));
    let (mut wait, mut killed) = (1, 0);
    loop {
        let ended = kill(start(&build("2")), wait);
        let levels = vertices(&zvf(&["info", "--json", &store]).json());
        assert!(levels.len() == 2 || levels.len() == 3, "after {wait} ms: {levels:?}");
        done(&["validate", "-q", &store]);
        if ended {
            assert_eq!(levels.len(), 3);
            break;
        }
        killed += 1;
        wait *= 2;
    }
    assert!(killed > 1, "{killed}");
    done(&build("2"));
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "no scratch is left");
}

#[test]
#[cfg(feature = "reference")]
fn reference_levels_have_attributes_with_full() {
    let folder = Folder::new();
    let store = points(&folder, 600);
    let query = ["query", "-q", &store, "--level", "1", "--columns", "n", "--output", "-"];
    let without_full = zvf(&["pyramid", "--in-place", "-q", &store, "--reference", "2,1"]).clean();
    assert!(zvf(&query).refused(2).contains("n"));
    let with_full =
        zvf(&["pyramid", "--in-place", "-q", &store, "--reference", "2,1", "--full"]).clean();
    assert_eq!(with_full, without_full);
    assert!(zvf(&query).clean().lines().count() > 1);
    done(&["validate", "-q", &store, "--depth", "5"]);
    zvf(&["pyramid", "--in-place", "-q", &store, "--full"]).refused_with(2, "--reference");
}

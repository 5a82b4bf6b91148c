//! `zvf query`: its answers and its output formats.

use crate::stores::{done, json_lines, store, zvf};

#[test]
fn writes_points_in_a_box_as_csv() {
    let store = store("pc3_basic");
    let text = zvf(&["query", store.arg(), "--bbox", "0,0,0:100,100,100"]).clean();
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|x| x.parse().unwrap()).collect())
        .collect();
    assert!(text.starts_with("x,y,z\n") && !rows.is_empty());
    assert!(rows.iter().flatten().all(|x| (0.0..=100.0).contains(x)), "{text}");
    let all = zvf(&["query", store.arg()]).clean();
    let inside = |line: &&str| line.split(',').all(|x| x.parse::<f64>().is_ok_and(|x| x <= 100.0));
    assert_eq!(all.lines().skip(1).filter(inside).count(), rows.len());
    let streamed = zvf(&["query", store.arg(), "--stream"]).clean();
    assert_eq!(all, streamed, "a streamed answer has the same rows");
    let ball = zvf(&["query", store.arg(), "--ball", "50,50,50:1000"]).clean();
    assert_eq!(ball, all);
    let half = zvf(&["query", store.arg(), "--half-space", "1,0,0:-1"]).out;
    assert_eq!(half, "x,y,z\n");
}

#[test]
fn writes_objects_as_json_lines() {
    let store = store("sl3_streamlines");
    let args = ["query", "--json", store.arg(), "--objects", "7,2", "--columns", "fa"];
    let lines = json_lines(&zvf(&args).clean());
    assert_eq!(
        lines.iter().map(|line| line["object"].as_i64().unwrap()).collect::<Vec<_>>(),
        [7, 2]
    );
    assert_eq!(
        lines[0]["positions"].as_array().unwrap().len(),
        lines[0]["fa"].as_array().unwrap().len()
    );
    assert_eq!(lines[0].get("code"), None);
    let error = zvf(&["query", store.arg(), "--objects", "999"]).refused(2);
    assert!(
        error.ends_with(
            "there is no object 999; did you mean 23? the level has 24 objects, from 0 to 23"
        ),
        "{error}"
    );
    let ran = zvf(&["query", store.arg(), "--objects", "999,2", "--unknown", "report"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "zvf: note: there is no object 999\n"));
    let by_name = zvf(&["query", store.arg(), "--groups", "group_1"]).clean();
    assert_eq!(by_name, zvf(&["query", store.arg(), "--groups", "1"]).clean());
    let quiet = zvf(&["query", "-q", store.arg(), "--objects", "999,2", "--unknown", "report"]);
    assert_eq!(quiet.err, "");
}

#[test]
fn invalid_arguments_are_refused_with_a_suggestion() {
    let store = store("sl3_streamlines");
    for (args, message) in [
        (
            &["--columns", "fb"][..],
            "zvf: there is no vertex attribute \"fb\": there is code, fa; did you mean \"fa\"?",
        ),
        (&["--ball", "0,0:1"], "zvf: the region has 2 axes, the store has 3"),
        (
            &["--bbox", "0,0"],
            "zvf: --bbox \"0,0\" is not a box; write both corners, as in 0,0,0:10,10,10, \
             or 0,0:10,10 for the first two axes",
        ),
        (&["--mode", "clip"], "zvf: clip selects by a region: give a region"),
        (
            &["--format", "ply", "--stream"],
            "zvf: this format cannot be written batch by batch; leave --stream \
             out, or write csv, jsonl or npy",
        ),
    ] {
        assert_eq!(zvf(&[&["query", store.arg()], args].concat()).refused(2), message);
    }
    let error = zvf(&["query", store.arg(), "--groups", "left"]).refused(2);
    assert!(error.ends_with("; there are 3, such as group_0, group_1, group_2"), "{error}");
    let error = zvf(&["query", store.arg(), "--level", "7"]).refused(4);
    assert_eq!(error, "zvf: level 7 does not exist; the store has level 0 only");
    let error = zvf(&["query", store.arg(), "--where", "fa >"]).refused(2);
    assert!(error.starts_with("zvf: cannot read the condition at character"), "{error}");
}

#[test]
fn explain_prints_the_plan_and_the_statistics() {
    let store = store("pc3_basic");
    let args = ["query", store.arg(), "--bbox", "0,0,0:100,100,100", "--explain"];
    let text = zvf(&args).clean();
    assert!(text.starts_with("level 0 (point_cloud), mode inside\ncells     1 of 8\n"), "{text}");
    let json = zvf(&[&args[..], &["--json"]].concat()).json();
    assert_eq!((&json["plan"]["cells"], &json["answer"]["complete"]), (&1.into(), &true.into()));
}

#[test]
fn a_limit_below_the_first_object_is_reported() {
    let store = store("v060_sl3_pyramid");
    let ran = zvf(&["query", store.arg(), "--limit", "3"]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 1));
    assert_eq!(
        ran.err,
        "zvf: note: the first object has more vertices than --limit, and objects are not cut: raise --limit\n"
    );
}

/// Returns the rows of a table without its header, as text.
fn rows(args: &[&str]) -> Vec<String> {
    zvf(args).clean().lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn filters_rows_by_conditions_on_values() {
    let points = store("pc3_objects");
    let base = ["query", points.arg(), "--columns", "intensity"];
    let all = rows(&base);
    let intensity = |line: &String| line.rsplit(',').next().unwrap().parse::<f64>().unwrap();
    let mut expected: Vec<String> =
        all.iter().filter(|line| intensity(line) > 0.5).cloned().collect();
    expected.sort();
    let bright = rows(&[&base[..], &["--where", "intensity > 0.5"]].concat());
    let streamed = rows(&[&base[..], &["--stream", "--where", "intensity > 0.5"]].concat());
    assert_eq!(streamed, bright);
    let boxed = ["--bbox", "0,0,0:100,100,100", "--where", "intensity > 0.5"];
    let inside = rows(&[&base[..], &boxed].concat());
    assert!(inside.iter().all(|line| bright.contains(line)) && inside.len() < bright.len());
    let mut bright = bright;
    bright.sort();
    assert!(!bright.is_empty() && bright.len() < all.len());
    assert_eq!(bright, expected);
    for (id, condition) in
        [("sl3_streamlines", "object.mean > 0"), ("gr3_links", "link.weight > 0.5")]
    {
        done(&["query", store(id).arg(), "--where", condition]);
    }
    zvf(&["query", store("gr3_links").arg(), "--where", "link.weigth > 1"])
        .refused_with(2, "did you mean \"weight\"?");
}

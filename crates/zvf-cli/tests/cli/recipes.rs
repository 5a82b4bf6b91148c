//! Recipes: steps that run, steps that are already done, and stores created from stores.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::stores::{done, store, zvf};

fn points(path: &Path, count: usize) {
    let rows: String = (0..count).map(|n| format!("{n},{},{}\n", n % 7, n % 3)).collect();
    fs::write(path, format!("x,y,z\n{rows}")).unwrap();
}

/// Runs a recipe and returns the result of each step.
fn run(recipe: &Path, options: &[&str]) -> Vec<String> {
    let args = [&["run", "--json", recipe.to_str().unwrap()], options].concat();
    let report = zvf(&args).json();
    let steps = report["steps"].as_array().unwrap();
    steps.iter().map(|step| step["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_recipe_is_continued_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    points(&folder.path().join("a.csv"), 50);
    points(&folder.path().join("b.csv"), 20);
    let recipe = folder.path().join("recipe.yaml");
    let text = format!(
        "vars: {{dir: {dir}}}\nsteps:\n  - create: ${{dir}}/a.csv\n    to: ${{dir}}/a.zarrvectors\n  - pyramid: \
         ${{dir}}/a.zarrvectors\n    options: {{levels: 1}}\n  - validate: ${{dir}}/a.zarrvectors\n  - each: \
         ${{dir}}/?.csv\n    convert: ${{item}}\n    to: ${{dir}}/${{stem}}.ply\n"
    );
    fs::write(&recipe, &text).unwrap();
    assert_eq!(run(&recipe, &["--dry-run"]), ["to do"; 5]);
    assert!(!folder.path().join("a.ply").exists());
    assert_eq!(run(&recipe, &[]), ["ran"; 5]);
    assert_eq!(run(&recipe, &["--jobs", "3"]), ["done"; 5]);

    points(&folder.path().join("b.csv"), 21);
    assert_eq!(run(&recipe, &[]), ["done", "done", "done", "done", "ran"]);
    fs::remove_file(folder.path().join("a.ply")).unwrap();
    assert_eq!(run(&recipe, &[]), ["done", "done", "done", "ran", "done"]);

    points(&folder.path().join("a.csv"), 60);
    assert_eq!(run(&recipe, &["--jobs", "2"]), ["ran", "ran", "ran", "ran", "done"]);
    assert_eq!(run(&recipe, &[]), ["done"; 5]);

    fs::write(folder.path().join("b.ply"), "of somebody else").unwrap();
    let args = ["run", recipe.to_str().unwrap()];
    let ran = zvf(&args);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err.contains("step 4-convert") && ran.err.contains("already exists"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("failed  4-convert"), "{}", ran.out);
    assert_eq!(fs::read_to_string(folder.path().join("b.ply")).unwrap(), "of somebody else");
}

#[test]
fn a_step_that_edits_in_place_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    points(&folder.path().join("a.csv"), 50);
    let (csv, path) = (format!("{dir}/a.csv"), format!("{dir}/a.zarrvectors"));
    zvf(&["create", "--quiet", &csv, &path]).clean();
    let recipe = folder.path().join("recipe.toml");
    let step =
        |levels: u32| format!("[[steps]]\npyramid = \"{path}\"\noptions = {{levels = {levels}}}\n");
    fs::write(&recipe, step(1)).unwrap();
    assert_eq!(run(&recipe, &[]), ["ran"]);
    assert_eq!(run(&recipe, &[]), ["done"]);
    fs::write(&recipe, format!("{}[[steps]]\nvalidate = \"{path}\"\n", step(1))).unwrap();
    assert_eq!(run(&recipe, &[]), ["done", "ran"]);
}

#[test]
fn an_invalid_recipe_is_refused_with_its_location() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        (
            "a.yaml",
            "steps:\n  - vaildate: x\n",
            ":2:5: unknown key \"vaildate\"; did you mean validate?",
        ),
        ("a.yaml", "steps:\n  - validate: x\n   to: y\n", ":3:"),
        ("a.json", "{\"steps\": [{\"validate\": \"x\", \"options\": {\"deep\": 1}}]}", ":1:"),
        ("a.toml", "[[steps]]\nvalidate = \"x\"\nvalidate = \"y\"\n", ":3:"),
    ] {
        let recipe = folder.path().join(name);
        fs::write(&recipe, text).unwrap();
        zvf(&["run", recipe.to_str().unwrap()]).refused_with(2, &format!("{name}{expected}"));
    }
    let schema: Json = zvf(&["run", "--schema"]).json();
    assert!(schema["properties"]["steps"]["items"]["properties"]["export"].is_object());
}

#[test]
fn converts_a_part_of_a_store() {
    let from = store("pc3_basic");
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("part.zarrvectors");
    let to = to.to_str().unwrap();
    zvf(&["convert", "--quiet", from.arg(), to, "--limit", "100"]).clean();
    let count = |store: &str| zvf(&["query", store]).clean().lines().count();
    assert_eq!(count(to), 101);
    done(&["validate", to]);
    let copy = folder.path().join("whole.zarrvectors");
    zvf(&["convert", "--quiet", from.arg(), copy.to_str().unwrap()]).clean();
    assert_eq!(count(copy.to_str().unwrap()), count(from.arg()));
}

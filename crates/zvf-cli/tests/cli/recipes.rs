//! Recipes: steps that run, steps that are already done, and stores created from stores.

use std::fs;

use serde_json::Value as Json;

use crate::stores::{Folder, done, store, zvf};

fn points(count: usize) -> String {
    let rows: String = (0..count).map(|n| format!("{n},{},{}\n", n % 7, n % 3)).collect();
    format!("x,y,z\n{rows}")
}

/// Runs a recipe and returns the result of each step.
fn run(recipe: &str, options: &[&str]) -> Vec<String> {
    let args = [&["run", "--json", recipe], options].concat();
    let report = zvf(&args).json();
    let steps = report["steps"].as_array().unwrap();
    steps.iter().map(|step| step["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_recipe_is_continued_where_it_stopped() {
    let folder = Folder::new();
    let dir = folder.0.path().to_str().unwrap();
    folder.write("a.csv", points(50));
    folder.write("b.csv", points(20));
    let text = format!(
        "vars: {{dir: {dir}}}\nsteps:\n  - create: ${{dir}}/a.csv\n    to: ${{dir}}/a.zarrvectors\n  - pyramid: \
         ${{dir}}/a.zarrvectors\n    options: {{levels: 1}}\n  - validate: ${{dir}}/a.zarrvectors\n  - each: \
         ${{dir}}/?.csv\n    convert: ${{item}}\n    to: ${{dir}}/${{stem}}.ply\n"
    );
    let recipe = folder.write("recipe.yaml", text);
    assert_eq!(run(&recipe, &["--dry-run"]), ["to do"; 5]);
    assert!(!fs::exists(folder.at("a.ply")).unwrap());
    assert_eq!(run(&recipe, &[]), ["ran"; 5]);
    assert_eq!(run(&recipe, &["--jobs", "3"]), ["done"; 5]);

    folder.write("b.csv", points(21));
    assert_eq!(run(&recipe, &[]), ["done", "done", "done", "done", "ran"]);
    fs::remove_file(folder.at("a.ply")).unwrap();
    assert_eq!(run(&recipe, &[]), ["done", "done", "done", "ran", "done"]);

    folder.write("a.csv", points(60));
    assert_eq!(run(&recipe, &["--jobs", "2"]), ["ran", "ran", "ran", "ran", "done"]);
    assert_eq!(run(&recipe, &[]), ["done"; 5]);

    folder.write("b.ply", "of somebody else");
    let ran = zvf(&["run", &recipe]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err.contains("step 4-convert") && ran.err.contains("already exists"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("failed  4-convert"), "{}", ran.out);
    assert_eq!(fs::read_to_string(folder.at("b.ply")).unwrap(), "of somebody else");
}

#[test]
fn a_step_that_edits_in_place_runs_once() {
    let folder = Folder::new();
    let dir = folder.0.path().to_str().unwrap();
    folder.write("a.csv", points(50));
    let (csv, path) = (format!("{dir}/a.csv"), format!("{dir}/a.zarrvectors"));
    zvf(&["create", "--quiet", &csv, &path]).clean();
    let step =
        |levels: u32| format!("[[steps]]\npyramid = \"{path}\"\noptions = {{levels = {levels}}}\n");
    let recipe = folder.write("recipe.toml", step(1));
    assert_eq!(run(&recipe, &[]), ["ran"]);
    assert_eq!(run(&recipe, &[]), ["done"]);
    fs::write(&recipe, format!("{}[[steps]]\nvalidate = \"{path}\"\n", step(1))).unwrap();
    assert_eq!(run(&recipe, &[]), ["done", "ran"]);
}

#[test]
fn an_invalid_recipe_is_refused_with_its_location() {
    let folder = Folder::new();
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
        zvf(&["run", &folder.write(name, text)]).refused_with(2, &format!("{name}{expected}"));
    }
    let schema: Json = zvf(&["run", "--schema"]).json();
    assert!(schema["properties"]["steps"]["items"]["properties"]["export"].is_object());
}

#[test]
fn converts_a_part_of_a_store() {
    let from = store("pc3_basic");
    let folder = Folder::new();
    let (to, copy) = (folder.at("part.zarrvectors"), folder.at("whole.zarrvectors"));
    zvf(&["convert", "--quiet", from.arg(), &to, "--limit", "100"]).clean();
    let count = |store: &str| zvf(&["query", store]).clean().lines().count();
    assert_eq!(count(&to), 101);
    done(&["validate", &to]);
    zvf(&["convert", "--quiet", from.arg(), &copy]).clean();
    assert_eq!(count(&copy), count(from.arg()));
}

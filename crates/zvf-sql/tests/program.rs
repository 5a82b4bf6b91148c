//! Tests the program on the command line: statements, outputs, new stores, and faults.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A folder with a store of 200 points; every tenth point has a mass of 7.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "x,y,z,mass,kind\n".to_owned();
        for n in 0..200 {
            let mass = if n % 10 == 0 { 7 } else { n };
            text +=
                &format!("{}.5,{}.0,{}.0,{mass},{}\n", n % 20, n / 20, n % 3, ["a", "b"][n % 2]);
        }
        fs::write(folder.path().join("points.csv"), text).unwrap();
        let fixture = Self { folder };
        let copy = "COPY (SELECT x, y, z, mass, kind FROM 'points.csv') TO 'points.zarrvectors' \
                    OPTIONS ('chunk_shape' '5,5,5')";
        assert_eq!(fixture.lines(&[copy, "--format", "csv"]), ["count", "200"]);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("zvf-sql").unwrap();
        command.current_dir(self.folder.path()).args(args);
        command
    }

    /// Returns the standard output of a run that succeeds.
    fn text(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn lines(&self, args: &[&str]) -> Vec<String> {
        self.text(args).lines().map(str::to_owned).collect()
    }

    /// Returns the single number of a statement.
    fn number(&self, statement: &str) -> i64 {
        let lines = self.lines(&[statement, "--format", "csv"]);
        lines.last().unwrap().parse().unwrap()
    }

    /// Returns the exit code and the single line of a run that fails.
    fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.command(args).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(line.lines().count(), 1, "{line}");
        (output.status.code().unwrap(), line)
    }
}

#[test]
fn pushes_conditions_down_to_the_store() {
    let folder = Fixture::new();
    let from = "FROM 'points.zarrvectors'";
    assert_eq!(folder.number(&format!("SELECT count(*) {from}")), 200);
    assert_eq!(folder.number(&format!("SELECT count(*) {from} WHERE x < 5 AND y >= 5")), 25);
    assert_eq!(folder.number(&format!("SELECT count(*) {from} WHERE mass = 7 AND kind = 'a'")), 20);
    assert_eq!(
        folder.number(&format!("SELECT count(*) {from} WHERE kind <> 'a' OR (x > 18 AND x < 19)")),
        110
    );
    assert_eq!(folder.number(&format!("SELECT count(*) {from} WHERE chunk = '0.0.0'")), 25);
    assert_eq!(folder.number(&format!("SELECT count(*) FROM (SELECT * {from} LIMIT 7)")), 7);
    let plan = folder.text(&["--explain", &format!("SELECT count(*) {from} WHERE x < 4")]);
    for word in ["cells_pruned=6", "cells_read=2", "bytes_read=", "requests=", "where=x < 4.0"] {
        assert!(plan.contains(word), "{word}: {plan}");
    }
    // Chunks are also counted if none is pruned.
    let plan = folder.text(&["--explain", &format!("SELECT sum(x) {from}")]);
    assert!(plan.contains("cells_pruned=0") && plan.contains("cells_read=8"), "{plan}");
}

#[test]
fn joins_stores_and_files_by_name() {
    let folder = Fixture::new();
    fs::write(folder.path("names.csv"), "kind,name\na,first\nb,second\n").unwrap();
    let tables = ["--table", "p=points.zarrvectors", "--table", "n=names.csv", "--format", "csv"];
    let statement =
        "SELECT n.name, count(*) AS c FROM p JOIN n ON p.kind = n.kind GROUP BY n.name ORDER BY 1";
    let lines = folder.lines(&[&tables[..], &[statement]].concat());
    assert_eq!(lines, ["name,c", "first,100", "second,100"]);
    let levels =
        folder.lines(&[&tables[..], &["SELECT level, kind, vertices FROM p.levels"]].concat());
    assert_eq!(levels, ["level,kind,vertices", "0,point_cloud,200"]);
    let call = "SELECT count(*) FROM zvf('points.zarrvectors', 0, 'point_cloud')";
    assert_eq!(folder.number(call), 200);
}

#[test]
fn writes_answers_in_every_format() {
    let folder = Fixture::new();
    let statement = "SELECT x, kind FROM 'points.zarrvectors' WHERE y = 0 ORDER BY x LIMIT 2";
    let table = folder.text(&[statement]);
    assert!(table.contains("| x   | kind |") && table.contains("| 0.5 | a    |"), "{table}");
    assert_eq!(folder.lines(&[statement, "--format", "csv"]), ["x,kind", "0.5,a", "1.5,b"]);
    let lines = folder.lines(&[statement, "--json"]);
    assert_eq!(lines, [r#"{"x":0.5,"kind":"a"}"#, r#"{"x":1.5,"kind":"b"}"#]);
    let json = folder.text(&[statement, "--format", "json"]);
    assert_eq!(json.trim(), r#"[{"x":0.5,"kind":"a"},{"x":1.5,"kind":"b"}]"#);
    for name in ["out.parquet", "out.arrow", "out.csv", "out.json"] {
        folder.text(&[statement, "-o", name]);
        if name != "out.json" {
            assert_eq!(folder.number(&format!("SELECT count(*) FROM '{name}'")), 2, "{name}");
        }
        let (code, line) = folder.refused(&[statement, "-o", name]);
        assert!(code == 4 && line.contains("--overwrite"), "{line}");
        folder.text(&[statement, "-o", name, "--overwrite"]);
    }
    let rows =
        folder.command(&["SELECT x FROM 'points.zarrvectors'", "--limit", "5"]).output().unwrap();
    assert_eq!(String::from_utf8(rows.stdout).unwrap().lines().count(), 9);
    assert!(String::from_utf8(rows.stderr).unwrap().contains("there are more"));
}

#[test]
fn copies_rows_to_a_store_and_inserts_rows() {
    let folder = Fixture::new();
    folder.text(&[
        "COPY (SELECT x, y, mass FROM 'points.zarrvectors' WHERE mass = 7) TO 'seven.zarrvectors'",
    ]);
    let count = "SELECT count(*) FROM 'seven.zarrvectors'";
    assert_eq!(folder.number(count), 21);
    let (code, line) = folder.refused(&["COPY (SELECT 1.0 AS x, 2.0 AS y) TO 'seven.zarrvectors'"]);
    assert!(code == 4 && line.contains("AlreadyExists"), "{line}");
    let insert = "INSERT INTO s (x, y, mass) VALUES (1000, 2, 8), (3, 4, 9)";
    folder.text(&["--table", "s=seven.zarrvectors", insert]);
    assert_eq!(folder.number(count), 23);
    assert_eq!(folder.number("SELECT sum(mass) FROM 'seven.zarrvectors' WHERE mass > 7"), 17);
    assert_eq!(folder.number("SELECT CAST(max(x) AS INT) FROM 'seven.zarrvectors'"), 1000);
    // Each statement sees the changes of the previous one.
    let statements = "INSERT INTO s (x, y, mass) VALUES (5, 5, 1); SELECT count(*) FROM s";
    let lines = folder.lines(&["--table", "s=seven.zarrvectors", statements, "--format", "csv"]);
    assert_eq!(lines.last().unwrap(), "24");
    let external = "CREATE EXTERNAL TABLE e STORED AS ZVF LOCATION 'seven.zarrvectors' OPTIONS ('level' '0'); \
                    SELECT count(*) FROM e";
    assert_eq!(folder.number(external), 24);
    assert!(!has_leftovers(folder.folder.path()), "temporary files are left");
}

fn has_leftovers(folder: &Path) -> bool {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with(".zvf"))
}

#[test]
fn prints_faults_as_one_line_with_the_exit_code_of_their_class() {
    let folder = Fixture::new();
    for (statement, code, expected) in [
        ("SELECT nothing FROM 'points.zarrvectors'", 2, "nothing"),
        ("SELEC 1", 2, "InvalidArgument"),
        ("SELECT * FROM 'absent.zarrvectors'", 4, "NotFound"),
        ("SELECT * FROM zvf('absent.zarrvectors')", 4, "NotFound"),
        ("SELECT * FROM zvf('points.zarrvectors', 'objects')", 2, "objects"),
        ("SELECT * FROM zvf('points.zarrvectors', 'nonsense')", 2, "one of vertices"),
        ("SELECT * FROM zvf('points.zarrvectors', 3)", 4, "3"),
        ("SELECT * FROM zvf(1)", 2, "path or URL"),
        ("SELECT * FROM zvf(path => 'a.zv', path => 'a.zv')", 2, "path of zvf(): expected one"),
        ("", 2, "found none"),
    ] {
        let (actual, line) = folder.refused(&[statement]);
        assert_eq!(actual, code, "{statement}: {line}");
        assert!(line.starts_with("zvf-sql: ") && line.contains(expected), "{statement}: {line}");
    }
    let (code, line) = folder.refused(&["SELECT 1", "-o", "x.bin"]);
    assert!(code == 2 && line.contains("--format"), "{line}");
    let (code, line) = folder.refused(&["--nonsense"]);
    assert!(code == 2 && line.contains("--nonsense"), "{line}");
    let (code, line) = folder.refused(&["--json", "SELECT * FROM 'absent.zarrvectors'"]);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((code, &line["class"], &line["exit_code"]), (4, &"NotFound".into(), &4.into()));
}

#[test]
fn writes_empty_answers() {
    let folder = Fixture::new();
    let statement = "SELECT x, kind FROM 'points.zarrvectors' WHERE x > 1000";
    assert_eq!(folder.lines(&[statement, "--format", "csv"]), ["x,kind"]);
    assert_eq!(folder.text(&[statement, "--format", "json"]).trim(), "[]");
    assert_eq!(folder.text(&[statement, "--format", "jsonl"]), "");
    folder.text(&[statement, "-o", "none.parquet"]);
    assert_eq!(folder.number("SELECT count(*) FROM 'none.parquet'"), 0);
    // JSON has keys for nulls.
    let lines = folder.lines(&["SELECT NULL AS a, 1 AS b", "--json"]);
    assert_eq!(lines, [r#"{"a":null,"b":1}"#]);
}

#[test]
fn limits_memory() {
    let folder = Fixture::new();
    let join = "SELECT count(*) FROM generate_series(1, 4000000) AS a JOIN generate_series(1, 4000000) AS b \
                ON a.value = b.value";
    let (code, line) = folder.refused(&["--memory-limit", "16MiB", join]);
    assert!(code == 3 && line.contains("--memory-limit"), "{code} {line}");
    assert_eq!(folder.number("SELECT count(*) FROM generate_series(1, 1000)"), 1000);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_statement() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let program = assert_cmd::cargo::cargo_bin("zvf-sql");
    let text = "SELECT 1 AS first; SELECT count(*) FROM generate_series(1, 100000000000000)";
    let mut command = Command::new(program);
    command.args([text, "--format", "csv"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // After the first answer, the program runs the second statement.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    let number = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &number]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "zvf-sql: Cancelled, interrupted\n");
}

#[cfg(unix)]
#[test]
fn an_interrupt_is_seen_while_a_store_is_opened() {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};
    for level in ["", ", level => 0"] {
        // The server accepts connections and never answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/slow.zarrvectors", listener.local_addr().unwrap());
        let arguments = format!("'{url}'{level}");
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("zvf-sql"));
        command.arg(format!("SELECT count(*) FROM zvf({arguments})"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // From now on the program waits for an answer.
        let (_connection, _peer) = listener.accept().unwrap();
        let number = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &number]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), stderr.as_str()),
            (Some(130), "zvf-sql: Cancelled, interrupted\n")
        );
    }
}

#[test]
fn accepts_named_arguments_of_tables() {
    let folder = Fixture::new();
    let named = "SELECT count(*) FROM zvf('points.zarrvectors', level => 0, kind => 'point_cloud')";
    assert_eq!(folder.number(named), 200);
    let (code, line) = folder.refused(&["SELECT * FROM zvf('points.zarrvectors', lod => 0)"]);
    assert!(code == 2 && line.contains("expected path, table, level, kind"), "{code} {line}");
    let mut command = folder.command(&["--format", "csv"]);
    let output = command.write_stdin(format!("{named};")).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "count(*)\n200\n");
}

#[test]
fn reads_statements_from_standard_input() {
    let folder = Fixture::new();
    let mut command = folder.command(&["--format", "csv"]);
    let output = command.write_stdin("SELECT 1 AS a; SELECT 2 AS b;").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\nb\n2\n");
}

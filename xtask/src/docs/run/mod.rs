//! `docs --run`: runs every command in the book and in `--help`, and compares its exit code.
//!
//! ```text
//! commands.rs   the commands of a page, and their expected exit codes
//! stage.sh      the stores and files that they name
//! ```
//!
//! How commands are written:
//!
//! ```text
//! sh block        every line is a command; a loop is one command up to its `done`
//! console block   lines that start with `$ ` are commands, the others are output
//! # exit N        behind a command: the exit code it must have; without, 0
//! other blocks    are not run: commands that need a server, or are only examples, are `text`
//! ```
//!
//! A command that names a URL, and a server, is stopped after a moment and fails only if its
//! arguments are refused. All others must end by themselves. CI runs cargo commands separately, so
//! they are left out, except `cargo run -p zvf-cli`. Each page, and the help of each subcommand,
//! has its own copy of the staged files that it names.

mod commands;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use self::commands::Shown;
use crate::house::{House, remove_folder, say};
use crate::parts::SQL;

/// Runs the commands of the pages with SQL queries, which need a separate program, or of all other
/// pages and help texts; fails when an exit code is not the expected one.
pub(crate) fn run(house: &House, with_sql: bool) -> anyhow::Result<()> {
    let bin = house.build_programs(&["archives"])?;
    if with_sql {
        crate::sql::build(house)?;
    }
    let folder = house.empty_folder("docs-run")?;
    let shell = Shell {
        bin,
        stage: folder.join("stage"),
        page: folder.join("page"),
        home: folder.join("home"),
    };
    shell.build_stage(house)?;
    let mut pages = Vec::new();
    for path in super::links::pages(house)? {
        let text = fs::read_to_string(&path)?;
        let name = path.strip_prefix(house.path("")).unwrap_or(&path).display().to_string();
        pages.push((name, commands::of_page(&text)));
    }
    let mut problems = Vec::new();
    help(house, &shell, &mut Vec::new(), &mut pages, &mut problems)?;
    for problem in &problems {
        say(problem);
    }
    ensure!(problems.is_empty(), "{} faults in help texts", problems.len());
    let (mut ran, mut wrong) = (0, Vec::new());
    for (name, commands) in &pages {
        if commands.is_empty() {
            continue;
        }
        if with_sql != commands.iter().any(|shown| shown.command.contains("zvf sql")) {
            if !with_sql {
                say(&format!("run by `cargo xtask docs --run --sql`: {name}"));
                SQL.settle(false);
            }
            continue;
        }
        shell.fresh_page(commands)?;
        for shown in commands {
            ran += 1;
            if let Some(problem) = shell.check(shown)? {
                say(&format!("{name}:{}: {problem}", shown.line));
                wrong.push(name);
            }
        }
    }
    say(&format!("{ran} commands of {} pages and help texts", pages.len()));
    ensure!(wrong.is_empty(), "{} commands do not end as the documentation shows", wrong.len());
    Ok(())
}

/// Adds the commands and the faults of the help of `words`, and of every subcommand below.
fn help(
    house: &House,
    shell: &Shell,
    words: &mut Vec<String>,
    pages: &mut Vec<(String, Vec<Shown>)>,
    problems: &mut Vec<String>,
) -> anyhow::Result<()> {
    let output = Command::new(shell.bin.join("zvf")).args(&*words).arg("--help").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "zvf {} --help fails", words.join(" "));
    let name = format!("zvf {} --help", words.join(" "));
    let (shown, below) = (commands::of_help(&text), commands::subcommands(&text));
    let has_example = !shown.is_empty() || !below.is_empty(); // a list of commands needs none
    problems.extend(super::pages::check_help(house, &name, &text, has_example)?);
    pages.push((name, shown));
    for name in below {
        words.push(name);
        help(house, shell, words, pages, problems)?;
        words.pop();
    }
    Ok(())
}

/// The environment in which commands run.
struct Shell {
    bin: PathBuf,
    stage: PathBuf,
    page: PathBuf,
    home: PathBuf,
}

impl Shell {
    /// Makes the stores and files that pages name, and the home of the shell.
    fn build_stage(&self, house: &House) -> anyhow::Result<()> {
        fs::create_dir_all(&self.stage)?;
        let mut bash = self.bash(include_str!("stage.sh"), &self.stage, COMMAND_SECONDS)?;
        bash.env("TESTDATA", house.path("testdata"));
        let output = bash.env("UNPACK", self.bin.join("examples/unpack")).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Copies the staged files that the commands name, without those of earlier pages.
    fn fresh_page(&self, commands: &[Shown]) -> anyhow::Result<()> {
        remove_folder(&self.page)?;
        fs::create_dir_all(&self.page)?;
        let shown: String = commands.iter().map(|shown| shown.command.as_str()).collect();
        let mut named = shown.clone();
        for recipe in RECIPES.iter().filter(|recipe| shown.contains(**recipe)) {
            named += &fs::read_to_string(self.stage.join(recipe))?; // it names further files
        }
        for entry in fs::read_dir(&self.stage)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let stem = name.split(['.', '-']).next().unwrap_or(&name);
            if !named.contains(stem) {
                continue;
            }
            let copied = Command::new("cp").arg("-r").args([&entry.path(), &self.page]).status()?;
            ensure!(copied.success(), "cannot copy {name}");
        }
        Ok(())
    }

    /// Returns a bash command that finds `zvf` and stand-ins for tools that may not be installed. It
    /// is killed with its children at the time limit.
    fn bash(&self, line: &str, folder: &Path, seconds: u32) -> anyhow::Result<Command> {
        let path = std::env::var("PATH").context("no PATH")?;
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", &seconds.to_string(), "bash", "-o", "pipefail", "-c", line]);
        command.current_dir(folder);
        command.env(
            "PATH",
            format!("{}:{}:{path}", self.bin.display(), self.home.join("bin").display()),
        );
        command.env("HOME", &self.home).env("SLURM_ARRAY_TASK_ID", "0");
        command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_REGION", "us-east-1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Returns the fault of a command, if its outcome is not the expected one.
    fn check(&self, shown: &Shown) -> anyhow::Result<Option<String>> {
        let is_server = shown.command.contains("://")
            || SERVERS.iter().any(|server| shown.command.starts_with(server));
        let seconds = if is_server { SERVER_SECONDS } else { COMMAND_SECONDS };
        let errors = self.home.join("stderr");
        let mut command = self.bash(&shown.command, &self.page, seconds)?;
        // No code, or that of the shell for a killed command.
        let code = command.stderr(fs::File::create(&errors)?).status()?.code();
        let code = code.filter(|code| *code != KILLED);
        if is_server {
            let is_refused = code == Some(2);
            return Ok(is_refused.then(|| format!("the arguments are refused: {}", shown.command)));
        }
        let Some(code) = code else {
            return Ok(Some(format!("does not end: {}", shown.command)));
        };
        if code == shown.exit {
            return Ok(None);
        }
        let stderr = fs::read(errors)?;
        let stderr = String::from_utf8_lossy(&stderr);
        let (expected, stderr) = (shown.exit, stderr.trim_end());
        Ok(Some(format!("exit code {code}, expected {expected}: {}\n    {stderr}", shown.command)))
    }
}

/// Staged files that name other files.
const RECIPES: [&str; 2] = ["recipe.yaml", "recipe.toml"];
/// Commands that run until they are interrupted.
const SERVERS: [&str; 2] = ["zvf serve", "zvf view "];
/// The time limit of a command that is a server, or needs one.
const SERVER_SECONDS: u32 = 1;
/// The time limit of all others; each ends within seconds.
const COMMAND_SECONDS: u32 = 300;
/// The exit code after SIGKILL.
const KILLED: i32 = 137;

//! The workspace, and programs that are started in it.
//!
//! Each program is printed before it runs, inherits the terminal, and if it fails, the command
//! fails.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{env, fs};

use anyhow::{Context, ensure};

/// The workspace.
pub(crate) struct House {
    root: PathBuf,
    /// Whether programs are built with the selection that the tests of CI use.
    pub(crate) is_ci: bool,
}

/// A program about to be started.
pub(crate) struct Program(Command);

impl House {
    /// Returns the workspace for which cargo runs this program. Work trees may share one build
    /// folder, so the work tree that this program was built in is only the fallback.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let xtask = env::var_os("CARGO_MANIFEST_DIR");
        let xtask = xtask.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = xtask.parent().context("xtask has no parent folder")?.to_path_buf();
        ensure!(root.join("Cargo.lock").is_file(), "no workspace in {}", root.display());
        Ok(Self { root, is_ci: false })
    }

    /// Returns the same workspace for the steps of CI: they share [`ci_set`].
    pub(crate) fn for_ci(&self) -> Self {
        Self { root: self.root.clone(), is_ci: true }
    }

    /// Returns a path below the root.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Returns the text of a file below the root.
    pub(crate) fn read(&self, below: &str) -> anyhow::Result<String> {
        read(&self.path(below))
    }

    /// Returns the build folder.
    pub(crate) fn target(&self) -> PathBuf {
        match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => self.root.join(folder),
            None => self.root.join("target"),
        }
    }

    /// Returns an empty folder below the build folder.
    pub(crate) fn empty_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.target().join(name);
        remove_folder(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Returns a command of the current cargo.
    pub(crate) fn cargo(&self, words: &str) -> Program {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        self.program(&cargo).words(words)
    }

    /// Builds the command, the examples that checks start, and the programs of `more`, and returns
    /// their folder. They are built together, with the profile of tests: separately, each would
    /// recompile the lower crates with different features. In CI all programs are built, from the
    /// same crates as the tests.
    pub(crate) fn build_programs(&self, more: &[&str]) -> anyhow::Result<PathBuf> {
        let programs = ["zvf-cli", "zvf-validate"].iter().chain(more);
        let programs: Vec<&str> = programs.flat_map(|name| ["-p", name]).collect();
        let selection = if self.is_ci { ci_set() } else { programs };
        self.cargo("build --quiet --bins --examples").args(&selection).run()?;
        Ok(self.target().join("debug"))
    }

    /// Builds the command and returns its path.
    pub(crate) fn build_command(&self) -> anyhow::Result<PathBuf> {
        if self.is_ci {
            return Ok(self.build_programs(&[])?.join("zvf"));
        }
        self.cargo("build --quiet -p zvf-cli").run()?;
        Ok(self.target().join("debug/zvf"))
    }

    /// Returns a cargo wrapper for maturin, in CI. maturin builds the module alone, with fewer
    /// features than the tests, so every crate below it would be compiled again.
    pub(crate) fn ci_cargo(&self) -> anyhow::Result<Option<PathBuf>> {
        if !self.is_ci {
            return Ok(None);
        }
        let script = self.target().join("cargo-for-maturin");
        let words = "build --lib --bins --examples --message-format json-render-diagnostics";
        let (set, cargo) =
            (ci_set().join(" "), env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        let text = format!(
            "#!/bin/sh\n[ \"$1\" != rustc ] || set -- {words} {set}\nexec '{cargo}' \"$@\"\n"
        );
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(Some(script))
    }

    /// Returns a command of the nightly cargo, in `folder` below the root.
    pub(crate) fn nightly(&self, folder: &str, words: &str) -> Program {
        let Program(mut command) = self.program("rustup").words("run nightly cargo");
        command.current_dir(self.root.join(folder));
        // The current cargo sets these variables, which would select its toolchain again.
        for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(name);
        }
        Program(command).words(words)
    }

    /// Returns the command of a line. Its words are separated by spaces; each `{}` stands for one of
    /// `places`.
    pub(crate) fn line(&self, line: &str, places: &[&dyn AsRef<OsStr>]) -> Program {
        let mut places = places.iter();
        let mut words = line.split_whitespace().map(|word| match word {
            "{}" => AsRef::<OsStr>::as_ref(*places.next().expect("each mark has a place")),
            word => word.as_ref(),
        });
        let program = self.program(words.next().expect("a line begins with a program"));
        program.args(&words.collect::<Vec<&OsStr>>())
    }

    /// Returns a command of any program, started in the root.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Program {
        let mut command = Command::new(name);
        command.current_dir(&self.root);
        // The cargo that started this program sets these variables, and a shell does not: if they
        // differ, the build script of ring runs again, and everything that uses TLS is recompiled.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        Program(command)
    }
}

/// Crates with an SQL engine: only the steps of `conformance --sql` build them.
pub(crate) const HEAVY: [&str; 3] = ["zvf-datafusion", "zvf-sql", "zvf-cluster"];

/// Crates whose tests are the same with all features: the test command of the README has them all.
pub(crate) const PLAIN: &str =
    "xtask zvf-error zvf-format zvf-metadata zvf-tet zvf-b2nd zvf-publish
    zvf-map zvf-draco zvf-model zvf-query zvf-write zvf-validate zvf-repair zvf-migrate
    zvf-precomputed zvf-render zvf-jobs zvf-serve zvf-fuzz-targets";

/// Returns the selection of all packages that need no SQL engine, with all features.
pub(crate) fn everything() -> Vec<&'static str> {
    let excluded = HEAVY.iter().flat_map(|name| ["--exclude", *name]);
    ["--workspace", "--all-features"].into_iter().chain(excluded).collect()
}

/// Returns the selection of the programs, and of the crates with features that the test command of
/// the README leaves out. Every step of CI builds this selection, because cargo recompiles a crate
/// whenever another selection needs other features of it.
pub(crate) fn ci_set() -> Vec<&'static str> {
    let excluded = PLAIN.split_whitespace().flat_map(|name| ["--exclude", name]);
    everything().into_iter().chain(excluded).collect()
}

impl Program {
    /// Adds arguments without spaces, with spaces between them.
    pub(crate) fn words(mut self, words: &str) -> Self {
        self.0.args(words.split_whitespace());
        self
    }

    pub(crate) fn args(mut self, args: &[impl AsRef<OsStr>]) -> Self {
        self.0.args(args);
        self
    }

    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.0.arg(word);
        self
    }

    /// Adds the remaining arguments of the command.
    pub(crate) fn forward(mut self, args: crate::args::Args) -> Self {
        self.0.args(args.into_words());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let status = self.start()?.wait()?;
        self.check(status)
    }

    /// Prints and starts it.
    pub(crate) fn start(&mut self) -> anyhow::Result<Child> {
        say(&format!("$ {}", self.name()));
        self.0.spawn().with_context(|| format!("could not start {}", self.name()))
    }

    fn check(&self, status: ExitStatus) -> anyhow::Result<()> {
        ensure!(status.success(), "{} failed: {status}", self.name());
        Ok(())
    }

    /// Runs it to its end, prints its output, and returns the lines that `keep` accepts.
    pub(crate) fn run_keeping(mut self, keep: fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
        self.0.stdout(Stdio::piped());
        let mut child = self.start()?;
        let mut lines = Vec::new();
        for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
            let line = line?;
            writeln!(io::stdout(), "{line}")?;
            if keep(&line) {
                lines.push(line);
            }
        }
        self.check(child.wait()?)?;
        Ok(lines)
    }

    /// Returns its output, or `None` when it cannot be started or fails.
    pub(crate) fn output(mut self) -> Option<String> {
        let output = self.0.stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Fails with this message when it cannot be started, or fails.
    pub(crate) fn require(self, missing: &str) -> anyhow::Result<()> {
        self.output().map(drop).with_context(|| missing.to_owned())
    }

    fn name(&self) -> String {
        let program = Path::new(self.0.get_program());
        let mut name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for arg in self.0.get_args() {
            name.push(' ');
            name.push_str(&arg.to_string_lossy());
        }
        name
    }
}

/// Returns the text of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Removes a folder and what is in it, where there is one.
pub(crate) fn remove_folder(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    Ok(())
}

/// Returns what is in a folder, by name.
pub(crate) fn list(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let place = || format!("cannot list {}", folder.display());
    let paths = fs::read_dir(folder).with_context(place)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>().with_context(place)?;
    paths.sort();
    Ok(paths)
}

/// Returns what has this extension in a folder, by name.
pub(crate) fn list_with(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = list(folder)?;
    paths.retain(|path| has_extension(path, extension));
    Ok(paths)
}

/// Returns the files below a folder, by name, without those of folders that `skips` accepts.
pub(crate) fn walk(folder: &Path, skips: &dyn Fn(&Path) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in list(folder)?.into_iter().filter(|path| !path.is_symlink()) {
        if !path.is_dir() {
            files.push(path);
        } else if !skips(&path) {
            files.extend(walk(&path, skips)?);
        }
    }
    Ok(files)
}

/// Returns whether a path has this extension.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Prints one line. A closed terminal is not an error.
pub(crate) fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

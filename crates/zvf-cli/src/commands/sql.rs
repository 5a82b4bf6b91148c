//! `zvf sql`: runs the program `zvf-sql`, which contains the engine.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use clap::Args;

use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;

/// Query stores in SQL, together with Parquet, CSV, JSON and Arrow files.
///
/// This runs the program zvf-sql, next to this one or on PATH: it is installed separately, because its engine is
/// several times as large as the rest of zvf. All options: zvf-sql --help.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sql {
    /// Arguments of zvf-sql: a statement, --table NAME=PATH, --format, --output and so on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl Sql {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        let Some(program) = find() else {
            return refuse(
                "the program zvf-sql was not found next to zvf or on PATH; install it with: cargo \
                 install --path crates/zvf-sql",
            );
        };
        session.out().flush()?;
        let mut command = Command::new(&program);
        command.args(session.passed_words()).args(self.arguments);
        let status =
            command.status().with_context(|| format!("cannot run {}", program.display()))?;
        // A program without an exit code was ended by a signal.
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(INTERRUPTED);
        Ok(Outcome::Ended(code))
    }
}

/// Returns the program: next to this one, else the first on PATH.
fn find() -> Option<PathBuf> {
    let name = format!("zvf-sql{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all =
        beside.into_iter().chain(env::split_paths(&path)).map(|folder| folder.join(&name));
    all.find(|program| program.is_file())
}

const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "Examples:
  zvf sql \"SELECT count(*) FROM 'scan.zarrvectors'\"
  zvf sql \"SELECT object, count(*) FROM 'tracts.zarrvectors' GROUP BY object\" -o counts.csv
  zvf sql --table brain=brain.zarrvectors \"SELECT * FROM brain.objects LIMIT 5\"";

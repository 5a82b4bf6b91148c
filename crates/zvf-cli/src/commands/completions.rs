//! `zvf completions`.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::outcome::{CommandResult, Outcome};

/// Print the completions of a shell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf completions bash > ~/.local/share/bash-completion/completions/zvf
  zvf completions zsh > ~/.zfunc/_zvf
  zvf completions fish > ~/.config/fish/completions/zvf.fish")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Prints those of `command`.
    pub(crate) fn run(self, mut command: clap::Command, out: &mut dyn Write) -> CommandResult {
        // The generator panics where it cannot write, so it writes to memory.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "zvf", &mut text);
        out.write_all(&text)?;
        Ok(Outcome::Clean)
    }
}

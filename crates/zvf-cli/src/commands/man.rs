//! `zvf man`.

use std::io::Write;

use clap::Args;
use clap_mangen::Man as Page;

use crate::outcome::{CommandResult, Outcome, refuse};

/// Print the manual page, of the command or of a subcommand.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf man | man -l -
  zvf man query > ~/.local/share/man/man1/zvf-query.1
  zvf man task plan convert | man -l -")]
pub(crate) struct Man {
    /// The words of the subcommand.
    subcommand: Vec<String>,
}

impl Man {
    /// Prints that of `command`.
    pub(crate) fn run(self, mut command: clap::Command, out: &mut dyn Write) -> CommandResult {
        command.build();
        for name in &self.subcommand {
            let Some(found) = command.find_subcommand(name).cloned() else {
                let known: Vec<&str> =
                    command.get_subcommands().map(clap::Command::get_name).collect();
                let known = known.join(", ");
                return refuse(format!(
                    "there is no subcommand {name:?}; the subcommands are {known}"
                ));
            };
            command = found;
        }
        let name = [&["zvf".to_owned()][..], &self.subcommand].concat().join("-");
        Page::new(command).title(name).render(out)?;
        Ok(Outcome::Clean)
    }
}

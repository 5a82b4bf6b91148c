//! `zvf man`.

use std::io::Write;

use clap::Args;
use clap_mangen::Man as Page;

use crate::outcome::{CommandResult, Outcome, Usage};

/// Print the manual page, of the command or of a subcommand.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf man | man -l -
  zvf man query > ~/.local/share/man/man1/zvf-query.1")]
pub(crate) struct Man {
    /// The subcommand.
    subcommand: Option<String>,
}

impl Man {
    /// Prints that of `command`.
    pub(crate) fn run(self, mut command: clap::Command, out: &mut dyn Write) -> CommandResult {
        command.build();
        let page = match &self.subcommand {
            None => Page::new(command),
            Some(name) => match command.find_subcommand(name) {
                Some(found) => Page::new(found.clone()).title(format!("zvf-{name}")),
                None => return Err(unknown_command_error(&command, name).into()),
            },
        };
        page.render(out)?;
        Ok(Outcome::Clean)
    }
}

fn unknown_command_error(command: &clap::Command, name: &str) -> Usage {
    let subcommands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let known = subcommands.join(", ");
    Usage::new(format!("there is no subcommand {name:?}; the subcommands are {known}"))
}

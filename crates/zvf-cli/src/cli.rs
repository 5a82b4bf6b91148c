//! The command line: the global options and the list of subcommands.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::arguments::expand;
#[cfg(feature = "render")]
use crate::commands::render;
use crate::commands::{
    clean, completions, convert, create, demo, edit, formats, history, info, ingest, inspect, man,
    pack, pyramid, query, repair, rewrite, run, sql, stores, task, tensor, validate,
};
#[cfg(feature = "serve")]
use crate::commands::{serve, view};
use crate::global_options::Common;
use crate::interrupt::Interrupt;
use crate::outcome::CommandResult;
use crate::progress::ProgressHook;
use crate::session::{Output, Session};

/// Read, query, write and check Zarr Vectors stores: points, lines, graphs, skeletons and meshes.
///
/// A store is a folder, a .tet file that a store was packed into, or a URL of either: s3://bucket/prefix,
/// http://host/path, and the other backends of this build; with the feature icechunk also of a version of a repository:
/// icechunk+file:///data/brain?tag=v1.
#[derive(Parser)]
#[command(name = "zvf", version, propagate_version = true, disable_help_flag = true)]
#[command(after_long_help = EXIT_CODES, mut_subcommands = share_examples)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Info(info::Info),
    #[command(subcommand)]
    Inspect(Box<inspect::Inspect>),
    Query(Box<query::Query>),
    Sql(sql::Sql),
    Create(Box<create::Create>),
    Convert(Box<convert::Convert>),
    Demo(demo::Demo),
    Run(run::Run),
    Pyramid(Box<pyramid::Pyramid>),
    #[cfg(feature = "render")]
    Render(Box<render::Render>),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Serve>),
    #[cfg(feature = "serve")]
    View(view::View),
    Edit(Box<edit::Edit>),
    Attach(stores::Attach),
    #[command(subcommand)]
    History(history::History),
    Join(stores::JoinStores),
    Divide(stores::Divide),
    Rewrite(rewrite::Rewrite),
    Vacuum(stores::Vacuum),
    Pack(pack::Pack),
    Unpack(pack::Unpack),
    Validate(validate::Validate),
    Repair(repair::Repair),
    Clean(clean::Clean),
    #[command(subcommand)]
    Ingest(Box<ingest::Ingest>),
    #[command(subcommand)]
    Task(task::Task),
    #[command(subcommand)]
    Tensor(tensor::Tensor),
    Formats(formats::Formats),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Parses a command line, the name of the program first.
    pub(crate) fn parse_line(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let command = Self::command();
        let template = help_template(&command);
        let mut command = accept_negative(command.help_template(template));
        let args = expand(args);
        let parsed = command.try_get_matches_from_mut(&args);
        let parsed = parsed.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(|mut error| {
            if error.get(ContextKind::Usage).is_none() {
                let own = args
                    .iter()
                    .skip(1)
                    .try_fold(&command, |own, word| own.find_subcommand(word).ok_or(own));
                let usage = own.unwrap_or_else(|last| last).clone().render_usage();
                error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            }
            error
        })
    }

    /// Returns whether JSON is to be printed.
    pub(crate) const fn is_json(&self) -> bool {
        self.common.json
    }

    /// Runs the subcommand and prints to standard output.
    pub(crate) fn run(self) -> CommandResult {
        let interrupt = Interrupt::default();
        let runtime = interrupt.runtime(self.common.json)?;
        self.run_on(runtime, &interrupt, None, Arc::new(Mutex::new(BufWriter::new(io::stdout()))))
    }

    /// Runs the subcommand and prints to `out`; only `interrupt` stops it.
    pub(crate) fn run_on(
        self,
        runtime: Runtime,
        interrupt: &Interrupt,
        on_progress: Option<ProgressHook>,
        out: Output,
    ) -> CommandResult {
        let Self { common, command } = self;
        // Reading may take long: it ends where nobody reads the output.
        let ends = matches!(
            command,
            Command::Inspect(_)
                | Command::Query(_)
                | Command::Convert(_)
                | Command::Validate(_)
                | Command::Tensor(_)
        );
        let session = Session::new(common, interrupt.clone(), on_progress, out, !ends);
        let work = async {
            match command {
                Command::Info(command) => command.run(&session).await,
                Command::Inspect(command) => command.run(&session).await,
                Command::Query(command) => command.run(&session).await,
                Command::Sql(command) => command.run(&session),
                Command::Create(command) => command.run(&session).await,
                Command::Convert(command) => command.run(&session).await,
                Command::Demo(command) => command.run(&session).await,
                Command::Run(command) => command.run(&session).await,
                Command::Pyramid(command) => command.run(&session).await,
                #[cfg(feature = "render")]
                Command::Render(command) => command.run(&session).await,
                #[cfg(feature = "serve")]
                Command::Serve(command) => command.run(&session).await,
                #[cfg(feature = "serve")]
                Command::View(command) => command.run(&session).await,
                Command::Edit(command) => command.run(&session).await,
                Command::Attach(command) => command.run(&session),
                Command::History(command) => command.run(&session),
                Command::Join(command) => command.run(&session),
                Command::Divide(command) => command.run(&session),
                Command::Rewrite(command) => command.run(&session).await,
                Command::Vacuum(command) => command.run(&session),
                Command::Pack(command) => command.run(&session).await,
                Command::Unpack(command) => command.run(&session).await,
                Command::Validate(command) => command.run(&session).await,
                Command::Repair(command) => command.run(&session).await,
                Command::Clean(command) => command.run(&session),
                Command::Ingest(command) => command.run(&session).await,
                Command::Task(command) => command.run(&session).await,
                Command::Tensor(command) => command.run(&session).await,
                Command::Formats(command) => command.run(&session),
                Command::Completions(command) => command.run(Self::command(), &mut session.out()),
                Command::Man(command) => command.run(Self::command(), &mut session.out()),
            }
        };
        let done = runtime.block_on(interrupt.or_stopped(work));
        // Cancelled work ends by itself and removes what it made; a read that hangs is not waited for.
        runtime.shutdown_timeout(CLEANING);
        let outcome = done?;
        session.check_maps()?;
        session.out().flush()?;
        Ok(outcome)
    }
}

/// Returns the help of the program, with its commands in groups.
fn help_template(command: &clap::Command) -> String {
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups.push_str(&format!("\n{title}:\n"));
        for command in names.split(' ').filter_map(|name| command.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            groups.push_str(&format!("  {:<11}  {about}\n", command.get_name()));
        }
    }
    format!("{{about-section}}\n{{usage-heading}} {{usage}}\n{groups}\n{{options}}{{after-help}}")
}

/// The commands by what they are for; a build without a feature lacks some.
const GROUPS: [(&str, &str); 10] = [
    ("Look", "info inspect"),
    ("Ask", "query sql"),
    ("Make", "create convert demo run pyramid"),
    ("Show", "render serve view"),
    ("Change", "edit attach history"),
    ("Combine", "join divide"),
    ("Rewrite", "rewrite vacuum pack unpack"),
    ("Check", "validate repair clean"),
    ("Divide work between processes", "ingest task"),
    ("Others", "tensor formats completions man"),
];

/// Takes negative numbers for values, also where a command refuses them: it then says why.
fn accept_negative(command: clap::Command) -> clap::Command {
    let accept = |arg: clap::Arg| {
        let takes = arg.get_action().takes_values();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(accept).mut_subcommands(accept_negative)
}

/// Gives the examples of a command to its subcommands without examples.
fn share_examples(command: clap::Command) -> clap::Command {
    let Some(examples) = command.get_after_help().cloned() else { return command };
    command.mut_subcommands(|subcommand| {
        let has_own = subcommand.get_after_help().is_some();
        share_examples(if has_own { subcommand } else { subcommand.after_help(examples.clone()) })
    })
}

/// How long the program waits for threads that still write after a command was stopped.
const CLEANING: Duration = Duration::from_secs(5);

const EXIT_CODES: &str = "Exit codes: 0 success, 1 problems found, 2 invalid request, 3 corrupt data, \
    4 not found or denied, 5 transient I/O (a retry may succeed), 6 conflict with another writer, \
    130 interrupted.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let commands = Cli::command().get_subcommands().count();
        let listed = |name: &str| Cli::command().find_subcommand(name).is_some();
        let grouped =
            GROUPS.iter().flat_map(|(_, names)| names.split(' ')).filter(|name| listed(name));
        assert_eq!(grouped.count(), commands, "each command is in one group");
    }
}

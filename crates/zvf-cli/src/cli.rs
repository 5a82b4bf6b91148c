//! The command line: the global options and the list of subcommands.

use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Runtime;

#[cfg(feature = "render")]
use crate::commands::render;
use crate::commands::{
    blob, cell, clean, completions, convert, create, demo, diff, edit, formats, group, history,
    info, ingest, lineage, ls, man, migrate, object, pack, pyramid, query, rearrange, repair, run,
    sql, stores, task, tensor, validate,
};
#[cfg(feature = "serve")]
use crate::commands::{serve, view};
use crate::global_options::Common;
use crate::interrupt::{Interrupt, Watched};
use crate::outcome::CommandResult;
use crate::progress::ProgressHook;
use crate::session::Session;

/// Read, query, write and check Zarr Vectors stores: points, lines, graphs, skeletons and meshes.
///
/// A store is a folder, a .tet file that a store was packed into, or a URL of either: s3://bucket/prefix,
/// http://host/path, and the other backends of this build; with the feature icechunk also of a version of a repository:
/// icechunk+file:///data/brain?tag=v1.
#[derive(Debug, Parser)]
#[command(name = "zvf", version, propagate_version = true, disable_help_flag = true)]
#[command(after_long_help = EXIT_CODES, mut_subcommands = share_examples)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Info),
    Ls(ls::Ls),
    Query(Box<query::Query>),
    Sql(sql::Sql),
    #[cfg(feature = "render")]
    Render(Box<render::Render>),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Serve>),
    #[cfg(feature = "serve")]
    View(view::View),
    #[cfg(feature = "serve")]
    Viewer(view::Viewer),
    Object(object::Object),
    Group(group::Group),
    Cell(cell::Cell),
    Lineage(lineage::Lineage),
    #[command(subcommand)]
    Blob(blob::Blob),
    Convert(Box<convert::Convert>),
    Formats(formats::Formats),
    Run(run::Run),
    Create(Box<create::Create>),
    #[command(subcommand)]
    Ingest(Box<ingest::Ingest>),
    Demo(demo::Demo),
    Pyramid(Box<pyramid::Pyramid>),
    Edit(Box<edit::Edit>),
    Log(history::Log),
    Show(history::Show),
    Diff(diff::Diff),
    Undo(history::Undo),
    Checkout(stores::Checkout),
    Gc(stores::Gc),
    Vacuum(stores::Vacuum),
    Merge(stores::Merge),
    Split(stores::Split),
    Attach(stores::Attach),
    Shard(rearrange::Shard),
    Unshard(rearrange::Unshard),
    Recompress(rearrange::Recompress),
    Migrate(migrate::Migrate),
    Pack(pack::Pack),
    Unpack(pack::Unpack),
    #[command(subcommand)]
    Tensor(tensor::Tensor),
    Validate(validate::Validate),
    #[command(subcommand)]
    Task(task::Task),
    Repair(repair::Repair),
    Clean(clean::Clean),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Returns whether JSON is to be printed.
    pub(crate) const fn is_json(&self) -> bool {
        self.common.json
    }

    /// Runs the subcommand and prints to standard output.
    pub(crate) fn run(self) -> CommandResult {
        let interrupt = Interrupt::default();
        let runtime = interrupt.runtime(self.common.json)?;
        self.run_on(runtime, &interrupt, None, BufWriter::new(io::stdout().lock()))
    }

    /// Runs the subcommand and prints to `out`; only `interrupt` stops it.
    pub(crate) fn run_in(
        self,
        interrupt: &Interrupt,
        on_progress: ProgressHook,
        out: impl io::Write,
    ) -> CommandResult {
        self.run_on(Interrupt::silent_runtime()?, interrupt, Some(on_progress), out)
    }

    fn run_on(
        self,
        runtime: Runtime,
        interrupt: &Interrupt,
        on_progress: Option<ProgressHook>,
        out: impl io::Write,
    ) -> CommandResult {
        let Self { common, command } = self;
        let session = Session::new(common, interrupt.clone(), on_progress);
        let mut out = Watched::new(out, interrupt.clone());
        let work = async {
            match command {
                Command::Info(command) => command.run(&session, &mut out).await,
                Command::Ls(command) => command.run(&session, &mut out).await,
                Command::Query(command) => command.run(&session, &mut out).await,
                Command::Sql(command) => command.run(&session, &mut out),
                #[cfg(feature = "render")]
                Command::Render(command) => command.run(&session, &mut out).await,
                #[cfg(feature = "serve")]
                Command::Serve(command) => command.run(&session, &mut out).await,
                #[cfg(feature = "serve")]
                Command::View(command) => command.run(&session, &mut out).await,
                #[cfg(feature = "serve")]
                Command::Viewer(command) => command.run(&session, &mut out),
                Command::Object(command) => command.run(&session, &mut out).await,
                Command::Group(command) => command.run(&session, &mut out).await,
                Command::Cell(command) => command.run(&session, &mut out).await,
                Command::Lineage(command) => command.run(&session, &mut out).await,
                Command::Blob(command) => command.run(&session, &mut out),
                Command::Convert(command) => command.run(&session, &mut out).await,
                Command::Formats(command) => command.run(&session, &mut out),
                Command::Run(command) => command.run(&session, &mut out).await,
                Command::Create(command) => command.run(&session, &mut out).await,
                Command::Ingest(command) => command.run(&session, &mut out).await,
                Command::Demo(command) => command.run(&session, &mut out).await,
                Command::Pyramid(command) => command.run(&session, &mut out).await,
                Command::Edit(command) => command.run(&session, &mut out).await,
                Command::Log(command) => command.run(&session, &mut out),
                Command::Show(command) => command.run(&session, &mut out),
                Command::Diff(command) => command.run(&session, &mut out),
                Command::Undo(command) => command.run(&session, &mut out),
                Command::Checkout(command) => command.run(&session, &mut out),
                Command::Gc(command) => command.run(&session, &mut out),
                Command::Vacuum(command) => command.run(&session, &mut out),
                Command::Merge(command) => command.run(&session, &mut out),
                Command::Split(command) => command.run(&session, &mut out),
                Command::Attach(command) => command.run(&session, &mut out),
                Command::Shard(command) => command.run(&session, &mut out).await,
                Command::Unshard(command) => command.run(&session, &mut out).await,
                Command::Recompress(command) => command.run(&session, &mut out).await,
                Command::Migrate(command) => command.run(&session, &mut out).await,
                Command::Pack(command) => command.run(&session, &mut out).await,
                Command::Unpack(command) => command.run(&session, &mut out).await,
                Command::Tensor(command) => command.run(&session, &mut out).await,
                Command::Validate(command) => command.run(&session, &mut out).await,
                Command::Task(command) => command.run(&session, &mut out).await,
                Command::Repair(command) => command.run(&session, &mut out).await,
                Command::Clean(command) => command.run(&session, &mut out),
                Command::Completions(command) => command.run(Self::command(), &mut out),
                Command::Man(command) => command.run(Self::command(), &mut out),
            }
        };
        let done = runtime.block_on(interrupt.or_stopped(work));
        // Cancelled work ends by itself and removes what it made; a read that hangs is not waited for.
        runtime.shutdown_timeout(CLEANING);
        let outcome = done?;
        session.check_maps()?;
        out.flush()?;
        Ok(outcome)
    }
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
    }
}

//! The command line: the global options and the list of subcommands.

use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::commands::blob::Blob;
use crate::commands::cell::Cell;
use crate::commands::clean::Clean;
use crate::commands::completions::Completions;
use crate::commands::convert::Convert;
use crate::commands::create::Create;
use crate::commands::demo::Demo;
use crate::commands::diff::Diff;
use crate::commands::edit::Edit;
use crate::commands::formats::Formats;
use crate::commands::group::Group;
use crate::commands::history::{Log, Show, Undo};
use crate::commands::info::Info;
use crate::commands::ingest::Ingest;
use crate::commands::lineage::Lineage;
use crate::commands::ls::Ls;
use crate::commands::man::Man;
use crate::commands::migrate::Migrate;
use crate::commands::object::Object;
use crate::commands::pack::{Pack, Unpack};
use crate::commands::pyramid::Pyramid;
use crate::commands::query::Query;
use crate::commands::rearrange::{Recompress, Shard, Unshard};
#[cfg(feature = "render")]
use crate::commands::render::Render;
use crate::commands::repair::Repair;
use crate::commands::run::Run;
#[cfg(feature = "serve")]
use crate::commands::serve::Serve;
use crate::commands::sql::Sql;
use crate::commands::stores::{Attach, Checkout, Gc, Merge, Split, Vacuum};
use crate::commands::task::Task;
use crate::commands::tensor::Tensor;
use crate::commands::validate::Validate;
#[cfg(feature = "serve")]
use crate::commands::view::{View, Viewer};
use crate::global_options::Common;
use crate::interrupt::{Interrupt, Watched};
use crate::outcome::Outcome;
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
    Info(Info),
    Ls(Ls),
    Query(Box<Query>),
    Sql(Sql),
    #[cfg(feature = "render")]
    Render(Box<Render>),
    #[cfg(feature = "serve")]
    Serve(Box<Serve>),
    #[cfg(feature = "serve")]
    View(View),
    #[cfg(feature = "serve")]
    Viewer(Viewer),
    Object(Object),
    Group(Group),
    Cell(Cell),
    Lineage(Lineage),
    #[command(subcommand)]
    Blob(Blob),
    Convert(Box<Convert>),
    Formats(Formats),
    Run(Run),
    Create(Box<Create>),
    #[command(subcommand)]
    Ingest(Box<Ingest>),
    Demo(Demo),
    Pyramid(Box<Pyramid>),
    Edit(Box<Edit>),
    Log(Log),
    Show(Show),
    Diff(Diff),
    Undo(Undo),
    Checkout(Checkout),
    Gc(Gc),
    Vacuum(Vacuum),
    Merge(Merge),
    Split(Split),
    Attach(Attach),
    Shard(Shard),
    Unshard(Unshard),
    Recompress(Recompress),
    Migrate(Migrate),
    Pack(Pack),
    Unpack(Unpack),
    #[command(subcommand)]
    Tensor(Tensor),
    Validate(Validate),
    #[command(subcommand)]
    Task(Task),
    Repair(Repair),
    Clean(Clean),
    Completions(Completions),
    Man(Man),
}

impl Cli {
    /// Returns whether JSON is to be printed.
    pub(crate) const fn is_json(&self) -> bool {
        self.common.json
    }

    /// Runs the subcommand and prints to standard output.
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        let interrupt = Interrupt::default();
        let runtime = interrupt.runtime(self.common.json)?;
        self.run_on(runtime, &interrupt, None, BufWriter::new(io::stdout().lock()))
    }

    /// Runs the subcommand and prints to `out`; only `interrupt` stops it.
    pub(crate) fn run_in(
        self,
        interrupt: &Interrupt,
        on_progress: Option<ProgressHook>,
        out: impl io::Write,
    ) -> anyhow::Result<Outcome> {
        self.run_on(Interrupt::silent_runtime()?, interrupt, on_progress, out)
    }

    fn run_on(
        self,
        runtime: Runtime,
        interrupt: &Interrupt,
        on_progress: Option<ProgressHook>,
        out: impl io::Write,
    ) -> anyhow::Result<Outcome> {
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

//! `zvf ingest`: a store that many processes build.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use zvf::create::CreateStage;
use zvf::ingest::{Ingest as Building, PlannedIngest, folder, remove_finished};
use zvf::write::{Phase as TaskStage, Task};

use crate::commands::create::{layout_json, report_json};
use crate::commands::how::{CreateOptions, goes_on, write_options};
use crate::commands::join_paths;
use crate::commands::task::{Chosen, print_ran, write_stages};
use crate::outcome::{CommandResult, Usage, refuse};
use crate::session::Session;

/// Create a store from files with many processes: plan, run every task, finish.
///
/// The plan divides the work into independent tasks. Any process that sees the files and the folder of the plan may run
/// each, any number of times; a task that was killed is run again.
#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Ingest {
    Plan(Box<Plan>),
    Run(Run),
    Finish(Finish),
}

/// Scan files and write the list of tasks.
///
/// The layout is chosen as by `zvf create`. The store becomes visible with `zvf ingest finish`.
#[derive(Args)]
pub(crate) struct Plan {
    /// The files to read, in this order; all must have the same columns.
    #[arg(required = true, value_name = "INPUT")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: PlanPlace,
    /// The number of shares of the chunks [default: the number of parts of the input].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    shares: Option<u32>,
    #[command(flatten)]
    options: CreateOptions,
}

/// Run tasks of a plan.
///
/// A task that is complete is skipped. A task fails when one that it depends on is not complete: route tasks depend on
/// nothing, cells tasks on every route task, join tasks on every cells task, links tasks on every join task.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    place: PlanPlace,
    #[command(flatten)]
    chosen: Chosen,
}

/// Compare the output with the input, and make the store visible.
///
/// Missing tasks are listed. The folder of the plan is removed at the end.
#[derive(Args)]
pub(crate) struct Finish {
    #[command(flatten)]
    place: PlanPlace,
}

/// The store, and the folder of its plan.
#[derive(Args)]
struct PlanPlace {
    /// The store to create: a folder that does not exist, or a URL.
    store: String,
    /// The folder of the plan, on the file system of a store in a folder [default: hidden, next to the store].
    #[arg(long = "work-dir", alias = "work", value_name = "FOLDER")]
    work: Option<PathBuf>,
}

impl PlanPlace {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let folder = self.work.clone().or_else(|| folder(&self.store));
        folder.ok_or_else(|| {
            let text = "a store at a URL needs a folder for the plan; name one that all processes \
                        share, with --work-dir";
            Usage::new(text).into()
        })
    }

    fn building(&self, session: &Session) -> anyhow::Result<(Building, Arc<AtomicBool>)> {
        let (write, stop) = write_options(session, false);
        let building = Building::open(&self.store, &self.folder()?, write);
        Ok((building.with_context(|| format!("cannot create {}", self.store))?, stop))
    }
}

impl Ingest {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Plan(plan) => plan.run(session).await,
            Self::Run(run) => run.run(session).await,
            Self::Finish(finish) => finish.run(session).await,
        }
    }
}

impl Plan {
    async fn run(self, session: &Session) -> CommandResult {
        let (mut recipe, stop) = self.options.recipe(session)?;
        recipe.name_objects = true;
        let folder = self.place.folder()?;
        let bar = session.progress("scanning");
        let progress = &mut |_: CreateStage, vertices: u64| {
            bar.count("scanning: ", vertices, "vertex");
            goes_on(session, &stop)
        };
        let (files, store) = (&self.files, &self.place.store);
        let planned =
            PlannedIngest::create(files, store, &folder, &recipe, self.shares, progress).await;
        let planned =
            planned.with_context(|| format!("cannot plan {store} from {}", join_paths(files)))?;
        drop(bar);
        let building = Building::open(store, &folder, recipe.write)?;
        let tasks = building.tasks().all();
        let done: Vec<bool> = tasks.iter().map(|task| building.tasks().is_done(*task)).collect();
        let listed = tasks.iter().zip(&done).enumerate().map(|(number, (task, done))| {
            let stage = task.stage.name();
            json!({"task": number, "stage": stage, "number": task.number, "done": done})
        });
        let listed: Vec<_> = listed.collect();
        let plan =
            json!({"layout": layout_json(&planned.layout), "folder": folder, "tasks": listed});
        session.print(&plan, |out| {
            writeln!(out, "{}", planned.layout)?;
            write_stages(&tasks, &done, out, |task, _count| {
                let what = match task.stage {
                    TaskStage::Route => "a part of the input each,",
                    TaskStage::Cells => "a range of the chunks each, in whole shards,",
                    TaskStage::Join => "the ends of a part's elements each,",
                    TaskStage::Links => "the links of a range of the chunks each,",
                };
                (task.stage.name().to_owned(), what.to_owned())
            })?;
            let hint = format!(
                "run each task: zvf ingest run {store} --task N; then: zvf ingest finish {store}"
            );
            Ok(session.print_notices([hint])?)
        })
    }
}

impl Run {
    async fn run(self, session: &Session) -> CommandResult {
        let (building, stop) = self.place.building(session)?;
        let all = building.tasks().all();
        let mut chosen = Vec::new();
        for number in self.chosen.numbers(all.len()) {
            let Some(task) = all.get(number).copied() else {
                let found = format!("task {number} does not exist: the plan has {}", all.len());
                return refuse(found);
            };
            chosen.push((number, task));
        }
        let bar = session.progress("running");
        let mut ran = Vec::new();
        // Tasks that read input run together, so that it is read once.
        let is_route = |(_, task): &(usize, Task)| task.stage == TaskStage::Route;
        for tasks in chosen.chunk_by(|a, b| is_route(a) && is_route(b)) {
            let Some(first @ (number, task)) = tasks.first() else { continue };
            let progress = &mut |_: CreateStage, vertices: u64| {
                bar.count(&format!("[{number}/{}] {task}: ", all.len()), vertices, "vertex");
                goes_on(session, &stop)
            };
            bar.set(format!("[{number}/{}] {task}", all.len()));
            let done = match is_route(first) {
                true => {
                    let routes: Vec<Task> = tasks.iter().map(|(_, task)| *task).collect();
                    building.route(&routes, progress).await
                }
                false => building.run(*task, progress).await.map(|fresh| vec![fresh]),
            };
            let done = done.with_context(|| match tasks.last() {
                Some((last, _)) if last > number => format!("tasks {number} to {last}"),
                _ => format!("task {number}, {task}"),
            })?;
            ran.extend(
                tasks.iter().zip(done).map(|((number, task), fresh)| (*number, *task, fresh)),
            );
        }
        drop(bar);
        let ran = ran.into_iter().map(|(number, task, fresh)| {
            let stage = task.stage.name();
            (task, json!({"task": number, "stage": stage, "number": task.number, "ran": fresh}))
        });
        print_ran(session, &ran.collect::<Vec<_>>())
    }
}

impl Finish {
    async fn run(self, session: &Session) -> CommandResult {
        let store = &self.place.store;
        let bar = session.progress("finishing");
        let report = if remove_finished(store, &self.place.folder()?)? {
            None
        } else {
            let (building, _stop) = self.place.building(session)?;
            building.finish().await.with_context(|| format!("cannot finish {store}"))?
        };
        drop(bar);
        let made = report.as_ref().map(|report| report_json((report, store)));
        session.print(&json!({"made": made}), |out| {
            match &report {
                Some(report) => writeln!(out, "{report}")?,
                None => writeln!(out, "{store} was finished by an earlier run")?,
            }
            let hint = format!("see what it contains: zvf info {store}");
            Ok(session.print_notices([hint])?)
        })
    }
}

const EXAMPLES: &str = "Examples:
  zvf ingest plan part-*.csv points.zarrvectors --shares 16
  zvf ingest run points.zarrvectors --task $SLURM_ARRAY_TASK_ID
  zvf ingest run points.zarrvectors --all
  zvf ingest finish points.zarrvectors";

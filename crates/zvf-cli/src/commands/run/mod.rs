//! `zvf run`.

#![expect(clippy::wildcard_enum_match_arm, reason = "all other outcomes are one")]

mod document;
mod execute;
mod journal;
mod plan;
mod recipe;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value as Json, json};

use self::document::{Flaw, Mark, START, Syntax};
use self::execute::{Ending, Identities, Running, Status};
use self::journal::{Journal, hash_all};
use self::plan::Planned;
use self::recipe::Recipe;
use crate::interrupt::Interrupted;
use crate::outcome::{CommandResult, Outcome, Usage, refuse};
use crate::session::Session;
use crate::table;
use crate::target::Out;

/// Run the steps of a recipe: convert, create, pyramid, rewrite, edit, validate, export.
///
/// A recipe is YAML, TOML or JSON. Steps with unchanged inputs and options whose outputs still exist are not run again:
/// a run that was stopped continues where it was. Paths are relative to the current folder.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The recipe: .yaml, .yml, .toml or .json.
    #[arg(required_unless_present = "schema")]
    recipe: Option<PathBuf>,
    /// Set a variable; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// Print the steps that would run and why, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// The number of steps that run at a time, where they do not depend on each other.
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Run all steps, including those that are done.
    #[arg(long)]
    again: bool,
    /// Write the result of each step to a JSON file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The file that records which steps are done [default: next to the recipe, with .journal added to its name].
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Print the JSON Schema of recipes.
    #[arg(long)]
    schema: bool,
}

impl Run {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let Some(path) = self.recipe.clone().filter(|_| !self.schema) else {
            table::json(&serde_json::from_str::<Json>(SCHEMA)?, &mut session.out())?;
            return Ok(Outcome::Clean);
        };
        let place = |fault: Flaw| {
            let Mark { line, column } = fault.mark;
            Usage::new(format!("{}:{line}:{column}: {}", path.display(), fault.text))
        };
        let mut recipe = read(&path)?.map_err(place)?;
        for setting in &self.vars {
            let Some((name, value)) = setting.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                return refuse(format!("--set {setting}: expected NAME=VALUE"));
            };
            recipe.vars.set(name, &value.replace('$', "$$"), START);
        }
        let steps = plan::plan(&recipe).map_err(place)?;
        let jobs = usize::from(self.jobs);
        let mut common = session.common_words(jobs);
        common.extend(session.json().then(|| "--json".to_owned()));
        let running = Running { jobs, common };
        let remote = remote_identities(session, &steps).await?;
        let journal = self.journal.clone().unwrap_or_else(|| {
            let mut name = path.clone().into_os_string();
            name.push(".journal");
            name.into()
        });
        if self.dry_run {
            let journal = Journal::read(&journal)?;
            let statuses = execute::statuses(&steps, &journal, remote, self.again)?;
            return self.print_plan(session, &steps, &statuses);
        }
        let mut journal = Journal::open(&journal)?;
        let statuses = execute::statuses(&steps, &journal, remote, self.again)?;
        let stop = session.ask_first();
        let bar = session.progress("running");
        let asked = Arc::clone(&stop);
        let (of_run, states) = (steps.clone(), statuses.clone());
        let ran = tokio::task::spawn_blocking(move || {
            execute::run(&of_run, &states, &mut journal, &running, &asked, &bar)
        });
        let endings = ran.await.context("a step ended the run")??;
        self.print_endings(session, &steps, &statuses, &endings)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        let failed = steps.iter().zip(&endings).find_map(|(step, ending)| match ending {
            Ending::Failed { failure, .. } => Some((step, failure.clone())),
            _ => None,
        });
        let Some((step, failure)) = failed else { return Ok(Outcome::Clean) };
        let context = format!("{}:{}: step {}", path.display(), step.mark.line, step.name);
        Err(anyhow::Error::from(failure).context(context))
    }

    fn print_plan(
        &self,
        session: &Session,
        steps: &[Planned],
        statuses: &[Status],
    ) -> CommandResult {
        let all: Vec<Json> = steps
            .iter()
            .zip(statuses)
            .map(|(step, status)| execute::to_json(step, status, None))
            .collect();
        session.print(&json!({"steps": all}), |out| {
            for (step, status) in steps.iter().zip(statuses) {
                writeln!(out, "{:<6} {}\n       {}", status.word(), step.name, step.command())?;
            }
            Ok(())
        })
    }

    fn print_endings(
        &self,
        session: &Session,
        steps: &[Planned],
        statuses: &[Status],
        endings: &[Ending],
    ) -> CommandResult {
        let all = steps.iter().zip(statuses).zip(endings);
        let all = all.map(|((step, status), ending)| execute::to_json(step, status, Some(ending)));
        let report = json!({"recipe": self.recipe, "steps": all.collect::<Vec<_>>()});
        if let Some(path) = &self.report {
            let mut file = Out::file(path, session.interrupt())?;
            table::json(&report, &mut file)?;
            file.finish()?;
        }
        session.print(&report, |out| {
            for (step, ending) in steps.iter().zip(endings) {
                writeln!(out, "{:<7} {}", ending.word(), step.name)?;
                if let Ending::Ran { reply, .. } = ending {
                    let text = String::from_utf8_lossy(&reply.output);
                    text.lines().try_for_each(|line| writeln!(out, "        {line}"))?;
                }
            }
            Ok(())
        })
    }
}

/// Reads a recipe, which may be faulty.
fn read(path: &Path) -> anyhow::Result<Result<Recipe, Flaw>> {
    let place = || format!("cannot read {}", path.display());
    let size = std::fs::metadata(path).with_context(place)?.len();
    if size > MAX_RECIPE_BYTES {
        let usage =
            Usage::new(format!("{} has {size} bytes; a recipe has at most 1 MiB", path.display()));
        return Err(usage.into());
    }
    let text = std::fs::read_to_string(path).with_context(place)?;
    let syntax = Syntax::from_name(&path.to_string_lossy());
    Ok(document::parse(&text, syntax).and_then(Recipe::from_node))
}

/// Returns the identities of the stores behind URLs: hashes of their root documents.
async fn remote_identities(session: &Session, steps: &[Planned]) -> anyhow::Result<Identities> {
    let mut all = Identities::default();
    for input in steps.iter().flat_map(|step| &step.inputs) {
        let is_made = steps.iter().any(|step| step.outputs.contains(input));
        if input.contains("://") && !is_made && !all.0.contains_key(input) {
            let store = session.batch_store(input).await?;
            let root = String::from_utf8_lossy(&store.root_json()).into_owned();
            all.0.insert(input.clone(), Some(hash_all([root.as_str()])));
        }
    }
    Ok(all)
}

/// The JSON Schema of recipes, for editors.
const SCHEMA: &str = include_str!("schema.json");
const MAX_RECIPE_BYTES: u64 = 1 << 20;

const EXAMPLES: &str = "Examples:
  zvf run recipe.yaml
  zvf run recipe.yaml --dry-run
  zvf run recipe.toml --set data=/scans/7 --jobs 4 --report report.json
  zvf run --schema > recipe.schema.json";

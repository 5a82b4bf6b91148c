//! `zvf repair`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use zvf::Timeouts;
use zvf::clean::Status;
use zvf::edit::DataRepair;
use zvf::repair::{Change, Plan, RepairPlace, plan};
use zvf::validate::{Checks, Finding};

use super::destination::InPlace;
use super::validate;
use crate::outcome::{CommandResult, Outcome};
use crate::session::Session;
use crate::table::{count, format_count};

/// Repair metadata that contradicts the data: lists, counts, flags and tokens.
///
/// Prints the repairs, or applies them: replaced objects are first copied to a folder next to the store, and the store
/// is validated at the end. The command reports faults without a certain repair and leaves them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf repair --dry-run brain.zarrvectors
  zvf repair --in-place brain.zarrvectors
  zvf repair --in-place --index-faces mesh.zarrvectors
  zvf repair --in-place s3://bucket/brain.zarrvectors")]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Repair {
    /// The store: a folder or a URL; --in-place needs a backend with conditional writes.
    store: String,
    /// Print the repairs, and change nothing; the exit code is 1 if there are any.
    #[arg(long = "dry-run", alias = "plan", group = "what")]
    plan: bool,
    /// Repair the store, and validate it.
    #[arg(long = "in-place", alias = "apply", group = "what")]
    apply: bool,
    /// No writer fills a level any more: write the lists of chunks where presence is deferred.
    #[arg(long)]
    end_deferral: bool,
    /// Also sort the links of each chunk by fragment, and state it: one face group is then read
    /// alone, as in stores that zvf writes.
    #[arg(long, requires = "apply")]
    index_faces: bool,
}

impl Repair {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if self.index_faces {
            self.repair_data(DataRepair::FaceIndex, session)?;
        }
        // With a journal, the command repairs a copy, which is committed.
        let in_place = InPlace::begin(&self.store, self.apply, session)?;
        let address = in_place.address.clone();
        // A plan needs only read access.
        let place = match self.apply {
            true => Some(
                RepairPlace::from_address(&address, &session.options(Timeouts::BATCH))?
                    .with_gate(session.interrupt().gate().clone()),
            ),
            false => None,
        };
        let mut tidied = self.tidy(session)?;
        let empty = self.list_empty_folders(session)?;
        tidied.extend(empty.iter().cloned());
        let name = RepairPlace::name_of(&self.store);
        let mut round = 0_u32;
        let mut rewrites;
        let plan = loop {
            round += 1;
            let mut plan = self.plan_repairs(&address, session, (&name, &empty)).await?;
            rewrites = take_rewrites(&mut plan);
            let planned = to_json((&plan, &rewrites), self.apply, &tidied);
            session.print(&planned, |out| write_text(&plan, &rewrites, out))?;
            let Some(place) = place.as_ref().filter(|_| !plan.is_empty() && round <= ROUNDS) else {
                break plan;
            };
            session.out().flush()?;
            let backup = place.apply(&plan).await;
            let backup = backup.with_context(|| format!("cannot repair {}", self.store))?;
            // With a journal, the history keeps what was replaced.
            let backup = backup.filter(|_| !in_place.has_journal());
            if let Some(backup) = backup {
                let kept = format!("done; the replaced objects are kept in {backup}");
                session.print_text(kept)?;
            }
        };
        if self.plan {
            let nothing = plan.is_empty() && tidied.is_empty() && rewrites.is_empty();
            return Ok(if nothing { Outcome::Clean } else { Outcome::Findings });
        }
        in_place.finish("repair", session)?;
        for repair in [DataRepair::LinkWidths, DataRepair::Columns] {
            if rewrites.iter().any(|(needed, _)| *needed == repair) {
                self.repair_data(repair, session)?;
            }
        }
        let report = validate::look(session, &self.store, &Checks::default()).await?;
        session.print_text(format!("{}: {}", self.store, validate::sum(&report)))?;
        Ok(if report.is_clean() { Outcome::Clean } else { Outcome::Findings })
    }

    /// Rewrites cells and rows of the store, as one commit that can be undone.
    fn repair_data(&self, repair: DataRepair, session: &Session) -> anyhow::Result<()> {
        let report = zvf::edit::repair_data(session.place(&self.store)?, repair)?;
        super::edit::print_unless_json(&report, session)
    }

    /// Removes the folders that killed commands left next to the store, or prints that it would; returns these folders.
    fn tidy(&self, session: &Session) -> anyhow::Result<Vec<PathBuf>> {
        let found = validate::leftovers(&self.store, session)?.into_iter();
        let (going_on, scratch): (Vec<_>, Vec<_>) =
            found.partition(|leftover| leftover.state == Status::Resumable);
        if self.apply {
            zvf::clean::remove_beside(&self.store)?;
        }
        for leftover in &scratch {
            let folder = leftover.path.display();
            session.print_text(format!("remove {folder} (temporary files of a killed command)"))?;
        }
        session.print_notices(going_on.iter().map(ToString::to_string))?;
        Ok(scratch.into_iter().map(|leftover| leftover.path).collect())
    }

    /// Returns the folders without files in the store, which a killed writer left, and prints them.
    fn list_empty_folders(&self, session: &Session) -> anyhow::Result<Vec<PathBuf>> {
        let path = PathBuf::from(self.store.strip_prefix("file://").unwrap_or(&self.store));
        if !path.is_dir() {
            return Ok(Vec::new());
        }
        let folder = zvf::publish::KeyedFolder::new(zvf::publish::Disk::default(), path);
        let empty = folder.list_empty_folders()?.into_iter();
        let empty: Vec<PathBuf> = empty.map(|(folder, _modified)| folder).collect();
        for folder in &empty {
            let folder = folder.display();
            session.print_text(format!("remove {folder} (empty, left by a killed command)"))?;
        }
        Ok(empty)
    }

    async fn plan_repairs(
        &self,
        address: &str,
        session: &Session,
        (name, empty): (&str, &[PathBuf]),
    ) -> anyhow::Result<Plan> {
        let options = session.options(Timeouts::BATCH);
        let store = zvf::open_store(address, options).await;
        let store = store.with_context(|| format!("cannot open {}", self.store))?;
        // It is a store: nothing else is touched. A folder that is in use by now is not empty.
        empty.iter().filter(|_| self.apply).for_each(|folder| drop(std::fs::remove_dir(folder)));
        let plan = session.during("planning repairs", plan(&store, name, self.end_deferral));
        plan.await.with_context(|| format!("cannot validate {}", self.store))
    }
}

/// Takes the findings out of a plan that are repaired by rewriting cells or rows.
fn take_rewrites(plan: &mut Plan) -> Vec<(DataRepair, Finding)> {
    let (mut rewrites, mut left) = (Vec::new(), Vec::new());
    for finding in std::mem::take(&mut plan.left) {
        match (finding.rule.id, finding.subject.as_str()) {
            ("C36", "row width") => rewrites.push((DataRepair::LinkWidths, finding)),
            ("C45" | "C46", _) => rewrites.push((DataRepair::Columns, finding)),
            _ => left.push(finding),
        }
    }
    plan.left = left;
    rewrites
}

fn write_text(
    plan: &Plan,
    rewrites: &[(DataRepair, Finding)],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for change in &plan.changes {
        let verb = if change.before.is_some() { "replace" } else { "create" };
        writeln!(out, "{verb} {} ({})", change.path, change.rules.join(", "))?;
        for words in &change.words {
            writeln!(out, "  {words}")?;
        }
    }
    for (_, finding) in rewrites {
        writeln!(out, "rewrite {} ({})", finding.path, finding.rule.id)?;
    }
    if !plan.left.is_empty() {
        writeln!(out, "not repaired, because the right value is unknown:")?;
        for finding in plan.left.iter().take(SHOWN) {
            writeln!(out, "  {finding}")?;
        }
        let more = plan.left.len().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(out, "  and {} more: see \"zvf validate\"", count(more.try_into()?))?;
        }
    }
    if plan.more > 0 {
        let more = format_count(plan.more, "finding");
        writeln!(out, "{more} did not fit into the plan: repair, then plan again")?;
    }
    if plan.changes.is_empty() && rewrites.is_empty() {
        writeln!(out, "nothing to repair")?;
    }
    Ok(())
}

fn to_json(
    (plan, rewrites): (&Plan, &[(DataRepair, Finding)]),
    apply: bool,
    scratch: &[PathBuf],
) -> Value {
    let change = |change: &Change| {
        json!({
            "path": change.path,
            "makes": change.before.is_none(),
            "rules": change.rules,
            "words": change.words,
            "bytes": change.after.len(),
        })
    };
    json!({
        "applied": apply,
        "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
        "rewrites": rewrites.iter().map(|(_, finding)| validate::json_value(finding)).collect::<Vec<_>>(),
        "scratch": scratch,
        "more": plan.more,
        "left": plan.left.iter().map(validate::json_value).collect::<Vec<_>>(),
    })
}

/// The number of listed findings that cannot be repaired.
const SHOWN: usize = 20;
/// Repaired lists change counts; counts change nothing else.
const ROUNDS: u32 = 3;

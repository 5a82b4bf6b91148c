//! `edit-model`: random operations on stores of every kind, and on a simple in-memory model.
//!
//! Every vertex has a unique position, so that a ball around it selects it and both sides can be compared by positions.
//! After each transaction the store is read and compared; sometimes it is validated, transactions are dropped, and
//! commits are undone. A failing run is minimised by leaving out transactions while it still fails.
//!
//! With `--levels` stores also have coarser levels, which are partly rebuilt before a store is validated.
//!
//! The model is in `state`, reading a store and its levels in `store_io`.

mod state;
mod store_io;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use zvf_edit::{CommitOptions, Editor, Place, Undo, undo};
use zvf_model::Kind;

use self::state::ModelStore;
use self::store_io::{create_store, read_contents, validate_store};
use super::NAME;
use crate::Report;
use archives::random::Random;

/// Run random operations against an in-memory model.
#[derive(clap::Args)]
pub(crate) struct EditModel {
    /// The number of operations, of all kinds together.
    #[arg(long, default_value_t = 20_000)]
    n: u64,
    /// Only this kind.
    #[arg(long)]
    kind: Option<String>,
    /// The number of coarser levels of each store.
    #[arg(long, default_value_t = 0)]
    levels: u32,
    /// The largest number of operations per transaction: larger transactions spend more of the time on operations, and
    /// less on reading.
    #[arg(long, value_name = "N", default_value_t = 8)]
    transaction: usize,
}

/// One operation: its type, and the numbers that choose its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) code: u64,
    pub(crate) choices: [usize; 4],
}

/// Operations that are committed together, dropped, or followed by an undo.
#[derive(Clone)]
struct Transaction {
    steps: Vec<Step>,
    drops: bool,
    undoes: u64,
    validates: bool,
}

/// The edited store.
#[derive(Clone, Copy, Debug)]
struct Subject {
    kind: Kind,
    with_objects: bool, // whether vertices belong to objects
    levels: u32,        // coarser ones
}

impl EditModel {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut random = report.random();
        let subject = |(kind, with_objects)| Subject { kind, with_objects, levels: self.levels };
        let is_selected = |subject: &Subject| {
            self.kind.as_ref().is_none_or(|kind| subject.kind.token() == kind.as_str())
        };
        let subjects = SUBJECTS.iter().copied().map(subject);
        let subjects: Vec<Subject> = subjects.filter(is_selected).collect();
        ensure!(!subjects.is_empty(), "there is no such kind");
        ensure!(self.transaction > 0, "a transaction has at least one operation");
        let mut operations = 0;
        while operations < self.n {
            for subject in &subjects {
                let run = make_transactions(&mut random, self.transaction);
                operations +=
                    run.iter().map(|transaction| transaction.steps.len() as u64).sum::<u64>();
                let done = run_transactions(*subject, &run);
                let done = done.map_err(|error| shrink_run(*subject, run, error));
                report.count(done.with_context(|| format!("{subject:?}")));
            }
        }
        report.print_note(&format!("{operations} operations"));
        Ok(())
    }
}

/// Returns random transactions of at most `largest` operations.
fn make_transactions(random: &mut Random, largest: usize) -> Vec<Transaction> {
    let count = 4 + random.next_below(10);
    (0..count)
        .map(|_| {
            let steps = 1 + random.next_below(largest);
            let step = |random: &mut Random| Step {
                code: random.next(),
                choices: std::array::from_fn(|_| (random.next() >> 16) as usize),
            };
            Transaction {
                steps: (0..steps).map(|_| step(random)).collect(),
                drops: random.next_below(12) == 0,
                undoes: if random.next_below(6) == 0 { 1 + random.next() % 2 } else { 0 },
                validates: random.next_below(4) == 0,
            }
        })
        .collect()
}

/// Leaves out transactions and operations while the run still fails; returns the rest as text.
fn shrink_run(
    subject: Subject,
    mut run: Vec<Transaction>,
    mut error: anyhow::Error,
) -> anyhow::Error {
    let mut shrink = |run: &mut Vec<Transaction>, remove: &dyn Fn(&mut Vec<Transaction>)| {
        let mut fewer = run.clone();
        remove(&mut fewer);
        let failure = run_transactions(subject, &fewer).err();
        failure.map(|failure| (*run, error) = (fewer, failure)).is_some()
    };
    let mut size = run.len();
    while size > 0 {
        let mut at = 0;
        while at < run.len() {
            let end = (at + size).min(run.len());
            if !shrink(&mut run, &|fewer| drop(fewer.drain(at..end))) {
                at += size;
            }
        }
        size /= 2;
    }
    for at in 0..run.len() {
        for step in (0..run[at].steps.len()).rev() {
            shrink(&mut run, &|fewer| _ = fewer[at].steps.remove(step));
        }
    }
    let steps: usize = run.iter().map(|transaction| transaction.steps.len()).sum();
    error.context(format!("after {} transactions with {steps} operations", run.len()))
}

/// Runs the transactions on a new store and a new model.
fn run_transactions(subject: Subject, run: &[Transaction]) -> anyhow::Result<()> {
    let scratch = archives::scratch();
    let store = scratch.path().join(NAME);
    let mut state = ModelStore::new(subject.kind, subject.with_objects);
    create_store(&store, &mut state)?;
    if subject.levels > 0 {
        store_io::build_levels(&store, subject.kind, subject.levels)?;
    }
    let place = Place::from(store.as_path());
    let mut history: BTreeMap<u64, ModelStore> = BTreeMap::from([(0, state.clone())]);
    let mut head = 0;
    for (number, transaction) in run.iter().enumerate() {
        let mut lines = Vec::new();
        let mut check = || -> anyhow::Result<()> {
            match commit_transaction(&place, transaction, &mut state, &mut lines)? {
                Some(new) => head = new,
                // An uncommitted transaction assigned no ids.
                None => state.forget_ids_since(&history[&head]),
            }
            if transaction.drops {
                state = history[&head].clone().with_used_ids_of(&state);
            }
            history.insert(head, state.clone());
            if transaction.undoes > 0 && head >= transaction.undoes {
                let target = head - transaction.undoes;
                let undone = undo(&place, Undo::To(target), &CommitOptions::default());
                let report = undone.context("undo")?;
                state = history[&target].clone().with_used_ids_of(&state);
                head = report["head"].as_u64().unwrap_or(head);
                history.insert(head, state.clone());
            }
            state.compare(&read_contents(&store, &state)?)?;
            // Groups have the members of the model.
            super::commit_lines(&place, &state.group_checks().collect::<Vec<_>>())?;
            if transaction.validates && subject.levels > 0 {
                head = store_io::refresh_and_compare(&store)?;
                history.insert(head, state.clone());
            }
            if transaction.validates { validate_store(&store) } else { Ok(()) }
        };
        check().with_context(|| format!("transaction {number}, {}", json!(lines)))?;
    }
    Ok(())
}

/// Runs one transaction; returns the new head where it changed something.
fn commit_transaction(
    place: &Place,
    transaction: &Transaction,
    state: &mut ModelStore,
    lines: &mut Vec<Value>,
) -> anyhow::Result<Option<u64>> {
    let mut editor = Editor::open(place, Path::new("."), CommitOptions::default())?;
    editor.line(1, r#"{"op":"begin"}"#)?;
    for step in &transaction.steps {
        if let Some(planned) = state.plan_operation(*step) {
            lines.push(planned.line.clone());
            let reply = editor.line(1 + lines.len() as u64, &planned.line.to_string())?;
            let ids = reply.as_ref().and_then(|reply| reply["ids"].as_array());
            let ids = ids.into_iter().flatten().filter_map(Value::as_i64);
            state.apply_planned(planned, &ids.collect::<Vec<_>>())?;
        }
    }
    if transaction.drops {
        return Ok(None);
    }
    let last = 2 + lines.len() as u64;
    let reply = editor.line(last, r#"{"op":"commit"}"#)?.context("a commit has a reply")?;
    Ok(reply["head"].as_u64().filter(|_| reply["changed"] == true))
}

const SUBJECTS: [(Kind, bool); 8] = [
    (Kind::PointCloud, false),
    (Kind::PointCloud, true),
    (Kind::Line, true),
    (Kind::Polyline, true),
    (Kind::Streamline, true),
    (Kind::Graph, true),
    (Kind::Mesh, true),
    (Kind::Skeleton, true),
];

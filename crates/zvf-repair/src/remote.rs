//! Applies a plan through a backend: each object is replaced only if it still is the compared
//! version.
//!
//! ```text
//! <kept>/repair-N/plan.txt    the plan, written first; created if absent, which also shows whether the
//!                             backend supports conditions: if not, nothing is replaced
//! <kept>/repair-N/...         copies of all replaced objects
//! <prefix>/...                each new object, if the old one is still the version that was kept
//! ```
//!
//! A request without a response may have been carried out; then the object is read, and its
//! contents decide ([`Objects`]). An interruption leaves complete objects, old or new, and the old
//! ones under `kept`.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use zvf_error::Result;
use zvf_format::Class;
use zvf_store::{Objects, OpenOptions, SeenVersion};

use crate::change::Change;
use crate::error::{changed_error, has_journal_error, no_conditional_put_error};
use crate::plan::Plan;

/// Applies `plan` to the store below `prefix`; returns the place of the old objects, `repair-N`
/// below `kept`, which must lie outside the store. Needs a tokio runtime with timers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use zvf_repair::{Plan, apply_remote};
///
/// let (store, kept) = (Arc::new(InMemory::new()), "brain.zvf".into());
/// let place =
///     apply_remote(store, &"brain".into(), &kept, &Default::default(), &Plan::default()).await?;
/// assert_eq!(place, None, "there was nothing to do");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Conflict` when an object changed since the plan was made, before any replacement if it changed
/// before the repair; `Unsupported` when the backend does not support conditions, before any
/// replacement; otherwise when it fails.
#[boxed]
pub async fn apply_remote(
    store: Arc<dyn ObjectStore>,
    prefix: &Path,
    kept: &Path,
    options: &OpenOptions,
    plan: &Plan,
) -> Result<Option<Path>> {
    if plan.is_empty() {
        return Ok(None);
    }
    let [objects, beside] = [prefix, kept].map(|at| Objects::new(Arc::clone(&store), at, options));
    refuse_journal(&beside).await?;
    let folder = begin(&beside, plan).await?;
    let mut seen = Vec::with_capacity(plan.changes.len());
    for change in &plan.changes {
        seen.push(compare_and_back_up(&objects, &beside, &folder, change).await?);
    }
    // A first edit may have begun meanwhile.
    refuse_journal(&beside).await?;
    for (change, seen) in plan.changes.iter().zip(seen) {
        replace(&objects, change, seen).await?;
    }
    Ok(Some(kept.clone().join(folder)))
}

/// Refuses a store with a journal, whose changes are commits.
async fn refuse_journal(beside: &Objects) -> Result<()> {
    match beside.children("log").await?.is_empty() {
        true => Ok(()),
        false => Err(has_journal_error()),
    }
}

/// Creates the folder of the old objects, with the plan in it, and checks that the backend supports
/// conditions. Returns its name.
async fn begin(beside: &Objects, plan: &Plan) -> Result<String> {
    let text = Bytes::from(words(plan));
    for n in 1..MAX_KEPT_REPAIRS {
        let folder = format!("repair-{n}");
        let file = format!("{folder}/plan.txt");
        if !beside.create(&file, &text).await? {
            continue;
        }
        if beside.probe(&file).await? {
            return Ok(folder);
        }
        drop(beside.remove(std::slice::from_ref(&file)).await); // the file has no use
        return Err(no_conditional_put_error(file));
    }
    Err(changed_error("repair"))
}

/// Returns the version of the object to be replaced, after it was compared and copied; `None` for
/// one to be created.
async fn compare_and_back_up(
    objects: &Objects,
    beside: &Objects,
    folder: &str,
    change: &Change,
) -> Result<Option<SeenVersion>> {
    let found = objects.read_versioned(&change.path).await?;
    if !change.is_planned_for(found.as_ref().map(|(bytes, _)| &**bytes)) {
        return Err(changed_error(&change.path));
    }
    let Some((bytes, seen)) = found else { return Ok(None) };
    beside.put(&format!("{folder}/{}", change.path), &bytes).await?;
    Ok(Some(seen))
}

/// Replaces or creates one object.
async fn replace(objects: &Objects, change: &Change, seen: Option<SeenVersion>) -> Result<()> {
    let (path, after) = (&change.path, &change.after);
    let done = match seen {
        Some(seen) => objects.replace(path, after, &seen).await.map(|()| true),
        None => objects.create(path, after).await,
    };
    match done {
        Ok(true) => Ok(()),
        Ok(false) => Err(changed_error(path)),
        Err(error) if [Class::FileChanged, Class::AlreadyExists].contains(&error.class()) => {
            Err(changed_error(path).with_cause(error))
        }
        Err(error) => Err(error),
    }
}

/// Formats the plan as text: one line for each object, with its changes.
fn words(plan: &Plan) -> String {
    let mut text = String::new();
    for change in &plan.changes {
        let verb = if change.before.is_some() { "replace" } else { "make" };
        text.push_str(&format!("{verb} {} ({})\n", change.path, change.rules.join(", ")));
        for words in &change.words {
            text.push_str(&format!("  {words}\n"));
        }
    }
    text
}

/// The largest number of kept repairs of one store.
const MAX_KEPT_REPAIRS: u32 = 10_000;

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
//! contents decide. An interruption leaves complete objects, old or new, and the old ones under
//! `kept`.

use async_recursion::async_recursion as boxed;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use zvf_error::{Error, Result};
use zvf_metadata::Node;

use crate::change::Change;
use crate::error::{backend_error, changed_error, has_journal_error, no_conditional_put_error};
use crate::plan::Plan;

/// Applies `plan` to the store below `prefix`; returns the place of the old objects, `repair-N`
/// below `kept`, which must lie outside the store. Needs a tokio runtime with timers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// use object_store::memory::InMemory;
/// use zvf_repair::{Plan, apply_remote};
///
/// let (store, kept) = (InMemory::new(), "brain.zvf".into());
/// let place = apply_remote(&store, &"brain".into(), &kept, &Plan::default()).await?;
/// assert_eq!(place, None, "there was nothing to do");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Conflict` when an object changed since the plan was made, before any replacement if it changed
/// before the repair; `Unsupported` when the backend does not support conditions, before any
/// replacement; `Unavailable` when it fails.
#[boxed]
pub async fn apply_remote(
    store: &dyn ObjectStore,
    prefix: &Path,
    kept: &Path,
    plan: &Plan,
) -> Result<Option<Path>> {
    if plan.is_empty() {
        return Ok(None);
    }
    refuse_journal(store, kept).await?;
    let place = begin(store, kept, plan).await?;
    let mut modes = Vec::with_capacity(plan.changes.len());
    for change in &plan.changes {
        modes.push(compare_and_back_up(store, prefix, &place, change).await?);
    }
    // A first edit may have begun meanwhile.
    refuse_journal(store, kept).await?;
    for (change, mode) in plan.changes.iter().zip(modes) {
        replace(store, &join(prefix, &change.path), change, mode).await?;
    }
    Ok(Some(place))
}

/// Refuses a store with a journal, whose changes are commits.
async fn refuse_journal(store: &dyn ObjectStore, kept: &Path) -> Result<()> {
    let log = store.list_with_delimiter(Some(&kept.clone().join("log"))).await;
    match log.map_err(|source| to_repair_error("log", source))?.objects.is_empty() {
        true => Ok(()),
        false => Err(has_journal_error()),
    }
}

/// Creates the place of the old objects, with the plan in it, and checks that the backend supports
/// conditions.
async fn begin(store: &dyn ObjectStore, kept: &Path, plan: &Plan) -> Result<Path> {
    let text = Bytes::from(words(plan));
    for n in 1..MAX_KEPT_REPAIRS {
        let place = kept.clone().join(format!("repair-{n}"));
        let file = place.clone().join(PLAN);
        let path = file.to_string();
        match put(store, &file, &text, PutMode::Create).await {
            Ok(()) => {}
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => continue,
            Err(source) => return Err(to_repair_error(&path, source)),
        }
        let again = put(store, &file, &text, PutMode::Create).await;
        let stale = UpdateVersion { e_tag: Some(NO_TAG.to_owned()), version: Some("0".to_owned()) };
        let stale = put(store, &file, &text, PutMode::Update(stale)).await;
        for heeded in [again, stale] {
            match heeded {
                Err(
                    object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. },
                ) => {}
                Err(source) if !is_transient(&source) => {
                    return Err(to_repair_error(&path, source));
                }
                Ok(()) | Err(_) => {
                    drop(store.delete(&file).await); // the file has no use
                    return Err(no_conditional_put_error(path));
                }
            }
        }
        return Ok(place);
    }
    Err(changed_error(kept))
}

/// Returns the condition under which an object is replaced, after it was compared and copied.
async fn compare_and_back_up(
    store: &dyn ObjectStore,
    prefix: &Path,
    place: &Path,
    change: &Change,
) -> Result<PutMode> {
    let found = read(store, &join(prefix, &change.path), &change.path).await?;
    let Some(before) = &change.before else {
        return match found {
            None => Ok(PutMode::Create),
            Some(_) => Err(changed_error(&change.path)),
        };
    };
    let fits = found.filter(|(bytes, _)| Node::parse(bytes).as_ref() == Ok(before));
    let Some((bytes, version)) = fits else {
        return Err(changed_error(&change.path));
    };
    if version.e_tag.is_none() && version.version.is_none() {
        return Err(no_conditional_put_error(&change.path));
    }
    let copy = join(place, &change.path);
    let copied = put(store, &copy, &bytes, PutMode::Overwrite).await;
    copied.map_err(|source| to_repair_error(&change.path, source))?;
    Ok(PutMode::Update(version))
}

/// Replaces or creates one object. Without a clear response, reads it.
async fn replace(
    store: &dyn ObjectStore,
    place: &Path,
    change: &Change,
    mode: PutMode,
) -> Result<()> {
    let options = PutOptions { mode, ..PutOptions::default() };
    let (mut tries, mut doubt) = (0_u32, false);
    loop {
        let payload = PutPayload::from(change.after.clone());
        let Err(source) = store.put_opts(place, payload, options.clone()).await else {
            return Ok(());
        };
        tries += 1;
        if is_transient(&source) {
            doubt = true;
        } else if !doubt || !is_condition(&source) {
            return Err(to_repair_error(&change.path, source));
        }
        match read(store, place, &change.path).await? {
            Some((bytes, _)) if bytes == change.after => return Ok(()),
            _ if is_condition(&source) => return Err(to_repair_error(&change.path, source)),
            _ if tries >= TRIES => return Err(to_repair_error(&change.path, source)),
            _ => pause(tries).await,
        }
    }
}

/// Sends a put that may be repeated: its name is unique, or a second put is refused.
async fn put(
    store: &dyn ObjectStore,
    place: &Path,
    bytes: &Bytes,
    mode: PutMode,
) -> object_store::Result<()> {
    let options = PutOptions { mode, ..PutOptions::default() };
    let mut tries = 0_u32;
    loop {
        let payload = PutPayload::from(bytes.clone());
        match store.put_opts(place, payload, options.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if is_transient(&error) && tries < TRIES => {
                tries += 1;
                pause(tries).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads an object and its version; `None` where there is none.
async fn read(
    store: &dyn ObjectStore,
    place: &Path,
    path: &str,
) -> Result<Option<(Bytes, UpdateVersion)>> {
    let mut tries = 0_u32;
    loop {
        let got = match store.get(place).await {
            Ok(got) => {
                let meta = &got.meta;
                let version =
                    UpdateVersion { e_tag: meta.e_tag.clone(), version: meta.version.clone() };
                got.bytes().await.map(|bytes| Some((bytes, version)))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        match got {
            Ok(got) => return Ok(got),
            Err(error) if is_transient(&error) && tries < TRIES => {
                tries += 1;
                pause(tries).await;
            }
            Err(error) => return Err(to_repair_error(path, error)),
        }
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

fn join(prefix: &Path, path: &str) -> Path {
    path.split('/').fold(prefix.clone(), |place, part| place.join(part))
}

/// Returns whether the error is transient: the request may have been carried out, and may succeed
/// later.
fn is_transient(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Generic { .. })
}

fn is_condition(error: &object_store::Error) -> bool {
    matches!(
        error,
        object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }
    )
}

/// Waits after a number of attempts, at most [`TRIES`].
async fn pause(tries: u32) {
    tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tries)).await;
}

fn to_repair_error(path: &str, source: object_store::Error) -> Error {
    let path = path.to_owned();
    if is_condition(&source) || matches!(source, object_store::Error::NotFound { .. }) {
        changed_error(path)
    } else if matches!(
        source,
        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }
    ) {
        no_conditional_put_error(path)
    } else {
        backend_error(path, source)
    }
}

const PLAN: &str = "plan.txt";
/// An entity tag that no object has.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";
/// The number of attempts, and the delay before the second.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The largest number of kept repairs of one store.
const MAX_KEPT_REPAIRS: u32 = 10_000;

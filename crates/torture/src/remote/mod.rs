//! Writers of object stores, on one that fails: what they are, and what must hold after them.
//!
//! ```text
//! build    one process builds a store
//! join     two processes each write a part, one of them publishes
//! ```
//!
//! Whatever happened, the store is not there, or it is of one writer, whole. Who was told that it is done
//! finds its own store. Two days later, by the clock of the store, the same writer succeeds where there is no
//! store, and nothing is left but the store.

pub(crate) mod cancel;
pub(crate) mod faults;
pub(crate) mod race;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use fault_store::FaultStore;
use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};
use zvf_format::Class;
use zvf_store::{Build, BuildOptions, OpenOptions, Store, StoreError};

use crate::build;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writer {
    /// One process builds a store.
    Build,
    /// Two processes build one store.
    Join,
}

/// How a writer ended: done, or the class of its error and its words.
pub(crate) type Outcome = Result<(), (Class, String)>;

impl Writer {
    pub(crate) const ALL: [Self; 2] = [Self::Build, Self::Join];

    /// Writes generation `g`; `folder` outlives the writer.
    pub(crate) async fn write(self, backend: &Arc<FaultStore>, folder: &Path, g: u64) -> Outcome {
        match self {
            Self::Build => {
                let begun = Build::in_object_store(dynamic(backend), PREFIX, options()).await;
                build::build(begun.map_err(describe)?, g, CELLS).await.map_err(describe)
            }
            Self::Join => {
                std::fs::create_dir_all(folder)
                    .map_err(|error| (Class::Io, format!("{}: {error}", folder.display())))?;
                for own in [0..CELLS / 2, CELLS / 2..CELLS] {
                    let joined = join(backend, folder).await?;
                    if joined.is_published().await.map_err(describe)? {
                        return Ok(());
                    }
                    build::share(&joined, g, own, CELLS).await.map_err(describe)?;
                }
                let joined = join(backend, folder).await?;
                build::publish_shared(joined, g, CELLS).await.map_err(describe)
            }
        }
    }
}

async fn join(backend: &Arc<FaultStore>, folder: &Path) -> Result<Build, (Class, String)> {
    let joined = Build::join_object_store(dynamic(backend), PREFIX, folder, &options()).await;
    joined.map_err(describe)
}

fn describe(error: StoreError) -> (Class, String) {
    (error.class(), error.to_string())
}

fn options() -> BuildOptions {
    BuildOptions::default()
}

fn dynamic(backend: &Arc<FaultStore>) -> Arc<dyn ObjectStore> {
    Arc::clone(backend) as Arc<dyn ObjectStore>
}

/// A runtime whose clock goes on only when everybody waits.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().start_paused(true).build()?)
}

/// Lets everything come to an end that is still under way, and every claim grow old.
pub(crate) async fn wait_two_days() {
    tokio::time::sleep(Duration::from_secs(2 * 24 * 3600)).await;
}

/// The generation that is there; none when there is no store.
pub(crate) async fn generation(backend: &Arc<FaultStore>) -> Result<Option<u64>, String> {
    backend.forget();
    backend.always(None);
    let store =
        Store::from_object_store(dynamic(backend), &PREFIX.into(), OpenOptions::default()).await;
    match store {
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(format!("the store cannot be opened: {error}")),
        Ok(store) => build::read_store(&store, CELLS).await.map(Some),
    }
}

/// What must hold after writers of these generations ended so. The same writer then writes once more.
pub(crate) async fn check(
    backend: &Arc<FaultStore>,
    writer: Writer,
    folder: &Path,
    outcomes: &[(u64, Outcome)],
) -> Result<(), String> {
    wait_two_days().await;
    let is_denied = backend.denied_deletes() > 0;
    let found = generation(backend).await.map_err(|error| format!("{error}; {outcomes:?}"))?;
    let done: Vec<u64> =
        outcomes.iter().filter(|(_, ended)| ended.is_ok()).map(|(g, _)| *g).collect();
    let unsure =
        |(g, ended): &(u64, Outcome)| matches!(ended, Err((Class::CommitUnknown, _))).then_some(*g);
    let unsure: Vec<u64> = outcomes.iter().filter_map(unsure).collect();
    let is_right = match (done.as_slice(), found) {
        ([], None) => true,
        ([], Some(found)) => unsure.contains(&found),
        ([one], Some(found)) => *one == found,
        _ => false,
    };
    if !is_right {
        return Err(format!("generation {found:?} is there; {outcomes:?}"));
    }
    let g = outcomes.iter().map(|(g, _)| *g).max().unwrap_or(0) + 1;
    let again = writer.write(backend, &folder.join("again"), g).await;
    let expected = match (&again, found) {
        (Ok(()), None) => Some(g),
        (Err((Class::AlreadyExists, _)), Some(_)) => found,
        // Work that is shared finds out at the end; it is told before what is there is touched.
        (Err((Class::Conflict, _)), Some(_)) if writer == Writer::Join => found,
        _ => return Err(format!("afterwards: {again:?}, on {found:?}; {outcomes:?}")),
    };
    wait_two_days().await;
    let found = generation(backend).await.map_err(|error| format!("afterwards: {error}"))?;
    if found != expected {
        return Err(format!("afterwards generation {found:?} is there, not {expected:?}"));
    }
    if writer == Writer::Build {
        let names: Vec<String> = dynamic(backend)
            .list(None)
            .map_ok(|meta| meta.location.to_string())
            .try_filter(|name| std::future::ready(name.contains(".tmp-")))
            .try_collect()
            .await
            .map_err(|error| error.to_string())?;
        // A claim is left where it was not known what became of it, and where a delete was denied by a store
        // that says the object is not there.
        if !names.is_empty() && unsure.is_empty() && !is_denied {
            return Err(format!("left behind: {names:?}; {outcomes:?}"));
        }
    }
    Ok(())
}

const PREFIX: &str = "data/a.zv";
/// Cells of a store; half of them are whole shards.
const CELLS: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// What the checks are worth: they see a store of two writers.
    #[test]
    fn a_mixed_store_is_seen() {
        runtime().unwrap().block_on(async {
            let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir().unwrap());
            Writer::Build.write(&backend, folder.path(), 1).await.unwrap();
            assert_eq!(generation(&backend).await, Ok(Some(1)));
            let other = Arc::new(FaultStore::new());
            Writer::Build.write(&other, folder.path(), 2).await.unwrap();
            let name = format!("{PREFIX}/0/vertices/c/3");
            let cell = object_store::ObjectStoreExt::get(&*other, &name.as_str().into()).await;
            backend.insert(&name, &cell.unwrap().bytes().await.unwrap()).await;
            assert!(generation(&backend).await.unwrap_err().contains("cell 3"));
        });
    }
}

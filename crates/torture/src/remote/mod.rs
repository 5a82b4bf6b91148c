//! Writers of object stores, on a failing backend, and the invariants after them.
//!
//! ```text
//! build         one process builds a store
//! join          two processes each write a part, one of them publishes
//! create        points, as `zvf create` writes them
//! recompress    a local store, with other codecs
//! migrate       a store of an older version
//! ```
//!
//! In every case the store does not exist, or is the complete store of one writer. A writer that
//! reported success finds its own store. Two days later, by the clock of the store, the same writer
//! succeeds where there is no store, and nothing but the store remains.

pub(crate) mod faults;
pub(crate) mod race;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use archives::Unpacked;
use archives::faults::{Fault, FaultStore, Request};
use archives::random::Random;
use bytes::Bytes;
use clap::ValueEnum;
use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};
use zvf_error::Error;
use zvf_format::Class;
use zvf_store::{Build, BuildOptions, OpenOptions, Store};
use zvf_write::{WriteOptions, Writer as StoreWriter};

use crate::{Report, build, generations};

/// The writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Writer {
    /// One process builds a store.
    Build,
    /// Two processes build one store.
    Join,
    /// Points are written.
    Create,
    /// A store is rewritten with other codecs.
    Recompress,
    /// A store of an older version is migrated.
    Migrate,
}

/// The outcome of a writer: success, or the class and text of its error.
pub(crate) type Outcome = Result<(), Error>;

impl Writer {
    /// Writes generation `g`; `folder` outlives the writer.
    pub(crate) async fn write(self, backend: &Arc<FaultStore>, folder: &Path, g: u64) -> Outcome {
        match self {
            Self::Build => generations::build(begin_build(backend).await?, g, CELLS).await,
            Self::Join => {
                std::fs::create_dir_all(folder).expect("a scratch folder can be written");
                for part in [0..CELLS / 2, CELLS / 2..CELLS] {
                    let joined = join_build(backend, folder).await?;
                    if joined.is_published().await? {
                        return Ok(());
                    }
                    generations::write_share(&joined, g, part, CELLS).await?;
                }
                let joined = join_build(backend, folder).await?;
                generations::publish_shared(joined, g, CELLS).await
            }
            Self::Create => {
                let (store, options) = (to_object_store(backend), WriteOptions::default());
                let schema = build::make_schema()?;
                let writer = StoreWriter::in_object_store(store, PREFIX, schema, options).await?;
                // A number of points that depends on the generation.
                build::write_points(writer, g as u16 * 5).await
            }
            Self::Recompress => {
                let old = unpack_store(["pc3_basic", "pc2_bins"], g);
                build::recompress(&old.open().await, begin_build(backend).await?).await
            }
            Self::Migrate => {
                let old = unpack_store(["v060_gr3", "v070_gr3"], g);
                build::migrate(&old.open().await, begin_build(backend).await?).await
            }
        }
    }

    /// Returns the generation in the store; `None` when there is no store.
    async fn read_generation(self, backend: &Arc<FaultStore>) -> anyhow::Result<Option<u64>> {
        if matches!(self, Self::Build | Self::Join) {
            return read_generation(backend).await;
        }
        backend.forget();
        backend.always(None);
        let found = read_objects(backend).await;
        if !found.contains_key(ROOT) {
            return Ok(None);
        }
        for g in 1..=GENERATIONS {
            if found == *self.fault_free_objects(g).await? {
                return Ok(Some(g));
            }
        }
        Err(anyhow!("the store is not that of one of the writers"))
    }

    /// Returns the objects of generation `g` without a fault.
    async fn fault_free_objects(self, g: u64) -> anyhow::Result<Arc<Objects>> {
        static CACHE: Mutex<BTreeMap<(Writer, u64), Arc<Objects>>> = Mutex::new(BTreeMap::new());
        let lock_cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(objects) = lock_cache().get(&(self, g)) {
            return Ok(Arc::clone(objects));
        }
        let backend = Arc::new(FaultStore::new());
        let written = Box::pin(self.write(&backend, Path::new("unused"), g)).await;
        written.with_context(|| format!("{self:?} in peace"))?;
        let objects = Arc::new(read_objects(&backend).await);
        lock_cache().insert((self, g), Arc::clone(&objects));
        Ok(objects)
    }
}

/// Objects by their names.
type Objects = BTreeMap<String, Bytes>;

/// Returns all objects of the store, without claims.
async fn read_objects(backend: &FaultStore) -> Objects {
    let mut objects = backend.objects().await;
    objects.retain(|name, _| !name.contains(".tmp-"));
    objects
}

/// Unpacks one of two archived stores, alternating by generation.
fn unpack_store(ids: [&str; 2], g: u64) -> Unpacked {
    Unpacked::new(ids[usize::from(g.is_multiple_of(2))])
}

async fn begin_build(backend: &Arc<FaultStore>) -> Result<Build, Error> {
    Build::in_object_store(to_object_store(backend), PREFIX, BuildOptions::default()).await
}

async fn join_build(backend: &Arc<FaultStore>, folder: &Path) -> Result<Build, Error> {
    let options = BuildOptions::default();
    Build::join_object_store(to_object_store(backend), PREFIX, folder, &options).await
}

fn to_object_store(backend: &Arc<FaultStore>) -> Arc<dyn ObjectStore> {
    Arc::clone(backend) as Arc<dyn ObjectStore>
}

/// Creates a runtime whose clock advances only when all tasks wait.
pub(crate) fn create_runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().start_paused(true).build()?)
}

/// The faults that writers meet, one writer after the other.
pub(crate) struct Sweep {
    pub(crate) kinds: Vec<Fault>,
    /// Only every so many pairs of a request and a fault are tested, counted over all writers.
    pub(crate) every: usize,
    pub(crate) taken: usize,
    /// The runs of each writer with several random faults, after the pairs.
    pub(crate) then_random: u64,
    /// The number of requests that an overloaded store rejects; 0 to skip this test.
    bursts: usize,
    pub(crate) random: Random,
}

/// The requests of a writer, and whether the invariants hold afterwards.
pub(crate) type Attempt = (Vec<Request>, anyhow::Result<()>);

impl Sweep {
    /// Tests a writer, which `attempt` runs with these faults, sometimes on a store that ignores
    /// conditions.
    pub(crate) fn run(
        &mut self,
        name: &str,
        report: &mut Report,
        mut attempt: impl FnMut(&[(usize, Fault)], bool) -> anyhow::Result<Attempt>,
    ) -> anyhow::Result<()> {
        let (in_peace, checked) = attempt(&[], false)?;
        checked.with_context(|| format!("{name} without a fault"))?;
        let mut try_faults = |planned: &[(usize, Fault)], is_blind| {
            let tried = attempt(planned, is_blind).and_then(|(requests, checked)| {
                let at: Vec<_> = planned.iter().filter_map(|(n, _)| requests.get(*n)).collect();
                checked.with_context(|| format!("{name}, {planned:?} at {at:?}"))
            });
            report.count(tried);
        };
        for nth in 0..in_peace.len() {
            let single = self.kinds.iter().map(|fault| vec![(nth, fault.clone())]);
            let burst = (nth..nth + self.bursts).map(|nth| (nth, Fault::Status(429))).collect();
            for planned in single.chain([burst]).filter(|planned| !planned.is_empty()) {
                if self.taken.is_multiple_of(self.every.max(1)) {
                    try_faults(&planned, false);
                }
                self.taken += 1;
            }
        }
        let random = &mut self.random;
        for _ in 0..self.then_random {
            let several = 0..1 + random.next_below(4);
            let planned: Vec<_> = several
                .map(|_| {
                    let nth = random.next_below(in_peace.len() * 3 / 2);
                    (nth, self.kinds[random.next_below(self.kinds.len())].clone())
                })
                .collect();
            try_faults(&planned, random.next_below(4) == 0);
        }
        Ok(())
    }
}

/// The outcome of a writer, and the requests that its backend received.
pub(crate) struct WriterRun {
    /// Whether it ended by itself, and with success.
    pub(crate) is_ended: bool,
    pub(crate) is_done: bool,
    pub(crate) attempt: Attempt,
}

/// Polls a writer up to `polls` times on a backend that `plan` prepares.
pub(crate) fn run_writer(
    writer: Writer,
    polls: Option<u64>,
    plan: impl FnOnce(&FaultStore),
) -> anyhow::Result<WriterRun> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    plan(&backend);
    let work = folder.path().join("work");
    create_runtime()?.block_on(async {
        let ended = poll_times(writer.write(&backend, &work, 1), polls).await;
        let (is_ended, requests) = (ended.is_some(), backend.requests());
        // The outcome of a dropped writer is unknown.
        let ended = ended.unwrap_or_else(|| Err(Error::custom(Class::CommitUnknown, "dropped")));
        let is_done = ended.is_ok();
        let checked = check_invariants(&backend, writer, folder.path(), &[(1, ended)]).await;
        Ok(WriterRun { is_ended, is_done, attempt: (requests, checked) })
    })
}

/// Polls work this many times, or to its end, and drops it; `None` if it did not end.
pub(crate) async fn poll_times<T>(work: impl Future<Output = T>, polls: Option<u64>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls.unwrap_or(u64::MAX);
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// Waits until all running work has ended, and claims have expired.
async fn wait_two_days() {
    tokio::time::sleep(Duration::from_secs(2 * 24 * 3600)).await;
}

/// Returns the generation in the store; `None` when there is no store.
pub(crate) async fn read_generation(backend: &Arc<FaultStore>) -> anyhow::Result<Option<u64>> {
    backend.forget();
    backend.always(None);
    let store =
        Store::from_object_store(to_object_store(backend), &PREFIX.into(), OpenOptions::default())
            .await;
    match store {
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(anyhow!("the store cannot be opened: {error}")),
        Ok(store) => generations::read(&store, CELLS).await.map(Some),
    }
}

/// Checks the invariants after writers of these generations ended. Then the same writer writes once
/// more.
async fn check_invariants(
    backend: &Arc<FaultStore>,
    writer: Writer,
    folder: &Path,
    outcomes: &[(u64, Outcome)],
) -> anyhow::Result<()> {
    wait_two_days().await;
    let is_denied = backend.denied_deletes() > 0;
    let found = writer.read_generation(backend).await;
    let found = found.with_context(|| format!("{outcomes:?}"))?;
    let done: Vec<u64> =
        outcomes.iter().filter(|(_, ended)| ended.is_ok()).map(|(g, _)| *g).collect();
    let unsure = |(g, ended): &(u64, Outcome)| {
        matches!(ended, Err(error) if error.class() == Class::CommitUnknown).then_some(*g)
    };
    let unsure: Vec<u64> = outcomes.iter().filter_map(unsure).collect();
    let is_right = match (done.as_slice(), found) {
        ([], None) => true,
        ([], Some(found)) => unsure.contains(&found),
        ([winner], Some(found)) => *winner == found,
        _ => false,
    };
    ensure!(is_right, "the store is of generation {found:?}; {outcomes:?}");
    let g = outcomes.iter().map(|(g, _)| *g).max().unwrap_or(0) + 1;
    let again = writer.write(backend, &folder.join("again"), g).await;
    let expected = match (&again, found) {
        (Ok(()), None) => Some(g),
        (Err(error), Some(_)) if error.class() == Class::AlreadyExists => found,
        // A shared build detects a conflict at the end, before it touches the existing store.
        (Err(error), Some(_)) if error.class() == Class::Conflict && writer == Writer::Join => {
            found
        }
        _ => bail!("afterwards: {again:?}, on {found:?}; {outcomes:?}"),
    };
    wait_two_days().await;
    let found = writer.read_generation(backend).await.context("afterwards")?;
    ensure!(found == expected, "afterwards the store is of generation {found:?}, not {expected:?}");
    if writer != Writer::Join {
        let mut names: Vec<String> = backend.objects().await.into_keys().collect();
        names.retain(|name| name.contains(".tmp-"));
        // A claim remains if the outcome was unknown, or if a delete was denied by a store that
        // reports a missing object.
        ensure!(
            names.is_empty() || !unsure.is_empty() || is_denied,
            "left behind: {names:?}; {outcomes:?}"
        );
    }
    Ok(())
}

const PREFIX: &str = "data/a.zv";
const ROOT: &str = "data/a.zv/zarr.json";
/// The number of generations, which differ in all their objects.
const GENERATIONS: u64 = 2;
/// The number of cells of a store; half of them are whole shards.
const CELLS: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the checks detect a store of two writers.
    #[test]
    fn a_mixed_store_is_detected() {
        create_runtime().unwrap().block_on(async {
            let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir().unwrap());
            Writer::Build.write(&backend, folder.path(), 1).await.unwrap();
            assert_eq!(read_generation(&backend).await.unwrap(), Some(1));
            let other_store = Arc::new(FaultStore::new());
            Writer::Build.write(&other_store, folder.path(), 2).await.unwrap();
            let name = format!("{PREFIX}/0/vertices/c/3");
            let cell =
                object_store::ObjectStoreExt::get(&*other_store, &name.as_str().into()).await;
            backend.insert(&name, &cell.unwrap().bytes().await.unwrap()).await;
            let error = read_generation(&backend).await.unwrap_err().to_string();
            assert!(error.contains("cell 3"), "{error}");
        });
    }
}

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
//! In any case the store does not exist, or is the complete store of one writer. A writer that reported success finds
//! its own store. Two days later, by the clock of the store, the same writer succeeds where there is no store, and
//! nothing is left but the store.

pub(crate) mod cancel;
pub(crate) mod faults;
pub(crate) mod race;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use archives::Unpacked;
use archives::faults::FaultStore;
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};
use zvf_error::Error;
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind};
use zvf_store::{Arrange, Build, BuildOptions, CodecPipeline, OpenOptions, Rearrangement, Store};
use zvf_write::{Schema, WriteOptions, Writer as StoreWriter};

use crate::build;

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
pub(crate) type Outcome = Result<(), (Class, String)>;

impl Writer {
    pub(crate) const ALL: [Self; 5] =
        [Self::Build, Self::Join, Self::Create, Self::Recompress, Self::Migrate];

    /// Writes generation `g`; `folder` outlives the writer.
    pub(crate) async fn write(self, backend: &Arc<FaultStore>, folder: &Path, g: u64) -> Outcome {
        match self {
            Self::Build => {
                let begun =
                    Build::in_object_store(to_object_store(backend), PREFIX, build_options()).await;
                build::build_store(begun.map_err(describe_error)?, g, CELLS)
                    .await
                    .map_err(describe_error)
            }
            Self::Join => {
                std::fs::create_dir_all(folder)
                    .map_err(|error| (Class::Io, format!("{}: {error}", folder.display())))?;
                for part in [0..CELLS / 2, CELLS / 2..CELLS] {
                    let joined = join_build(backend, folder).await?;
                    if joined.is_published().await.map_err(describe_error)? {
                        return Ok(());
                    }
                    build::write_share(&joined, g, part, CELLS).await.map_err(describe_error)?;
                }
                let joined = join_build(backend, folder).await?;
                build::publish_shared(joined, g, CELLS).await.map_err(describe_error)
            }
            Self::Create => write_points(to_object_store(backend), g)
                .await
                .map_err(|e| (e.class(), e.to_string())),
            Self::Recompress => {
                let old = unpack_store(["pc3_basic", "pc2_bins"], g);
                let store = old.open().await;
                let build =
                    Build::in_object_store(to_object_store(backend), PREFIX, build_options()).await;
                let plan =
                    Rearrangement { shards: Arrange::Keep, codecs: Some(CodecPipeline::zstd(1)) };
                plan.apply(&store, build.map_err(describe_error)?, |_| ())
                    .await
                    .map_err(describe_error)
                    .map(drop)
            }
            Self::Migrate => {
                let old = unpack_store(["v060_gr3", "v070_gr3"], g);
                let of_model = |error: Error| (error.class(), error.to_string());
                let plan = zvf_migrate::Plan::build(&old.open().await).await.map_err(of_model)?;
                let build =
                    Build::in_object_store(to_object_store(backend), PREFIX, build_options()).await;
                let done =
                    plan.apply(&Default::default(), build.map_err(describe_error)?, |_| ()).await;
                done.map_err(of_model).map(drop)
            }
        }
    }

    /// Returns the generation in the store; `None` when there is no store.
    async fn read_generation(self, backend: &Arc<FaultStore>) -> Result<Option<u64>, String> {
        if matches!(self, Self::Build | Self::Join) {
            return read_generation(backend).await;
        }
        backend.forget();
        backend.always(None);
        let found = read_objects(backend).await?;
        if !found.contains_key(ROOT) {
            return Ok(None);
        }
        for g in 1..=GENERATIONS {
            if found == *self.fault_free_objects(g).await? {
                return Ok(Some(g));
            }
        }
        Err("the store is not that of one of the writers".to_owned())
    }

    /// Returns the objects of generation `g` without a fault.
    async fn fault_free_objects(self, g: u64) -> Result<Arc<Objects>, String> {
        static CACHE: Mutex<BTreeMap<(Writer, u64), Arc<Objects>>> = Mutex::new(BTreeMap::new());
        let lock_cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(objects) = lock_cache().get(&(self, g)) {
            return Ok(Arc::clone(objects));
        }
        let backend = Arc::new(FaultStore::new());
        let written = Box::pin(self.write(&backend, Path::new("unused"), g)).await;
        written.map_err(|(_, error)| format!("{self:?} in peace: {error}"))?;
        let objects = Arc::new(read_objects(&backend).await?);
        lock_cache().insert((self, g), Arc::clone(&objects));
        Ok(objects)
    }
}

/// Objects by their names.
type Objects = BTreeMap<String, Bytes>;

/// Returns all objects of the store, without claims.
async fn read_objects(backend: &Arc<FaultStore>) -> Result<Objects, String> {
    let store = to_object_store(backend);
    let to_text = |error: object_store::Error| error.to_string();
    let names: Vec<_> = store.list(None).try_collect().await.map_err(to_text)?;
    let mut objects = Objects::new();
    for name in names.into_iter().map(|meta| meta.location) {
        if name.as_ref().contains(".tmp-") {
            continue;
        }
        let reply = object_store::ObjectStoreExt::get(&*store, &name).await.map_err(to_text)?;
        objects.insert(name.to_string(), reply.bytes().await.map_err(to_text)?);
    }
    Ok(objects)
}

/// Unpacks one of two archived stores, alternating by generation.
fn unpack_store(ids: [&str; 2], g: u64) -> Unpacked {
    Unpacked::new(ids[usize::from(g.is_multiple_of(2))])
}

/// Writes a number of points that depends on the generation.
async fn write_points(store: Arc<dyn ObjectStore>, g: u64) -> Result<(), Error> {
    let shape = ChunkShape::new(&[2.0; 2])?;
    let schema = Schema::new(Kind::PointCloud, Axis::spatial(2).unwrap_or_default(), shape)?;
    let options = WriteOptions { build: build_options(), ..WriteOptions::default() };
    let mut writer = StoreWriter::in_object_store(store, PREFIX, schema, options).await?;
    let count = u16::try_from(g).unwrap_or(u16::MAX) * 5;
    let at = (0..count).flat_map(|i| [f32::from(i), f32::from(i % 3)]).flat_map(f32::to_le_bytes);
    let positions = Column::new(Dtype::FLOAT32, 2, at.collect::<Vec<u8>>().into())?;
    writer.push(&Batch::new(Kind::PointCloud, positions))?;
    writer.finish().await?;
    Ok(())
}

async fn join_build(backend: &Arc<FaultStore>, folder: &Path) -> Result<Build, (Class, String)> {
    let joined =
        Build::join_object_store(to_object_store(backend), PREFIX, folder, &build_options()).await;
    joined.map_err(describe_error)
}

fn describe_error(error: Error) -> (Class, String) {
    (error.class(), error.to_string())
}

fn build_options() -> BuildOptions {
    BuildOptions::default()
}

fn to_object_store(backend: &Arc<FaultStore>) -> Arc<dyn ObjectStore> {
    Arc::clone(backend) as Arc<dyn ObjectStore>
}

/// Creates a runtime whose clock advances only when all tasks wait.
pub(crate) fn create_runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().start_paused(true).build()?)
}

/// Waits until all running work has ended, and claims have expired.
pub(crate) async fn wait_two_days() {
    tokio::time::sleep(Duration::from_secs(2 * 24 * 3600)).await;
}

/// Returns the generation in the store; `None` when there is no store.
pub(crate) async fn read_generation(backend: &Arc<FaultStore>) -> Result<Option<u64>, String> {
    backend.forget();
    backend.always(None);
    let store =
        Store::from_object_store(to_object_store(backend), &PREFIX.into(), OpenOptions::default())
            .await;
    match store {
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(format!("the store cannot be opened: {error}")),
        Ok(store) => build::read_store_generation(&store, CELLS).await.map(Some),
    }
}

/// Checks the invariants after writers of these generations ended. The same writer then writes once more.
pub(crate) async fn check_invariants(
    backend: &Arc<FaultStore>,
    writer: Writer,
    folder: &Path,
    outcomes: &[(u64, Outcome)],
) -> Result<(), String> {
    wait_two_days().await;
    let is_denied = backend.denied_deletes() > 0;
    let found = writer.read_generation(backend).await;
    let found = found.map_err(|error| format!("{error}; {outcomes:?}"))?;
    let done: Vec<u64> =
        outcomes.iter().filter(|(_, ended)| ended.is_ok()).map(|(g, _)| *g).collect();
    let unsure =
        |(g, ended): &(u64, Outcome)| matches!(ended, Err((Class::CommitUnknown, _))).then_some(*g);
    let unsure: Vec<u64> = outcomes.iter().filter_map(unsure).collect();
    let is_right = match (done.as_slice(), found) {
        ([], None) => true,
        ([], Some(found)) => unsure.contains(&found),
        ([winner], Some(found)) => *winner == found,
        _ => false,
    };
    if !is_right {
        return Err(format!("the store is of generation {found:?}; {outcomes:?}"));
    }
    let g = outcomes.iter().map(|(g, _)| *g).max().unwrap_or(0) + 1;
    let again = writer.write(backend, &folder.join("again"), g).await;
    let expected = match (&again, found) {
        (Ok(()), None) => Some(g),
        (Err((Class::AlreadyExists, _)), Some(_)) => found,
        // A shared build detects a conflict at the end, before it touches the existing store.
        (Err((Class::Conflict, _)), Some(_)) if writer == Writer::Join => found,
        _ => return Err(format!("afterwards: {again:?}, on {found:?}; {outcomes:?}")),
    };
    wait_two_days().await;
    let found =
        writer.read_generation(backend).await.map_err(|error| format!("afterwards: {error}"))?;
    if found != expected {
        return Err(format!("afterwards the store is of generation {found:?}, not {expected:?}"));
    }
    if writer != Writer::Join {
        let names: Vec<String> = to_object_store(backend)
            .list(None)
            .map_ok(|meta| meta.location.to_string())
            .try_filter(|name| std::future::ready(name.contains(".tmp-")))
            .try_collect()
            .await
            .map_err(|error| error.to_string())?;
        // A claim is left where the outcome was unknown, and where a delete was denied by a store that reports a
        // missing object.
        if !names.is_empty() && unsure.is_empty() && !is_denied {
            return Err(format!("left behind: {names:?}; {outcomes:?}"));
        }
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
            assert_eq!(read_generation(&backend).await, Ok(Some(1)));
            let other_store = Arc::new(FaultStore::new());
            Writer::Build.write(&other_store, folder.path(), 2).await.unwrap();
            let name = format!("{PREFIX}/0/vertices/c/3");
            let cell =
                object_store::ObjectStoreExt::get(&*other_store, &name.as_str().into()).await;
            backend.insert(&name, &cell.unwrap().bytes().await.unwrap()).await;
            assert!(read_generation(&backend).await.unwrap_err().contains("cell 3"));
        });
    }
}

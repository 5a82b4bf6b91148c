//! Writes files of one kind as a store: at once if they fit in memory, otherwise task by task.

use async_recursion::async_recursion as boxed;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use zvf_format::Class;
use zvf_format::num::saturating_u32_from_usize;
use zvf_model::flow::{FlowError, Sink as _, flow};
use zvf_store::Build;
use zvf_write::{Report, StoreSink, TaskPlan, WriteNotice, Writer};

use super::ids::Shifted;
use super::{CreateStage, OnStage, Recipe, Shape, StoreLayout, name_file, report_progress, schema};
use crate::Error;
use crate::error::{bad_request_error, changed_count_error};
use crate::export::asks_all;

/// Writes `file` to a new store at `address`, according to `layout`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("zvf-create-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// use std::ops::ControlFlow;
/// use zvf_jobs::create::{self, StoreLayout, Recipe};
///
/// let (file, store) = (folder.join("a.csv"), folder.join("a.zarrvectors"));
/// std::fs::write(&file, "x,y,mass\n1,2,0.5\n30,40,0.25\n")?;
/// let recipe = Recipe { per_chunk: 1, ..Recipe::default() };
/// let layout = StoreLayout::scan(&file, &recipe, &mut |_, _| ControlFlow::Continue(()))?;
/// assert_eq!((layout.vertices, layout.chunk.as_slice()), (2, &[20.0, 20.0][..]));
/// let address = store.to_str().unwrap();
/// let go = &mut |_, _| ControlFlow::Continue(());
/// let report = create::create(&file, address, &layout, &recipe, go).await?;
/// assert_eq!(report.vertices, 2);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When the file cannot be read, has changed since it was scanned, the store exists, or it cannot
/// be written. There is no store then.
#[boxed]
pub async fn create(
    file: &Path,
    address: &str,
    layout: &StoreLayout,
    recipe: &Recipe,
    progress: &mut OnStage<'_>,
) -> Result<Report, Error> {
    create_all(&[file.to_owned()], address, layout, recipe, progress).await
}

/// Writes several `files` of one kind, in their order, to one new store.
///
/// # Errors
///
/// As [`create`].
#[boxed]
pub async fn create_all(
    files: &[PathBuf],
    address: &str,
    layout: &StoreLayout,
    recipe: &Recipe,
    progress: &mut OnStage<'_>,
) -> Result<Report, Error> {
    let folder = folder(address, recipe);
    let lock = match &folder {
        Some(folder) if layout.slices.len() > 1 || folder.exists() => Some(lock(folder)?),
        _ => None,
    };
    // This also repairs a publication that was killed between two renames.
    let has_left = folder.as_deref().map_or(Ok(false), has_leftovers)?;
    let published = match &folder {
        Some(folder) if has_left => is_published(address, folder, recipe).await?,
        _ => false,
    };
    // Format headers belong to the whole store: one process writes them.
    let is_planned = layout.slices.len() > 1
        && layout.records.is_empty()
        && recipe.sources.is_empty()
        && crate::ingest::check_plannable(layout, recipe).is_ok();
    let (Some(folder), true) = (&folder, is_planned) else {
        let stale = folder.filter(|folder| folder.exists());
        stale.iter().try_for_each(|folder| TaskPlan::remove(folder))?;
        drop(lock);
        let mut report = write_at_once(&[(files, layout)], address, recipe, progress).await?;
        report.notices.extend(has_left.then_some(WriteNotice::Cleaned));
        return Ok(report);
    };
    // After a kill, at most one share is repeated; each share costs a sync.
    let shares = saturating_u32_from_usize(layout.slices.len().div_ceil(4));
    let plan = crate::ingest::plan(files, address, layout, recipe, Some(shares))?;
    let goes_on = match TaskPlan::read(folder) {
        Ok(Some(existing)) => existing == plan && !Build::is_gone_from(address, folder)?,
        Ok(None) => !TaskPlan::is_half_removed(folder)?,
        Err(_unreadable) => false,
    };
    let stale = published || !goes_on;
    if stale {
        TaskPlan::remove(folder)?;
    }
    // The lock was removed with the folder.
    let _lock = if stale { Some(self::lock(folder)?) } else { lock };
    crate::ingest::begin(address, folder, &plan, recipe).await?;
    let ingest = crate::ingest::Ingest::open(address, folder, recipe.write.clone())?;
    let ingest = ingest.without_sync_between();
    let done = ingest.run_all(progress).await;
    if done.as_ref().is_err_and(|error| error.class() == Class::LimitExceeded) {
        TaskPlan::remove(folder)?; // another limit makes another plan
    }
    let mut report = done?;
    report.notices.extend(stale.then_some(WriteNotice::Cleaned));
    Ok(report)
}

/// Writes files of one or several kinds in one run.
pub(super) async fn write_at_once(
    kinds: &[(&[PathBuf], &StoreLayout)],
    address: &str,
    recipe: &Recipe,
    progress: &mut OnStage<'_>,
) -> Result<Report, Error> {
    let [(_, first), others @ ..] = kinds else {
        return Err(bad_request_error("the input", "at least one file", "none"));
    };
    let mut schema =
        schema(&Shape::from_layout(first), recipe.bins.as_deref(), recipe.codecs.clone())?;
    if let Some(draco) = recipe.draco {
        schema = schema.with_draco(draco);
    }
    for (_, layout) in others {
        schema = schema.with_kind(layout.header.kind)?;
    }
    if let Some(source) = recipe.sources.first().filter(|source| asks_all(&source.query)) {
        schema = schema.with_root(source.reader.store().root());
    }
    let mut writer = Writer::create(address, schema, recipe.write.clone()).await?;
    let mut sink = Box::new(StoreSink::new(&mut writer));
    let mut total = 0_u64; // of the kinds before
    for (files, layout) in kinds {
        let mut before = 0_u64; // of the files before
        for (input, (file, shift)) in files.iter().zip(&layout.shifts).enumerate() {
            let in_file = |error| name_file(error, file, files.len() > 1);
            let reader = layout.reader(input, file, recipe).map_err(in_file)?;
            let mut source = Shifted { reader, shift: *shift, before };
            let on_progress =
                &mut |vertices| progress(CreateStage::Read, total + before + vertices);
            before += match flow(&mut source, &mut *sink, on_progress).await {
                Err(FlowError::Stopped) => return Err(FlowError::Stopped.into()),
                moved => moved.map_err(|error| in_file(error.into()))?,
            };
        }
        if before != layout.vertices {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            return Err(changed_count_error(&files.join(", "), layout.vertices, before));
        }
        total += before;
    }
    report_progress(progress, CreateStage::Write, total)?;
    sink.finish()?;
    writer.finish().await
}

/// Returns whether an earlier run left something in `folder`: a plan, readable or not, or the file
/// that it removes last.
fn has_leftovers(folder: &Path) -> Result<bool, Error> {
    Ok(!matches!(TaskPlan::read(folder), Ok(None)) || TaskPlan::is_half_removed(folder)?)
}

/// Returns whether the store that was built in `folder` has been published.
async fn is_published(address: &str, folder: &Path, recipe: &Recipe) -> Result<bool, Error> {
    if Build::is_gone_from(address, folder)? {
        return Ok(false);
    }
    match Build::join(address, folder, recipe.write.build.clone()).await {
        Err(error) if error.class() == Class::AlreadyExists => Ok(false), // another one
        joined => Ok(joined?.is_published().await?),
    }
}

/// Returns the folder for a plan and the results of its tasks: beside a local store, otherwise
/// among temporary files.
pub(super) fn folder(address: &str, recipe: &Recipe) -> Option<PathBuf> {
    crate::ingest::folder(address).or_else(|| {
        let parent = recipe.write.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let readable = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = address.chars().map(readable).take(MAX_READABLE_CHARS).collect();
        // Names with the same readable form may belong to different stores.
        let sum = std::hash::BuildHasher::hash_one(&Fixed::default(), address);
        Some(parent.join(format!(".zvf-ingest-{name}-{sum:016x}")))
    })
}

/// Maximum number of characters of an address in the name of a folder: with a hash and suffixes,
/// they fit a file system's limit.
const MAX_READABLE_CHARS: usize = 200;

/// A hasher with fixed keys: the same text has the same hash in every process.
type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Locks the folder of a build, so that no other process builds the same store while the lock is held.
pub(super) fn lock(folder: &Path) -> Result<File, Error> {
    let scratch = |error| Error::scratch(error);
    std::fs::create_dir_all(folder).map_err(scratch)?;
    let file = File::create(folder.join("lock")).map_err(scratch)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let found = "another process that makes it";
            Err(bad_request_error("the store", "no other process that creates it", found))
        }
        Err(TryLockError::Error(error)) => Err(scratch(error)),
    }
}

//! Builds levels one at a time, in processes that may be killed, and puts them into the store at
//! the end.
//!
//! ```text
//! build_in_folder      one level, of the store and the finer levels that were kept    -> a folder
//! build, Reuse::Kept   the whole, with the levels that were kept taken over          -> the store has them
//! build_in_folder      the same, for a store that cannot be replaced in one step     -> a folder, for a commit
//! ```
//!
//! All of them run the same loop: building a kept level ends after that level and publishes
//! nothing. A kept level is what a build saves as its checkpoint, so the result has the same bytes.
//!
//! Levels that are built outside the store are in a *scratch store*: a store in a local folder that
//! has the documents of level 0 and none of its cells. Level 0 is read where it is, which may be an
//! object store.

use std::fs;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Result};
use zvf_metadata::Root;
use zvf_store::{Build, BuildOptions, Key, Store};

use crate::build::build_levels;
use crate::checkpoint::{Checkpoint, DOCUMENT, KeptLevel};
use crate::error::{setting_error, unsupported_error};
use crate::plan::PyramidPlan;
use crate::report::{LevelReport, OnEvent, PyramidEvent};
use crate::target::BuildTarget;
use crate::{Options, levels};

impl KeptLevel {
    /// Copies the level for another build: hard links would change files that other processes are
    /// reading.
    fn copy_to(&self, folder: &Path) -> std::io::Result<Self> {
        let record = format!("{}.json", self.level);
        let record = self.folder.join(&record).exists().then_some(record);
        for name in self.file_names()?.into_iter().chain(record) {
            let to = folder.join(&name);
            fs::create_dir_all(to.parent().unwrap_or(folder))?;
            fs::copy(self.folder.join(&name), to)?;
        }
        Ok(Self { level: self.level, folder: folder.to_owned() })
    }
}

/// Builds the coarser levels of a store below `folder`, which no other process uses; the store is
/// not changed. Levels in `kept` are not built again.
///
/// With `only`, that level is built and kept in the folder, as [`KeptLevel`]; the result is the
/// same as in a build of all levels. Finer levels that are missing are built as well and discarded.
/// There is no report when the store gets no such level.
///
/// Without, the result is for a store that cannot be replaced in one step, such as one on an object
/// store. The returned folder has everything a commit must put into the store: the root document,
/// all levels, and level 0 without its cells but with its links to other levels. Objects of the
/// store that match [`belongs_to_levels`] and are not in the folder must be removed.
///
/// # Errors
///
/// Like [`build`](crate::build()), and when levels would be additive: those are not built one at a
/// time.
pub async fn build_in_folder(
    (store, folder): (&Store, &Path),
    options: &Options,
    how: &BuildOptions,
    (kept, only): (&[KeptLevel], Option<u32>),
    mut on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> Result<(PathBuf, Vec<LevelReport>)> {
    build_in_scratch_store((store, folder), options, how, (kept, only), &mut on_event).await
}

#[boxed]
async fn build_in_scratch_store(
    (store, folder): (&Store, &Path),
    options: &Options,
    how: &BuildOptions,
    (kept, only): (&[KeptLevel], Option<u32>),
    on_event: &mut OnEvent<'_>,
) -> Result<(PathBuf, Vec<LevelReport>)> {
    check_divisible(store, options).await?;
    let plan = PyramidPlan::plan(store, options).await?;
    let scratch_store = ScratchStore::begin(store, folder, how).await?;
    let made = scratch_store.build((store, folder), &plan, (kept, only), on_event).await;
    scratch_store.remove().await;
    made
}

/// Returns whether the object at `path` of a store belongs to its coarser levels, or to links from
/// level 0 to them: it is replaced when they are rebuilt.
///
/// ```
/// use zvf_pyramid::belongs_to_levels;
///
/// assert!(belongs_to_levels("1/vertices/c/0/0") && belongs_to_levels("0/links/+1/zarr.json"));
/// assert!(!belongs_to_levels("0/vertices/c/0/0") && !belongs_to_levels("0/links/zarr.json"));
/// ```
pub fn belongs_to_levels(path: &str) -> bool {
    Key::root().join(path).is_ok_and(|key| levels::is_replaced(&key))
}

/// Refuses a store whose levels cannot be built one at a time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// use zvf_pyramid::{Options, check_divisible};
///
/// check_divisible(&store, &Options::default()).await?;
/// let additive = Options { additive: true, ..Options::default() };
/// assert!(check_divisible(&store, &additive).await.is_err());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When its levels are or would be additive, or when the store cannot have levels.
#[boxed]
pub async fn check_divisible(store: &Store, options: &Options) -> Result<()> {
    levels::check_version(store)?;
    levels::check_keys(store).await?;
    if options.additive || store.level(0).await?.meta().is_additive() {
        let expected = "levels that are made one of another";
        return Err(unsupported_error(
            "levels one by one",
            expected,
            "levels that add to each other",
        ));
    }
    Ok(())
}

/// A store in which levels are built and which is never published: it has the documents of level 0,
/// which define how cells of all levels are stored, and no cells of level 0.
struct ScratchStore {
    build: Build,
    copies: PathBuf, // a folder of files that are linked into it
}

impl ScratchStore {
    /// Starts the scratch store for `store` below `folder`.
    async fn begin(store: &Store, folder: &Path, how: &BuildOptions) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::scratch)?;
        let name = folder.join(NAME);
        let Some(name) = name.to_str() else {
            return Err(setting_error(
                "the folder of a level",
                "a name that is text",
                name.display(),
            ));
        };
        let how = BuildOptions { replace: false, lock: None, ..how.clone() };
        let scratch_store =
            Self { build: Build::begin(name, how).await?, copies: folder.join(COPIES) };
        match scratch_store.describe_level_0(store).await {
            Ok(()) => Ok(scratch_store),
            Err(error) => {
                scratch_store.remove().await;
                Err(error)
            }
        }
    }

    /// Copies the documents of level 0. They are read through `store`, which may be on an object
    /// store: [`Build::copy_documents`] copies those of the folder that a build adds to.
    async fn describe_level_0(&self, store: &Store) -> Result<()> {
        let write = |node: &str, text: &[u8]| {
            let node = self.copies.join(node);
            fs::create_dir_all(&node).and_then(|()| fs::write(node.join(DOCUMENT), text))
        };
        for (node, text) in store.nodes().documents().await? {
            let is_of_level_0 = node.segments().next() == Some("0");
            if is_of_level_0 && !levels::is_replaced(&node) {
                write(node.as_str(), &text).map_err(Error::scratch)?;
            }
        }
        self.build.hard_link_from(&self.copies.join("0"), "0").await
    }

    /// Builds levels, and keeps the only one in `folder` or links all into a folder below it.
    async fn build(
        &self,
        (store, folder): (&Store, &Path),
        plan: &PyramidPlan,
        (kept, only): (&[KeptLevel], Option<u32>),
        on_event: &mut OnEvent<'_>,
    ) -> Result<(PathBuf, Vec<LevelReport>)> {
        // Other processes may be reading kept levels, and hard links would change their files.
        let copied = || kept.iter().map(|level| level.copy_to(&self.copies)).collect();
        let kept: std::io::Result<Vec<KeptLevel>> =
            if only.is_some() { copied() } else { Ok(kept.to_vec()) };
        let kept = kept.map_err(Error::scratch)?;
        let checkpoint =
            (only.is_some() || !kept.is_empty()).then(|| Checkpoint::with_levels(folder, kept));
        let checkpoint = checkpoint.as_ref();
        let target = BuildTarget { build: &self.build, checkpoint, only };
        let made = build_levels(store, &target, plan, None, on_event).await;
        if let Some((level, checkpoint)) = only.zip(checkpoint) {
            (1..level).for_each(|finer| drop(checkpoint.level(finer).remove()));
            return Ok((folder.to_owned(), made?.0));
        }
        let (reports, root) = made?;
        Ok((self.collect(&reports, &root, folder).await?, reports))
    }

    /// Links the built levels and the root document into a folder below `folder`.
    async fn collect(
        &self,
        reports: &[LevelReport],
        root: &Root,
        folder: &Path,
    ) -> Result<PathBuf> {
        let built = folder.join(BUILT);
        fs::create_dir_all(&built).map_err(Error::scratch)?;
        let levels = reports.iter().map(|report| report.level);
        for level in [0].into_iter().chain(levels) {
            let name = level.to_string();
            self.build.hard_link_to(&name, &built.join(&name)).await?;
        }
        let root = self.build.declare_attributes(root).print();
        fs::write(built.join(DOCUMENT), root).map_err(Error::scratch)?;
        Ok(built)
    }

    /// Removes the scratch store. Only the first error of a build is reported; files that remain
    /// are removed with the folder.
    async fn remove(self) {
        drop(self.build.abandon().await);
        drop(fs::remove_dir_all(&self.copies));
    }
}

/// The folder of copied levels and documents, beside the scratch store.
const COPIES: &str = "finer";
/// The name of the scratch store.
const NAME: &str = "level.zarrvectors";
/// The folder with the files that a commit puts into the store.
const BUILT: &str = "built";

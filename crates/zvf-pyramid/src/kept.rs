//! Levels that are made one by one, by processes that may be killed, and put into the store in the end.
//!
//! ```text
//! build_level          one level, of the store and the finer levels that were kept  -> a folder
//! build_with_levels    the whole, with the levels that were kept taken over
//! ```
//!
//! Both go through the loop that [`build`](crate::build) goes through: the first ends after its level, and publishes nothing.
//! A kept level is what a build saves as its checkpoint, so what comes out has the same bytes.

use std::fs;
use std::path::Path;

use zvf_store::{Build, BuildOptions, Store};
use zvf_write::WriteError;

use crate::checkpoint::{Checkpoint, DOCUMENT, KeptLevel};
use crate::ladder::PyramidPlan;
use crate::report::{LevelReport, PyramidEvent};
use crate::{Options, PyramidError, build, levels};

impl KeptLevel {
    /// Whether what the folder holds is what was made, byte for byte.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_whole(&self) -> Result<bool, PyramidError> {
        let checkpoint = Checkpoint::with_levels(&self.folder, Vec::new());
        checkpoint.is_sound(self.level).map_err(|error| WriteError::Scratch(error).into())
    }

    /// Whether the store at `address` holds what was made: every file of it but documents, which name what came later.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read.
    pub fn is_in(&self, address: &str) -> Result<bool, PyramidError> {
        let checkpoint = Checkpoint::with_levels(&self.folder, Vec::new());
        let store = Path::new(address.strip_prefix("file://").unwrap_or(address));
        checkpoint.is_in(self.level, store).map_err(|error| WriteError::Scratch(error).into())
    }

    /// Copies it, for a build of its own: files that get second names are not those that others read meanwhile.
    fn copy_to(&self, folder: &Path) -> std::io::Result<Self> {
        let name = self.level.to_string();
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let file = entry.file_name();
            let is_own = file.to_str().is_some_and(|file| {
                file == name || file.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'))
            });
            if is_own {
                copy(&entry.path(), &folder.join(&file))?;
            }
        }
        Ok(Self { level: self.level, folder: folder.to_owned() })
    }
}

/// Makes level `level` of the store at `address` and keeps it in `folder`, which no other process uses, as it would be made between
/// all others. `finer` are the levels below it; those that are missing are made as well, and let go of. `None` when the
/// store gets no such level. The store stays as it is.
///
/// # Errors
///
/// As [`build`](crate::build), and when levels would be additive: these are not made one by one.
pub async fn build_level(
    (address, folder): (&str, &Path),
    options: &Options,
    how: &BuildOptions,
    finer: &[KeptLevel],
    level: u32,
) -> Result<Option<LevelReport>, PyramidError> {
    let store = Store::open(address, options.opening()).await?;
    check_divisible(&store, options).await?;
    let ladder = PyramidPlan::plan(&store, options).await?;
    fs::create_dir_all(folder).map_err(WriteError::Scratch)?;
    let copies = folder.join(COPIES);
    let copied = finer.iter().map(|finer_level| finer_level.copy_to(&copies));
    let copied_levels = copied.collect::<Result<_, _>>().map_err(WriteError::Scratch)?;
    let checkpoint = Checkpoint::with_levels(folder, copied_levels);
    let name = folder.join(NAME);
    let Some(name) = name.to_str() else {
        return Err(PyramidError::setting(
            "the folder of a level",
            "a name that is text",
            name.display(),
        ));
    };
    let how = BuildOptions { replace: false, lock: None, ..how.clone() };
    let build = Build::begin(name, how).await?;
    let made = match describe_level_0(&store, &build, &copies).await {
        Ok(()) => build::build_one_level(&store, (&build, &checkpoint), &ladder, level).await,
        Err(error) => Err(error),
    };
    // The first fault counts; what stays goes with the folder.
    drop(build.abandon().await);
    (1..level).for_each(|finer| drop(checkpoint.remove_level(finer)));
    drop(fs::remove_dir_all(&copies));
    made
}

/// As [`build_with_notices`](crate::build_with_notices), with levels that [`build_level`] kept. What is needed meanwhile goes
/// to `folder`, which no other process uses, and is removed with it.
///
/// # Errors
///
/// As [`build`](crate::build).
pub async fn build_with_levels(
    (address, folder): (&str, &Path),
    options: &Options,
    how: &BuildOptions,
    kept: &[KeptLevel],
    on_event: impl FnMut(PyramidEvent<'_>),
) -> Result<Vec<LevelReport>, PyramidError> {
    fs::create_dir_all(folder).map_err(WriteError::Scratch)?;
    let checkpoint = Checkpoint::with_levels(folder, kept.to_vec());
    let made = build::build_from_checkpoint(address, options, how, &checkpoint, on_event).await;
    // What cannot be removed goes with the folders of the levels.
    drop(fs::remove_dir_all(folder));
    made
}

/// Refuses a store whose levels cannot be made one by one.
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
/// When levels add to each other, or would, or the store is one that cannot get levels.
pub async fn check_divisible(store: &Store, options: &Options) -> Result<(), PyramidError> {
    levels::check(store)?;
    levels::check_keys(store).await?;
    if options.additive || store.level(0).await?.meta().is_additive() {
        let expected = "levels that are made one of another";
        return Err(PyramidError::unsupported(
            "levels one by one",
            expected,
            "levels that add to each other",
        ));
    }
    Ok(())
}

/// Gives the store of a level the documents of level 0, which say how cells of all levels are stored.
async fn describe_level_0(store: &Store, build: &Build, folder: &Path) -> Result<(), PyramidError> {
    let write = |node: &str, text: &[u8]| {
        let node = folder.join(node);
        fs::create_dir_all(&node).and_then(|()| fs::write(node.join(DOCUMENT), text))
    };
    for (node, text) in store.nodes().documents().await? {
        if node.as_str() == "0" || node.as_str().starts_with("0/") {
            write(node.as_str(), &text).map_err(WriteError::Scratch)?;
        }
    }
    Ok(build.hard_link_from(&folder.join("0"), "0").await?)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The folder of what a level is made of, beside the store, while it is made.
const COPIES: &str = "finer";
/// The store that the level is made for, which is not published.
const NAME: &str = "level.zarrvectors";

//! Names next to a target.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use zvf_format::Class;

use crate::error::PublishError;

/// Returns the path with its directory resolved; for a symbolic link, its destination.
///
/// # Errors
///
/// When the current directory cannot be read.
pub fn resolve_target(target: &Path) -> io::Result<PathBuf> {
    match std::fs::canonicalize(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = std::path::absolute(target)?;
            // Folders above may exist, through links, while the target does not.
            let above = path.ancestors().skip(1);
            let found = above.filter_map(|above| {
                Some(std::fs::canonicalize(above).ok()?.join(path.strip_prefix(above).ok()?))
            });
            Ok(found.into_iter().next().unwrap_or(path))
        }
        found => found,
    }
}

/// Returns `.NAME.zvf-WORD` next to `target`, where a command keeps its scratch. A name that is too
/// long is shortened, and a hash of the whole name is appended.
///
/// ```
/// # use std::path::Path;
/// use zvf_publish::hidden_sibling;
///
/// let short = hidden_sibling(Path::new("/data/a.zarrvectors"), "ingest").expect("a name");
/// assert_eq!(short, Path::new("/data/.a.zarrvectors.zvf-ingest"));
/// let long = hidden_sibling(&Path::new("/data").join("a".repeat(250)), "build-0123456789abcdef");
/// assert!(long.expect("a name").file_name().expect("a name").len() <= 255);
/// ```
pub fn hidden_sibling(target: &Path, word: &str) -> Option<PathBuf> {
    let mut name = hidden_stem(target.file_name()?);
    name.push(".zvf-");
    name.push(word);
    Some(target.with_file_name(name))
}

/// Returns `.NAME`, shortened so that the longest suffix fits.
fn hidden_stem(name: &OsStr) -> OsString {
    let mut stem = OsString::from(".");
    if name.len() <= MAX_STEM_BYTES {
        stem.push(name);
        return stem;
    }
    let text = name.to_string_lossy();
    let (start, _) = text.split_at(text.floor_char_boundary(MAX_STEM_BYTES - 17));
    let hash = fnv1a(name.as_encoded_bytes());
    stem.push(format!("{start}~{hash:016x}"));
    stem
}

/// Returns [`resolve_target`] of a path to write, which must have a [`parent_of`].
pub(crate) fn resolve_new(target: &Path) -> Result<PathBuf, PublishError> {
    if target.to_string_lossy().contains("://") && !target.exists() {
        let text = "expected a path of this machine: write it here, and copy it to the URL";
        return Err(PublishError::Refused(Class::InvalidArgument, text.to_owned()));
    }
    let resolved = resolve_target(target)?;
    parent_of(&resolved)?;
    Ok(resolved)
}

/// Returns the parent folder of a target, if the name is short enough for sibling names and no
/// folder above is a store: what is written there would replace a part of it.
pub(crate) fn parent_of(target: &Path) -> Result<&Path, PublishError> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(no_name_error(target));
    };
    if name.len() > MAX_TARGET_BYTES {
        let text = format!("name: expected at most {MAX_TARGET_BYTES} bytes, found {}", name.len());
        return Err(PublishError::Refused(Class::InvalidArgument, text));
    }
    if let Some(store) = target.ancestors().skip(1).find(|above| is_store(above)) {
        let text = format!("expected a place outside of the store {}", store.display());
        return Err(PublishError::Refused(Class::InvalidArgument, text));
    }
    Ok(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// Returns [`hidden_sibling`], or an error for a target without a name.
pub(crate) fn need_sibling(target: &Path, word: &str) -> Result<PathBuf, PublishError> {
    hidden_sibling(target, word).ok_or_else(|| no_name_error(target))
}

/// Returns whether a folder is a store: the document of its root has the block of the format.
pub(crate) fn is_store(folder: &Path) -> bool {
    let mut text = String::new();
    let read = std::fs::File::open(folder.join("zarr.json"))
        .and_then(|file| file.take(MAX_DOCUMENT_BYTES).read_to_string(&mut text));
    // A group above stores may hold their documents.
    let own = text.split_once("\"consolidated_metadata\"").map_or(&*text, |(own, _)| own);
    read.is_ok() && own.contains(BLOCK)
}

fn no_name_error(target: &Path) -> PublishError {
    PublishError::NoName(target.to_string_lossy().into_owned())
}

/// Joins a name to the path of a folder, with `/` between names.
///
/// # Errors
///
/// `InvalidInput` for a name that is not Unicode: as text it would be another name.
pub(crate) fn join_path(folder: &str, name: &OsStr) -> io::Result<String> {
    let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

/// Returns the prefix of the names of one kind next to `target`.
pub(crate) fn sibling_prefix(target: &Path, word: &str) -> Option<OsString> {
    let path = hidden_sibling(target, word)?;
    path.file_name().map(OsStr::to_owned)
}

/// Returns a unique number.
pub(crate) fn unique_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Returns the 64-bit FNV-1a hash: the same in every version and on every machine.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The word in the name of the lock of a target.
pub(crate) const TARGET_LOCK: &str = "lock";
/// The word in the names of files under construction.
pub(crate) const NEW_FILE: &str = "new";
/// The word in the names of scratch directories.
pub(crate) const SCRATCH: &str = "build";
/// The names in a scratch directory: its lock, the folder under its final names, the old folder if
/// two names cannot be exchanged atomically, and the list of names that are added to the target.
pub(crate) const SCRATCH_LOCK: &str = "lock";
pub(crate) const SCRATCH_STORE: &str = "store";
pub(crate) const SCRATCH_OLD: &str = "old";
pub(crate) const SCRATCH_ADDED: &str = "added";
/// The key of the block of the format in the document of a root, and the largest such document.
const BLOCK: &str = "\"zarr_vectors\":";
const MAX_DOCUMENT_BYTES: u64 = 16 << 20;
/// The limit of file systems for one name.
const MAX_NAME_BYTES: usize = 255;
/// The limit without the suffix `.zvf` of journals and backups.
const MAX_TARGET_BYTES: usize = MAX_NAME_BYTES - 4;
/// The limit without the leading dot, and `.zvf-build-` with a number or another suffix.
const MAX_STEM_BYTES: usize = MAX_NAME_BYTES - 1 - 27;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_and_stay_apart() {
        let name = |n: usize, last: char| format!("{}{last}", "ä".repeat(n));
        let sibling = |name: &str| {
            let path = hidden_sibling(&Path::new("/x").join(name), "build-0123456789abcdef");
            path.unwrap().file_name().unwrap().to_owned()
        };
        let (first, second) = (sibling(&name(120, 'a')), sibling(&name(120, 'b')));
        assert!(first != second && first.len() <= 255 && second.len() <= 255);
        assert_eq!(sibling("a"), ".a.zvf-build-0123456789abcdef");
        let longest = "a".repeat(227);
        assert_eq!(sibling(&longest).len(), 255);
        assert!(!sibling(&longest).to_string_lossy().contains('~'));
        assert!(sibling(&"a".repeat(228)).to_string_lossy().contains('~'));
    }

    #[test]
    fn only_names_in_unicode_are_joined_to_paths() {
        assert_eq!(join_path("", OsStr::new("a")).unwrap(), "a");
        assert_eq!(join_path("b/c", OsStr::new("a")).unwrap(), "b/c/a");
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt as _;
            let error = join_path("b", OsStr::from_bytes(b"a\xff")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn names_without_room_are_refused() {
        assert!(parent_of(&Path::new("/x").join("a".repeat(251))).is_ok());
        let error = parent_of(&Path::new("/x").join("a".repeat(252))).unwrap_err();
        assert_eq!(error.to_string(), "name: expected at most 251 bytes, found 252");
        assert!(matches!(parent_of(Path::new("/")), Err(PublishError::NoName(_))));
    }
}

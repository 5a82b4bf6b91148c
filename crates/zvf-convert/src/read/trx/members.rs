//! The members of a TRX, in a zip or in a folder: which there are, of which type, and their bytes.

use std::fs;
use std::path::{Path, PathBuf};

use zvf_format::Class;
use zvf_metadata::Dtype;

use crate::ConvertError;
use crate::error::{BadInput, Place};
use crate::read::zip::Archive;
use crate::read::{Bytes, Format};

/// Where the members are.
pub(super) enum Members {
    Zip(Archive),
    Folder(PathBuf, Vec<(String, u64)>),
}

/// An array, by the name of its member.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ArrayMember {
    /// The whole name.
    pub(super) path: String,
    /// The folder it is in: none, `dpv`, `dps`, `groups`, `dpg/GROUP`.
    pub(super) folder: String,
    /// The name of the array.
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) width: u32,
    /// Bytes.
    pub(super) size: u64,
}

impl ArrayMember {
    /// Rows of it, where its bytes are a whole number of them.
    pub(super) fn rows(&self) -> Option<u64> {
        let row = u64::from(self.width).checked_mul(self.dtype.size)?;
        (row > 0 && self.size.is_multiple_of(row)).then(|| self.size / row)
    }

    /// The same without rows, where it has the one byte that stands for nothing in a folder.
    fn or_nothing(self) -> Self {
        let size = if self.size == 1 && self.rows().is_none() { 0 } else { self.size };
        Self { size, ..self }
    }
}

impl Members {
    pub(super) fn open(path: &Path, is_folder: bool) -> Result<Self, ConvertError> {
        if !is_folder {
            return Ok(Self::Zip(Archive::open(path, Format::Trx)?));
        }
        let mut found = Vec::new();
        let mut open = vec![(path.to_owned(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = open.pop() {
            for entry in fs::read_dir(folder).map_err(ConvertError::Read)? {
                let entry = entry.map_err(ConvertError::Read)?;
                let name = entry.file_name().into_string().map_err(|name| {
                    let place = Place::Named(name.to_string_lossy().into_owned());
                    bad(Class::Encoding, place, "a name of UTF-8", "other bytes")
                })?;
                let about = entry.metadata().map_err(ConvertError::Read)?; // of links themselves
                let path = format!("{prefix}{name}");
                if about.is_dir() && depth < MAX_DEPTH {
                    open.push((entry.path(), format!("{path}/"), depth + 1));
                } else if about.is_file() {
                    found.push((path, about.len()));
                } else {
                    let expected = "a file, or a folder of files";
                    let found = "a link, or something else";
                    return Err(bad(Class::Unsupported, Place::Named(path), expected, found).into());
                }
            }
        }
        found.sort();
        Ok(Self::Folder(path.to_owned(), found))
    }

    /// Names and sizes.
    fn list(&self) -> Vec<(String, u64)> {
        match self {
            Self::Zip(archive) => {
                let members = archive.members.iter();
                members.map(|member| (member.name.clone(), member.size)).collect()
            }
            Self::Folder(_, members) => members.clone(),
        }
    }

    /// All arrays, and the names of what is none.
    pub(super) fn arrays(&self) -> Result<(Vec<ArrayMember>, Vec<String>), ConvertError> {
        let (mut arrays, mut others): (Vec<ArrayMember>, Vec<String>) = (Vec::new(), Vec::new());
        for (path, size) in self.list() {
            let place = || Place::Named(path.clone());
            let is_escape = path.split('/').any(|part| part == ".." || part == ".");
            if is_escape || path.starts_with('/') || path.contains(['\\', '\0']) {
                let expected = "a name below the folder";
                return Err(bad(Class::InvalidKey, place(), expected, format!("{path:?}")).into());
            }
            if path == HEADER || path.ends_with('/') {
                continue;
            }
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
            let is_known = matches!(folder, "" | "dpv" | "dps" | "groups")
                || folder.strip_prefix("dpg/").is_some_and(|group| !group.contains('/'));
            if !is_known {
                others.push(path);
                continue;
            }
            let parts: Vec<&str> = name.split('.').collect();
            let (name, width, dtype) = match parts.as_slice() {
                [name, dtype] => (*name, Some(1), *dtype),
                [name, width, dtype] => {
                    (*name, width.parse().ok().filter(|w| (1..=MAX_WIDTH).contains(w)), *dtype)
                }
                _ => (name, None, ""),
            };
            let known = if dtype == "bit" {
                Some("bool")
            } else {
                DTYPES.iter().copied().find(|d| *d == dtype)
            };
            let known = known.and_then(|name| name.parse::<Dtype>().ok());
            let (Some(width), Some(dtype), false) = (width, known, name.is_empty()) else {
                let expected = "NAME.TYPE or NAME.WIDTH.TYPE, of a type of numbers";
                return Err(bad(Class::BadTag, place(), expected, format!("{path:?}")).into());
            };
            let array = ArrayMember {
                folder: folder.to_owned(),
                name: name.to_owned(),
                dtype,
                width,
                size,
                path: path.clone(),
            };
            let same =
                |other: &&ArrayMember| (&other.folder, &other.name) == (&array.folder, &array.name);
            if let Some(other) = arrays.iter().find(same) {
                let expected = "each array once";
                return Err(bad(
                    Class::Duplicate,
                    place(),
                    expected,
                    format!("also {}", other.path),
                )
                .into());
            }
            arrays.push(if matches!(self, Self::Folder(..)) { array.or_nothing() } else { array });
        }
        Ok((arrays, others))
    }

    /// The bytes of a member, by its whole name; nothing where there is none.
    pub(super) fn read(&self, path: &str) -> Result<Option<Bytes>, ConvertError> {
        match self {
            Self::Zip(archive) => {
                let member = archive.members.iter().find(|member| member.name == path);
                member.map(|member| archive.read(member)).transpose()
            }
            Self::Folder(folder, members) => {
                if !members.iter().any(|(name, _)| name == path) {
                    return Ok(None);
                }
                let mut bytes = Bytes::open(&folder.join(path))?;
                bytes.is(Format::Trx);
                Ok(Some(bytes))
            }
        }
    }
}

pub(super) fn bad(
    class: Class,
    place: Place,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> BadInput {
    BadInput::new(class, "TRX", place, expected, found)
}

pub(super) const HEADER: &str = "header.json";
const MAX_DEPTH: u32 = 3;
/// Values of a row, so that a batch of rows is never much larger than the file.
const MAX_WIDTH: u32 = 4096;
const DTYPES: [&str; 11] = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64",
];

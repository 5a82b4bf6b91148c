//! The members of a TRX, in a zip or in a folder: their names, types and bytes.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{Archive, Bytes, Spot, read_failed};
use zvf_metadata::Dtype;

/// The members, in a zip or in a folder.
pub(crate) enum Members {
    Zip(Archive),
    Folder(PathBuf, Vec<(String, u64)>),
}

/// An array, by the name of its member.
#[derive(Clone)]
pub(crate) struct ArrayMember {
    /// The full name.
    pub(crate) path: String,
    /// The folder of the member: none, `dpv`, `dps`, `groups`, `dpg/GROUP`.
    pub(crate) folder: String,
    /// The name of the array.
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) width: u32,
    /// The size in bytes.
    pub(crate) size: u64,
}

impl ArrayMember {
    /// Returns the number of rows, if the size is a whole number of rows.
    pub(crate) fn rows(&self) -> Option<u64> {
        let row = u64::from(self.width).checked_mul(self.dtype.size)?;
        (row > 0 && self.size.is_multiple_of(row)).then(|| self.size / row)
    }

    /// Sets the size of an empty array to 0: in a folder its file has one byte.
    fn without_padding(self) -> Self {
        let size = if self.size == 1 && self.rows().is_none() { 0 } else { self.size };
        Self { size, ..self }
    }
}

impl Members {
    pub(crate) fn open(path: &Path, is_folder: bool) -> Result<Self> {
        if !is_folder {
            return Ok(Self::Zip(Archive::open(path, "TRX")?));
        }
        let mut files = Vec::new();
        let mut open = vec![(path.to_owned(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = open.pop() {
            for entry in fs::read_dir(folder).map_err(read_failed)? {
                let entry = entry.map_err(read_failed)?;
                let name = entry.file_name().into_string().map_err(|name| {
                    let place = name.to_string_lossy().into_owned();
                    spot(place).error(Class::Encoding, "a name of UTF-8", "other bytes")
                })?;
                let metadata = entry.metadata().map_err(read_failed)?; // of a link itself
                let path = format!("{prefix}{name}");
                if metadata.is_dir() && depth < MAX_DEPTH {
                    open.push((entry.path(), format!("{path}/"), depth + 1));
                } else if metadata.is_file() {
                    files.push((path, metadata.len()));
                } else {
                    let expected = "a file, or a folder of files";
                    let found = "a link, or something else";
                    return spot(path).refuse(Class::Unsupported, expected, found);
                }
            }
        }
        files.sort();
        Ok(Self::Folder(path.to_owned(), files))
    }

    /// Returns the names and the sizes.
    fn list(&self) -> Vec<(String, u64)> {
        match self {
            Self::Zip(archive) => {
                let members = archive.members.iter();
                members.map(|member| (member.name.clone(), member.size)).collect()
            }
            Self::Folder(_, members) => members.clone(),
        }
    }

    /// Returns all arrays, and the names of the other members.
    pub(crate) fn arrays(&self) -> Result<(Vec<ArrayMember>, Vec<String>)> {
        let (mut arrays, mut others): (Vec<ArrayMember>, Vec<String>) = (Vec::new(), Vec::new());
        for (path, size) in self.list() {
            let is_escape = path.split('/').any(|part| part == ".." || part == ".");
            if is_escape || path.starts_with('/') || path.contains(['\\', '\0']) {
                let expected = "a name below the folder";
                return spot(&path).refuse(Class::InvalidKey, expected, format!("{path:?}"));
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
            let dtype = if dtype == "bit" {
                Some("bool")
            } else {
                DTYPES.iter().copied().find(|d| *d == dtype)
            };
            let dtype = dtype.and_then(|name| name.parse::<Dtype>().ok());
            let (Some(width), Some(dtype), false) = (width, dtype, name.is_empty()) else {
                let expected = "NAME.TYPE or NAME.WIDTH.TYPE, of a type of numbers";
                return spot(&path).refuse(Class::BadTag, expected, format!("{path:?}"));
            };
            let array = ArrayMember {
                folder: folder.to_owned(),
                name: name.to_owned(),
                dtype,
                width,
                size,
                path: path.clone(),
            };
            let same = |listed: &&ArrayMember| {
                (&listed.folder, &listed.name) == (&array.folder, &array.name)
            };
            if let Some(duplicate) = arrays.iter().find(same) {
                let expected = "each array once";
                let found = format_args!("also {}", duplicate.path);
                return spot(&path).refuse(Class::Duplicate, expected, found);
            }
            let is_folder = matches!(self, Self::Folder(..));
            arrays.push(if is_folder { array.without_padding() } else { array });
        }
        Ok((arrays, others))
    }

    /// Opens a member by its full name; `None` if it does not exist.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Bytes>> {
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
                bytes.set_format("TRX");
                Ok(Some(bytes))
            }
        }
    }
}

/// Returns a spot of the input.
pub(crate) const fn spot<P: Display>(place: P) -> Spot<P> {
    Spot::new("TRX", place)
}

pub(crate) const HEADER: &str = "header.json";
const MAX_DEPTH: u32 = 3;
/// Maximum number of values per row, so that a batch of rows is never much larger than the file.
const MAX_WIDTH: u32 = 4096;
const DTYPES: [&str; 11] = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64",
];

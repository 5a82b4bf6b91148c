//! Access to the files of a precomputed folder by key.
//!
//! `KEY.gz` is read in place of a missing `KEY`, because cloud-volume writes local folders this
//! way. Files with other compressions are refused by their names.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value as Json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{Spot, read_failed};

/// A folder, the root of its keys.
#[derive(Clone)]
pub(crate) struct Folder {
    root: PathBuf,
    memory: u64,
}

/// An open file.
struct OpenFile {
    file: File,
    len: u64,
    is_gzip: bool,
}

impl Folder {
    pub(crate) const fn new(root: PathBuf, memory: u64) -> Self {
        Self { root, memory }
    }

    /// Returns the folder under a key.
    pub(crate) fn subfolder(&self, key: &str) -> Result<Self> {
        Ok(Self { root: self.path(key)?, memory: self.memory })
    }

    /// Returns the memory limit in bytes.
    pub(crate) const fn memory(&self) -> u64 {
        self.memory
    }

    fn path(&self, key: &str) -> Result<PathBuf> {
        let parts = || key.split('/');
        let is_below = !key.is_empty()
            && !key.starts_with('/')
            && !key.contains(['\\', '\0'])
            && parts().all(|part| part != ".." && part != "." && !part.is_empty());
        let expected = "a key below the folder";
        spot("a key").ensure(is_below, Class::InvalidKey, expected, format_args!("{key:?}"))?;
        Ok(parts().fold(self.root.clone(), |path, part| path.join(part)))
    }

    /// Reads a file. Returns `None` if it does not exist.
    pub(crate) fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let Some(OpenFile { mut file, len, is_gzip }) = self.open(key)? else { return Ok(None) };
        self.check_memory(key, len)?;
        let mut bytes = Vec::new();
        (&mut file).take(self.memory).read_to_end(&mut bytes).map_err(read_failed)?;
        if is_gzip {
            bytes = gunzip(&bytes, self.memory, &format!("{key}.gz"))?;
        }
        Ok(Some(bytes))
    }

    /// Reads a byte range of a file, which must exist and not be compressed.
    pub(crate) fn read_range(&self, key: &str, start: u64, size: u64) -> Result<Vec<u8>> {
        let Some(OpenFile { mut file, len, is_gzip }) = self.open(key)? else {
            return spot(key).refuse(Class::NotFound, "a file", "none");
        };
        let found = "a compressed one";
        spot(key).ensure(!is_gzip, Class::Unsupported, "a file that is read in parts", found)?;
        if start.checked_add(size).is_none_or(|end| end > len) {
            let found = format!("{size} bytes at {start}");
            let expected = format!("a range within {len} bytes");
            return spot(key).refuse(Class::OutOfBounds, expected, found);
        }
        self.check_memory(key, size)?;
        file.seek(SeekFrom::Start(start)).map_err(read_failed)?;
        let mut bytes = Vec::new();
        (&mut file).take(size).read_to_end(&mut bytes).map_err(read_failed)?;
        Ok(bytes)
    }

    /// Returns the length of a file, or `None` if it does not exist.
    pub(crate) fn size(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.open(key)?.map(|file| file.len))
    }

    fn open(&self, key: &str) -> Result<Option<OpenFile>> {
        let file = self.open_as(key, false)?;
        if file.is_some() { Ok(file) } else { self.open_as(&format!("{key}.gz"), true) }
    }

    fn open_as(&self, key: &str, is_gzip: bool) -> Result<Option<OpenFile>> {
        let path = self.path(key)?;
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(read_failed(error)),
            Ok(metadata) if !metadata.is_file() => {
                return spot(key).refuse(Class::Unsupported, "a file", "a link or a folder");
            }
            Ok(_) => {}
        }
        let file = File::open(path).map_err(read_failed)?;
        let len = file.metadata().map_err(read_failed)?.len();
        Ok(Some(OpenFile { file, len, is_gzip }))
    }

    fn check_memory(&self, key: &str, bytes: u64) -> Result<()> {
        if bytes <= self.memory {
            return Ok(());
        }
        let expected = format!("at most {} bytes, which have to be in memory at once", self.memory);
        spot(key).hint("raise --memory-limit").refuse(Class::LimitExceeded, expected, bytes)
    }

    /// Lists the file names in order, without the suffix `.gz`.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(read_failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(read_failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".br") || name.ends_with(".zstd") {
                let expected = "files as they are, or compressed with gzip";
                return spot(&name).refuse(Class::Unsupported, expected, "another compression");
            }
            names.push(name.strip_suffix(".gz").map(str::to_owned).unwrap_or(name));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Lists the ids of the files named `ID` + `suffix`, ascending.
    pub(crate) fn list_ids(&self, suffix: &str) -> Result<Vec<u64>> {
        let names = self.list()?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(suffix).and_then(parse_id));
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads a file as a JSON object. Returns `None` if it does not exist.
    pub(crate) fn read_json(&self, key: &str) -> Result<Option<Json>> {
        let Some(bytes) = self.read(key)? else { return Ok(None) };
        let json: Result<Map<String, Json>, _> = serde_json::from_slice(&bytes);
        let json = json.map_err(|error| {
            let place = format!("{key}, line {}", error.line());
            let found = error.to_string();
            Spot::new(NAME, place).error(Class::Encoding, "a JSON object", found)
        })?;
        Ok(Some(Json::Object(json)))
    }
}

/// Parses an id of decimal digits without leading zeros.
pub(crate) fn parse_id(text: &str) -> Option<u64> {
    let is_canonical = text == "0" || !text.starts_with('0');
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_canonical && is_digits).then(|| text.parse().ok()).flatten()
}

/// Decompresses a gzip stream, and refuses more than `max_bytes`.
pub(crate) fn gunzip(bytes: &[u8], max_bytes: u64, key: &str) -> Result<Vec<u8>> {
    let mut inflated = Vec::new();
    let limit = max_bytes.saturating_add(1); // one more shows that there are too many
    let mut decoder = MultiGzDecoder::new(bytes).take(limit);
    decoder
        .read_to_end(&mut inflated)
        .map_err(|error| spot(key).error(Class::Codec, "a gzip stream", error))?;
    let expected = format_args!("at most {max_bytes} bytes");
    spot(key).ensure(inflated.len() as u64 <= max_bytes, Class::LimitExceeded, expected, "more")?;
    Ok(inflated)
}

/// Returns a spot of the input.
pub(crate) const fn spot<P: Display>(place: P) -> Spot<P> {
    Spot::new(NAME, place)
}

const NAME: &str = "precomputed";

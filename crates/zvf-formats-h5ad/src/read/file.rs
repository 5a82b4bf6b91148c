//! Checked access to an HDF5 file.

use std::cell::Cell;
use std::fmt::Display;
use std::io::Read as _;
use std::path::PathBuf;

use hdf5_pure::{AttrValue, DType, Dataset, File, VlenStringReadOptions};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{checked_product, saturating_usize, to_u64};
use zvf_formats::{Bytes, RandomFile, RecordNumbers, Spot, isolate, new_column, read_failed};
use zvf_metadata::{Dtype, DtypeKind};

use crate::read::NAME;

/// An open HDF5 file.
pub(crate) struct H5 {
    file: File,
    path: Option<PathBuf>, // `None` if the file is in memory
    memory: Cell<u64>,     // that is left for what is read
}

/// The type of the object under a path.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Node {
    Missing,
    Group,
    Dataset,
}

/// Returns a spot of the input.
pub(crate) const fn spot<P: Display>(place: P) -> Spot<P> {
    Spot::new(NAME, place)
}

impl H5 {
    pub(crate) fn open(bytes: Bytes, memory: u64) -> Result<Self> {
        let path = bytes.path().map(std::path::Path::to_owned);
        let own_path = path.clone();
        let mut source = RandomFile::open(bytes, memory)?;
        check_superblock(&mut source)?;
        let file = match (source.into_parts(), path) {
            (Ok(_), Some(path)) => isolate::catch(|| File::open_streaming(path)),
            (Ok(_), None) => {
                return spot("the file").refuse(Class::NotFound, "a path", "none");
            }
            (Err(bytes), _) => isolate::catch(|| File::from_bytes(bytes.into())),
        };
        let file =
            file.map_err(|error| spot("the superblock").error(Class::Codec, "HDF5", error))?;
        Ok(Self { file, path: own_path, memory: Cell::new(memory) })
    }

    /// Returns the bytes of memory that are left.
    pub(crate) const fn memory(&self) -> u64 {
        self.memory.get()
    }

    /// Returns the target file of the external link `name`. The library reports external links as missing objects, so
    /// the bytes of the file are searched to explain the error.
    pub(crate) fn find_external_link(&self, name: &str) -> Result<Option<String>> {
        let Some(path) = &self.path else { return Ok(find_link(self.file.as_bytes(), name)) };
        let mut file = std::fs::File::open(path).map_err(read_failed)?;
        let mut window = Vec::new();
        loop {
            let drop_bytes = window.len().saturating_sub(MAX_LINK_BYTES);
            window.drain(..drop_bytes);
            let read = (&mut file).take(WINDOW_BYTES).read_to_end(&mut window);
            let read = read.map_err(read_failed)?;
            let found = find_link(&window, name);
            if found.is_some() || read == 0 {
                return Ok(found);
            }
        }
    }

    /// Calls `read` with the file, and reports an error or a panic for `path`.
    fn catch_faults<T>(
        &self,
        path: &str,
        read: impl FnOnce(&File) -> Result<T, hdf5_pure::Error>,
    ) -> Result<T> {
        let file = &self.file;
        let result = isolate::catch_panic(|| read(file))
            .map_err(|panic| spot(path).error(Class::Codec, "HDF5", panic))?;
        result.map_err(|error| {
            let text = error.to_string();
            spot(path).error(classify_error(&text), "an object of this file", text)
        })
    }

    /// Lists the groups and arrays under a path in order of name.
    pub(crate) fn members(&self, path: &str) -> Result<Vec<String>> {
        if self.find_node(path)? != Node::Group {
            return Ok(Vec::new());
        }
        let mut names = self.catch_faults(path, |file| {
            let group = file.group(path)?;
            let mut names = group.groups()?;
            names.extend(group.datasets()?);
            Ok(names)
        })?;
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns the type of the object under a path. Any error but a missing object is returned.
    pub(crate) fn find_node(&self, path: &str) -> Result<Node> {
        let found = self.catch_faults(path, |file| {
            if file.dataset(path).is_ok() {
                return Ok(Node::Dataset);
            }
            file.group(path).map(|_| Node::Group)
        });
        match found {
            Err(error) if error.class() == Class::NotFound => Ok(Node::Missing),
            found => found,
        }
    }

    pub(crate) fn shape(&self, path: &str) -> Result<Vec<u64>> {
        self.catch_faults(path, |file| file.dataset(path)?.shape())
    }

    pub(crate) fn dtype(&self, path: &str) -> Result<DType> {
        self.catch_faults(path, |file| file.dataset(path)?.dtype())
    }

    /// Returns the type of an array of numbers or booleans, `None` for other types.
    pub(crate) fn number_type(&self, path: &str) -> Result<Option<Dtype>> {
        let number = |kind, size| Some(Dtype { kind, size, big_endian: false });
        Ok(match self.dtype(path)? {
            DType::F32 => number(DtypeKind::Float, 4),
            DType::F64 => number(DtypeKind::Float, 8),
            DType::I8 => number(DtypeKind::Int, 1),
            DType::I16 => number(DtypeKind::Int, 2),
            DType::I32 => number(DtypeKind::Int, 4),
            DType::I64 => number(DtypeKind::Int, 8),
            DType::U8 => number(DtypeKind::UInt, 1),
            DType::U16 => number(DtypeKind::UInt, 2),
            DType::U32 => number(DtypeKind::UInt, 4),
            DType::U64 => number(DtypeKind::UInt, 8),
            DType::Enum(names) if is_h5py_bool(&names) => number(DtypeKind::Bool, 1),
            _ => None,
        })
    }

    /// Reads the numbers of an array, little-endian, within the memory that is left.
    pub(crate) fn read_bytes(&self, path: &str, dtype: Dtype) -> Result<Vec<u8>> {
        let count = self.reserve_memory(path, dtype.size)?;
        let bytes = match (dtype.kind, dtype.size) {
            // The file may be of either byte order; the typed reads convert it.
            (DtypeKind::Float, 4) => self.numbers(path, |d| d.read_f32(), f32::to_le_bytes)?,
            (DtypeKind::Float, _) => self.numbers(path, |d| d.read_f64(), f64::to_le_bytes)?,
            (DtypeKind::Int, 1) => self.numbers(path, |d| d.read_i8(), i8::to_le_bytes)?,
            (DtypeKind::Int, 2) => self.numbers(path, |d| d.read_i16(), i16::to_le_bytes)?,
            (DtypeKind::Int, 4) => self.numbers(path, |d| d.read_i32(), i32::to_le_bytes)?,
            (DtypeKind::Int, _) => self.numbers(path, |d| d.read_i64(), i64::to_le_bytes)?,
            (DtypeKind::UInt, 1) => self.numbers(path, |d| d.read_u8(), u8::to_le_bytes)?,
            (DtypeKind::UInt, 2) => self.numbers(path, |d| d.read_u16(), u16::to_le_bytes)?,
            (DtypeKind::UInt, 4) => self.numbers(path, |d| d.read_u32(), u32::to_le_bytes)?,
            (DtypeKind::UInt, _) => self.numbers(path, |d| d.read_u64(), u64::to_le_bytes)?,
            (DtypeKind::Bool | DtypeKind::Text, _) => {
                self.numbers(path, |d| d.read_raw(), |byte| [u8::from(byte != 0)])?
            }
        };
        // The product was compared with the memory.
        if to_u64(bytes.len()) != count * dtype.size {
            let expected = format!("{count} values");
            let found = (to_u64(bytes.len()) / dtype.size).to_string();
            return spot(path).refuse(Class::CountMismatch, &expected, found);
        }
        Ok(bytes)
    }

    /// Reads the numbers of an array, and encodes each.
    fn numbers<T, const N: usize>(
        &self,
        path: &str,
        read: impl FnOnce(&Dataset) -> Result<Vec<T>, hdf5_pure::Error>,
        encode: impl Fn(T) -> [u8; N],
    ) -> Result<Vec<u8>> {
        let values = self.catch_faults(path, |file| read(&file.dataset(path)?))?;
        Ok(values.into_iter().flat_map(encode).collect())
    }

    /// Reads the texts of an array, within the memory that is left. Numbers are formatted.
    pub(crate) fn read_texts(&self, path: &str) -> Result<Vec<String>> {
        self.reserve_memory(path, to_u64(size_of::<String>()))?;
        match self.dtype(path)? {
            DType::VariableLengthString => {
                let limit = saturating_usize(self.memory.get());
                let texts = self.catch_faults(path, |file| {
                    let options = VlenStringReadOptions::default().with_max_payload_bytes(limit);
                    file.dataset(path)?.read_vlen_strings(options)
                })?;
                let used_bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
                // The library kept to the limit.
                let left = self.memory.get().saturating_sub(used_bytes);
                self.memory.set(left);
                Ok(texts)
            }
            DType::String => {
                let width = self.catch_faults(path, |file| file.dataset(path)?.element_size())?;
                // The bytes of the array and the texts are in memory together.
                self.reserve_memory(path, width.saturating_mul(2))?; // above every limit
                self.catch_faults(path, |file| file.dataset(path)?.read_string())
            }
            _ => match self.number_type(path)? {
                Some(dtype) => {
                    let bytes = self.read_bytes(path, dtype)?;
                    let column = new_column(dtype, 1, bytes)?;
                    Ok((0..column.len()).map(|row| column.value(row, 0).to_string()).collect())
                }
                None => spot(path).refuse(Class::Unsupported, "text", "another type"),
            },
        }
    }

    /// Reserves `size` bytes for each value of an array, and returns the count of its values.
    fn reserve_memory(&self, path: &str, size: u64) -> Result<u64> {
        let shape = self.shape(path)?;
        let count = checked_product(&shape);
        let bytes = count.and_then(|count| count.checked_mul(size));
        let memory = self.memory.get();
        let (Some(count), Some(bytes)) = (count, bytes.filter(|bytes| *bytes <= memory)) else {
            let expected = format!("at most {memory} bytes, which have to be in memory at once");
            let fault =
                spot(path).error(Class::LimitExceeded, &expected, format!("an array of {shape:?}"));
            return Err(fault);
        };
        self.memory.set(memory - bytes);
        Ok(count)
    }

    /// Returns a text attribute of a group.
    pub(crate) fn text_attribute(&self, path: &str, name: &str) -> Result<Option<String>> {
        let found =
            self.catch_faults(path, |file| Ok(file.group(path)?.attrs()?.get(name).cloned()))?;
        Ok(found.as_ref().and_then(|value| value.as_str()).map(str::to_owned))
    }

    /// Returns an attribute of a group that is a list of texts; a missing one is empty.
    pub(crate) fn list_attribute(&self, path: &str, name: &str) -> Result<Vec<String>> {
        let found =
            self.catch_faults(path, |file| Ok(file.group(path)?.attrs()?.get(name).cloned()))?;
        let Some(value) = found else { return Ok(Vec::new()) };
        match (value.as_strings(), &value) {
            (Some(list), _) => Ok(list.to_vec()),
            (None, AttrValue::F64Array(list)) if list.is_empty() => Ok(Vec::new()), // as anndata writes no names
            (None, _) => {
                let found = format!("{name} of another type");
                spot(path).refuse(Class::BadTag, "a list of texts", found)
            }
        }
    }
}

/// Returns the target file of the HDF5 link message `name` (version 1, type 64, an external link).
///
/// ```text
/// 1, flags, 64, [creation order, 8], [character set, 1], size of the name, name,
/// size of the target u16, 0, file, 0, path, 0
/// ```
fn find_link(bytes: &[u8], name: &str) -> Option<String> {
    let size = u8::try_from(name.len()).ok()?;
    let pattern = [&[size], name.as_bytes()].concat();
    let matches = bytes.windows(pattern.len()).enumerate().filter(|(_, window)| *window == pattern);
    matches.map(|(at, _)| at).find_map(|at| {
        let check_header = |header_bytes: usize| {
            let start = at.checked_sub(header_bytes)?;
            let [version, flags, kind] = *bytes.get(start..)?.first_chunk::<3>()?;
            let order = if flags & 0x04 == 0 { 0 } else { 8 };
            let set = usize::from(flags & 0x10 != 0);
            let fits = header_bytes == 3 + order + set && flags & 0x0b == 0x08;
            (fits && version == 1 && kind == 64).then_some(())
        };
        [3, 4, 11, 12].into_iter().find_map(check_header)?;
        let target = bytes.get(at + pattern.len() + 3..)?;
        let file = target.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(file.get(..file.len().min(200))?).into_owned())
    })
}

/// Returns true for the names of the enum that h5py writes for booleans.
fn is_h5py_bool(names: &[String]) -> bool {
    names.len() == 2 && names.iter().all(|name| matches!(name.as_str(), "FALSE" | "TRUE"))
}

/// Maps the message of an error of the library to a class.
fn classify_error(text: &str) -> Class {
    let lower = text.to_ascii_lowercase();
    // The library follows a soft link to the undefined address, all ones.
    let has_no_address = lower.contains(&u64::MAX.to_string());
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["external", "unsupported", "virtual"]) {
        Class::Unsupported
    } else if has(&["limit", "depth", "too many", "cycle", "loop"]) {
        Class::LimitExceeded
    } else if has_no_address || has(&["not found", "no such", "missing"]) {
        Class::NotFound
    } else if has(&["eof", "end of file", "truncated", "beyond"]) {
        Class::Truncated
    } else {
        Class::Codec
    }
}

/// Checks the signature, and the end-of-file address against the length of the file.
fn check_superblock(source: &mut RandomFile) -> Result<()> {
    let len = source.len();
    let superblock = source.read(0, len.min(56), "the superblock")?;
    if !superblock.starts_with(b"\x89HDF\r\n\x1a\n") {
        let found = format!("{:02x?}", superblock.get(..8).unwrap_or(&superblock));
        return source.spot_at(0).refuse(Class::BadMagic, "the signature of HDF5", found);
    }
    let n = RecordNumbers::new(&superblock);
    let (offset_bytes, at) = match n.u8(8) {
        0 => (n.u8(13), 40),
        1 => (n.u8(13), 44),
        _ => (n.u8(9), 28),
    };
    if offset_bytes == 8 {
        let end = n.u64(at);
        let expected = format_args!("{end} bytes, as the superblock says");
        source.spot_at(at as u64).ensure(end <= len, Class::Truncated, expected, len)?;
    }
    Ok(())
}

/// The bytes of the file that are searched at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// The overlap of two windows: the longest link message that is found across them.
const MAX_LINK_BYTES: usize = 1 << 10;

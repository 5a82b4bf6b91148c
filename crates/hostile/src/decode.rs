//! Gives a blob to its decoder, the way a reader would.
//!
//! *Decode* means: parse, then visit every item once, lazily. *Resolve* adds what the surroundings know.
//! *Export* turns names into paths. A `.tet` file is only read when its payloads decode, so those are
//! decoded as well, in a second step ([`Kind::decode_payloads`]).

use std::fmt;
use std::hint::black_box;

use anyhow::{Context, bail};
use zvf_format::caterva::{Metalayer, MetalayerName};
use zvf_format::fragment::FragmentIndex;
use zvf_format::manifest::Manifest;
use zvf_format::ragged::Ragged;
use zvf_format::tet;
use zvf_format::vlen::VlenRows;
use zvf_format::{Class, FormatError, Hint};

use crate::corpus::{Case, Stage};
use crate::payload;

/// A decoder, and what it is told besides the blob.
#[derive(Debug)]
pub enum Kind {
    /// Fragment index; the number of rows when resolved.
    FragmentIndex {
        /// Rows of the payload.
        rows: Option<u64>,
    },
    /// Object manifest; grid and fragments when resolved.
    Manifest {
        /// Coordinates of a chunk.
        axes: u64,
        /// Extent of the grid, and fragments in every chunk of it.
        level: Option<(Vec<u64>, u64)>,
    },
    /// Ragged blob.
    Ragged {
        /// Bytes of an item.
        itemsize: u8,
        /// Items of a row.
        ncols: u32,
    },
    /// Framed byte strings.
    Vlen {
        /// How many.
        cells: u64,
    },
    /// Chunk index of a `.tet` file.
    Tidx {
        /// Bytes of the file, all of them payloads.
        file_len: u64,
    },
    /// A whole `.tet` file.
    Tet {
        /// Whether names become paths.
        export: bool,
    },
    /// Metalayer of a dense array.
    Caterva,
}

/// Why a blob was refused.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// By the format.
    Format(FormatError),
    /// By the codec of a payload.
    Payload(Class, &'static str),
}

impl Kind {
    /// The decoder of a case, or `None` when its kind is not known.
    ///
    /// # Errors
    ///
    /// When the case lacks a parameter.
    pub fn of(case: &Case) -> anyhow::Result<Option<Self>> {
        let resolve = case.stage == Stage::Resolve;
        let need = |name: &str| {
            case.params.number(name).with_context(|| format!("{} has no {name}", case.id))
        };
        Ok(Some(match case.kind.as_str() {
            "fragment_index" => {
                Self::FragmentIndex { rows: if resolve { Some(need("rows")?) } else { None } }
            }
            "manifest" => Self::Manifest { axes: need("sid_ndim")?, level: level(case)? },
            "ragged" => Self::Ragged {
                itemsize: need("itemsize")?.try_into()?,
                ncols: need("ncols")?.try_into()?,
            },
            "vlen" => Self::Vlen { cells: need("cells")? },
            "tidx" => Self::Tidx { file_len: need("file_len")? },
            "tet" => Self::Tet { export: case.stage == Stage::Export },
            "caterva" => Self::Caterva,
            _ => return Ok(None),
        }))
    }

    /// Decodes what is inside a blob that was accepted: the payloads of a `.tet` file. It is a step of
    /// its own because the memory of a codec is not that of the format.
    ///
    /// # Errors
    ///
    /// When a payload does not decode to what the index claims.
    pub fn decode_payloads(&self, blob: &[u8]) -> Result<(), Fault> {
        if !matches!(self, Self::Tet { .. }) {
            return Ok(());
        }
        for row in tet::File::parse(blob)?.index().rows() {
            payload::decode(blob, row)?;
        }
        Ok(())
    }

    /// What decoding payloads may hold, on top of the budget of the case.
    #[must_use]
    pub const fn payloads_hold(&self) -> usize {
        if matches!(self, Self::Tet { .. }) { payload::CODEC_HOLDS } else { 0 }
    }

    /// Decodes `blob` as far as the case goes.
    ///
    /// # Errors
    ///
    /// When the decoder refuses it.
    pub fn decode(&self, blob: &[u8], strict: bool) -> Result<(), Fault> {
        match self {
            Self::FragmentIndex { rows } => fragment_index(blob, *rows, strict),
            Self::Manifest { axes, level } => manifest(blob, *axes, level.as_ref()),
            Self::Ragged { itemsize, ncols } => ragged(blob, *itemsize, *ncols, strict),
            Self::Vlen { cells } => vlen(blob, *cells, strict),
            Self::Tidx { file_len } => tidx(blob, *file_len, strict),
            Self::Tet { export } => tet(blob, *export, strict),
            Self::Caterva => caterva(blob, strict),
        }
    }
}

/// Grid and fragment count of a manifest that is resolved.
fn level(case: &Case) -> anyhow::Result<Option<(Vec<u64>, u64)>> {
    if case.stage != Stage::Resolve {
        return Ok(None);
    }
    match (case.params.numbers("grid"), case.params.number("fragments")) {
        (Some(grid), Some(fragments)) => Ok(Some((grid, fragments))),
        _ => bail!("{} is to be resolved, but in which grid", case.id),
    }
}

fn fragment_index(blob: &[u8], rows: Option<u64>, strict: bool) -> Result<(), Fault> {
    let parse = if strict { FragmentIndex::parse_strict } else { FragmentIndex::parse };
    let index = parse(blob)?;
    for (f, fragment) in (0..).zip(index.iter()) {
        assert_eq!(index.row_count(f), Some(fragment.len()));
        black_box(fragment.rows().next());
    }
    black_box((index.extent(), index.rows_total(), index.tiles(rows.unwrap_or(0))));
    if let Some(rows) = rows {
        index.check_rows(rows)?;
    }
    Ok(())
}

fn manifest(blob: &[u8], axes: u64, level: Option<&(Vec<u64>, u64)>) -> Result<(), Fault> {
    let manifest = Manifest::parse(blob, axes)?;
    for block in manifest.blocks() {
        black_box((block.chunk, block.fragments.iter().next()));
    }
    black_box(manifest.len());
    if let Some((grid, fragments)) = level {
        manifest.check(|chunk| {
            let inside = chunk.iter().zip(grid).all(|(coordinate, extent)| {
                u64::try_from(coordinate.get()).is_ok_and(|coordinate| coordinate < *extent)
            });
            inside.then_some(*fragments)
        })?;
    }
    Ok(())
}

fn ragged(blob: &[u8], itemsize: u8, ncols: u32, strict: bool) -> Result<(), Fault> {
    let parse = if strict { Ragged::parse_strict } else { Ragged::parse };
    let ragged = parse(blob, itemsize, ncols)?;
    let groups: usize = ragged.groups().map(<[u8]>::len).sum();
    let rows: usize = ragged.rows().map(<[u8]>::len).sum();
    assert_eq!(groups, rows);
    Ok(())
}

fn vlen(blob: &[u8], cells: u64, strict: bool) -> Result<(), Fault> {
    let parse = if strict { VlenRows::parse_strict } else { VlenRows::parse };
    let rows = parse(blob, cells)?;
    assert_eq!(rows.iter().count(), rows.len());
    Ok(())
}

fn tidx(blob: &[u8], file_len: u64, strict: bool) -> Result<(), Fault> {
    let index = tet::Index::parse(blob, file_len)?;
    for row in index.rows() {
        black_box((row.chunk_index(), row.payload_end()));
    }
    if strict {
        index.lints().into_strict()?;
    }
    Ok(())
}

fn tet(blob: &[u8], export: bool, strict: bool) -> Result<(), Fault> {
    let parse = if strict { tet::File::parse_strict } else { tet::File::parse };
    let file = parse(blob)?;
    file.validate()?;
    if export {
        for dataset in file.directory().iter() {
            tet::check_export_name(dataset.name())?;
        }
    }
    Ok(())
}

fn caterva(blob: &[u8], strict: bool) -> Result<(), Fault> {
    let parse = if strict { Metalayer::parse_strict } else { Metalayer::parse };
    let metalayer = parse(MetalayerName::Caterva, blob)?;
    black_box((metalayer.partition().chunks(), metalayer.partition().blocks()));
    Ok(())
}

impl Fault {
    /// The class of it.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Format(error) => error.class,
            Self::Payload(class, _) => *class,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> Option<Hint> {
        match self {
            Self::Format(error) => error.hint(),
            Self::Payload(class, _) => class.hint(),
        }
    }
}

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Payload(class, what) => write!(f, "{class}: {what}"),
        }
    }
}

//! Runs the decoder of a blob, as a reader would.
//!
//! *Decode* means: parse, then visit every item once, lazily. *Resolve* adds facts of the
//! surrounding store. *Export* converts names to paths. A `.tet` file is only valid if its payloads
//! decode, so those are decoded as well, in a second step ([`Kind::decode_payloads`]).

use std::hint::black_box;

use anyhow::bail;
use zvf_b2nd::{Metalayer, MetalayerName};
use zvf_format::fragment::FragmentIndex;
use zvf_format::link::{Body, LinkCell, LinkInteger, RowShape};
use zvf_format::manifest::Manifest;
use zvf_format::ragged::Ragged;
use zvf_format::shard::ShardIndex;
use zvf_format::vlen::VlenRows;
use zvf_tet as tet;

use super::corpus::{Case, Stage};
use super::document::Document;
use super::fault::Fault;
use super::{frame, payload};

/// A decoder, and its parameters.
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
    /// Link rows of one cell; the rows of each endpoint's chunk when resolved.
    LinkCell {
        /// How rows are framed.
        body: Body,
        /// The layout of a row.
        shape: RowShape,
        /// Rows of the chunks, in placement order.
        rows: Option<Vec<u64>>,
    },
    /// Framed byte strings.
    Vlen {
        /// Their number.
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
    Metalayer(MetalayerName),
    /// A whole frame.
    Frame,
    /// Index of a shard.
    ShardIndex {
        /// Inner cells.
        cells: u64,
        /// Whether a checksum follows.
        checksum: bool,
    },
    /// A metadata document.
    Document(Document),
}

impl Kind {
    /// Returns the decoder of a case, or `None` when its kind is unknown.
    ///
    /// # Errors
    ///
    /// When the case lacks a parameter.
    pub fn for_case(case: &Case) -> anyhow::Result<Option<Self>> {
        let resolve = case.stage == Stage::Resolve;
        let need = |name: &str| case.number(name);
        Ok(Some(match case.kind.as_str() {
            "fragment_index" => {
                Self::FragmentIndex { rows: if resolve { Some(need("rows")?) } else { None } }
            }
            "manifest" => Self::Manifest { axes: need("sid_ndim")?, level: level(case)? },
            "ragged" => Self::Ragged {
                itemsize: need("itemsize")?.try_into()?,
                ncols: need("ncols")?.try_into()?,
            },
            "link_cell" => link_kind(case)?,
            "vlen" => Self::Vlen { cells: need("cells")? },
            "tidx" => Self::Tidx { file_len: need("file_len")? },
            "tet" => Self::Tet { export: case.stage == Stage::Export },
            "caterva" => Self::Metalayer(MetalayerName::Caterva),
            "b2nd" => Self::Metalayer(MetalayerName::B2nd),
            "frame" => Self::Frame,
            "shard_index" => Self::ShardIndex {
                cells: need("cells")?,
                checksum: case.params["checksum"] == true,
            },
            "root_json" => Self::Document(Document::Root),
            "level_json" => Self::Document(Document::Level),
            "array_json" => Self::Document(Document::Array),
            _ => return Ok(None),
        }))
    }

    /// Decodes the payloads of an accepted `.tet` file. This is a separate step because the codec
    /// needs more memory than the format.
    ///
    /// # Errors
    ///
    /// When a payload does not decode to the length in the index.
    pub fn decode_payloads(&self, blob: &[u8]) -> Result<(), Fault> {
        if !matches!(self, Self::Tet { .. }) {
            return Ok(());
        }
        for row in tet::TetView::parse(blob)?.index().rows() {
            payload::decode(blob, row)?;
        }
        Ok(())
    }

    /// Returns the memory limit of decoding payloads, in addition to the budget of the case.
    #[must_use]
    pub const fn payloads_hold(&self) -> usize {
        if matches!(self, Self::Tet { .. }) { payload::CODEC_HOLDS } else { 0 }
    }

    /// Returns the memory limit for decoding a blob of `bytes` bytes (guarantee R3). Documents are
    /// trees: a value of one character takes a node of many bytes.
    #[must_use]
    pub const fn may_hold(&self, bytes: usize) -> usize {
        let per_byte = if matches!(self, Self::Document(_)) { 256 } else { 4 };
        bytes.saturating_mul(per_byte).saturating_add(4096)
    }

    /// Decodes `blob` up to the step of the case.
    ///
    /// # Errors
    ///
    /// When the decoder refuses it.
    pub fn decode(&self, blob: &[u8], strict: bool) -> Result<(), Fault> {
        match self {
            Self::FragmentIndex { rows } => fragment_index(blob, *rows, strict),
            Self::Manifest { axes, level } => manifest(blob, *axes, level.as_ref()),
            Self::Ragged { itemsize, ncols } => ragged(blob, *itemsize, *ncols, strict),
            Self::LinkCell { body, shape, rows } => {
                link_cell(blob, *body, *shape, rows.as_deref(), strict)
            }
            Self::Vlen { cells } => vlen(blob, *cells, strict),
            Self::Tidx { file_len } => tidx(blob, *file_len, strict),
            Self::Tet { export } => tet(blob, *export, strict),
            Self::Metalayer(name) => metalayer(*name, blob, strict),
            Self::Frame => Ok(frame::walk(blob, strict)?),
            Self::ShardIndex { cells, checksum } => {
                let index = ShardIndex::parse(blob, *cells, *checksum)?;
                assert_eq!(index.iter().count(), index.len());
                Ok(())
            }
            Self::Document(document) => {
                document.decode(blob).map_err(|error| Fault::Document(error.class()))
            }
        }
    }
}

/// Returns grid and fragment count for resolving a manifest.
fn level(case: &Case) -> anyhow::Result<Option<(Vec<u64>, u64)>> {
    if case.stage != Stage::Resolve {
        return Ok(None);
    }
    match (case.numbers("grid"), case.params["fragments"].as_u64()) {
        (Some(grid), Some(fragments)) => Ok(Some((grid, fragments))),
        _ => bail!("{} is to be resolved, but in which grid", case.id),
    }
}

fn link_kind(case: &Case) -> anyhow::Result<Kind> {
    let body = match case.params["branch"].as_str() {
        Some("inline") => Body::Inline,
        Some("flat") => Body::Flat,
        _ => bail!("{} says not how its rows are wrapped", case.id),
    };
    let element = LinkInteger::new(case.number("itemsize")?.try_into()?, true)?;
    let has_perm = case.params["has_perm"] == true;
    let shape = RowShape::new(element, case.number("link_width")?.try_into()?, has_perm)?;
    let rows = if case.stage == Stage::Resolve { case.numbers("rows") } else { None };
    Ok(Kind::LinkCell { body, shape, rows })
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

fn link_cell(
    blob: &[u8],
    body: Body,
    shape: RowShape,
    rows: Option<&[u64]>,
    strict: bool,
) -> Result<(), Fault> {
    let parse = if strict { LinkCell::parse_strict } else { LinkCell::parse };
    let cell = parse(blob, body, shape)?;
    assert_eq!(cell.records().count(), cell.len());
    if let Some(rows) = rows {
        cell.check_rows(rows)?;
    }
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
    let parse = if strict { tet::TetView::parse_strict } else { tet::TetView::parse };
    let file = parse(blob)?;
    file.validate()?;
    if export {
        for dataset in file.directory().iter() {
            tet::check_export_name(dataset.name())?;
        }
    }
    Ok(())
}

fn metalayer(name: MetalayerName, blob: &[u8], strict: bool) -> Result<(), Fault> {
    let parse = if strict { Metalayer::parse_strict } else { Metalayer::parse };
    let metalayer = parse(name, blob)?;
    black_box((metalayer.partition().chunks(), metalayer.partition().blocks()));
    Ok(())
}

//! Runs the decoder of a blob, as a reader would.
//!
//! *Decode* means: parse, then visit every item once, lazily ([`Kind::read`]). *Resolve* adds facts
//! of the surrounding store. *Export* converts names to paths. A `.tet` file is only valid if its
//! payloads decode, so those are decoded as well, in a second step ([`Kind::decode_payloads`]).
//!
//! A frame is walked without a codec: header, metalayers, trailer, and for each stored chunk its
//! header and the spans of its blocks. Payloads are decoded in pieces that are dropped; their codec
//! keeps tables and a window, which the budget of a case does not include: a reader limits the
//! window instead.

use std::fmt::Debug;
use std::hint::black_box;
use std::io::Read;
use std::ops::Range;

use anyhow::bail;
use ruzstd::decoding::StreamingDecoder;
use zvf_b2nd::{
    BlockTable, ChunkHeader, ChunkPlace, Container, Frame, FrameTrailer, Metalayer, MetalayerName,
};
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::link::{Body, LinkCell, LinkInteger, RowShape};
use zvf_format::manifest::{BlockFragments, Manifest};
use zvf_format::ragged::Ragged;
use zvf_format::shard::ShardIndex;
use zvf_format::vlen::VlenRows;
use zvf_format::{Class, FormatError};
use zvf_metadata::{ArrayDoc, GroupDoc, LevelDoc, MetadataError, Root, validate};
use zvf_tet as tet;

use super::corpus::{Case, LastStep};
use super::fault::Refused;

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
        let resolve = case.stage == LastStep::Resolve;
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
            "tet" => Self::Tet { export: case.stage == LastStep::Export },
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
    pub fn decode_payloads(&self, blob: &[u8]) -> Result<(), Refused> {
        if !matches!(self, Self::Tet { .. }) {
            return Ok(());
        }
        for row in tet::TetView::parse(blob)?.index().rows() {
            decode_payload(blob, row)?;
        }
        Ok(())
    }

    /// Returns the memory limit of decoding payloads, in addition to the budget of the case.
    pub const fn payloads_hold(&self) -> usize {
        if matches!(self, Self::Tet { .. }) { CODEC_HOLDS } else { 0 }
    }

    /// Returns the memory limit for decoding a blob of `bytes` bytes (guarantee R3). Documents are
    /// trees: a value of one character takes a node of many bytes.
    pub const fn may_hold(&self, bytes: usize) -> usize {
        let per_byte = if matches!(self, Self::Document(_)) { 256 } else { 4 };
        bytes.saturating_mul(per_byte).saturating_add(4096)
    }

    /// Decodes `blob` up to the step of the case.
    ///
    /// # Errors
    ///
    /// When the decoder refuses it.
    pub fn decode(&self, blob: &[u8], strict: bool) -> Result<(), Refused> {
        self.read(blob, strict, &mut |item| {
            item.for_each(|number| {
                black_box(number);
            });
        })?;
        match self {
            Self::FragmentIndex { rows: Some(rows) } => {
                FragmentIndex::parse(blob)?.check_rows(*rows)?;
            }
            Self::Manifest { axes, level: Some((grid, fragments)) } => {
                Manifest::parse(blob, *axes)?.check(|chunk| {
                    let inside = chunk.iter().zip(grid).all(|(coordinate, extent)| {
                        u64::try_from(coordinate.get()).is_ok_and(|coordinate| coordinate < *extent)
                    });
                    inside.then_some(*fragments)
                })?;
            }
            Self::LinkCell { body, shape, rows: Some(rows) } => {
                LinkCell::parse(blob, *body, *shape)?.check_rows(rows)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Parses `blob`, and visits each item as a list of numbers:
    ///
    /// ```text
    /// fragment index   RANGE, start, count; or LIST, rows
    /// manifest         coordinates of the chunk, mode, numbers of the block
    /// ragged, vlen     the bytes of a group, of a string
    /// link cell        the code, if there is one, then the endpoints
    /// shard index      first byte and end of a cell; nothing if it is absent
    /// tidx             dataset, eight coordinates, offset, raw and stored length, codec
    /// metalayer        shape, chunk, block; the bytes of the type, if there is one
    /// others           no items
    /// ```
    ///
    /// # Errors
    ///
    /// When the decoder refuses it.
    pub fn read(&self, blob: &[u8], strict: bool, visit: Visit<'_>) -> Result<(), Refused> {
        match self {
            Self::FragmentIndex { rows } => {
                let parse = if strict { FragmentIndex::parse_strict } else { FragmentIndex::parse };
                let index = parse(blob)?;
                for (f, fragment) in (0..).zip(index.iter()) {
                    assert_eq!(index.row_count(f), Some(fragment.len()));
                    black_box(fragment.rows().next());
                    match fragment {
                        Fragment::Range { start, count } => {
                            visit(&mut [RANGE, start.into(), count.into()].into_iter());
                        }
                        Fragment::Rows(rows) => {
                            let rows = rows.iter().map(|row| i128::from(row.get()));
                            visit(&mut [LIST].into_iter().chain(rows));
                        }
                    }
                }
                black_box((index.extent(), index.rows_total(), index.tiles(rows.unwrap_or(0))));
            }
            Self::Manifest { axes, .. } => read_manifest(&Manifest::parse(blob, *axes)?, visit),
            Self::Ragged { itemsize, ncols } => {
                let parse = if strict { Ragged::parse_strict } else { Ragged::parse };
                let ragged = parse(blob, *itemsize, *ncols)?;
                ragged.groups().for_each(|group| visit(&mut to_numbers(group)));
                let groups: usize = ragged.groups().map(<[u8]>::len).sum();
                let rows: usize = ragged.rows().map(<[u8]>::len).sum();
                assert_eq!(groups, rows);
            }
            Self::LinkCell { body, shape, .. } => {
                let parse = if strict { LinkCell::parse_strict } else { LinkCell::parse };
                let cell = parse(blob, *body, *shape)?;
                assert_eq!(cell.records().count(), cell.len());
                for record in cell.records() {
                    let code = shape.has_perm().then(|| i128::from(record.order().code()));
                    let rows = record.rows().iter().map(|row| i128::from(*row));
                    visit(&mut code.into_iter().chain(rows));
                }
            }
            Self::Vlen { cells } => {
                let parse = if strict { VlenRows::parse_strict } else { VlenRows::parse };
                let rows = parse(blob, *cells)?;
                assert_eq!(rows.iter().count(), rows.len());
                rows.iter().for_each(|row| visit(&mut to_numbers(row)));
            }
            Self::Tidx { file_len } => {
                let index = tet::Index::parse(blob, *file_len)?;
                for row in index.rows() {
                    let lengths = [row.payload_offset(), row.raw_byte_len(), row.stored_byte_len()];
                    let codec = u64::from(row.codec() == tet::TensorCodec::Zstd);
                    let place = [row.dataset_id()].into_iter().chain(row.chunk_index());
                    visit(&mut place.chain(lengths).chain([codec]).map(i128::from));
                    black_box(row.payload_end());
                }
                if strict {
                    index.lints().into_strict()?;
                }
            }
            Self::Tet { export } => tet(blob, *export, strict)?,
            Self::Metalayer(name) => {
                let parse = if strict { Metalayer::parse_strict } else { Metalayer::parse };
                let metalayer = parse(*name, blob)?;
                let partition = metalayer.partition();
                black_box((partition.chunks(), partition.blocks()));
                for axes in [partition.shape(), partition.chunkshape(), partition.blockshape()] {
                    visit(&mut axes.as_slice().iter().map(|extent| i128::from(*extent)));
                }
                metalayer.dtype().into_iter().for_each(|text| visit(&mut to_numbers(text)));
            }
            Self::Frame => walk_frame(blob, strict)?,
            Self::ShardIndex { cells, checksum } => {
                let index = ShardIndex::parse(blob, *cells, *checksum)?;
                assert_eq!(index.iter().count(), index.len());
                for cell in index.iter() {
                    let ends = cell.map(|span| [span.start, span.end].map(i128::from));
                    visit(&mut ends.into_iter().flatten());
                }
            }
            Self::Document(document) => {
                document.decode(blob).map_err(|error| Refused::Document(error.class()))?;
            }
        }
        Ok(())
    }
}

/// A function that visits each item of a blob.
pub type Visit<'a> = &'a mut dyn FnMut(&mut dyn Iterator<Item = i128>);

/// The first number of a fragment.
pub const RANGE: i128 = 0;
/// The first number of a fragment that lists its rows.
pub const LIST: i128 = 1;

/// Returns grid and fragment count for resolving a manifest.
fn level(case: &Case) -> anyhow::Result<Option<(Vec<u64>, u64)>> {
    if case.stage != LastStep::Resolve {
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
    let rows = if case.stage == LastStep::Resolve { case.numbers("rows") } else { None };
    Ok(Kind::LinkCell { body, shape, rows })
}

fn read_manifest(manifest: &Manifest<'_>, visit: Visit<'_>) {
    for block in manifest.blocks() {
        black_box(block.fragments.iter().next());
        let chunk = || block.chunk.iter().map(|coordinate| i128::from(coordinate.get()));
        match block.fragments {
            BlockFragments::Single(fragment) => visit(&mut chunk().chain([0, fragment.into()])),
            BlockFragments::Range { start, count } => {
                visit(&mut chunk().chain([1, start.into(), count.into()]));
            }
            BlockFragments::Explicit(list) => {
                visit(&mut chunk().chain([2]).chain(list.iter().map(|n| i128::from(n.get()))));
            }
        }
    }
    black_box(manifest.len());
}

fn to_numbers(bytes: &[u8]) -> impl Iterator<Item = i128> {
    bytes.iter().map(|byte| i128::from(*byte))
}

fn tet(blob: &[u8], export: bool, strict: bool) -> Result<(), Refused> {
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

/// The type of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// Of the root group.
    Root,
    /// Of a level group.
    Level,
    /// Of an array.
    Array,
}

impl Document {
    /// Reads and prints `text`.
    fn decode(self, text: &[u8]) -> Result<(), MetadataError> {
        match self {
            Self::Root => {
                let root = Root::parse(text)?;
                black_box((validate(&root, &[]), root.ome(), root.zarr_vectors.attribute_specs()));
                check_round_trip(&root, &root.print(), Root::parse);
            }
            Self::Level => {
                let level = LevelDoc::parse(text)?;
                check_round_trip(&level, &level.print(), LevelDoc::parse);
            }
            Self::Array => {
                let array = ArrayDoc::parse(text)?;
                black_box((array.items(), array.chunk_bytes(), array.inner_chunk_shape()));
                check_round_trip(&array, &array.print(), ArrayDoc::parse);
            }
        }
        if let Ok(group) = GroupDoc::parse(text) {
            check_round_trip(&group, &group.print(), GroupDoc::parse);
        }
        Ok(())
    }
}

/// Checks that the printed document parses to the same document and prints to the same text.
fn check_round_trip<T: PartialEq + Debug>(
    document: &T,
    printed: &str,
    parse: impl Fn(&[u8]) -> Result<T, MetadataError>,
) {
    match parse(printed.as_bytes()) {
        Ok(again) => assert_eq!(again, *document, "printed {printed}"),
        Err(error) => panic!("{error}, in what was printed: {printed}"),
    }
}

/// The largest number of visited chunks: a header of a few bytes may claim any number.
const CHUNKS: u64 = 1000;

/// Opens and walks `bytes`.
fn walk_frame(bytes: &[u8], strict: bool) -> Result<(), FormatError> {
    let len = u64::try_from(bytes.len()).unwrap();
    let frame = Frame::open_whole(Container::File(len), bytes)?;
    let trailer = FrameTrailer::parse(slice(bytes, &frame.trailer_range()))?;
    if strict {
        frame.header().lints().into_strict()?;
        frame.metalayer().lints().into_strict()?;
        trailer.lints().into_strict()?;
    }
    for entry in frame.header().metalayers().chain(trailer.entries()) {
        black_box(entry);
    }
    let Some(head) = frame.offsets_head() else { return Ok(()) };
    let head = ChunkHeader::parse(slice(bytes, &head))?;
    frame.offsets_range(&head)?;
    for number in 0..frame.geometry().chunk_count().min(CHUNKS) {
        let Some(entry) = frame.offset_entry(&head, number) else { break };
        let Some(entry) = slice(bytes, &entry).first_chunk::<8>() else { break };
        if let ChunkPlace::Frame(at) = frame.place(*entry)? {
            let room = frame.room(at);
            check_chunk(&frame, slice(bytes, &(at..at.saturating_add(room))), room)?;
        }
    }
    Ok(())
}

/// Checks one chunk and the spans of its blocks.
fn check_chunk(frame: &Frame<'_>, bytes: &[u8], room: u64) -> Result<(), FormatError> {
    let header = ChunkHeader::parse(bytes)?;
    frame.check_chunk(&header, room)?;
    let front = usize::try_from(frame.chunk_front(room)).unwrap();
    let table = BlockTable::parse(&header, bytes.get(..front).unwrap_or(bytes))?;
    for block in 0..header.block_count().min(1000) {
        if let Some(span) = table.span(block) {
            assert!(span.start <= span.end && span.end <= room, "block {block} leaves its chunk");
        }
    }
    Ok(())
}

/// Returns the part of a range inside of `bytes`.
fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let at = |at| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[at(range.start)..at(range.end)]
}

/// Decodes the payload of one row.
fn decode_payload(file: &[u8], row: &tet::Row) -> Result<(), Refused> {
    let claimed = row.decoded_len(tet::DECODED_CAP)?;
    if row.codec() == tet::TensorCodec::Raw {
        return Ok(()); // as long as it claims: the index checked that
    }
    let from = usize::try_from(row.payload_offset());
    let to = usize::try_from(row.payload_end());
    let stored = from.ok().zip(to.ok()).and_then(|(from, to)| file.get(from..to));
    let stored = stored.ok_or(Refused::Payload(Class::OutOfBounds, "outside the file"))?;
    decode_frames(stored, claimed)
}

/// Decodes frames until the stored bytes end.
fn decode_frames(mut stored: &[u8], claimed: u64) -> Result<(), Refused> {
    let mut decoded = 0;
    while !stored.is_empty() {
        let frame = StreamingDecoder::new(&mut stored);
        let mut frame = frame.map_err(|_source| Refused::Payload(Class::Codec, "no zstd frame"))?;
        // The length in the header is checked and never allocated. 0 means that none is stated.
        if frame.decoder.content_size() > claimed {
            return Err(Refused::Payload(
                Class::CountMismatch,
                "promises more than the index claims",
            ));
        }
        loop {
            let mut piece = [0; 4096];
            let read = frame.read(&mut piece);
            match read.map_err(|_source| Refused::Payload(Class::Codec, "the frame breaks off"))? {
                0 => break,
                n => decoded += u64::try_from(n).unwrap(),
            }
            if decoded > claimed {
                return Err(Refused::Payload(
                    Class::CountMismatch,
                    "decodes to more than it claims",
                ));
            }
        }
    }
    if decoded == claimed {
        Ok(())
    } else {
        Err(Refused::Payload(Class::CountMismatch, "decodes to less than it claims"))
    }
}

/// The memory limit of the codec in bytes: the largest window a reader allows, and tables.
const CODEC_HOLDS: usize = (1 << 27) + (1 << 20);

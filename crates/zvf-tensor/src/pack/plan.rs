//! The datasets of each array of a store.
//!
//! Sizes of cells are read first, because the directory of the file precedes the cells; the cells
//! are read when they are written.

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_metadata::{ArrayDoc, DataTypeKind, DtypeKind};
use zvf_store::{Cells, DenseArray, Key, Rows, Store};
use zvf_tet::pack::{CELLS_SUFFIX, Carrier, DOCUMENTS, cells_geometry, encode_cells};
use zvf_tet::{TensorDtype, TileGeometry};

use super::options::PackOptions;
use crate::tet::NewTensor;

/// One dataset of the pack, and the source of its bytes.
pub(super) struct PackPart {
    pub(super) tensor: NewTensor,
    pub(super) content: Content,
}

/// The bytes of a dataset.
pub(super) enum Content {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// The payloads of these cells, with their expected lengths.
    Cells(Cells, Vec<(ChunkKey, u64)>),
    /// These rows, with their expected lengths.
    Rows(Rows, Vec<(u64, u64)>),
    /// The items of an array.
    Items(DenseArray),
}

/// Returns the dataset of the documents.
pub(super) fn documents(text: Vec<u8>, options: &PackOptions) -> Result<PackPart> {
    let len = to_u64(text.len());
    let tensor = strip(DOCUMENTS, TensorDtype::U8, &[len], options)?;
    Ok(PackPart { tensor, content: Content::Bytes(text) })
}

/// Returns the datasets of the array of `doc` at `key`; none if it stores nothing.
pub(super) async fn array(
    store: &Store,
    key: &Key,
    doc: &ArrayDoc,
    options: &PackOptions,
) -> Result<Vec<PackPart>> {
    match doc.data_type.kind() {
        DataTypeKind::Fixed(_) => items(store, key, doc, options).await,
        DataTypeKind::VariableLengthBytes if is_cells(doc) => cells(store, key, doc, options).await,
        DataTypeKind::VariableLengthBytes if doc.rank() == 1 => rows(store, key, options).await,
        DataTypeKind::VariableLengthBytes
        | DataTypeKind::PaddedBytes(_)
        | DataTypeKind::Other(_) => {
            let error = Error::new(
                Class::Unsupported,
                "data_type of an array to be packed",
                "items of one size, or bytes",
                "another one",
            );
            Err(error.at_key(key))
        }
    }
}

/// Returns whether each chunk of a byte array is one cell of a grid.
pub(super) fn is_cells(doc: &ArrayDoc) -> bool {
    let alone = doc.inner_chunk_shape().iter().all(|&items| items == 1);
    let over_grid = doc.rank() > 1
        || doc.nonempty_chunks.is_some()
        || doc.attributes.contains_key("chunk_grid_origin");
    alone && over_grid
}

async fn cells(
    store: &Store,
    key: &Key,
    doc: &ArrayDoc,
    options: &PackOptions,
) -> Result<Vec<PackPart>> {
    let Some(cells) = store.nodes().cells(key.as_str()).await? else { return Ok(Vec::new()) };
    let present = cells.presence().await?;
    let keys: Vec<ChunkKey> = present.iter().collect();
    let mut sized = Vec::with_capacity(keys.len());
    for keys in keys.chunks(SIZE_BATCH) {
        for (key, size) in keys.iter().zip(cells.sizes(keys).await) {
            if let Some(size) = size?.filter(|size| *size > 0) {
                sized.push((*key, size));
            }
        }
    }
    let axes = store.root().axes().len();
    let row = Row::from_doc(doc, axes, sized.iter().map(|(_, size)| *size));
    let spans = sized.iter().map(|(key, size)| (key.components(), row.count(*size)));
    let table = encode_cells(doc.rank(), spans)?;
    table_and_values(key, doc.rank(), table, &row, Content::Cells(cells, sized), options)
}

async fn rows(store: &Store, key: &Key, options: &PackOptions) -> Result<Vec<PackPart>> {
    let Some(rows) = store.nodes().rows(key.as_str()).await? else { return Ok(Vec::new()) };
    let (mut sized, mut at, len) = (Vec::new(), 0_u64, rows.count().await?);
    while at < len {
        let end = (at + to_u64(SIZE_BATCH)).min(len);
        for (place, row) in (at..end).zip(rows.range(at..end).await?) {
            if !row.is_empty() {
                sized.push((place, to_u64(row.len())));
            }
        }
        at = end;
    }
    let row = Row::BYTES;
    let span = |(place, size): &(u64, u64)| Some(([i64::try_from(*place).ok()?], *size));
    let spans: Option<Vec<([i64; 1], u64)>> = sized.iter().map(span).collect();
    let table = encode_cells(1, spans.ok_or_else(|| too_large_error(key))?)?;
    table_and_values(key, 1, table, &row, Content::Rows(rows, sized), options)
}

fn table_and_values(
    key: &Key,
    rank: usize,
    table: Vec<u8>,
    row: &Row,
    content: Content,
    options: &PackOptions,
) -> Result<Vec<PackPart>> {
    let total: u64 = match &content {
        Content::Cells(_, sized) => sized.iter().fold(0, |sum, (_, n)| sum + *n),
        Content::Rows(_, sized) => sized.iter().fold(0, |sum, (_, n)| sum + *n),
        Content::Bytes(_) | Content::Items(_) => 0,
    };
    let columns = (to_u64(rank) + 2) * TensorDtype::I64.size();
    let count = to_u64(table.len()) / columns;
    if total == 0 {
        return Ok(Vec::new());
    }
    let shape = [&[row.count(total)], row.shape.as_slice()].concat();
    let values = strip(key.as_str(), row.element, &shape, options)?;
    let name = [key.as_str(), CELLS_SUFFIX].concat();
    let geometry = cells_geometry(count, rank).ok_or_else(|| too_large_error(key))?;
    let table = PackPart {
        tensor: NewTensor::from_geometry(&name, geometry),
        content: Content::Bytes(table),
    };
    Ok(vec![PackPart { tensor: values, content }, table])
}

async fn items(
    store: &Store,
    key: &Key,
    doc: &ArrayDoc,
    options: &PackOptions,
) -> Result<Vec<PackPart>> {
    let Some(dense) = store.nodes().dense(key.as_str()).await? else { return Ok(Vec::new()) };
    let width = dense.dtype().size;
    let bytes = dense.shape().iter().try_fold(width, |bytes, extent| bytes.checked_mul(*extent));
    let bytes = bytes.ok_or_else(|| too_large_error(key))?;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let is_text = dense.dtype().kind == DtypeKind::Text;
    let name = if is_text { TEXT.to_owned() } else { dense.dtype().to_string() };
    let carrier =
        Carrier::for_data_type(&name, Some(width)).filter(|carrier| carrier.value_size() == width);
    let chunk: Vec<u64> = doc.inner_chunk_shape().to_vec();
    let typed = carrier.and_then(|carrier| carrier.geometry(dense.shape(), &chunk));
    let tensor = match typed {
        Some(geometry) => {
            NewTensor::from_geometry(key.as_str(), geometry).with_compression(options.compression)
        }
        None => strip(key.as_str(), TensorDtype::U8, &[bytes], options)?,
    };
    Ok(vec![PackPart { tensor, content: Content::Items(dense) }])
}

/// Describes a dataset that is read by byte range: one chunk, or chunks of some size along the
/// first axis.
fn strip(
    name: &str,
    element: TensorDtype,
    shape: &[u64],
    options: &PackOptions,
) -> Result<NewTensor> {
    let mut chunk = shape.to_vec();
    if options.compression != crate::tet::Compression::None {
        // The length in bytes of one index of the first axis. A length that exceeds 64 bits is
        // refused below.
        let rest = shape.iter().skip(1).fold(element.size(), |n, extent| n.saturating_mul(*extent));
        if let Some(first) = chunk.first_mut() {
            *first = (*first).min(CHUNK.checked_div(rest).unwrap_or(1)).max(1);
        }
    }
    Ok(NewTensor::new(name, element, shape, &chunk)?.with_compression(options.compression))
}

/// The row of the payloads of an array.
struct Row {
    element: TensorDtype,
    shape: Vec<u64>,
    bytes: u64, // not 0
}

impl Row {
    const BYTES: Self = Self { element: TensorDtype::U8, shape: Vec::new(), bytes: 1 };

    /// Returns the number type of the document if all payloads are whole rows of it; otherwise
    /// bytes.
    fn from_doc(doc: &ArrayDoc, axes: usize, sizes: impl Iterator<Item = u64>) -> Self {
        let text = |key: &str| doc.attributes.get(key).and_then(|value| value.as_str());
        let shape = match text("zv_array") {
            Some("vertices") => Some(vec![to_u64(axes)]),
            Some("attribute") => {
                let extents = |value: &serde_json::Value| {
                    value.as_array()?.iter().map(serde_json::Value::as_u64).collect()
                };
                doc.attributes.get("row_shape").map_or(Some(Vec::new()), extents)
            }
            _ => None,
        };
        let carrier = text("dtype").and_then(|name| Carrier::for_data_type(name, None));
        let typed = shape.zip(carrier).and_then(|(shape, carrier)| {
            let geometry = carrier
                .geometry(&[&[1], shape.as_slice()].concat(), &[&[1], shape.as_slice()].concat())?;
            Self::from_geometry(&geometry)
        });
        typed
            .filter(|row| sizes.into_iter().all(|size| size.checked_rem(row.bytes) == Some(0)))
            .unwrap_or(Self::BYTES)
    }

    fn from_geometry(geometry: &TileGeometry) -> Option<Self> {
        let shape = geometry.shape().get(1..)?.to_vec();
        let bytes = geometry.byte_len();
        (bytes > 0).then_some(Self { element: geometry.element(), shape, bytes })
    }

    fn count(&self, bytes: u64) -> u64 {
        bytes / self.bytes
    }
}

fn too_large_error(key: &Key) -> Error {
    Error::new(
        Class::Overflow,
        "shape of an array to be packed",
        "a product below 2^64 bytes",
        "more",
    )
    .at_key(key)
}

/// The data type of fixed-width text.
const TEXT: &str = "fixed_length_utf32";
/// The number of cells or rows whose sizes are read at once.
const SIZE_BATCH: usize = 256;
/// The bytes of one compressed chunk.
const CHUNK: u64 = 1 << 20;

//! Arrays over the chunk grid: one array per chunk becomes one array, cell for cell.
//!
//! Payloads are copied byte for byte. Documents are completed if old writers omitted values that
//! new readers need: types, widths, names of channels.

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use zvf_error::{Error, Locate as _, Result};
use zvf_format::fragment::FragmentIndex;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::arrays::{ArrayAttributes as _, Column, FragmentsAttrs, Vertices};
use zvf_metadata::{CellEncoding, Object, Token};
use zvf_model::{BadColumn, LevelReader};
use zvf_store::{Build, Caching, CellPlan, CellSink, Cells};

use crate::options::Migration;
use crate::progress::Progress;

/// The destination of the cells of a level.
pub(crate) struct Target<'a> {
    pub(crate) reader: &'a LevelReader,
    pub(crate) build: &'a Build,
    pub(crate) migration: &'a Migration,
    pub(crate) low: Vec<i64>,  // of the grid; empty where it is unknown
    pub(crate) high: Vec<i64>, // likewise
    pub(crate) progress: Progress<'a>,
}

/// Facts about the rows of a level, known after all were read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rows {
    /// The number of rows; unknown if cells are encoded.
    pub(crate) rows: Option<u64>,
    /// Whether the fragments of each chunk partition its rows in order.
    pub(crate) tile: bool,
}

impl Target<'_> {
    /// Returns the path of `below` in the level.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.reader.node().path())
    }

    /// Plans an array with room for the grid and for `keys`.
    pub(crate) fn plan(&self, keys: &[ChunkKey], mut attributes: Object) -> CellPlan {
        for gone in ["nonempty_chunks", "chunk_grid_origin", "shard_index"] {
            attributes.shift_remove(gone);
        }
        let rank = self.reader.key_rank();
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        for key in keys {
            if low.is_empty() {
                (low, high) = (key.components().to_vec(), key.components().to_vec());
            }
            low.iter_mut().zip(key.components()).for_each(|(low, at)| *low = (*low).min(*at));
            high.iter_mut().zip(key.components()).for_each(|(high, at)| *high = (*high).max(*at));
        }
        if low.is_empty() {
            (low, high) = (vec![0; rank], vec![0; rank]);
        }
        let shard = self.migration.shard.as_deref().map(|shape| fit_shape(shape, rank));
        CellPlan { rank, low, high, attributes, codecs: self.migration.codecs.clone(), shard }
    }

    /// Divides `keys` into runs that are read and written at once, each with a flag that a shard
    /// ends with it.
    pub(crate) fn runs(&self, sink: &CellSink, keys: Vec<ChunkKey>) -> Result<Vec<Vec<ChunkKey>>> {
        if self.migration.shard.is_none() {
            return Ok(keys.chunks(COPY_BATCH_CELLS).map(<[ChunkKey]>::to_vec).collect());
        }
        let mut keyed = Vec::with_capacity(keys.len());
        for key in keys {
            keyed.push((sink.shard_key(&key)?, key));
        }
        keyed.sort_by(|(a, _), (b, _)| a.cmp_numeric(b)); // stable: numeric order within a shard
        let runs = keyed.chunk_by(|(a, _), (b, _)| a == b);
        Ok(runs.map(|run| run.iter().map(|(_, key)| *key).collect()).collect())
    }

    /// Copies an array, cell for cell.
    async fn copy(&mut self, from: &Cells, below: &str, attributes: Object) -> Result<()> {
        self.copy_and_look(from, below, attributes, |_, _| Ok(())).await.map(drop)
    }

    /// Copies an array, cell for cell; returns the results of `look` by key. A cell without bytes
    /// is only listed and has no result.
    async fn copy_and_look<T: Default + Send>(
        &mut self,
        from: &Cells,
        below: &str,
        attributes: Object,
        look: impl Fn(&ChunkKey, &[u8]) -> Result<T> + Sync,
    ) -> Result<Vec<(ChunkKey, T)>> {
        let keys: Vec<ChunkKey> = from.presence().await?.iter().collect();
        let sink = self.build.cells(&self.path(below), self.plan(&keys, attributes))?;
        let mut seen = Vec::with_capacity(keys.len());
        for run in self.runs(&sink, keys)? {
            for keys in run.chunks(COPY_BATCH_CELLS) {
                let payloads = from.read_many(keys, Caching::Once).await;
                let pairs: Vec<_> = keys.iter().zip(payloads).collect();
                let put = pairs.into_par_iter().map(|(key, payload)| {
                    let Some(payload) = payload? else { return Ok((*key, T::default())) };
                    let said = look(key, &payload)?;
                    sink.put(key, payload)?;
                    Ok::<_, Error>((*key, said))
                });
                seen.extend(put.collect::<Result<Vec<_>, _>>()?);
                self.progress.cells(keys.len());
            }
            run.first().map_or(Ok(()), |key| sink.close_shard(key))?;
        }
        self.finish(sink).await?;
        Ok(seen)
    }

    /// Finishes an array.
    pub(crate) async fn finish(&mut self, sink: CellSink) -> Result<()> {
        let report = sink.finish(|_| ()).await?;
        self.progress.done.stored_bytes += report.stored_bytes;
        Ok(())
    }
}

/// Copies vertices and their fragments, and collects facts about the rows.
pub(crate) async fn vertices(target: &mut Target<'_>) -> Result<Rows> {
    let node = target.reader.node();
    let from = node.required_cells("vertices").await?;
    let mut attributes = Vertices::parse(from.attributes().clone()).at_key(from.path())?;
    let raw = matches!(attributes.encoding, None | Some(Token::Known(CellEncoding::Raw)));
    let standard = Vertices::new(target.reader.dtype(), Vec::new());
    attributes.zv_array = standard.zv_array;
    attributes.dtype = attributes.dtype.or(standard.dtype);
    attributes.encoding = attributes.encoding.or(standard.encoding);
    let size = saturating_usize(target.reader.dtype().size);
    let stride = size.saturating_mul(target.reader.axes()); // compared with the bytes of cells
    let fragments = node.required_cells("vertex_fragments").await?;
    let attributes = attributes.to_attributes();
    let count = |key: &ChunkKey, payload: &[u8]| {
        if raw { count_rows(payload, stride, (&from, key)) } else { Ok(0) }
    };
    let mut lens = target.copy_and_look(&from, "vertices", attributes, count).await?;
    if !raw {
        lens.clear();
    }
    let rows = raw.then(|| lens.iter().map(|(_, rows)| rows).sum());
    lens.sort_by(|(a, _), (b, _)| a.cmp_numeric(b));
    let attributes = FragmentsAttrs::new("vertex_fragments", Vec::new()).to_attributes();
    let tile = raw && tiles(target, &fragments, &lens).await?;
    target.copy(&fragments, "vertex_fragments", attributes).await?;
    Ok(Rows { rows, tile })
}

/// Returns the number of rows of a cell of positions.
fn count_rows(payload: &[u8], stride: usize, (cells, key): (&Cells, &ChunkKey)) -> Result<u64> {
    let bytes = payload.len();
    match bytes.checked_div(stride) {
        Some(rows) if rows * stride == bytes => Ok(to_u64(rows)),
        _ => {
            let error = Error::from(BadColumn::Length { bytes, stride });
            Err(error.at_key(cells.path()).at_chunk(key))
        }
    }
}

/// Returns whether the fragments of each chunk partition its rows in order; `lens` are the numbers
/// of rows.
async fn tiles(target: &Target<'_>, fragments: &Cells, lens: &[(ChunkKey, u64)]) -> Result<bool> {
    for some in lens.chunks(COPY_BATCH_CELLS) {
        let keys: Vec<ChunkKey> = some.iter().map(|(key, _)| *key).collect();
        let blobs = fragments.read_many(&keys, Caching::Once).await;
        for (blob, (key, rows)) in blobs.into_iter().zip(some) {
            let Some(blob) = blob? else { return Ok(false) };
            let place = |error: Error| error.at_key(fragments.path()).at_chunk(key);
            if !FragmentIndex::parse(&blob).map_err(|e| place(e.into()))?.tiles(*rows) {
                return Ok(false);
            }
        }
    }
    Ok(!lens.is_empty() || target.reader.chunks().await?.is_empty())
}

/// Copies rows of a composite store.
pub(crate) async fn copy_other_vertices(target: &mut Target<'_>, below: &str) -> Result<()> {
    let from = target.reader.node().required_cells(below).await?;
    let attributes = from.attributes().clone();
    target.copy(&from, below, attributes).await
}

/// Copies an attribute of vertices or of fragments.
pub(crate) async fn column(target: &mut Target<'_>, name: &str, of_fragments: bool) -> Result<()> {
    let reader = target.reader;
    let (family, tag, found) = if of_fragments {
        ("fragment_attributes", "fragment_attribute", reader.fragment_attribute(name).await?)
    } else {
        ("vertex_attributes", "attribute", reader.attribute(name).await?)
    };
    let below = format!("{family}/{name}");
    let (Some(found), Some(from)) = (found, reader.node().cells(&below).await?) else {
        return Ok(());
    };
    let mut attributes = Column::parse(from.attributes().clone()).at_key(from.path())?;
    let standard = Column::new(tag, name, found.dtype(), found.width(), Vec::new());
    attributes.zv_array = standard.zv_array;
    attributes.name = attributes.name.or(standard.name);
    attributes.dtype = attributes.dtype.or(standard.dtype);
    let named = attributes.channel_names.as_ref().map_or(0, |names| to_u64(names.len()));
    if named != u64::from(found.width()) {
        attributes.channel_names = standard.channel_names;
    }
    attributes.row_shape = standard.row_shape;
    if attributes.channel_names.is_some() && found.width() == 1 {
        attributes.row_shape = Some(vec![1]);
    }
    target.copy(&from, &below, attributes.to_attributes()).await
}

/// Returns the shape of shards for `rank` axes: a single number is repeated, and a leading extra
/// axis gets 1.
fn fit_shape(shape: &[u64], rank: usize) -> Vec<u64> {
    match shape {
        [length] => vec![*length; rank],
        _ if shape.len().checked_add(1) == Some(rank) => [&[1], shape].concat(),
        _ => shape.to_vec(),
    }
}

/// The number of cells that are read and written at once, without shards.
pub(crate) const COPY_BATCH_CELLS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cell_that_ends_within_a_row_is_not_counted() {
        let store = archives::Unpacked::new("pc2_bins");
        let store = zvf_store::Store::open(
            store.path().to_str().unwrap(),
            zvf_store::OpenOptions::default(),
        );
        let store = store.await.unwrap();
        let reader = LevelReader::open(&store, zvf_model::LevelId(0)).await.unwrap();
        let cells = reader.node().required_cells("vertices").await.unwrap();
        let key = "1.2".parse::<ChunkKey>().unwrap();
        assert_eq!(count_rows(&[0; 24], 8, (&cells, &key)).unwrap(), 3);
        let error = count_rows(&[0; 25], 8, (&cells, &key)).unwrap_err();
        assert_eq!(error.class(), zvf_format::Class::CountMismatch);
        assert!(error.to_string().ends_with("chunk 1.2)"), "{error}");
        assert!(count_rows(&[0; 25], 0, (&cells, &key)).is_err());
    }

    #[test]
    fn shards_fit_the_axes() {
        assert_eq!(fit_shape(&[8], 3), [8, 8, 8]);
        assert_eq!(fit_shape(&[4, 2], 3), [1, 4, 2]);
        assert_eq!(fit_shape(&[4, 2, 3], 3), [4, 2, 3]);
    }
}

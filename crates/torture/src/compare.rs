//! Compares the library with a naive decoder: verdict, strict verdict, values.
//!
//! For kinds without a naive decoder, only general properties are checked: strict accepts nothing that default refuses,
//! and iterating a view ends.

use anyhow::{Context as _, ensure};
use zvf_b2nd::{Axes, Metalayer, MetalayerName};
use zvf_format::fragment::{self, FragmentIndex, FragmentIndexBuilder};
use zvf_format::link::{Body, LinkCell, LinkInteger, RowShape};
use zvf_format::manifest::{BlockFragments, Manifest, ManifestBuilder};
use zvf_format::ragged::{self, Ragged};
use zvf_format::shard::ShardIndex;
use zvf_format::vlen::VlenRows;
use zvf_tet::{Index, TensorCodec};

use crate::naive::{self, Read};

pub(crate) fn compare_fragment_index(blob: &[u8]) -> anyhow::Result<()> {
    let (naive, view) = (naive::decode_fragment_index(blob), FragmentIndex::parse(blob));
    let strict = FragmentIndex::parse_strict(blob).is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    check_same("number", &(naive.value.len() as u64), &view.len())?;
    let mut extent = 0;
    for (f, (naive, fragment)) in naive.value.iter().zip(view.iter()).enumerate() {
        let owned = match fragment {
            fragment::Fragment::Range { start, count } => {
                extent = extent.max(i128::from(start) + i128::from(count));
                naive::Fragment::Range(start.into(), count.into())
            }
            fragment::Fragment::Rows(rows) => {
                let rows: Vec<_> = rows.iter().map(|row| i128::from(row.get())).collect();
                extent = rows.iter().fold(extent, |extent, row| extent.max(row + 1));
                naive::Fragment::Rows(rows)
            }
        };
        check_same("fragment", naive, &owned)?;
        check_same("random access", &view.get(f as u64), &Some(fragment))?;
    }
    check_same("extent", &extent, &view.extent().into())?;
    check_same("tiles", &is_tiling(&naive.value, extent), &view.tiles(view.extent()))?;
    if naive.canonical {
        check_encoding(blob, &view)?;
    }
    Ok(())
}

/// Returns whether the fragments are consecutive ranges from 0 to `rows`.
fn is_tiling(fragments: &[naive::Fragment], rows: i128) -> bool {
    let mut next = 0;
    let joined = fragments.iter().all(|fragment| match fragment {
        naive::Fragment::Range(start, count) => {
            let is_next = *start == next;
            next += count;
            is_next
        }
        naive::Fragment::Rows(_) => false,
    });
    joined && !fragments.is_empty() && next == rows
}

/// Checks that the builder reproduces canonical blobs, except for lists that are ranges.
fn check_encoding(blob: &[u8], view: &FragmentIndex<'_>) -> anyhow::Result<()> {
    let mut builder = FragmentIndexBuilder::new();
    let mut promoted = false;
    for fragment in view.iter() {
        if let fragment::Fragment::Rows(rows) = fragment {
            let ascending =
                rows.windows(2).all(|two| two[0].get().checked_add(1) == Some(two[1].get()));
            promoted |= ascending && !rows.is_empty();
        }
        builder.push_fragment(fragment).context("cannot be built again")?;
    }
    let again = builder.encode();
    if !promoted {
        return check_same("bytes", &blob, &&again[..]);
    }
    let again = FragmentIndex::parse_strict(&again)?;
    for (fragment, rebuilt) in view.iter().zip(again.iter()) {
        check_same("length", &fragment.len(), &rebuilt.len())?;
        if fragment.len() < 100 {
            check_same("rows", &fragment.rows().collect::<Vec<_>>(), &rebuilt.rows().collect())?;
        }
    }
    Ok(())
}

pub(crate) fn compare_manifest(blob: &[u8], axes: u64) -> anyhow::Result<()> {
    let (naive, view) = (naive::decode_manifest(blob, axes), Manifest::parse(blob, axes));
    let strict = view.is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    let mut builder = ManifestBuilder::new(axes).unwrap();
    let mut total = 0_i128;
    let mut blocks = view.blocks();
    for naive in &naive.value {
        let block = blocks.next().context("blocks end early")?;
        let chunk: Vec<i128> = block.chunk.iter().map(|c| c.get().into()).collect();
        let raw: Vec<i64> = block.chunk.iter().map(|c| c.get()).collect();
        let (built, owned) = match block.fragments {
            BlockFragments::Single(fragment) => {
                (builder.push_single(&raw, fragment), naive::Block::Single(chunk, fragment.into()))
            }
            BlockFragments::Range { start, count } => (
                builder.push_range(&raw, start, count),
                naive::Block::Range(chunk, start.into(), count.into()),
            ),
            BlockFragments::Explicit(list) => (
                builder.push_explicit(&raw, &block.fragments.iter().collect::<Vec<_>>()),
                naive::Block::List(chunk, list.iter().map(|n| n.get().into()).collect()),
            ),
        };
        built.context("cannot be built again")?;
        total += i128::from(block.fragments.len());
        check_same("block", naive, &owned)?;
    }
    check_same("end", &None, &blocks.next())?;
    check_same("length", &u64::try_from(total).ok(), &view.len())?;
    if total < 100 {
        let expected: Vec<i128> = naive.value.iter().flat_map(expand_block).collect();
        let found: Vec<i128> = view.references().map(|r| r.fragment.into()).collect();
        check_same("references", &expected, &found)?;
    }
    check_same("bytes", &blob, &&builder.encode()[..])
}

fn expand_block(block: &naive::Block) -> Vec<i128> {
    match block {
        naive::Block::Single(_, fragment) => vec![*fragment],
        naive::Block::Range(_, start, count) => (*start..start + count).collect(),
        naive::Block::List(_, list) => list.clone(),
    }
}

pub(crate) fn compare_ragged(blob: &[u8], itemsize: u64, ncols: u64) -> anyhow::Result<()> {
    let (size, columns) = (itemsize as u8, ncols as u32);
    let (naive, view) =
        (naive::decode_ragged(blob, itemsize, ncols), Ragged::parse(blob, size, columns));
    let strict = Ragged::parse_strict(blob, size, columns).is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    let groups: Vec<&[u8]> = view.groups().collect();
    check_same("groups", &naive.value, &groups.iter().map(|group| group.to_vec()).collect())?;
    check_same("rows", &naive.value.concat(), &view.rows().flatten().copied().collect())?;
    if naive.canonical && !blob.is_empty() {
        let again = ragged::encode(&groups, size, columns)?;
        check_same("bytes", &blob, &&again[..])?;
    }
    Ok(())
}

pub(crate) fn compare_link_cell(
    blob: &[u8],
    inline: bool,
    itemsize: u64,
    width: u64,
    has_perm: bool,
) -> anyhow::Result<()> {
    let element = LinkInteger::new(itemsize as u8, true).unwrap();
    let shape = RowShape::new(element, width as usize, has_perm).unwrap();
    let body = if inline { Body::Inline } else { Body::Flat };
    let (naive, view) = (
        naive::decode_link_rows(blob, inline, itemsize, width, has_perm),
        LinkCell::parse(blob, body, shape),
    );
    let strict = LinkCell::parse_strict(blob, body, shape).is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    let rows = view.records().map(|record| {
        let code = has_perm.then(|| i128::from(record.order().code()));
        code.into_iter().chain(record.rows().iter().map(|row| i128::from(*row))).collect()
    });
    check_same("rows", &naive.value, &rows.collect())
}

pub(crate) fn compare_vlen_rows(blob: &[u8], cells: u64) -> anyhow::Result<()> {
    let (naive, view) = (naive::decode_vlen_rows(blob, cells), VlenRows::parse(blob, cells));
    let strict = VlenRows::parse_strict(blob, cells).is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    check_same("rows", &naive.value, &view.iter().map(<[u8]>::to_vec).collect())
}

pub(crate) fn compare_shard_index(blob: &[u8], cells: u64, checksum: bool) -> anyhow::Result<()> {
    let (naive, view) = (
        naive::decode_shard_index(blob, cells, checksum),
        ShardIndex::parse(blob, cells, checksum),
    );
    let strict = view.is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    let to_i128 = |span: std::ops::Range<u64>| (i128::from(span.start), i128::from(span.end));
    check_same("cells", &naive.value, &view.iter().map(|cell| cell.map(to_i128)).collect())
}

pub(crate) fn compare_tidx(blob: &[u8], file_len: u64) -> anyhow::Result<()> {
    let (naive, view) = (naive::decode_tidx(blob, file_len), Index::parse(blob, file_len));
    let strict = view.is_ok_and(|view| view.lints().is_empty());
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    let rows = view.rows().iter().map(|row| naive::Row {
        dataset: row.dataset_id().into(),
        coordinates: row.chunk_index().map(i128::from).to_vec(),
        offset: row.payload_offset().into(),
        raw: row.raw_byte_len().into(),
        stored: row.stored_byte_len().into(),
        zstd: row.codec() == TensorCodec::Zstd,
    });
    check_same("rows", &naive.value, &rows.collect())
}

pub(crate) fn compare_metalayer(blob: &[u8], b2nd: bool) -> anyhow::Result<()> {
    let name = if b2nd { MetalayerName::B2nd } else { MetalayerName::Caterva };
    let (naive, view) = (naive::decode_metalayer(blob, b2nd), Metalayer::parse(name, blob));
    let strict = Metalayer::parse_strict(name, blob).is_ok();
    let Some((naive, view)) = agree(naive, view, strict)? else { return Ok(()) };
    let to_i128 = |axes: &Axes| axes.as_slice().iter().map(|extent| i128::from(*extent)).collect();
    let partition = view.partition();
    let owned = naive::Metalayer {
        shape: to_i128(partition.shape()),
        chunk: to_i128(partition.chunkshape()),
        block: to_i128(partition.blockshape()),
        dtype: view.dtype().map(<[u8]>::to_vec),
    };
    check_same("extents", &naive.value, &owned)?;
    if partition.shape().len() < 16 {
        check_same("bytes", &blob, &&view.encode()[..])?;
    }
    Ok(())
}

/// Checks that both decoders give the same verdicts; returns what both accept.
fn agree<T, V, E>(
    naive: Option<Read<T>>,
    view: Result<V, E>,
    strict: bool,
) -> anyhow::Result<Option<(Read<T>, V)>> {
    let word = |accepted| if accepted { "accepts" } else { "refuses" };
    let (library, other) = (view.is_ok(), naive.is_some());
    ensure!(library == other, "library {}, naive {}", word(library), word(other));
    let other = naive.as_ref().is_some_and(|read| read.canonical);
    ensure!(strict == other, "strict: library {}, naive {}", word(strict), word(other));
    Ok(naive.zip(view.ok()))
}

fn check_same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    naive: &T,
    found: &T,
) -> anyhow::Result<()> {
    ensure!(naive == found, "{what}: naive {naive:?}, library {found:?}");
    Ok(())
}

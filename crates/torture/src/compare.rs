//! Compares the library with the naive decoders: verdict, strict verdict, contents; and builds
//! canonical blobs again.

use anyhow::{Context as _, bail, ensure};
use archives::hostile::Kind;
use zvf_b2nd::{Axes, Metalayer, MetalayerName};
use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder};
use zvf_format::link::{Body, LinkCell};
use zvf_format::manifest::{BlockFragments, Manifest, ManifestBuilder};
use zvf_format::ragged::{self, Ragged};
use zvf_format::shard::ShardIndex;
use zvf_format::vlen::VlenRows;
use zvf_tet::{Index, TensorCodec};

use crate::naive::{self, Items, LIST, RANGE, Read, to_numbers};

/// Compares both decoders on a blob; a kind without a naive decoder passes.
pub(crate) fn compare(kind: &Kind, blob: &[u8]) -> anyhow::Result<()> {
    let Some(naive) = decode_naively(kind, blob) else { return Ok(()) };
    let (found, strict) = (decode(kind, blob, false), decode(kind, blob, true).is_some());
    let word = |accepted| if accepted { "accepts" } else { "refuses" };
    let both = (found.is_some(), naive.is_some());
    ensure!(both.0 == both.1, "library {}, naive {}", word(both.0), word(both.1));
    let canonical = naive.as_ref().is_some_and(|read| read.canonical);
    ensure!(strict == canonical, "strict: library {}, naive {}", word(strict), word(canonical));
    let Some((Read { items, .. }, found)) = naive.zip(found) else { return Ok(()) };
    check_same("contents", &items, &found)?;
    match kind {
        Kind::FragmentIndex { .. } => check_fragment_index(blob, &items, canonical),
        Kind::Manifest { axes, .. } => check_manifest(blob, *axes, &items),
        Kind::Ragged { itemsize, ncols } => {
            let view = Ragged::parse(blob, *itemsize, *ncols)?;
            let rows: Vec<u8> = view.rows().flatten().copied().collect();
            check_same("rows", &items.concat(), &to_numbers(&rows))?;
            if canonical && !blob.is_empty() {
                let groups: Vec<&[u8]> = view.groups().collect();
                check_same("bytes", &blob, &&ragged::encode(&groups, *itemsize, *ncols)?[..])?;
            }
            Ok(())
        }
        Kind::Metalayer(name) if items[0].len() < 16 => {
            check_same("bytes", &blob, &&Metalayer::parse(*name, blob)?.encode()[..])
        }
        _ => Ok(()),
    }
}

/// Decodes a blob without the library; `None` if there is no naive decoder.
fn decode_naively(kind: &Kind, blob: &[u8]) -> Option<Option<Read>> {
    Some(match kind {
        Kind::FragmentIndex { .. } => naive::decode_fragment_index(blob),
        Kind::Manifest { axes, .. } => naive::decode_manifest(blob, *axes),
        Kind::Ragged { itemsize, ncols } => {
            naive::decode_ragged(blob, i128::from(*itemsize) * i128::from(*ncols))
        }
        Kind::LinkCell { body, shape, .. } => {
            let (size, width) = (shape.element().size().into(), shape.link_width());
            let inline = matches!(body, Body::Inline);
            naive::decode_link_rows(blob, inline, size, width, shape.has_perm())
        }
        Kind::Vlen { cells } => naive::decode_vlen_rows(blob, *cells),
        Kind::ShardIndex { cells, checksum } => naive::decode_shard_index(blob, *cells, *checksum),
        Kind::Tidx { file_len } => naive::decode_tidx(blob, *file_len),
        Kind::Metalayer(name) => naive::decode_metalayer(blob, *name == MetalayerName::B2nd),
        Kind::Tet { .. } | Kind::Frame | Kind::Document(_) => return None,
    })
}

/// Returns what the library finds in a blob; `None` if it refuses the blob.
fn decode(kind: &Kind, blob: &[u8], strict: bool) -> Option<Items> {
    Some(match kind {
        Kind::FragmentIndex { .. } => {
            let parse = if strict { FragmentIndex::parse_strict } else { FragmentIndex::parse };
            let item = |fragment| match fragment {
                Fragment::Range { start, count } => vec![RANGE, start.into(), count.into()],
                Fragment::Rows(rows) => {
                    [LIST].into_iter().chain(rows.iter().map(|row| row.get().into())).collect()
                }
            };
            parse(blob).ok()?.iter().map(item).collect()
        }
        Kind::Manifest { axes, .. } => {
            let manifest = Manifest::parse(blob, *axes).ok()?;
            let mut items = Items::new();
            for block in manifest.blocks() {
                let mut item: Vec<i128> = block.chunk.iter().map(|c| c.get().into()).collect();
                match block.fragments {
                    BlockFragments::Single(fragment) => item.extend([0, fragment.into()]),
                    BlockFragments::Range { start, count } => {
                        item.extend([1, start.into(), count.into()]);
                    }
                    BlockFragments::Explicit(list) => {
                        item.push(2);
                        item.extend(list.iter().map(|n| i128::from(n.get())));
                    }
                }
                items.push(item);
            }
            items
        }
        Kind::Ragged { itemsize, ncols } => {
            let parse = if strict { Ragged::parse_strict } else { Ragged::parse };
            parse(blob, *itemsize, *ncols).ok()?.groups().map(to_numbers).collect()
        }
        Kind::LinkCell { body, shape, .. } => {
            let parse = if strict { LinkCell::parse_strict } else { LinkCell::parse };
            let cell = parse(blob, *body, *shape).ok()?;
            let item = |record: zvf_format::link::LinkRecord| {
                let code = shape.has_perm().then(|| i128::from(record.order().code()));
                code.into_iter().chain(record.rows().iter().map(|row| (*row).into())).collect()
            };
            cell.records().map(item).collect()
        }
        Kind::Vlen { cells } => {
            let parse = if strict { VlenRows::parse_strict } else { VlenRows::parse };
            parse(blob, *cells).ok()?.iter().map(to_numbers).collect()
        }
        Kind::ShardIndex { cells, checksum } => {
            let index = ShardIndex::parse(blob, *cells, *checksum).ok()?;
            let ends = |span: std::ops::Range<u64>| vec![span.start.into(), span.end.into()];
            index.iter().map(|cell| cell.map_or_else(Vec::new, ends)).collect()
        }
        Kind::Tidx { file_len } => {
            let index = Index::parse(blob, *file_len).ok()?;
            if strict && !index.lints().is_empty() {
                return None;
            }
            let item = |row: &zvf_tet::Row| {
                let lengths = [row.payload_offset(), row.raw_byte_len(), row.stored_byte_len()];
                let codec = u64::from(row.codec() == TensorCodec::Zstd);
                let numbers = [&[row.dataset_id()], &row.chunk_index()[..], &lengths, &[codec]];
                numbers.concat().into_iter().map(i128::from).collect()
            };
            index.rows().iter().map(item).collect()
        }
        Kind::Metalayer(name) => {
            let parse = if strict { Metalayer::parse_strict } else { Metalayer::parse };
            let view = parse(*name, blob).ok()?;
            let extents = |axes: &Axes| axes.as_slice().iter().map(|n| i128::from(*n)).collect();
            let partition = view.partition();
            let [shape, chunk, block] =
                [partition.shape(), partition.chunkshape(), partition.blockshape()].map(extents);
            [shape, chunk, block].into_iter().chain(view.dtype().map(to_numbers)).collect()
        }
        Kind::Tet { .. } | Kind::Frame | Kind::Document(_) => return None,
    })
}

/// Checks random access, the rows together, and that the builder reproduces canonical blobs.
fn check_fragment_index(blob: &[u8], items: &Items, canonical: bool) -> anyhow::Result<()> {
    let view = FragmentIndex::parse(blob)?;
    check_same("number", &(items.len() as u64), &view.len())?;
    for (f, fragment) in (0..).zip(view.iter()) {
        check_same("random access", &view.get(f), &Some(fragment))?;
    }
    let end = |item: &Vec<i128>| match item[0] {
        RANGE => item[1] + item[2],
        _ => item[1..].iter().max().map_or(0, |row| row + 1),
    };
    let extent = items.iter().map(end).max().unwrap_or(0);
    check_same("extent", &extent, &view.extent().into())?;
    check_same("tiles", &is_tiling(items, extent), &view.tiles(view.extent()))?;
    if canonical { check_encoding(blob, &view) } else { Ok(()) }
}

/// Returns whether the fragments are consecutive ranges from 0 to `rows`.
fn is_tiling(items: &Items, rows: i128) -> bool {
    let mut next = 0;
    let joined = items.iter().all(|item| {
        let is_next = item[0] == RANGE && item[1] == next;
        next += if is_next { item[2] } else { 0 };
        is_next
    });
    joined && !items.is_empty() && next == rows
}

/// Checks that the builder reproduces canonical blobs, except for lists that are ranges.
fn check_encoding(blob: &[u8], view: &FragmentIndex<'_>) -> anyhow::Result<()> {
    let mut builder = FragmentIndexBuilder::new();
    let mut promoted = false;
    for fragment in view.iter() {
        if let Fragment::Rows(rows) = fragment {
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

/// Checks the number of references, these themselves, and that the builder reproduces the blob.
fn check_manifest(blob: &[u8], axes: u64, items: &Items) -> anyhow::Result<()> {
    let view = Manifest::parse(blob, axes)?;
    let mut builder = ManifestBuilder::new(axes)?;
    let (mut total, mut references) = (0_i128, Vec::new());
    for item in items {
        let (chunk, block) = item.split_at(usize::try_from(axes)?);
        let chunk = chunk.iter().map(|c| i64::try_from(*c)).collect::<Result<Vec<_>, _>>()?;
        let numbers =
            block[1..].iter().map(|n| u64::try_from(*n)).collect::<Result<Vec<_>, _>>()?;
        let built = match (block[0], &numbers[..]) {
            (0, [fragment]) => builder.push_single(&chunk, *fragment),
            (1, [start, count]) => builder.push_range(&chunk, *start, *count),
            (2, list) => builder.push_explicit(&chunk, list),
            _ => bail!("a block of mode {}", block[0]),
        };
        built.context("cannot be built again")?;
        let is_range = block[0] == 1;
        total += if is_range { block[2] } else { block.len() as i128 - 1 };
        if total < 100 {
            references.extend(match is_range {
                true => (block[1]..block[1] + block[2]).collect(),
                false => block[1..].to_vec(),
            });
        }
    }
    check_same("length", &u64::try_from(total).ok(), &view.len())?;
    if total < 100 {
        let found = view.references().map(|r| r.fragment.into()).collect();
        check_same("references", &references, &found)?;
    }
    check_same("bytes", &blob, &&builder.encode()[..])
}

fn check_same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    naive: &T,
    found: &T,
) -> anyhow::Result<()> {
    ensure!(naive == found, "{what}: naive {naive:?}, library {found:?}");
    Ok(())
}

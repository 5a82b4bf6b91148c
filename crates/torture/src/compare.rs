//! Compares the library with the naive decoders: verdict, strict verdict, contents; and builds
//! canonical blobs again.

use anyhow::{Context as _, bail, ensure};
use archives::hostile::{Kind, RANGE};
use zvf_b2nd::{Metalayer, MetalayerName};
use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder};
use zvf_format::link::Body;
use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::ragged::{self, Ragged};

use crate::naive::{self, Items, Read, to_numbers};

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
    let mut items = Items::new();
    kind.read(blob, strict, &mut |item| items.push(item.collect())).ok()?;
    Some(items)
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

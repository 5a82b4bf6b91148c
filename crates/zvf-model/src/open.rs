//! Parses documents into types, for readers and validators.
//!
//! Errors are passed to a function. A reader returns the first one. A validator collects all
//! errors, and does not use data with errors.
//!
//! ```text
//! link_policy, link_anchor   a family of links: its width, what it stores, where it leads
//! link_rows                  one array of a family: the form of its rows
//! older_links, older_leaves  a family of the versions before 0.9: links within chunks, and those between them
//! references                 the rows of dense manifests that spans name
//! column                     an attribute of vertices or fragments: the type of its values, and how many a row has
//! ```

use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_error::{Error, Result};
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{Anchor, Body, LinkInteger, LinkPolicy, LinkStorage, RowShape};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::arrays::{
    ArrayAttributes as _, Column as ColumnDoc, LinksFamily, SegmentAttrs as SegmentDoc,
};
use zvf_metadata::{Dtype, DtypeKind, LinkStore, Object, Root, Token};
use zvf_store::{DenseArray, LevelNode, Listing};

/// A kind of fault found while opening.
///
/// ```
/// use zvf_format::key::Delta;
/// use zvf_metadata::LinkStore;
/// use zvf_metadata::arrays::LinksFamily;
/// use zvf_model::open::{OpenFault, link_policy};
///
/// let doc = LinksFamily::new(1, 2, false, LinkStore::Canonical);
/// let mut faults = Vec::new();
/// let policy = link_policy(&doc, 3, Delta::SAME, &mut |fault, error| {
///     faults.push((fault, error.to_string()));
///     Ok(false)
/// })?;
/// let text = "BadTag, level_delta: expected 0, found 1";
/// assert_eq!((policy, faults), (None, vec![(OpenFault::Contradiction, text.to_owned())]));
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFault {
    /// A node cannot be read.
    Node,
    /// A document does not parse.
    Document,
    /// Names, documents and arrays contradict each other.
    Contradiction,
    /// They contradict each other in information that readers do not need.
    Redundant,
    /// This build does not know it.
    Unsupported,
    /// The names below a node cannot be listed.
    Unlisted,
}

/// Returns the names of the nodes in an optional folder of a level, and whether it names all.
pub(crate) async fn list_nodes(node: &LevelNode, folder: &str) -> Result<Listing> {
    match node.lacks(folder) {
        true => Ok(Listing { names: Vec::new(), complete: true }),
        false => node.children(folder).await,
    }
}

/// Refuses what is stored in a listed folder without a document. What is left of a removed node is
/// an empty folder.
pub(crate) async fn refuse_stored(node: &LevelNode, path: &str) -> Result<()> {
    let stored = match node.objects(path).await {
        Err(error) if error.class() == Class::Unsupported => Vec::new(), // it cannot be listed
        stored => stored?,
    };
    if stored.is_empty() {
        return Ok(());
    }
    let expected = "the document of what is stored";
    let error = Error::new(Class::NotFound, "zarr.json", expected, "nothing");
    Err(error.at_key(node.path().join(path)?))
}

/// Refuses what is stored at `path` without a document, where the level names `array`: others cost
/// no listing.
pub(crate) async fn refuse_lost(node: &LevelNode, array: &str, path: &str) -> Result<()> {
    let is_named = node.meta().arrays_present.iter().any(|present| present == array);
    if is_named { refuse_stored(node, path).await } else { Ok(()) }
}

/// Receives a fault, and returns whether to continue as if there were none.
pub type TakeFault<'a> = dyn FnMut(OpenFault, Error) -> Result<bool> + Send + 'a;

/// Opens for a reader: the first fault in information that readers need is the error.
#[expect(clippy::expect_used, reason = "an opener returns nothing only after a fault")]
pub(crate) fn open_strictly<T>(
    open: impl FnOnce(&mut TakeFault<'_>) -> Result<Option<T>>,
) -> Result<T> {
    Ok(open(&mut first_fault)?.expect("an opener returns nothing only after a fault"))
}

/// Returns the first fault in information that readers need as the error.
pub(crate) fn first_fault(fault: OpenFault, error: Error) -> Result<bool> {
    match fault {
        OpenFault::Redundant | OpenFault::Unlisted => Ok(true),
        OpenFault::Node
        | OpenFault::Document
        | OpenFault::Contradiction
        | OpenFault::Unsupported => Err(error),
    }
}

/// Returns the document of a vertex or fragment attribute, the type of its values, and the declared
/// number of values per row.
///
/// # Errors
///
/// Those of `take`.
pub fn column(
    attributes: &Object,
    take: &mut TakeFault<'_>,
) -> Result<Option<(ColumnDoc, Dtype, u64)>> {
    let doc = ColumnDoc::parse(attributes.clone()).and_then(|doc| Ok((doc.dtype()?, doc)));
    let Some((dtype, doc)) = ok_or_take(doc, OpenFault::Document, take)? else { return Ok(None) };
    let width = doc.declared_columns().ok_or_else(|| {
        Error::new(Class::LimitExceeded, "row_shape", "a product of 64 bits", "a larger one")
    });
    let width = ok_or_take(width, OpenFault::Document, take)?;
    Ok(width.map(|width| (doc, dtype, width)))
}

/// Returns the policy in the document of a family, for a level whose keys have `rank` components.
/// Links to another level also need its anchor.
///
/// # Errors
///
/// Those of `take`.
pub fn link_policy(
    doc: &LinksFamily,
    rank: usize,
    delta: Delta,
    take: &mut TakeFault<'_>,
) -> Result<Option<LinkPolicy>> {
    let (axes, found) = (to_u64(rank), i64::from(delta.0));
    if doc.level_delta != found {
        let error = Error::new(Class::BadTag, "level_delta", found, doc.level_delta);
        take(OpenFault::Contradiction, error)?;
        return Ok(None);
    }
    if let Some(found) = doc.sid_ndim.filter(|found| *found != axes) {
        take(OpenFault::Contradiction, Error::new(Class::BadShape, "sid_ndim", axes, found))?;
        return Ok(None);
    }
    let width = saturating_usize(doc.link_width); // refused, as all above 8
    let policy = LinkPolicy::new(width, rank);
    let Some(policy) = ok_or_take(policy, OpenFault::Contradiction, take)? else {
        return Ok(None);
    };
    let policy = if doc.directed { policy.with_direction() } else { policy };
    match &doc.store {
        Token::Known(LinkStore::Canonical) => Ok(Some(policy)),
        Token::Known(LinkStore::Duplicate) => Ok(Some(policy.with_storage(LinkStorage::Duplicate))),
        Token::Other(other) => {
            take(OpenFault::Contradiction, Error::unsupported("store", other.as_str()))?;
            Ok(None)
        }
    }
}

/// Returns the anchor from chunks of a level to those of another.
///
/// # Errors
///
/// When the chunks of one do not nest in those of the root.
pub fn link_anchor(root: &Root, level: &LevelNode, target: &LevelNode) -> Result<Anchor> {
    let sizes = [level, target].map(|node| node.meta().effective_chunk_shape(root));
    if sizes[0] == sizes[1] {
        return Ok(Anchor::identity(level.key_rank())?);
    }
    let root = ChunkShape::new(&root.zarr_vectors.chunk_shape)?;
    let [source, target] = sizes.map(|sizes| ChunkShape::new(sizes)?.ratio_to(&root));
    Ok(Anchor::from_ratios(&source?, &target?, level.key_rank())?)
}

/// Returns the form of the rows in the array of a family that is named after `offsets`.
///
/// # Errors
///
/// Those of `take`.
pub fn link_rows(
    policy: &LinkPolicy,
    offsets: &Offsets,
    attributes: &Object,
    take: &mut TakeFault<'_>,
) -> Result<Option<(RowShape, Body)>> {
    let doc = SegmentDoc::parse(attributes.clone()).and_then(|doc| Ok((doc.dtype()?, doc)));
    let Some((dtype, doc)) = ok_or_take(doc, OpenFault::Document, take)? else { return Ok(None) };
    let is_intra = offsets.are_zero();
    let (width, delta) = (to_u64(policy.link_width()), i64::from(policy.delta().0));
    let perm = policy.has_perm(is_intra);
    let mut goes_on = true;
    if let Some(found) = doc.link_width.filter(|found| *found != width) {
        let error = Error::new(Class::CountMismatch, "link_width", width, found);
        goes_on &= take(OpenFault::Contradiction, error)?;
    }
    if let Some(found) = doc.level_delta.filter(|found| *found != delta) {
        let error = Error::new(Class::BadTag, "level_delta", delta, found);
        goes_on &= take(OpenFault::Redundant, error)?;
    }
    if let Some(found) = doc.has_perm.filter(|found| *found != perm) {
        let error = Error::new(Class::BadTag, "has_perm", perm, found);
        goes_on &= take(OpenFault::Redundant, error)?;
    }
    let named: Vec<&[i64]> = offsets.iter().collect();
    if let Some(found) = doc.offsets.as_ref().filter(|found| **found != named) {
        let expected = format!("{named:?}, as the array is named");
        let error = Error::new(Class::BadTag, "offsets", expected, format!("{found:?}"));
        goes_on &= take(OpenFault::Contradiction, error)?;
    }
    let element = link_integer(dtype);
    let Some(element) = ok_or_take(element, OpenFault::Unsupported, take)?.filter(|_| goes_on)
    else {
        return Ok(None);
    };
    let shape = RowShape::new(element, policy.link_width(), doc.has_perm.unwrap_or(perm))?;
    Ok(Some((shape, policy.body(is_intra))))
}

/// The documents of a link family of a format before 0.9.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OlderLinks {
    /// The document of the family: that of the links between chunks, or derived from the other one.
    pub doc: LinksFamily,
    /// The document of the links within chunks, if there are any with the width of the family.
    pub within: Option<SegmentDoc>,
    /// The form of the links between chunks.
    pub between: OlderForm,
}

/// The form of links between chunks before 0.9.
#[derive(Clone, Debug)]
pub enum OlderForm {
    /// One blob of records that contain the chunks of their ends.
    Blob(DenseArray),
    /// A blob per set of chunks: [`older_leaves`].
    Leaves,
    /// Cells named by the chunks of their ends, if there are any.
    Cells,
}

/// Returns the documents of the family `delta`, whose groups are called `name`; `None` if there are
/// none.
///
/// # Errors
///
/// Those of `take`.
pub async fn older_links(
    level: &LevelNode,
    (delta, name): (Delta, &str),
    take: &mut TakeFault<'_>,
) -> Result<Option<OlderLinks>> {
    let [inner, outer] = ["links", "cross_chunk_links"].map(|group| format!("{group}/{name}"));
    let place = |error: Error, name: &str| error.at_array(format!("{}/{name}", level.path()));
    let group = level.group(&inner).await.map_err(|error| place(error, &inner));
    let mut within = match ok_or_take(group, OpenFault::Node, take)?.flatten() {
        Some(group) => {
            let doc = SegmentDoc::parse(group.attributes);
            let doc = doc.map_err(|error| place(error.into(), &inner));
            ok_or_take(doc, OpenFault::Document, take)?
        }
        None => None,
    };
    let width = within.as_ref().and_then(|doc| doc.link_width);
    let group = level.group(&outer).await.map_err(|error| place(error, &outer));
    let group = ok_or_take(group, OpenFault::Node, take)?.flatten();
    let doc = match (group.filter(|group| !group.attributes.is_empty()), width) {
        (Some(group), _) => {
            let doc = LinksFamily::parse_cross_chunk(group.attributes);
            let doc = doc.map_err(|error| place(error.into(), &outer));
            ok_or_take(doc, OpenFault::Document, take)?
        }
        (None, Some(width)) => {
            Some(LinksFamily::new(delta.0.into(), width, false, LinkStore::Canonical))
        }
        (None, None) if within.is_none() => None,
        (None, None) => {
            let expected = "a number of endpoints";
            let error = Error::new(Class::BadTag, "link_width", expected, "nothing");
            take(OpenFault::Contradiction, place(error, &outer))?;
            None
        }
    };
    let Some(mut doc) = doc else { return Ok(None) };
    let data = match doc.layout.as_deref() {
        None => level.dense(&format!("{outer}/{DATA}")).await,
        Some(PARTITIONED) => Ok(None),
        Some(other) => {
            take(OpenFault::Unsupported, place(Error::unsupported("layout", other), &outer))?;
            return Ok(None);
        }
    };
    let Some(data) = ok_or_take(data, OpenFault::Node, take)? else { return Ok(None) };
    // Writers of 0.6 and 0.7 leave an empty family of width 2 between chunks beside faces of 3 or 4
    // corners. A side without records is not evidence about the other.
    if let Some(width) = width.filter(|width| *width != doc.link_width) {
        let is_empty = match &data {
            Some(data) => data.is_empty(),
            None => level.children(&outer).await?.names.is_empty(),
        };
        if is_empty {
            doc.link_width = width;
        } else if level.children(&inner).await?.names.is_empty() {
            within = None;
        } else {
            let what = "link_width of records between chunks, beside others within them";
            let error = Error::new(Class::CountMismatch, what, width, doc.link_width);
            take(OpenFault::Contradiction, place(error, &outer))?;
            return Ok(None);
        }
    }
    let between = match (data, &doc.layout) {
        (Some(data), _) => OlderForm::Blob(data),
        (None, Some(_)) => OlderForm::Leaves,
        (None, None) => OlderForm::Cells,
    };
    Ok(Some(OlderLinks { doc, within, between }))
}

/// Lists the blobs `<chunk 0>/../<chunk K-1>/data` of the family `name`: the chunks of each, and
/// its name.
///
/// # Errors
///
/// Those of `take`, and when the backend fails.
pub async fn older_leaves(
    level: &LevelNode,
    name: &str,
    policy: &LinkPolicy,
    take: &mut TakeFault<'_>,
) -> Result<Vec<(Vec<ChunkKey>, String)>> {
    let mut open = vec![(format!("cross_chunk_links/{name}"), Vec::<ChunkKey>::new())];
    let mut leaves = Vec::new();
    while let Some((path, chunks)) = open.pop() {
        let listing = level.children(&path).await?;
        let place = |name: &str| format!("{}/{path}/{name}", level.path());
        if !listing.complete {
            let error = Error::new(Class::Unsupported, "names", "a listing", "none");
            take(OpenFault::Unlisted, error.at_array(place("")))?;
        }
        for child in listing.names {
            let below = format!("{path}/{child}");
            if child == DATA && !chunks.is_empty() {
                leaves.push((chunks.clone(), below));
                continue;
            }
            let key = child.parse::<ChunkKey>().ok().filter(|_| chunks.len() < policy.link_width());
            let is_next = |key: &ChunkKey| {
                let is_behind = |last: &ChunkKey| last.components() < key.components();
                key.rank() == policy.sid_ndim() && chunks.last().is_none_or(is_behind)
            };
            let mut goes_on = true;
            if !key.as_ref().is_some_and(is_next) {
                let (ends, axes) = (policy.link_width(), policy.sid_ndim());
                let expected = format!("at most {ends} chunks of {axes} numbers, ascending");
                let error = Error::new(Class::InvalidKey, "name", expected, "another");
                let is_key = child.parse::<ChunkKey>().is_ok();
                let fault = if is_key { OpenFault::Redundant } else { OpenFault::Contradiction };
                goes_on = take(fault, error.at_array(place(&child)))?;
            }
            if let Some(key) = key.filter(|_| goes_on) {
                open.push((below, chunks.iter().copied().chain([key]).collect()));
            }
        }
    }
    leaves.sort_by(|(a, _), (b, _)| {
        a.iter().map(ChunkKey::components).cmp(b.iter().map(ChunkKey::components))
    });
    Ok(leaves)
}

/// Returns the policy of the links within chunks before 0.9, and the form of their rows with
/// integers of this type: all ends are in the chunk of the cell, whatever the chunk size of the
/// other level is.
///
/// # Errors
///
/// When there are no such rows.
pub fn older_rows(policy: LinkPolicy, dtype: Dtype) -> Result<(LinkPolicy, RowShape, Body)> {
    let shape = RowShape::new(link_integer(dtype)?, policy.link_width(), false)?;
    let body = if policy.delta() == Delta::SAME { Body::Flat } else { Body::Inline };
    let same = policy.with_delta(policy.delta(), Anchor::identity(policy.sid_ndim())?)?;
    Ok((same, shape, body))
}

/// Returns the type of the numbers in a row of links.
fn link_integer(dtype: Dtype) -> Result<LinkInteger> {
    let signed = dtype.kind == DtypeKind::Int;
    if dtype.big_endian || !(signed || dtype.kind == DtypeKind::UInt) {
        let (what, expected) = ("dtype of links", "little-endian integers");
        return Err(Error::new(Class::Unsupported, what, expected, "another"));
    }
    let size = u8::try_from(dtype.size).unwrap_or(u8::MAX); // too large: refused
    Ok(LinkInteger::new(size, signed)?)
}

/// Returns the rows of `blocks` for each of `spans`, a start and a count; nearby spans are read
/// together.
///
/// # Errors
///
/// When rows cannot be read. Each answer has its own error: a span that is not inside the blocks.
pub async fn references(spans: &[[i64; 2]], blocks: &DenseArray) -> Result<Vec<Result<Bytes>>> {
    let spans: Vec<Result<Range<u64>>> =
        spans.iter().map(|[start, count]| span(*start, *count, blocks.len())).collect();
    let mut ranges: Vec<Range<u64>> = spans.iter().flatten().cloned().collect();
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            // A span may end near the largest number: an array may claim that many rows.
            Some(last) if range.start <= last.end.saturating_add(GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    let reads = joined.into_iter().map(|piece| async move {
        let bytes = blocks.rows(piece.clone()).await?;
        Ok::<_, Error>((piece, bytes))
    });
    let pieces: Vec<(Range<u64>, Bytes)> =
        stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
    let cut = |span: Result<Range<u64>>| {
        let span = span?;
        if span.is_empty() {
            return Ok(Bytes::new());
        }
        // Each non-empty span is inside a piece.
        let (piece, bytes) =
            &pieces[pieces.partition_point(|piece| piece.0.start <= span.start) - 1];
        let stride = bytes.len() / saturating_usize(piece.end - piece.start);
        let at = |row: u64| saturating_usize(row - piece.start) * stride;
        Ok(bytes.slice(at(span.start)..at(span.end)))
    };
    Ok(spans.into_iter().map(cut).collect())
}

fn span(start: i64, count: i64, blocks: u64) -> Result<Range<u64>> {
    if count == 0 {
        return Ok(0..0); // wherever it starts
    }
    let range = u64::try_from(start).ok().zip(u64::try_from(count).ok());
    let Some((start, count)) = range else {
        let found = start.min(count);
        return Err(Error::new(Class::Negative, "span of blocks", Expected::AtLeast(0), found));
    };
    let end = start + count; // two numbers below 2^63
    if end > blocks {
        let expected = Expected::AtMost(blocks.into());
        return Err(Error::new(Class::OutOfBounds, "end of a span of blocks", expected, end));
    }
    Ok(start..end)
}

/// Returns the number of values per row as a `u32`; `None` means that it overflows 64 bits.
pub(crate) fn row_width(width: Option<u64>) -> Result<u32> {
    let (what, width) = ("values of a row", width.unwrap_or(u64::MAX));
    u32::try_from(width).map_err(|_too_wide| Error::limit(what, u32::MAX.into(), width))
}

fn ok_or_take<T>(
    opened: Result<T, impl Into<Error>>,
    fault: OpenFault,
    take: &mut TakeFault<'_>,
) -> Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) => take(fault, error.into()).map(|_| None),
    }
}

/// The readable layout between 0.7 and 0.8, and the name of its leaves and of the single blob.
const PARTITIONED: &str = "partitioned_v1";
const DATA: &str = "data";
/// Gap in rows up to which two spans are read together.
const GAP: u64 = 1024;
/// Number of pieces that are read at once.
const CONCURRENT_READS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_lie_inside_the_blocks() {
        for (start, count, expected) in [
            (0, 0, Ok(0..0)),
            (3, 2, Ok(3..5)),
            (-7, 0, Ok(0..0)),
            (4, 2, Err("OutOfBounds, end of a span of blocks: expected at most 5, found 6")),
            (-1, 2, Err("Negative, span of blocks: expected at least 0, found -1")),
            (1, -7, Err("Negative, span of blocks: expected at least 0, found -7")),
        ] {
            let found = span(start, count, 5).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        assert!(span(i64::MAX, i64::MAX, u64::MAX).is_ok(), "2^64 - 2 is below the blocks claimed");
    }
}

//! From documents to types: once, for those who read and those who check.
//!
//! What is wrong goes to a function. A reader takes the first fault as its error. A validator collects all of
//! them, and relies on nothing that has one.
//!
//! ```text
//! link_policy, link_anchor   a family of links: its width, what it stores, where it leads
//! link_rows                  one array of a family: the form of its rows
//! references                 the rows of dense manifests that spans name
//! ```

use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_error::{Error, Result};
use zvf_format::grid::ChunkShape;
use zvf_format::key::{Delta, Offsets};
use zvf_format::link::{Anchor, Body, LinkInteger, LinkPolicy, LinkStorage, RowShape};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::arrays::{LinkSegment, LinksFamily};
use zvf_metadata::{Dtype, DtypeKind, LinkStore, Object, Root, Token};
use zvf_store::{DenseArray, LevelNode};

/// A kind of fault in what is opened.
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
    /// A document does not parse.
    Document,
    /// Names, documents and arrays contradict each other.
    Contradiction,
    /// They contradict each other in what readers do without.
    Redundant,
    /// This build does not know it.
    Unsupported,
}

/// Takes a fault. Says whether to go on as if it were none.
pub type TakeFault<'a> = dyn FnMut(OpenFault, Error) -> Result<bool> + Send + 'a;

/// Opens for a reader: the first fault that readers do not do without is the error.
#[expect(clippy::expect_used, reason = "an opener returns nothing only after a fault")]
pub(crate) fn open_strictly<T>(
    open: impl FnOnce(&mut TakeFault<'_>) -> Result<Option<T>>,
) -> Result<T> {
    let mut take = |fault, error| match fault {
        OpenFault::Redundant => Ok(true),
        OpenFault::Document | OpenFault::Contradiction | OpenFault::Unsupported => Err(error),
    };
    Ok(open(&mut take)?.expect("an opener returns nothing only after a fault"))
}

/// Returns the policy that the document of a family states, at a level whose keys have `rank` numbers. Links to another
/// level need its anchor too.
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

/// Returns what leads from chunks of a level to those of another.
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
    let doc = LinkSegment::parse(attributes.clone()).and_then(|doc| Ok((doc.dtype()?, doc)));
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

/// Returns the type of the numbers in a row of links.
pub(crate) fn link_integer(dtype: Dtype) -> Result<LinkInteger> {
    let signed = dtype.kind == DtypeKind::Int;
    if dtype.big_endian || !(signed || dtype.kind == DtypeKind::UInt) {
        let (what, expected) = ("dtype of links", "little-endian integers");
        return Err(Error::new(Class::Unsupported, what, expected, "another"));
    }
    let size = u8::try_from(dtype.size).unwrap_or(u8::MAX); // too large: refused
    Ok(LinkInteger::new(size, signed)?)
}

/// Returns the rows of `blocks` that each of `spans`, a start and a count, names; near spans are read together.
///
/// # Errors
///
/// When rows cannot be read. Each answer has its own fault: a span that does not lie inside the blocks.
pub async fn references(spans: &[[i64; 2]], blocks: &DenseArray) -> Result<Vec<Result<Bytes>>> {
    let spans: Vec<Result<Range<u64>>> =
        spans.iter().map(|[start, count]| span(*start, *count, blocks.len())).collect();
    let mut ranges: Vec<Range<u64>> = spans.iter().flatten().cloned().collect();
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            // A span may end near the largest number: an array may claim so many rows.
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
        // Each span that has rows lies in a piece.
        let (piece, bytes) =
            &pieces[pieces.partition_point(|piece| piece.0.start <= span.start) - 1];
        let stride = bytes.len() / saturating_usize(piece.end - piece.start);
        let at = |row: u64| saturating_usize(row - piece.start) * stride;
        Ok(bytes.slice(at(span.start)..at(span.end)))
    };
    Ok(spans.into_iter().map(cut).collect())
}

fn span(start: i64, count: i64, blocks: u64) -> Result<Range<u64>> {
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

/// Rows between two spans that are read rather than left out.
const GAP: u64 = 1024;
/// Pieces that are read at once.
const CONCURRENT_READS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_lie_inside_the_blocks() {
        for (start, count, expected) in [
            (0, 0, Ok(0..0)),
            (3, 2, Ok(3..5)),
            (5, 0, Ok(5..5)),
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

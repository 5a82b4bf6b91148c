//! Opening a family: its policy, and the segments it has.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{Anchor, Body, LinkInteger, LinkPolicy, RowShape};
use zvf_format::{Class, Expected};
use zvf_metadata::arrays::{LinkSegment as SegmentDoc, LinksFamily};
use zvf_metadata::{LayoutFamily as Layout, LinkStore};
use zvf_store::{Cells, Notice};

use super::segment::{Form, LinkSegment};
use super::{Inner, LinkFamily, probe};
use crate::open::{link_anchor, link_integer, link_policy, link_rows, open_strictly};
use crate::{Kind, LevelReader};

impl LevelReader {
    /// Returns the links from this level to the one `delta` levels coarser; `None` when there are none. Opened
    /// once per handle.
    ///
    /// # Errors
    ///
    /// When the documents do not say what is needed to read them, a segment has a name that is none, or
    /// the layout is one that cannot be read, which is then named.
    #[boxed]
    pub async fn links(&self, delta: Delta) -> Result<Option<LinkFamily>> {
        let cell = self.opened_links(delta);
        Ok(cell.get_or_try_init(|| family(self, delta)).await?.clone())
    }
}

/// Returns the family `delta` of a level; `None` where it has none.
async fn family(level: &LevelReader, delta: Delta) -> Result<Option<LinkFamily>> {
    let family = match level.store().family() {
        Layout::C => open_native(level, delta).await,
        Layout::A | Layout::B0 | Layout::B1 => open_older(level, delta).await,
    };
    if delta == Delta::SAME && level.is_draco() && level.kinds().contains(&Kind::Mesh) {
        return with_streams(level, family?).await;
    }
    family
}

/// Returns the family of a mesh whose vertices are Draco streams, with the faces in them.
///
/// Where streams do not keep the order of vertices, links between chunks name rows that nobody knows: the family
/// has the faces of streams alone, and does not claim to be complete.
async fn with_streams(
    level: &LevelReader,
    family: Option<LinkFamily>,
) -> Result<Option<LinkFamily>> {
    let keeps_order = level.keeps_order().await?;
    let has_intra =
        family.as_ref().is_some_and(|family| family.segments().iter().any(LinkSegment::is_intra));
    if keeps_order && has_intra {
        return Ok(family);
    }
    let policy = match &family {
        Some(family) => *family.policy(),
        None => LinkPolicy::new(FACE_CORNERS, level.key_rank())?,
    };
    if policy.link_width() != FACE_CORNERS {
        let found = zvf_format::num::to_u64(policy.link_width());
        return Err(Error::new(Class::BadShape, "corners of a face", 3, found));
    }
    let none = vec![0; policy.sid_ndim()];
    let offsets = vec![none.as_slice(); FACE_CORNERS - 1];
    let offsets = Arc::new(Offsets::new(policy.sid_ndim(), &offsets)?);
    let form = Form::Streams { streams: level.draco_cells(), offsets };
    let mut segments = match &family {
        Some(family) if keeps_order => family.segments().to_vec(),
        _ => Vec::new(),
    };
    segments.push(LinkSegment::new(policy, form));
    let others = family
        .as_ref()
        .is_some_and(|family| family.segments().iter().any(|segment| !segment.is_intra()));
    let enumerated = family.as_ref().is_none_or(LinkFamily::is_complete);
    if others && !keeps_order {
        level.store().add_notice(Notice::LinksLeftOut { key: level.vertices().path().clone() });
    }
    let inner = Inner {
        node: level.node().clone(),
        policy,
        segments,
        enumerated: enumerated && (keeps_order || !others),
        num_links: None,
        num_physical_records: None,
    };
    Ok(Some(LinkFamily { inner: Arc::new(inner) }))
}

/// Opens a family as 0.9 has it.
async fn open_native(level: &LevelReader, delta: Delta) -> Result<Option<LinkFamily>> {
    let name = format!("links/{delta}");
    let Some(group) = level.node().group(&name).await? else { return Ok(None) };
    let path = format!("{}/{name}", level.node().path());
    let place = |error: Error| error.at_array(&path);
    let doc = LinksFamily::parse(group.attributes).map_err(|error| place(error.into()))?;
    let policy = policy(level, &doc, delta).await.map_err(place)?;
    let listing = level.node().children(&name).await?;
    let (rank, width) = (policy.sid_ndim(), policy.link_width());
    let mut segments = Vec::new();
    if listing.complete {
        for child in &listing.names {
            let path = format!("{name}/{child}");
            let offsets = Offsets::parse(child, rank, width).map_err(|error| {
                Error::from(error).at_array(format!("{}/{path}", level.node().path()))
            })?;
            if let Some(cells) = level.node().cells(&path).await? {
                segments.push(segment(policy, offsets, cells)?);
            }
        }
    } else {
        let mut tried = probe::segments(&policy);
        tried.sort_by(Offsets::cmp_string);
        let paths: Vec<String> = tried.iter().map(|offsets| format!("{name}/{offsets}")).collect();
        let found = paths.iter().map(|path| level.node().cells(path));
        for (found, offsets) in futures_util::future::join_all(found).await.into_iter().zip(tried) {
            if let Some(cells) = found? {
                segments.push(segment(policy, offsets, cells)?);
            }
        }
    }
    Ok(Some(new_family(level, policy, segments, listing.complete, &doc)))
}

/// Opens one array `links/<delta>/<offsets>`.
fn segment(policy: LinkPolicy, offsets: Offsets, cells: Cells) -> Result<LinkSegment> {
    let rows = open_strictly(|take| link_rows(&policy, &offsets, cells.attributes(), take));
    let (shape, body) = rows.at_array(cells.path())?;
    let offsets = Arc::new(offsets);
    Ok(LinkSegment::new(policy, Form::Sources { cells, offsets, shape, body }))
}

/// Opens a family of the versions before 0.9: links within a chunk, and those between chunks.
async fn open_older(level: &LevelReader, delta: Delta) -> Result<Option<LinkFamily>> {
    let name = format!("cross_chunk_links/{delta}");
    let path = format!("{}/{name}", level.node().path());
    let place = |error: Error| error.at_array(&path);
    let between_doc = match level.node().group(&name).await? {
        Some(group) if !group.attributes.is_empty() => Some(
            LinksFamily::parse_cross_chunk(group.attributes)
                .map_err(|error| place(error.into()))?,
        ),
        _ => None,
    };
    let within = open_within(level, delta).await?;
    let width = within.as_ref().and_then(|(_, doc)| doc.link_width);
    let doc = match (between_doc, width) {
        (Some(doc), Some(width)) if doc.link_width != width => {
            reconcile_widths(level, &name, doc, width, &within).await.map_err(place)?
        }
        (Some(doc), _) => doc,
        (None, Some(width)) => LinksFamily::new(delta.0.into(), width, false, LinkStore::Canonical),
        (None, None) if within.is_none() => return Ok(None),
        (None, None) => {
            return Err(place(Error::new(
                Class::BadTag,
                "link_width",
                "a number of endpoints",
                "nothing",
            )));
        }
    };
    let policy = policy(level, &doc, delta).await.map_err(place)?;
    let between = open_between(level, &name, &doc, policy).await.map_err(place)?;
    let (mut segments, mut doc) = (Vec::new(), doc);
    if let Some((cells, within_doc)) = within {
        // Their documents count the records between chunks alone: those within are known to the cells.
        if !cells.presence().await.is_ok_and(|keys| keys.is_empty()) {
            (doc.num_links, doc.num_physical_records) = (None, None);
        }
        if within_doc.link_width.is_none_or(|width| width == doc.link_width) {
            segments.push(open_within_segment(policy, delta, cells, &within_doc)?);
        }
    }
    // Besides cells by the chunks they join, which only a listing shows, there are forms that are whole.
    let whole = matches!(between, None | Some(Form::Flat { .. }));
    segments.extend(between.map(|form| LinkSegment::new(policy, form)));
    let enumerated = whole
        || level.store().family() == Layout::C
        || level.node().children(&name).await?.complete;
    Ok(Some(new_family(level, policy, segments, enumerated, &doc)))
}

/// Returns the links within chunks, with their document.
async fn open_within(level: &LevelReader, delta: Delta) -> Result<Option<(Cells, SegmentDoc)>> {
    let Some(cells) = level.node().cells(&format!("links/{delta}")).await? else { return Ok(None) };
    let doc = SegmentDoc::parse(cells.attributes().clone()).at_array(cells.path())?;
    Ok(Some((cells, doc)))
}

/// Returns what links of `width` ends within chunks are, seen as one family with those between chunks, whose
/// document states another width.
///
/// Writers of 0.6 and 0.7 leave an empty family of width 2 between chunks beside faces of 3 or 4 corners. A
/// side that holds no record says nothing of the other.
async fn reconcile_widths(
    level: &LevelReader,
    name: &str,
    between: LinksFamily,
    width: u64,
    within: &Option<(Cells, SegmentDoc)>,
) -> Result<LinksFamily> {
    if is_empty(level, name, &between).await? {
        return Ok(LinksFamily { link_width: width, ..between });
    }
    if let Some((cells, _)) = within
        && cells.presence().await?.is_empty()
    {
        return Ok(between);
    }
    Err(Error::new(
        Class::CountMismatch,
        "link_width of records between chunks, beside others within them",
        width,
        between.link_width,
    ))
}

/// Returns whether a family between chunks holds no record.
async fn is_empty(level: &LevelReader, name: &str, doc: &LinksFamily) -> Result<bool> {
    if doc.layout.is_none()
        && let Some(data) = level.node().dense(&format!("{name}/{DATA}")).await?
    {
        return Ok(data.is_empty());
    }
    Ok(level.node().children(name).await?.names.is_empty())
}

/// Opens `links/<delta>` before 0.9: all ends have the key of the cell.
fn open_within_segment(
    policy: LinkPolicy,
    delta: Delta,
    cells: Cells,
    doc: &SegmentDoc,
) -> Result<LinkSegment> {
    let dtype = doc.dtype().at_array(cells.path())?;
    let shape = RowShape::new(link_integer(dtype)?, policy.link_width(), false)?;
    let none = vec![0; policy.sid_ndim()];
    let offsets = vec![none.as_slice(); policy.link_width() - 1];
    let offsets = Arc::new(Offsets::new(policy.sid_ndim(), &offsets)?);
    let body = if delta == Delta::SAME { Body::Flat } else { Body::Inline };
    // Both ends have the key of the cell, whatever the chunks of the other level measure.
    let same = policy.with_delta(delta, Anchor::identity(policy.sid_ndim())?)?;
    Ok(LinkSegment::new(same, Form::Sources { cells, offsets, shape, body }))
}

/// Returns the records of 0.6 to 0.8 whose endpoints lie in several chunks.
async fn open_between(
    level: &LevelReader,
    name: &str,
    doc: &LinksFamily,
    policy: LinkPolicy,
) -> Result<Option<Form>> {
    match doc.layout.as_deref() {
        None => {}
        Some(PARTITIONED) => return open_partitioned(level, name, policy).await.map(Some),
        Some(other) => {
            let error = Error::unsupported("layout", other);
            return Err(error);
        }
    }
    if let Some(data) = level.node().dense(&format!("{name}/{DATA}")).await? {
        return Ok(Some(Form::Flat { data, blob: OnceCell::new() }));
    }
    if doc.num_links == Some(0) {
        return Ok(None);
    }
    let shape = RowShape::new(LinkInteger::I64, policy.link_width(), true)?;
    let cells = level.node().cells(name).await?;
    Ok(cells.map(|cells| Form::Tuples { cells, shape }))
}

/// Opens the leaves `<chunk 0>/../<chunk K-1>/data` below a family.
async fn open_partitioned(level: &LevelReader, name: &str, policy: LinkPolicy) -> Result<Form> {
    let (mut leaves, mut open) = (Vec::new(), vec![(name.to_owned(), Vec::<ChunkKey>::new())]);
    while let Some((path, chunks)) = open.pop() {
        for child in level.node().children(&path).await?.names {
            let below = format!("{path}/{child}");
            if child == DATA {
                let leaf = level.node().dense(&below).await?;
                leaves.extend(leaf.map(|leaf| (chunks.clone(), leaf)));
            } else if chunks.len() < policy.link_width() {
                let key = child.parse::<ChunkKey>().map_err(|error| {
                    Error::from(error).at_array(format!("{}/{below}", level.node().path()))
                })?;
                let deeper = chunks.iter().copied().chain([key]).collect();
                open.push((below, deeper));
            }
        }
    }
    leaves.sort_by(|(a, _), (b, _)| {
        a.iter().map(ChunkKey::components).cmp(b.iter().map(ChunkKey::components))
    });
    Ok(Form::Partitioned { leaves })
}

fn new_family(
    level: &LevelReader,
    policy: LinkPolicy,
    segments: Vec<LinkSegment>,
    enumerated: bool,
    doc: &LinksFamily,
) -> LinkFamily {
    let (num_links, num_physical_records) = (doc.num_links, doc.num_physical_records);
    let node = level.node().clone();
    let inner = Inner { node, policy, segments, enumerated, num_links, num_physical_records };
    LinkFamily { inner: Arc::new(inner) }
}

/// Returns the policy that a document states, checked against the level.
async fn policy(level: &LevelReader, doc: &LinksFamily, delta: Delta) -> Result<LinkPolicy> {
    let policy = open_strictly(|take| link_policy(doc, level.key_rank(), delta, take))?;
    if delta == Delta::SAME {
        return Ok(policy);
    }
    let other = i64::from(level.level().0) + i64::from(delta.0);
    let other = u32::try_from(other).map_err(|_negative| {
        Error::new(Class::OutOfBounds, "level that is linked to", Expected::AtLeast(0), other)
    })?;
    let target = level.store().level(other).await?;
    let anchor = link_anchor(level.store().root(), level.node(), &target)?;
    Ok(policy.with_delta(delta, anchor)?)
}

/// The layout between 0.7 and 0.8 that can be read, and the name of its leaves and of the one blob.
const PARTITIONED: &str = "partitioned_v1";
const DATA: &str = "data";
/// Corners of the faces in Draco streams.
const FACE_CORNERS: usize = 3;

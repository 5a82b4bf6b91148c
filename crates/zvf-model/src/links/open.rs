//! Opens a family: its policy and its segments.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::{Delta, Offsets};
use zvf_format::link::{LinkInteger, LinkPolicy, RowShape};
use zvf_format::{Class, Expected};
use zvf_metadata::LayoutFamily as Layout;
use zvf_metadata::arrays::{ArrayAttributes as _, LinksFamily};
use zvf_store::{Cells, Listing, Notice};

use super::segment::{Form, LinkSegment};
use super::{LinkFamily, OpenedFamily, probe};
use crate::open::{
    OlderForm, OlderLinks, first_fault, link_anchor, link_policy, link_rows, older_leaves,
    older_links, older_rows, open_strictly, refuse_lost, refuse_stored,
};
use crate::{Kind, LevelReader};

impl LevelReader {
    /// Returns the links from this level to the one `delta` levels coarser; `None` if there are
    /// none. Opened once per handle.
    ///
    /// # Errors
    ///
    /// When the documents lack information that is needed to read them, a segment has an invalid
    /// name, or the layout is not supported; the error names it.
    #[boxed]
    pub async fn links(&self, delta: Delta) -> Result<Option<LinkFamily>> {
        let cell = self.opened_links(delta);
        Ok(cell.get_or_try_init(|| family(self, delta)).await?.clone())
    }
}

/// Returns the family `delta` of a level; `None` if it has none.
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
/// If streams do not keep the order of vertices, links between chunks refer to unknown rows: the
/// family then has only the faces in streams, and is marked as incomplete.
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
    let form = Form::Streams { streams: level.draco_cells(), offsets: same_chunk(&policy)? };
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
    let inner = OpenedFamily {
        node: level.node().clone(),
        policy,
        segments,
        enumerated: enumerated && (keeps_order || !others),
        num_links: None,
        num_physical_records: None,
    };
    Ok(Some(LinkFamily { inner: Arc::new(inner) }))
}

/// Opens a family in the layout of 0.9.
async fn open_native(level: &LevelReader, delta: Delta) -> Result<Option<LinkFamily>> {
    let name = format!("links/{delta}");
    let Some(group) = level.node().group(&name).await? else {
        refuse_lost(level.node(), "links", &name).await?;
        return Ok(None);
    };
    let path = format!("{}/{name}", level.node().path());
    let doc = LinksFamily::parse(group.attributes).at_array(&path)?;
    let policy = policy(level, &doc, delta).await.at_array(&path)?;
    let listing = match doc.segments().filter(|_| !level.store().can_list()) {
        Some(listed) => {
            let names = listed.into_iter().map(str::to_owned).collect();
            Listing { names, complete: true }
        }
        None => level.node().children(&name).await?,
    };
    let (rank, width) = (policy.sid_ndim(), policy.link_width());
    let mut segments = Vec::new();
    if listing.complete {
        for child in &listing.names {
            let path = format!("{name}/{child}");
            let offsets = Offsets::parse(child, rank, width).map_err(|error| {
                Error::from(error).at_array(format!("{}/{path}", level.node().path()))
            })?;
            match level.node().cells(&path).await? {
                Some(cells) => segments.push(segment(policy, offsets, cells)?),
                None if level.store().can_list() => refuse_stored(level.node(), &path).await?,
                None => return Err(Error::missing(level.node().path().join(&path)?, NAMED)),
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

/// Opens a family of a version before 0.9: links within a chunk, and links between chunks.
async fn open_older(level: &LevelReader, delta: Delta) -> Result<Option<LinkFamily>> {
    let (node, name) = (level.node(), delta.to_string());
    let opened = older_links(node, (delta, &name), &mut first_fault).await?;
    let Some(OlderLinks { mut doc, within, between }) = opened else { return Ok(None) };
    let outer = format!("cross_chunk_links/{name}");
    let policy = policy(level, &doc, delta).await.at_array(format!("{}/{outer}", node.path()))?;
    let between = match between {
        OlderForm::Blob(data) => Some(Form::Flat { data, blob: OnceCell::new() }),
        OlderForm::Leaves => {
            let found = older_leaves(node, &name, &policy, &mut first_fault).await?;
            let opened = try_join_all(found.iter().map(|(_, path)| node.dense(path))).await?;
            let leaves = found.into_iter().zip(opened);
            let leaves = leaves.filter_map(|((chunks, _), leaf)| Some((chunks, leaf?)));
            Some(Form::Partitioned { leaves: leaves.collect() })
        }
        OlderForm::Cells if doc.num_links == Some(0) => None,
        OlderForm::Cells => {
            let shape = RowShape::new(LinkInteger::I64, policy.link_width(), true)?;
            node.cells(&outer).await?.map(|cells| Form::Tuples { cells, shape })
        }
    };
    let mut segments = Vec::new();
    if let Some(within) = within
        && let Some(cells) = node.cells(&format!("links/{name}")).await?
    {
        // Their documents count only the records between chunks: the records within chunks are
        // counted from the cells.
        if !cells.presence().await.is_ok_and(|keys| keys.is_empty()) {
            (doc.num_links, doc.num_physical_records) = (None, None);
        }
        let dtype = within.dtype().at_array(cells.path())?;
        let (same, shape, body) = older_rows(policy, dtype)?;
        let offsets = same_chunk(&policy)?;
        segments.push(LinkSegment::new(same, Form::Sources { cells, offsets, shape, body }));
    }
    // Besides cells by chunks, which only a listing finds, there are forms that are always
    // complete.
    let whole = matches!(between, None | Some(Form::Flat { .. }));
    segments.extend(between.map(|form| LinkSegment::new(policy, form)));
    let enumerated = whole || node.children(&outer).await?.complete;
    Ok(Some(new_family(level, policy, segments, enumerated, &doc)))
}

/// Returns the offsets of records whose endpoints are all in one chunk.
fn same_chunk(policy: &LinkPolicy) -> Result<Arc<Offsets>> {
    let none = vec![0; policy.sid_ndim()];
    let offsets = vec![none.as_slice(); policy.link_width() - 1];
    Ok(Arc::new(Offsets::new(policy.sid_ndim(), &offsets)?))
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
    let inner =
        OpenedFamily { node, policy, segments, enumerated, num_links, num_physical_records };
    LinkFamily { inner: Arc::new(inner) }
}

/// Returns the policy in a document, checked against the level.
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

/// Why an array of a family must be there.
const NAMED: &str = "the document of the family names this array";
/// Corners of the faces in Draco streams.
const FACE_CORNERS: usize = 3;

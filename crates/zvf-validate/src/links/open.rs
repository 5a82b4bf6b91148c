//! The link families of a level: documents, names of arrays, attributes.
//!
//! ```text
//! 0.9        links/<delta>/<offsets>                    C10 to C13, C37, M20, M24
//! 0.6, 0.7   links/<delta>, cross_chunk_links/<delta>   C37, M20
//! between    the latter by the chunks they touch        C37, M21; another layout is S17
//! 0.8        the former, and cells of joined keys
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{Body, LinkInteger, LinkPolicy, LinkStorage, RowShape};
use zvf_metadata::arrays::{ArrayAttributes as _, LinkColumnAttrs, LinksFamily, SegmentAttrs};
use zvf_metadata::{Capability, LayoutFamily as Layout, Node, Object};
use zvf_model::open::{self, OlderForm, OlderLinks};

use super::segment::{Form, Segment};
use crate::array::{ChunkArray, quote};
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::{C, M, S};
use crate::validation::Validation;

/// One link family that can be checked.
pub(crate) struct OpenFamily {
    pub(crate) delta: Delta,
    pub(crate) family: LinkPolicy,
    pub(crate) doc: LinksFamily,
    /// The group whose document has the counts.
    pub(crate) path: String,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Records across chunks that are not stored in cells.
    pub(crate) loose: LooseRecords,
    /// Whether all segments could be opened, so that counts can be compared.
    pub(crate) complete: bool,
}

/// Records across chunks that are not in cells.
pub(crate) enum LooseRecords {
    None,
    /// One blob of records that carry the chunks of their ends.
    Flat(String),
    /// A blob for each set of chunks.
    Leaves(Vec<Leaf>),
}

/// The records between some chunks.
pub(crate) struct Leaf {
    pub(crate) path: String,
    pub(crate) chunks: Vec<ChunkKey>,
}

/// Opens all link families of a level.
pub(crate) async fn open_families(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
) -> Result<Vec<OpenFamily>> {
    let native = run.store.family() == Layout::C;
    let mut deltas = Vec::new();
    for group in if native { &["links"][..] } else { &["links", "cross_chunk_links"] } {
        for name in run.names(C[11], &level.path(group)).await? {
            let path = level.path(&format!("{group}/{name}"));
            match name.parse::<Delta>() {
                Ok(delta) => {
                    for lint in delta.lints(&name).iter() {
                        run.add(Finding::from_format(C[42], &path, lint).lint());
                    }
                    if !deltas.iter().any(|(other, _)| *other == delta) {
                        deltas.push((delta, name));
                    }
                }
                Err(error) => run.add(Finding::from_format(C[11], &path, &error)),
            }
        }
    }
    let mut opened = Vec::new();
    for (delta, name) in deltas {
        opened.extend(match native {
            true => open_c(run, levels, level, delta, &name).await?,
            false => open_older(run, levels, level, delta, &name).await?,
        });
    }
    Ok(opened)
}

/// Reads the attributes of the node at `path`, if it exists.
async fn read_attributes(run: &mut Validation, path: &str) -> Result<Option<Object>> {
    Ok(run.node(path).await?.flatten().map(|node| match &*node {
        Node::Group(group) => group.attributes.clone(),
        Node::Array(array) => array.attributes.clone(),
    }))
}

/// Opens a family of 0.9.
async fn open_c(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
    delta: Delta,
    name: &str,
) -> Result<Option<OpenFamily>> {
    let path = level.path(&format!("links/{name}"));
    let Some(attributes) = read_attributes(run, &path).await? else {
        run.add(M[20].at(&path).expects("zarr.json", "the document of a link family", "nothing"));
        return Ok(None);
    };
    let Some(doc) = run.parsed(&path, LinksFamily::parse(attributes)) else { return Ok(None) };
    let names = run.names(C[11], &path).await?;
    if doc.sid_ndim.is_none_or(|n| n == 0) && names.is_empty() {
        run.add(C[10].at(&path).expects("sid_ndim", "a number of axes", "none"));
    }
    let Some(family) = check_policy(run, levels, level, &path, &doc, delta)? else {
        return Ok(None);
    };
    check_segment_list(run, &path, &doc, &names);
    let (rank, width) = (family.sid_ndim(), family.link_width());
    let values = list_values(run, level, name).await?;
    let (mut segments, mut complete) = (Vec::new(), true);
    for child in &names {
        let path = format!("{path}/{child}");
        let offsets = match Offsets::parse(child, rank, width) {
            Ok(offsets) => offsets,
            Err(error) => {
                run.add(Finding::from_format(C[11], &path, &error));
                complete = false;
                continue;
            }
        };
        check_signs(run, &path, &family, &offsets);
        let segment =
            open_segment(run, level, &family, &offsets, &format!("links/{name}/{child}")).await?;
        let Some(mut segment) = segment else {
            complete = false;
            continue;
        };
        for (attribute, names) in &values {
            let attribute = format!("link_attributes/{attribute}/{name}/{child}");
            if names.contains(child) {
                let value = open_values(run, level, &attribute, Some(&offsets)).await?;
                segment.attributes.extend(value);
            } else if !segment.array.keys.is_empty() {
                run.add(C[20].at(level.path(&attribute)).expects(
                    "array",
                    "values for the links of its segment",
                    "nothing",
                ));
            }
        }
        segments.push(Arc::new(segment));
    }
    for (attribute, below) in &values {
        for child in below.iter().filter(|child| !names.contains(child)) {
            let path = level.path(&format!("link_attributes/{attribute}/{name}/{child}"));
            run.add(C[20].at(path).expects("array", "the name of an array of links", "another"));
        }
    }
    Ok(Some(OpenFamily { delta, family, doc, path, segments, loose: LooseRecords::None, complete }))
}

/// Checks M24: the arrays that the document of a family lists.
fn check_segment_list(run: &mut Validation, path: &str, doc: &LinksFamily, stored: &[String]) {
    let Some(listed) = doc.segments().filter(|_| run.store.can_list()) else { return };
    let listed = BTreeSet::from_iter(listed);
    let stored = stored.iter().map(String::as_str).collect();
    for name in listed.symmetric_difference(&stored) {
        let found = if stored.contains(name) { "no" } else { "also" };
        let found = format!("{found} {}", quote(name));
        let finding = M[24].at(format!("{path}/zarr.json"));
        run.add(finding.expects(LinksFamily::SEGMENTS, "the names of the stored arrays", found));
    }
}

/// Lists the attributes of links that have values for a family, with the names of their arrays.
async fn list_values(
    run: &mut Validation,
    level: &LevelState,
    delta: &str,
) -> Result<Vec<(String, Vec<String>)>> {
    let mut values = Vec::new();
    for name in run.names(C[20], &level.path("link_attributes")).await? {
        let below = run.names(C[20], &level.path(&format!("link_attributes/{name}"))).await?;
        if below.iter().any(|child| child == delta) {
            let path = level.path(&format!("link_attributes/{name}/{delta}"));
            let names = run.names(C[20], &path).await?;
            values.push((name, names));
        }
    }
    Ok(values)
}

/// Opens an array of values; returns the bytes of a row, too.
async fn open_values(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
    offsets: Option<&Offsets>,
) -> Result<Option<(ChunkArray, u64)>> {
    let Some(array) = ChunkArray::open(run, &level.node, name).await? else { return Ok(None) };
    let doc = LinkColumnAttrs::parse(array.cells.attributes().clone());
    let doc = doc.and_then(|doc| Ok((doc.dtype()?, doc)));
    let Some((dtype, doc)) = run.parsed(&array.path, doc) else { return Ok(None) };
    let named: Option<Vec<&[i64]>> = offsets.map(|offsets| offsets.iter().collect());
    if let (Some(named), Some(stated)) = (named, &doc.offsets)
        && *stated != named
    {
        let expected = format!("{named:?}, as the array is named");
        run.add(C[37].at(&array.path).expects("offsets", expected, format!("{stated:?}")));
    }
    let row = doc.declared_columns().and_then(|columns| columns.checked_mul(dtype.size));
    Ok(Some((array, row.unwrap_or(u64::MAX)))) // too large: more than any cell has
}

/// Checks C12, C13: undirected families that store links once sort their ends.
fn check_signs(run: &mut Validation, path: &str, family: &LinkPolicy, offsets: &Offsets) {
    if family.delta() != Delta::SAME
        || family.is_directed()
        || family.store() == LinkStorage::Duplicate
    {
        return;
    }
    let negative =
        |offset: &[i64]| offset.iter().find(|step| **step != 0).is_some_and(|step| *step < 0);
    if offsets.iter().any(negative) {
        run.add(C[12].at(path).expects("offsets", "none that is negative", offsets));
    } else if !offsets.are_sorted() {
        run.add(C[13].at(path).expects("offsets", "none smaller than the one before", offsets));
    }
}

/// Opens one array of a family and checks C37.
async fn open_segment(
    run: &mut Validation,
    level: &LevelState,
    family: &LinkPolicy,
    offsets: &Offsets,
    name: &str,
) -> Result<Option<Segment>> {
    let Some(array) = ChunkArray::open(run, &level.node, name).await? else { return Ok(None) };
    let take = &mut |fault, error| run.collect(fault, &array.path, error);
    let rows = open::link_rows(family, offsets, array.cells.attributes(), take)?;
    let Some((shape, body)) = rows else { return Ok(None) };
    let is_intra = offsets.are_zero() && family.delta() == Delta::SAME;
    let fragments = level.link_fragments.clone().filter(|_| is_intra);
    let (family, form) = (*family, Form::Offsets(Box::new(*offsets)));
    Ok(Some(Segment { array, family, form, shape, body, attributes: Vec::new(), fragments }))
}

/// Opens a family of a version before 0.9.
async fn open_older(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
    delta: Delta,
    name: &str,
) -> Result<Option<OpenFamily>> {
    let path = level.path(&format!("cross_chunk_links/{name}"));
    let take = &mut |fault, error| run.collect(fault, &path, error);
    let opened = open::older_links(&level.node, (delta, name), take).await?;
    let Some(OlderLinks { doc, within, between, .. }) = opened else { return Ok(None) };
    let Some(family) = check_policy(run, levels, level, &path, &doc, delta)? else {
        return Ok(None);
    };
    let mut segments = Vec::new();
    if let Some(within) = within {
        segments.extend(open_same_chunk(run, level, &family, name, &within).await?.map(Arc::new));
    }
    let (mut loose, mut complete) = (LooseRecords::None, true);
    match between {
        OlderForm::Blob(data) => loose = LooseRecords::Flat(data.path().to_string()),
        OlderForm::Leaves => {
            run.check_announced(
                Capability::PartitionedCrossChunkLinks,
                "partitioned_cross_chunk_links",
            );
            let take = &mut |fault, error| run.collect(fault, &path, error);
            let leaves = open::older_leaves(&level.node, name, &family, take).await?.into_iter();
            let leaf = |(chunks, name): (_, String)| Leaf { path: level.path(&name), chunks };
            loose = LooseRecords::Leaves(leaves.map(leaf).collect());
        }
        OlderForm::Cells => {
            if let Some(stated) = doc.num_links.filter(|n| *n > 0) {
                let joined = match run.store.family() {
                    Layout::A => None,
                    Layout::B0 | Layout::B1 | Layout::C => {
                        open_joined(run, level, &family, name).await?
                    }
                };
                complete = joined.as_ref().is_some_and(|segment| !segment.array.keys.is_empty());
                if !complete {
                    run.add(C[19].at(&path).expects(
                        "records",
                        format!("{stated}, as num_links says"),
                        "none",
                    ));
                }
                segments.extend(joined.map(Arc::new));
            }
        }
    }
    Ok(Some(OpenFamily { delta, family, doc, path, segments, loose, complete }))
}

/// Opens `links/<delta>` before 0.9: all ends have the key of the cell.
async fn open_same_chunk(
    run: &mut Validation,
    level: &LevelState,
    family: &LinkPolicy,
    name: &str,
    within: &SegmentAttrs,
) -> Result<Option<Segment>> {
    let Some(array) = ChunkArray::open(run, &level.node, &format!("links/{name}")).await? else {
        return Ok(None);
    };
    let rows = within.dtype().map_err(Error::from);
    let rows = rows.and_then(|dtype| open::older_rows(*family, dtype));
    let Some((family, shape, body)) = run.take(S[17], &array.path, rows)? else { return Ok(None) };
    let flat = family.delta() == Delta::SAME;
    let fragments = level.link_fragments.clone().filter(|_| flat);
    let mut attributes = Vec::new();
    for attribute in run.names(C[20], &level.path("link_attributes")).await? {
        let path = format!("link_attributes/{attribute}/{name}");
        attributes.extend(open_values(run, level, &path, None).await?);
    }
    Ok(Some(Segment { array, family, form: Form::Same, shape, body, attributes, fragments }))
}

/// Opens `cross_chunk_links/<delta>` of 0.8.
async fn open_joined(
    run: &mut Validation,
    level: &LevelState,
    family: &LinkPolicy,
    name: &str,
) -> Result<Option<Segment>> {
    let path = format!("cross_chunk_links/{name}");
    let Some(array) = ChunkArray::open(run, &level.node, &path).await? else { return Ok(None) };
    let Ok(shape) = RowShape::new(LinkInteger::I64, family.link_width(), true) else {
        return Ok(None);
    };
    let (form, body) = (Form::Joined, Body::Inline);
    let (attributes, fragments) = (Vec::new(), None);
    Ok(Some(Segment { array, family: *family, form, shape, body, attributes, fragments }))
}

/// Checks C17, C37: the document of a family and its target level; returns the policy of the family.
fn check_policy(
    run: &mut Validation,
    levels: &[LevelState],
    level: &LevelState,
    path: &str,
    doc: &LinksFamily,
    delta: Delta,
) -> Result<Option<LinkPolicy>> {
    // A family that was never written to has no axes.
    let doc = LinksFamily { sid_ndim: doc.sid_ndim.filter(|axes| *axes > 0), ..doc.clone() };
    let take = &mut |fault, error| run.collect(fault, path, error);
    let policy = open::link_policy(&doc, level.node.key_rank(), delta, take)?;
    let Some(policy) = policy.filter(|_| delta != Delta::SAME) else { return Ok(policy) };
    let (number, root) = (level.number_at(delta.0), run.store.root());
    let Some(target) = level.find_at(delta.0, levels) else {
        // A removed level is no longer a node, and links to it may remain; a level that is still
        // listed as a node was lost.
        let name = number.to_string();
        let is_listed = root.multiscale().is_some_and(|scales| scales.dataset(&name).is_some());
        let is_node = root.ome().and_then(Result::ok).is_some_and(|ome| ome.has_level(&name));
        let finding = C[17].at(path).expects("level", "one of the store", number);
        run.add(if is_listed && is_node { finding } else { finding.warning() });
        return Ok(None);
    };
    // Chunks that do not nest are another finding.
    let anchor = open::link_anchor(root, &level.node, &target.node).ok();
    Ok(anchor.and_then(|anchor| policy.with_delta(delta, anchor).ok()))
}

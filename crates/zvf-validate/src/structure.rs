//! Level 1: which nodes exist. Also opens the nodes for the other levels.
//!
//! ```text
//! root      parametric, headers, levels                S3, S10, S16
//! level     vertices and its companions, groups        S4 to S9, S13, S14, S16, S19
//! ```
//!
//! Violations of S1, S2, S11 and S12 prevent a store from opening: see
//! [`report_unopened`](crate::report_unopened).

use zvf_error::{Error, Result};
use zvf_format::key::Delta;
use zvf_metadata::{Capability, LayoutFamily, Node, Version};

use crate::array::{ChunkArray, check_group_files, encoding};
use crate::composite;
use crate::finding::readable;
use crate::level::LevelState;
use crate::rule::Rule;
use crate::rules::{M, S};
use crate::validation::Validation;

/// Checks the nodes next to the levels, and the ome node.
pub(crate) async fn check_root(run: &mut Validation) -> Result<()> {
    if run.store.version().numbers() >= OME_SINCE && run.store.root().ome.is_none() {
        run.add(S[10].at("zarr.json").expects("ome", "a collection of levels", "nothing"));
    }
    let axes = run.store.root().axes().len();
    if run.store.version().is_newer_than_known() {
        let expected = format!("at most {}", Version::NEWEST);
        let finding =
            S[11].at("zarr.json").expects("zarr_vectors.zv_version", expected, run.store.version());
        run.add(finding.warning());
    }
    let block = &run.store.root().zarr_vectors;
    if let Some(found) = block.shard_shape.as_ref().filter(|_| block.declared_shard(axes).is_none())
    {
        let finding = M[23].at("zarr.json");
        run.add(finding.expects("shard_shape", "a number above 0, or one for each axis", found));
    }
    check_group_files(run, "").await?;
    for name in run.names(S[16], "").await? {
        if name.parse::<u32>().is_err() {
            check_folder(run, &name).await?;
            for below in run.names(S[16], &name).await? {
                check_folder(run, &format!("{name}/{below}")).await?;
            }
        }
    }
    Ok(())
}

/// Returns every level that can be opened, with its arrays.
pub(crate) async fn open_levels(run: &mut Validation) -> Result<Vec<LevelState>> {
    let listed = readable(run.store.list_levels().await)?;
    let numbers = listed.unwrap_or_else(|| run.store.level_numbers()); // cannot list
    if numbers.is_empty() {
        run.add(S[3].at("").expects("levels", "at least one", "none"));
    }
    let mut levels = Vec::new();
    for number in numbers {
        run.step(&number.to_string(), 0, 1)?;
        let path = number.to_string();
        let node = run.store.level(number).await;
        // A document that parses but lacks what a level needs is a finding of level 2.
        let subject = node.as_ref().err().and_then(Error::what);
        let rule = match subject.is_some_and(|path| path.starts_with(BLOCK)) {
            true if lacks_attributes(run, &path).await => S[7],
            true => M[13],
            false => S[4],
        };
        let Some(node) = run.take(rule, &path, node)? else { continue };
        run.checked.levels += 1;
        if node.meta().is_deferred() {
            let finding = S[21].at(format!("{path}/zarr.json"));
            run.add(finding.expects(
                "zarr_vectors_presence",
                "nothing: the level is complete",
                "deferred",
            ));
        }
        let mut level = LevelState::new(node, run.store.root().zarr_vectors.geometry_types.clone());
        open_arrays(run, &mut level).await?;
        composite::check_extra_kinds(run, &mut level).await?;
        for extra in &mut level.extra_kinds {
            open_arrays(run, extra).await?;
        }
        levels.push(level);
    }
    // Kinds that level 0 stores in extra groups are not in the arrays of coarser levels either.
    let kinds = levels.first().map(|first| first.kinds.clone()).unwrap_or_default();
    for level in levels.iter_mut().filter(|level| !level.has_node("geometry_index")) {
        level.kinds.clone_from(&kinds);
    }
    Ok(levels)
}

async fn lacks_attributes(run: &Validation, path: &str) -> bool {
    let node = run.store.nodes().node(path).await.ok().flatten();
    matches!(node.as_deref(), Some(Node::Group(group)) if group.attributes.is_empty())
}

async fn open_arrays(run: &mut Validation, level: &mut LevelState) -> Result<()> {
    let node = level.node.clone();
    let children = names_of_level(run, &level.name).await?;
    level.children.clone_from(&children);
    check_group_files(run, &level.name).await?;

    level.vertices = ChunkArray::open(run, &node, "vertices").await?;
    level.fragments = ChunkArray::open(run, &node, "vertex_fragments").await?;
    for (rule, array, name, expected) in [
        (S[5], &level.vertices, "vertices", "the rows of the level"),
        (S[6], &level.fragments, "vertex_fragments", "the fragments of the level"),
    ] {
        if array.is_none() && !level.has_node(name) {
            run.add(rule.at(level.path(name)).expects("node", expected, "nothing"));
        }
    }
    level.link_fragments = ChunkArray::open(run, &node, "link_fragments").await?;
    level.vertex_columns = open_columns(run, level, "vertex_attributes").await?;
    level.fragment_columns = open_columns(run, level, "fragment_attributes").await?;
    link_values(run, level).await?;
    links(run, level, &children).await?;

    check_standalone(run, level).await?;

    for name in children {
        let known = KNOWN.iter().find(|known| known.0 == name);
        let is_composite = COMPOSITE.iter().any(|prefix| name.starts_with(prefix));
        if known.map_or(!is_composite, |known| known.1) {
            check_folder(run, &level.path(&name)).await?;
        }
        if known.is_some_and(|known| known.2) {
            run.add(S[8].at(level.path(&name)).expects("node", "present or not", "present"));
        }
    }
    Ok(())
}

/// Checks S20: the arrays of a level that do not use its grid.
async fn check_standalone(run: &mut Validation, level: &LevelState) -> Result<()> {
    let mut paths = vec![level.path("groups")];
    for group in ["object_index", "object_attributes", "group_attributes"] {
        let names = names_in(run, level, S[20], group).await?;
        paths.extend(names.iter().map(|name| level.path(&format!("{group}/{name}"))));
    }
    for path in paths {
        // A document that cannot be read is reported by the check of the array.
        if let Ok(Some(node)) = run.store.nodes().node(&path).await
            && let Node::Array(doc) = &*node
        {
            encoding(run, &path, doc);
        }
    }
    Ok(())
}

/// Returns the arrays below a group of attributes.
async fn open_columns(
    run: &mut Validation,
    level: &LevelState,
    group: &str,
) -> Result<Vec<ChunkArray>> {
    let mut columns = Vec::new();
    for name in names_in(run, level, S[16], group).await? {
        columns.extend(ChunkArray::open(run, &level.node, &format!("{group}/{name}")).await?);
    }
    Ok(columns)
}

/// Checks S16, S18, S19: the groups between `link_attributes` and its arrays.
async fn link_values(run: &mut Validation, level: &LevelState) -> Result<()> {
    for name in names_in(run, level, S[16], "link_attributes").await? {
        let path = level.path(&format!("link_attributes/{name}"));
        check_folder(run, &path).await?;
        for delta in run.names(S[16], &path).await? {
            if delta.parse::<Delta>().is_ok() {
                check_folder(run, &format!("{path}/{delta}")).await?;
            }
        }
    }
    Ok(())
}

/// Returns the names in a group of a level; none if the level has no such group.
async fn names_in(
    run: &mut Validation,
    level: &LevelState,
    rule: &'static Rule,
    group: &str,
) -> Result<Vec<String>> {
    if level.has_node(group) { run.names(rule, &level.path(group)).await } else { Ok(Vec::new()) }
}

/// Checks S9, S13, S14: families of links, by the names of their groups.
async fn links(run: &mut Validation, level: &LevelState, children: &[String]) -> Result<()> {
    let mut gaps = Vec::new();
    for group in ["links", "cross_chunk_links"] {
        if !children.iter().any(|child| child == group) {
            continue;
        }
        let path = level.path(group);
        let families = run.names(S[9], &path).await?;
        if families.is_empty() {
            run.add(S[9].at(&path).expects("families", "at least one", "none"));
        }
        gaps.extend(families.iter().filter_map(|name| name.parse::<Delta>().ok()));
        check_folder(run, &path).await?;
    }
    let announced = run.store.root().zarr_vectors.has(Capability::MultiscaleLinks);
    if !announced && let Some(gap) = gaps.iter().find(|gap| **gap != Delta::SAME) {
        let finding = S[14].at(level.path(&format!("links/{gap}")));
        run.add(finding.expects("format_capabilities", "multiscale_links", "no word of it"));
    }
    let stated = level.node.meta().arrays_present.iter().any(|name| name == "links");
    if run.store.family() == LayoutFamily::A && stated && !gaps.contains(&Delta::SAME) {
        let finding = S[13].at(level.path("links/0"));
        run.add(finding.expects("node", "the links of the level", "nothing"));
    }
    Ok(())
}

/// Checks S16, S18, S19: a folder is an array, a group with its document, or in the older families a group.
async fn check_folder(run: &mut Validation, path: &str) -> Result<()> {
    let Some(node) = run.node(path).await? else { return Ok(()) };
    if matches!(node.as_deref(), Some(Node::Array(_))) {
        return Ok(());
    }
    if node.is_none() && run.store.family() == LayoutFamily::C {
        let inside = !run.names(S[19], path).await?.is_empty();
        let rule = if inside { S[19] } else { S[16] };
        run.add(rule.at(path).expects("zarr.json", "the document of a group", "nothing"));
    }
    check_group_files(run, path).await
}

/// Returns the nodes of a level; if nothing can be listed, the known ones that exist.
async fn names_of_level(run: &mut Validation, path: &str) -> Result<Vec<String>> {
    let Some(listing) = readable(run.store.nodes().children(path).await)? else {
        return Ok(Vec::new());
    };
    if listing.complete {
        return Ok(listing.names);
    }
    let mut names = Vec::new();
    for (name, ..) in KNOWN {
        // A document that cannot be read exists.
        if !matches!(run.store.nodes().node(&format!("{path}/{name}")).await, Ok(None)) {
            names.push(name.to_owned());
        }
    }
    run.report_unlisted(S[16], path);
    Ok(names)
}

/// The nodes that levels may have: whether each is a group of arrays, and whether it is optional.
const KNOWN: [(&str, bool, bool); 13] = [
    ("vertices", false, false),
    ("vertex_fragments", false, false),
    ("vertex_attributes", true, true),
    ("fragment_attributes", true, true),
    ("link_fragments", false, false),
    ("links", false, true),
    ("link_attributes", true, false),
    ("object_index", true, true),
    ("object_attributes", true, true),
    ("groups", false, true),
    ("group_attributes", true, true),
    ("cross_chunk_links", false, false),
    ("cross_chunk_link_attributes", false, false),
];
const COMPOSITE: [&str; 2] = ["vertices_", "links_"];
/// The key of the level's block in its document.
const BLOCK: &str = "zarr_vectors_level";
const OME_SINCE: [u32; 3] = [0, 9, 2];

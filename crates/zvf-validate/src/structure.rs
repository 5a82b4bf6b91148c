//! Level 1: which nodes there are. Also opens what the other levels look into.
//!
//! ```text
//! root      parametric, headers, levels                S3, S10, S16
//! level     vertices and its companions, groups        S4 to S9, S13, S14, S16, S19
//! ```
//!
//! S1, S2, S11 and S12 keep a store from opening: see [`report_unopened`](crate::report_unopened).

use zvf_format::key::Delta;
use zvf_metadata::{Capability, LayoutFamily, Node, Version};

use crate::array::{ChunkArray, check_group_files, encoding};
use crate::composite;
use crate::finding::{Finding, is_content};
use crate::level::LevelState;
use crate::rules::metadata::M13;
use crate::rules::structure::{S3, S4, S5, S6, S7, S8, S9, S10, S11, S13, S14, S16, S18, S19, S20};
use crate::stop::Stop;
use crate::validation::Validation;

/// Checks the nodes next to the levels, and the ome node.
pub(crate) async fn check_root(run: &mut Validation) -> Result<(), Stop> {
    if run.store.version().numbers() >= OME_SINCE && run.store.root().ome.is_none() {
        run.add(Finding::new(&S10, "zarr.json").with_details(
            "ome",
            "a collection of levels",
            "nothing",
        ));
    }
    if run.store.version().is_newer_than_known() {
        let expected = format!("at most {}", Version::KNOWN);
        let finding = Finding::new(&S11, "zarr.json").with_details(
            "zarr_vectors.zv_version",
            expected,
            run.store.version(),
        );
        run.add(finding.warning());
    }
    check_group_files(run, "").await?;
    for name in run.names(&S16, "").await? {
        if name.parse::<u32>().is_err() {
            check_folder(run, &name).await?;
            for below in run.names(&S16, &name).await? {
                check_folder(run, &format!("{name}/{below}")).await?;
            }
        }
    }
    Ok(())
}

/// Returns every level that opens, with its arrays.
pub(crate) async fn open_levels(run: &mut Validation) -> Result<Vec<LevelState>, Stop> {
    let numbers = match run.store.list_levels().await {
        Ok(numbers) => numbers,
        Err(error) if is_content(&error) => run.store.level_numbers(), // cannot list
        Err(error) => return Err(error.into()),
    };
    if numbers.is_empty() {
        run.add(Finding::new(&S3, "").with_details("levels", "at least one", "none"));
    }
    let mut levels = Vec::new();
    for number in numbers {
        run.step(&number.to_string(), 0, 1)?;
        let path = number.to_string();
        let node = match run.store.level(number).await {
            Ok(node) => node,
            Err(error) => {
                // A document that parses and lacks what a level needs is one of level 2.
                let about = error.what().is_some_and(|path| path.starts_with(BLOCK));
                let empty = about && lacks_attributes(run, &path).await;
                let rule = if empty {
                    &S7
                } else if about {
                    &M13
                } else {
                    &S4
                };
                run.add_store_error(rule, &path, &error)?;
                continue;
            }
        };
        run.checked.levels += 1;
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

async fn open_arrays(run: &mut Validation, level: &mut LevelState) -> Result<(), Stop> {
    let node = level.node.clone();
    let children = names_of_level(run, &level.name).await?;
    level.children.clone_from(&children);
    check_group_files(run, &level.name).await?;

    level.vertices = ChunkArray::open(run, &node, "vertices").await?;
    if level.vertices.is_none() && !level.has_node("vertices") {
        run.add(Finding::new(&S5, level.path("vertices")).with_details(
            "node",
            "the rows of the level",
            "nothing",
        ));
    }
    level.fragments = ChunkArray::open(run, &node, "vertex_fragments").await?;
    if level.fragments.is_none() && !level.has_node("vertex_fragments") {
        let details = ("node", "the fragments of the level", "nothing");
        run.add(
            Finding::new(&S6, level.path("vertex_fragments"))
                .with_details(details.0, details.1, details.2),
        );
    }
    level.link_fragments = ChunkArray::open(run, &node, "link_fragments").await?;
    level.vertex_columns = open_columns(run, level, "vertex_attributes").await?;
    level.fragment_columns = open_columns(run, level, "fragment_attributes").await?;
    link_values(run, level).await?;
    links(run, level, &children).await?;

    check_standalone(run, level).await?;

    for name in children {
        let is_known =
            KNOWN.contains(&name.as_str()) || COMPOSITE.iter().any(|p| name.starts_with(p));
        if !is_known || GROUPS.contains(&name.as_str()) {
            check_folder(run, &level.path(&name)).await?;
        }
        if OPTIONAL.contains(&name.as_str()) {
            run.add(Finding::new(&S8, level.path(&name)).with_details(
                "node",
                "present or not",
                "present",
            ));
        }
    }
    Ok(())
}

/// Checks S20: the arrays of a level that are not over its grid.
async fn check_standalone(run: &mut Validation, level: &LevelState) -> Result<(), Stop> {
    let mut paths = vec![level.path("groups")];
    for group in ["object_index", "object_attributes", "group_attributes"] {
        if level.has_node(group) {
            let path = level.path(group);
            let names = run.names(&S20, &path).await?;
            paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        }
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
) -> Result<Vec<ChunkArray>, Stop> {
    let mut columns = Vec::new();
    if !level.has_node(group) {
        return Ok(columns);
    }
    let path = level.path(group);
    for name in run.names(&S16, &path).await? {
        columns.extend(ChunkArray::open(run, &level.node, &format!("{group}/{name}")).await?);
    }
    Ok(columns)
}

/// Checks S16, S18, S19: the groups between `link_attributes` and its arrays.
async fn link_values(run: &mut Validation, level: &LevelState) -> Result<(), Stop> {
    let path = level.path("link_attributes");
    if !level.has_node("link_attributes") {
        return Ok(());
    }
    for name in run.names(&S16, &path).await? {
        check_folder(run, &format!("{path}/{name}")).await?;
        for delta in run.names(&S16, &format!("{path}/{name}")).await? {
            if delta.parse::<Delta>().is_ok() {
                check_folder(run, &format!("{path}/{name}/{delta}")).await?;
            }
        }
    }
    Ok(())
}

/// Checks S9, S13, S14: families of links, by the names of their groups.
async fn links(run: &mut Validation, level: &LevelState, children: &[String]) -> Result<(), Stop> {
    let mut gaps = Vec::new();
    for group in ["links", "cross_chunk_links"] {
        if !children.iter().any(|child| child == group) {
            continue;
        }
        let path = level.path(group);
        let families = run.names(&S9, &path).await?;
        if families.is_empty() {
            run.add(Finding::new(&S9, &path).with_details("families", "at least one", "none"));
        }
        gaps.extend(families.iter().filter_map(|name| name.parse::<Delta>().ok()));
        check_folder(run, &path).await?;
    }
    let announced = run.store.root().zarr_vectors.has(Capability::MultiscaleLinks);
    if !announced && let Some(gap) = gaps.iter().find(|gap| **gap != Delta::SAME) {
        let finding = Finding::new(&S14, level.path(&format!("links/{gap}")));
        run.add(finding.with_details("format_capabilities", "multiscale_links", "no word of it"));
    }
    let stated = level.node.meta().arrays_present.iter().any(|name| name == "links");
    if run.store.family() == LayoutFamily::A && stated && !gaps.contains(&Delta::SAME) {
        run.add(Finding::new(&S13, level.path("links/0")).with_details(
            "node",
            "the links of the level",
            "nothing",
        ));
    }
    Ok(())
}

/// Checks S16, S18, S19: a folder is an array, a group with its document, or in the older families a group.
async fn check_folder(run: &mut Validation, path: &str) -> Result<(), Stop> {
    match run.store.nodes().node(path).await {
        Err(error) => run.add_store_error(&S18, path, &error),
        Ok(Some(node)) if matches!(*node, Node::Array(_)) => Ok(()),
        Ok(Some(_)) => check_group_files(run, path).await,
        Ok(None) if run.store.family() != LayoutFamily::C => check_group_files(run, path).await,
        Ok(None) => {
            let inside = !run.names(&S19, path).await?.is_empty();
            let rule = if inside { &S19 } else { &S16 };
            run.add(Finding::new(rule, path).with_details(
                "zarr.json",
                "the document of a group",
                "nothing",
            ));
            check_group_files(run, path).await
        }
    }
}

/// Returns the nodes of a level; where nothing can be listed, those of the known ones that are there.
async fn names_of_level(run: &mut Validation, path: &str) -> Result<Vec<String>, Stop> {
    let listing = match run.store.nodes().children(path).await {
        Ok(listing) => listing,
        Err(error) if is_content(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if listing.complete {
        return Ok(listing.names);
    }
    let mut names = Vec::new();
    for name in KNOWN {
        // A document that cannot be read is there.
        if !matches!(run.store.nodes().node(&format!("{path}/{name}")).await, Ok(None)) {
            names.push(name.to_owned());
        }
    }
    run.report_unlisted(&S16, path);
    Ok(names)
}

/// The nodes that levels of a store may have.
const KNOWN: [&str; 13] = [
    "vertices",
    "vertex_fragments",
    "vertex_attributes",
    "fragment_attributes",
    "link_fragments",
    "links",
    "link_attributes",
    "object_index",
    "object_attributes",
    "groups",
    "group_attributes",
    "cross_chunk_links",
    "cross_chunk_link_attributes",
];
/// Of these, the groups of arrays.
const GROUPS: [&str; 6] = [
    "vertex_attributes",
    "fragment_attributes",
    "link_attributes",
    "object_index",
    "object_attributes",
    "group_attributes",
];
const OPTIONAL: [&str; 7] = [
    "vertex_attributes",
    "fragment_attributes",
    "object_index",
    "object_attributes",
    "groups",
    "group_attributes",
    "links",
];
const COMPOSITE: [&str; 2] = ["vertices_", "links_"];
/// The block of a level's document.
const BLOCK: &str = "zarr_vectors_level";
const OME_SINCE: [u32; 3] = [0, 9, 2];

//! Level 4: the rules of geometry kinds that documents and arrays can break. Rules that need cells
//! are checked with the cells.

use zvf_metadata::{GeometryType, LayoutFamily, LinksConvention, Token};

use crate::level::LevelState;
use crate::rules::G;
use crate::validation::Validation;

/// Checks G1 to G5, and the ends of links for G6.
pub(crate) fn check(run: &mut Validation, levels: &[LevelState]) {
    let root = run.store.root().zarr_vectors.clone();
    for token in &root.geometry_types {
        if let Token::Other(word) = token {
            run.add(G[1].at("zarr.json").expects("geometry_types", "a kind of geometry", word));
        }
    }
    if !levels.is_empty() && !levels.iter().any(|level| level.node.number() == 0) {
        run.add(G[5].at("0").expects("level", "the full data", "nothing"));
    }
    let first = levels.first().map_or(&root.geometry_types, |level| &level.kinds);
    // Extra geometries have their own conventions.
    if !levels.first().is_some_and(|level| level.has_node("geometry_index")) || first.len() == 1 {
        for token in first {
            check_convention(run, "zarr.json", token, root.links_convention());
        }
    }
    for level in levels.iter().flat_map(LevelState::with_extra_kinds) {
        check_links(run, level);
    }
    for level in levels.iter().flat_map(|level| &level.extra_kinds) {
        let declared = level.node.meta().links_convention.clone();
        if let [token] = level.kinds.as_slice() {
            let found = declared.unwrap_or_else(|| root.links_convention());
            check_convention(run, &level.path("zarr.json"), token, found);
        }
    }
}

/// Checks G2: the convention fits a kind.
fn check_convention(
    run: &mut Validation,
    path: &str,
    kind: &Token<GeometryType>,
    found: Token<LinksConvention>,
) {
    use LinksConvention as Convention;
    let Token::Known(kind) = kind else { return };
    let fitting: &[Convention] = match kind {
        GeometryType::PointCloud => return,
        GeometryType::Line | GeometryType::Polyline | GeometryType::Streamline => {
            &[Convention::ImplicitSequential]
        }
        GeometryType::Graph | GeometryType::Mesh => &[Convention::Explicit],
        GeometryType::Skeleton => {
            &[Convention::ImplicitSequentialWithBranches, Convention::Explicit]
        }
    };
    if !matches!(&found, Token::Known(found) if fitting.contains(found)) {
        let words: Vec<&str> = fitting.iter().map(|word| word.name()).collect();
        run.add(G[2].at(path).expects("links_convention", words.join(" or "), found.as_str()));
    }
}

/// Checks G3, G4, and the ends of links for G6: links within a level.
fn check_links(run: &mut Validation, level: &LevelState) {
    let path = level.path("links/0");
    if let Some(width) = level.link_width
        && level.is_only(&[GeometryType::PointCloud])
    {
        let found = format!("links of {width} ends");
        run.add(G[4].at(&path).expects("links", "none", found));
    }
    if let Some(width) = level.link_width.filter(|width| *width != EDGE_ENDS)
        && level.is_only(&[GeometryType::Skeleton])
    {
        run.add(G[6].at(&path).expects("link_width", EDGE_ENDS, width));
    }
    if !level.is_only(&[GeometryType::Mesh]) || run.store.family() != LayoutFamily::C {
        return;
    }
    match level.link_width {
        Some(width) if width < 3 => {
            run.add(G[3].at(&path).expects("link_width", "3 or more", width));
        }
        // Coarser levels may have none: their faces are not stored.
        None if level.node.number() == 0 && level.chunks.total_rows() > 0 => {
            run.add(G[3].at(&path).expects("links", "the faces", "none").warning());
        }
        _ => {}
    }
}

/// Ends of an edge.
const EDGE_ENDS: usize = 2;

//! Level 0 as readers see it: one level, or several additive ones.
//!
//! The new level must hold everything these levels show, so whatever cannot be copied is refused
//! before anything is written: several kinds of geometry, attributes that only some of the levels
//! have, and attributes of fragments, which are rebuilt. So are options that additive levels
//! exclude.

use zvf_error::Result;
use zvf_format::key::Delta;
use zvf_format::num::to_u64;
use zvf_metadata::{Capability, CrossLevelStorage};
use zvf_model::{Kind, LevelReader, LinkFamily};
use zvf_store::Caching;

use crate::error::{setting_error, unsupported_error};
use crate::levels::is_explicit;
use crate::names::SEGMENT;
use crate::{Method, Options};

/// Returns the settings for additive levels, with their method.
pub(crate) async fn resolve_settings(
    options: &Options,
    levels: &[LevelReader],
    kind: Kind,
) -> Result<Options> {
    check_single_kind(levels, kind)?;
    let mut has_objects = false;
    for level in levels {
        has_objects |= level.objects().await?.is_some();
    }
    let usual = if has_objects { Method::Keep } else { Method::Subset };
    let method = options.method.unwrap_or(usual);
    let unfit = match method {
        Method::Keep if has_objects => None,
        Method::Keep => Some("objects, each of which is at one level"),
        Method::Subset if kind != Kind::PointCloud => {
            Some("points, or objects, each of which is at one level")
        }
        Method::Subset if has_objects => {
            Some("keep for points of objects, which would be at several levels")
        }
        Method::Subset if options.sparsity > 1.0 => Some("objects, to keep some of them"),
        Method::Subset => None,
        Method::Cluster | Method::Simplify | Method::Decimate | Method::Collapse => {
            Some("keep or subset, which leave what they keep as it is")
        }
    };
    if let Some(expected) = unfit {
        return Err(setting_error("levels that add to each other", expected, method));
    }
    if options.links != CrossLevelStorage::None {
        let expected = "none where levels add to each other: a vertex is at one of them";
        return Err(setting_error("links between levels", expected, "some"));
    }
    if options.renumber {
        let expected = "the same at all levels that add to each other";
        return Err(setting_error("ids of objects", expected, "new ones"));
    }
    if let Some((name, rule)) = options.rules.first() {
        let expected = "none where levels add to each other: values stay as they are";
        let found = format!("{rule} for {name}");
        return Err(setting_error("rule of an attribute", expected, found));
    }
    Ok(Options { method: Some(method), ..options.clone() })
}

/// Refuses levels that cannot be copied without loss.
pub(super) async fn check(levels: &[LevelReader], kind: Kind) -> Result<()> {
    let refused = |what, expected, found: &str| Err(unsupported_error(what, expected, found));
    check_single_kind(levels, kind)?;
    let mut first_names = [None, None]; // attributes of vertices, of edges
    for level in levels {
        if level.store().root().zarr_vectors.has(Capability::DenseManifests) {
            return refused("object index", "manifests that are not dense", "dense ones");
        }
        let names = level.fragment_attribute_names().await?.names;
        if let Some(name) = names.iter().find(|name| ![OWNER, SEGMENT].contains(&name.as_str())) {
            return refused("attributes of fragments", "none: fragments are rebuilt", name);
        }
        let of_links = level.link_attribute_names().await?.names;
        if (kind.is_chain() || kind == Kind::Skeleton && !is_explicit(level))
            && let Some(name) = of_links.first()
        {
            return refused("attributes of edges", "none where edges are not stored", name);
        }
        let has = [!level.chunks().await?.is_empty(), level.links(Delta::SAME).await?.is_some()];
        let of_vertices = level.attribute_names().await?.names;
        for ((first_names, has), names) in
            first_names.iter_mut().zip(has).zip([of_vertices, of_links])
        {
            if !has {
                continue;
            }
            let first_names = first_names.get_or_insert_with(|| names.clone());
            if *first_names != names {
                let expected = "the same at levels that add to each other: others would be lost";
                let found = format!("others at level {}: {}", level.level().0, names.join(", "));
                return refused("attributes of vertices and edges", expected, &found);
            }
        }
    }
    Ok(())
}

/// Refuses levels of several kinds.
fn check_single_kind(levels: &[LevelReader], kind: Kind) -> Result<()> {
    let refused =
        |expected, found: String| Err(unsupported_error("kinds of geometry", expected, found));
    for level in levels {
        if let Some(beside) = level.extra_kinds().next() {
            return refused("one, to be spread over levels", beside.to_string());
        }
        if level.kinds() != [kind] {
            let found = format!("others at level {}", level.level().0);
            return refused("the same at levels that add to each other", found);
        }
    }
    Ok(())
}

/// Returns how many edges or faces are stored; `None` where the order of the vertices implies them.
pub(super) async fn count_links_of_levels(
    levels: &[LevelReader],
    kind: Kind,
) -> Result<Option<u64>> {
    let mut all = 0_u64;
    for level in levels {
        if !kind.has_links() || kind == Kind::Skeleton && !is_explicit(level) {
            return Ok(None);
        }
        let Some(family) = level.links(Delta::SAME).await? else { continue };
        let link_count = match family.num_links() {
            Some(count) => count,
            None if family.is_duplicated() => return Ok(None),
            None => count_links(&family).await?,
        };
        all = all.saturating_add(link_count); // counts that a damaged store states may not fit
    }
    Ok(Some(all))
}

/// Returns the level whose links define how all links are stored: the first that has any.
pub(super) async fn find_linked_level(levels: &[LevelReader]) -> Result<Option<&LevelReader>> {
    for level in levels {
        if level.links(Delta::SAME).await?.is_some() {
            return Ok(Some(level));
        }
    }
    Ok(levels.first())
}

async fn count_links(family: &LinkFamily) -> Result<u64> {
    let mut count = 0_u64;
    for segment in family.segments() {
        let places = segment.cells().await?.cell_order();
        for places in places.chunks(READ_BATCH_CELLS) {
            for records in segment.read(places, Caching::Once).await {
                count += to_u64(records?.len());
            }
        }
    }
    Ok(count)
}

/// The column of fragments that names their object; it is rebuilt.
const OWNER: &str = "object_id";
/// Link cells that are counted at once.
const READ_BATCH_CELLS: usize = 256;

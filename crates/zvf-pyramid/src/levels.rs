//! The store that gets levels: what is kept and what is replaced.
//!
//! Level 0 is kept, except its links to other levels; so is everything that belongs to no level.
//! All other levels are removed: the new ones replace them in the same step, so levels of two
//! builds never mix.

use zvf_error::Result;
use zvf_format::grid::{ChunkShape, Grid};
use zvf_format::key::{ChunkKey, Delta};
use zvf_metadata::{LayoutFamily, LinksConvention, Root};
use zvf_model::{Kind, LevelReader};
use zvf_store::{Build, BuildOptions, Key, Store};

use crate::error::unsupported_error;

/// Refuses a store older than 0.9, whose layout does not allow levels to be added.
pub(crate) fn check_version(store: &Store) -> Result<()> {
    if store.family() != LayoutFamily::C {
        let expected = "0.9 or later: copy the store into a new one first";
        return Err(unsupported_error("version of the store", expected, store.version()));
    }
    Ok(())
}

/// Refuses a store whose chunk keys have components other than the position.
pub(crate) async fn check_keys(store: &Store) -> Result<()> {
    if store.level(0).await?.key_rank() != store.root().axes().len() {
        let (what, expected) =
            ("chunks", "without the values of an attribute or groups in their keys");
        return Err(unsupported_error(what, expected, "chunks by an attribute"));
    }
    Ok(())
}

/// Refuses a reordered vertex encoding where links name rows, because it is unknown which vertices
/// they mean.
///
/// These are Draco streams that do not keep the order. Faces between their chunks cannot be read,
/// so levels would have holes, and links `between_levels` cannot name their rows.
pub(crate) async fn check_order(level: &LevelReader, between_levels: bool) -> Result<()> {
    if level.keeps_order().await? {
        return Ok(());
    }
    let refused = |expected| {
        let found = "Draco streams with an order of their own";
        Err(unsupported_error("vertices of level 0", expected, found))
    };
    if level.links(Delta::SAME).await?.is_some_and(|family| !family.is_complete()) {
        return refused(
            "the order that links between chunks mean, or levels would lose these: write what can be read \
             as a new store first, with zvf convert",
        );
    }
    if between_levels {
        return refused(
            "the order that links between levels mean: link no levels, with --cross-level-storage none",
        );
    }
    Ok(())
}

/// Returns whether every edge is stored, including those that the order of the vertices implies.
pub(crate) fn is_explicit(level: &LevelReader) -> bool {
    level.links_convention().known_word() == Some(LinksConvention::Explicit)
}

/// Returns the lowest and highest chunk, axis by axis, of `keys` and of the chunks that cover the
/// bounds of the store.
pub(crate) fn covered_chunks(
    root: &Root,
    shape: &ChunkShape,
    keys: &[ChunkKey],
) -> Result<[Vec<i64>; 2]> {
    let [low, high] = &root.zarr_vectors.bounds;
    let grid = Grid::from_bounds(low, high, shape)?;
    let first = grid.origin().to_vec();
    // A grid has at least one cell on each axis, and the coordinate of the last one fits in 64
    // bits.
    let last = |(at, cells): (&i64, &u64)| at.saturating_add_unsigned(cells.saturating_sub(1));
    let last: Vec<i64> = first.iter().zip(grid.shape()).map(last).collect();
    let mut corners = [first, last];
    keys.iter().for_each(|key| widen(&mut corners, key));
    Ok(corners)
}

/// Widens a box to a chunk.
pub(crate) fn widen([low, high]: &mut [Vec<i64>; 2], chunk: &ChunkKey) {
    for ((low, high), at) in low.iter_mut().zip(high).zip(chunk.components()) {
        (*low, *high) = ((*low).min(*at), (*high).max(*at));
    }
}

/// The parts of a store that a new build keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The store itself, which has no levels and gets some.
    InPlace,
    /// Level 0, and everything that belongs to no level.
    Level0,
    /// Everything that belongs to no level.
    BesideLevels,
}

/// Starts a build that replaces the store at `address`, or adds levels to it.
pub(crate) async fn begin(
    address: &str,
    store: &Store,
    options: &BuildOptions,
    kept: Kept,
) -> Result<Build> {
    check_keys(store).await?;
    let adds = kept == Kept::InPlace;
    let build = Build::begin(address, BuildOptions { replace: true, adds, ..options.clone() });
    let build = build.await?;
    match kept {
        Kept::InPlace => build.copy_documents(is_replaced).await?,
        Kept::Level0 => drop(build.carry_over(is_replaced).await?),
        Kept::BesideLevels => drop(build.carry_over(|key| level_of(key).is_some()).await?),
    }
    Ok(build)
}

/// Publishes the result, or discards it. With `declares`, the root declares every attribute.
pub(crate) async fn publish<T>(build: Build, made: Result<(T, Root)>, declares: bool) -> Result<T> {
    match made {
        Ok((made, root)) => {
            let root = if declares { build.declare_attributes(&root) } else { root };
            build.publish(&root).await?;
            Ok(made)
        }
        Err(error) => {
            // Only the first error is reported; remaining scratch files are removed by the next
            // build.
            drop(build.abandon().await);
            Err(error)
        }
    }
}

/// Returns whether the object at `key` is replaced rather than kept.
pub(crate) fn is_replaced(key: &Key) -> bool {
    match level_of(key) {
        Some(0) => {}
        Some(_) => return true,
        None => return false,
    }
    let mut segments = key.segments().skip(1);
    let mut links = segments.next();
    if links.is_some_and(|name| name.parse::<Kind>().is_ok()) {
        links = segments.next(); // of a kind beside the first
    }
    let delta = match links {
        Some("links") => segments.next(),
        Some("link_attributes") => segments.nth(1),
        _ => None,
    };
    // The document of the group of all links is kept.
    delta.is_some_and(|delta| delta != "0" && delta != "zarr.json")
}

/// Returns the level that the object at `key` belongs to.
fn level_of(key: &Key) -> Option<u32> {
    key.segments().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_0_is_kept_except_for_links_to_other_levels() {
        for (path, expected) in [
            ("0", false),
            ("0/links", false),
            ("0/links/zarr.json", false),
            ("0/links/0", false),
            ("0/links/0/0.0", false),
            ("0/links/+1", true),
            ("0/links/-1/0.0", true),
            ("0/link_attributes/w", false),
            ("0/link_attributes/w/0", false),
            ("0/link_attributes/w/+1", true),
            ("0/vertices/c/1/2", false),
            ("0/graph/links/0/0.0", false),
            ("0/graph/links/+1/0.0", true),
            ("0/graph/link_attributes/w/+1", true),
            ("0/vertex_attributes/links/c/0", false),
            ("1", true),
            ("12/vertices", true),
            ("parametric/objects", false),
            ("headers/las", false),
            ("1x", false),
        ] {
            assert_eq!(is_replaced(&Key::root().join(path).unwrap()), expected, "{path}");
        }
    }
}

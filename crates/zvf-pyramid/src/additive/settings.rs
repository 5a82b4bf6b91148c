//! The settings for additive levels: their method, and the options they exclude.

use zvf_error::Result;
use zvf_metadata::CrossLevelStorage;
use zvf_model::{Kind, LevelReader};

use super::source_levels;
use crate::error::setting_error;
use crate::{Method, Options};

/// Returns the settings for additive levels, with their method.
pub(crate) async fn resolve_settings(
    options: &Options,
    levels: &[LevelReader],
    kind: Kind,
) -> Result<Options> {
    source_levels::check_single_kind(levels, kind)?;
    let mut has_objects = false;
    for level in levels {
        has_objects |= level.objects().await?.is_some();
    }
    let usual = if has_objects { Method::Keep } else { Method::Subset };
    let method = options.method.unwrap_or(usual);
    let unfit = |expected| Err(setting_error("levels that add to each other", expected, method));
    match method {
        Method::Keep if has_objects => {}
        Method::Keep => return unfit("objects, each of which is at one level"),
        Method::Subset if kind != Kind::PointCloud => {
            return unfit("points, or objects, each of which is at one level");
        }
        Method::Subset if has_objects => {
            return unfit("keep for points of objects, which would be at several levels");
        }
        Method::Subset if options.sparsity > 1.0 => {
            return unfit("objects, to keep some of them");
        }
        Method::Subset => {}
        Method::Cluster | Method::Simplify | Method::Decimate | Method::Collapse => {
            return unfit("keep or subset, which leave what they keep as it is");
        }
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

//! The part that builds levels and compares them with those of zarr-vectors.
//!
//! ```text
//! reference   random stores of every kind, with the levels that the reference builds and with those that we
//!             build in reference mode: documents, cells, manifests, links and attributes are the same
//! own         the same stores, and some of several kinds, with our own levels, of every method: the
//!             reference opens each, validates it at level 5 and reads every level; our validator finds no error
//! additive    the same stores with additive levels: the reference reads what each adds, and
//!             validates it at level 4, since level 5 requires coarser levels to be smaller; the contents
//!             of level 0 do not change, also when the levels are merged again
//! ```
//!
//! For a 64-bit level 0 zarr-vectors writes wrong links to other levels, which are not compared.

mod additive;
pub(crate) mod comparison;
mod our_levels;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{Reference, build_reference};

use crate::peers;
use crate::report::Run;
use crate::written_part::cases;
use crate::{corpus, facts, validate_part};

/// Has zarr-vectors build `stores` stores with levels, and builds the same levels with zvf.
pub(crate) fn run(seed: u64, stores: usize, run: &mut Run<'_>) -> anyhow::Result<()> {
    let folder = archives::scratch();
    let mut writer = peers::reference_script("pyramid_stores.py")?;
    let writer = writer.arg(folder.path()).args([seed.to_string(), stores.to_string()]);
    peers::run_command(writer)?;
    let list = corpus::read_json(&folder.path().join("pyramids.json"))?;
    let (our_folder, additive_folder) = (archives::scratch(), archives::scratch());
    for (turn, about) in facts::list(&list).enumerate() {
        let case = Case::read(folder.path(), about)?;
        run.case(format!("pyramid/{seed}/{}", case.id), async |report| {
            match (case.build().await, &case.refused) {
                (Ok(()), None) => {
                    comparison::compare_levels(report, &case).await?;
                    if case.id.ends_with("line") && !case.id.ends_with("polyline") {
                        report.skip("validation of lines: the reference merges their ends");
                    } else {
                        validate_part::check_sound(report, &case.our_store()).await?;
                    }
                }
                (Err(_), Some(_)) => {}
                (Ok(()), Some(why)) => {
                    report.fail("levels", format!("the reference refuses: {why}"));
                }
                (Err(error), None) if error.to_string().contains(BINS) => report.skip(
                    "bins that do not fill chunks: the format forbids what the reference builds",
                ),
                (Err(error), None) => return Err(error),
            }
            Ok(())
        })?;
        run.case(format!("own levels/{}", case.id), async |report| {
            let from = case.our_store();
            our_levels::build_our_levels(report, (&from, &case.id), turn, our_folder.path()).await
        })?;
        run.case(format!("levels that add/{}", case.id), async |report| {
            additive::build_additive_levels(report, &case, turn, additive_folder.path()).await
        })?;
    }
    for (turn, (name, case)) in cases::list_mixtures().into_iter().enumerate() {
        let path = folder.path().join(format!("{name}.zarrvectors"));
        run.case(format!("own levels/{name}"), async |report| {
            case.write(folder.path(), &name).await;
            our_levels::build_our_levels(report, (&path, &name), turn, our_folder.path()).await
        })?;
    }
    our_levels::check_by_reference("own levels", our_folder.path(), run)?;
    our_levels::check_by_reference("levels that add", additive_folder.path(), run)?;
    for entry in std::fs::read_dir(additive_folder.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "zarrvectors") {
            let name = path.file_stem().expect("a listed path has a name").to_string_lossy();
            run.case(format!("levels that add/{name}"), async |report| {
                additive::merge_levels(report, &path).await
            })?;
        }
    }
    Ok(())
}

/// The message for levels that cannot be built.
const BINS: &str = "expected a whole number of bins in a chunk";

/// A store, and the levels to build.
struct Case {
    folder: PathBuf,
    id: String,
    reference: Reference,
    /// Why zarr-vectors refuses, if it does.
    refused: Option<String>,
    /// Whether positions of level 0 have 64 bits.
    wide: bool,
}

impl Case {
    fn read(folder: &Path, about: &Value) -> anyhow::Result<Self> {
        let id = about["id"].as_str().context("a store without an id")?.to_owned();
        let options = &about["given"];
        let list = |name: &str| options[name].as_array().cloned().unwrap_or_default();
        let factor = |pair: &Value| Some((pair[0].as_f64()?, pair[1].as_f64()?));
        let storage = match options["cross_level_storage"].as_str() {
            Some("none") => CrossLevelStorage::None,
            Some("implicit") => CrossLevelStorage::Implicit,
            _ => CrossLevelStorage::Explicit,
        };
        let scale = |scale: &Value| u32::try_from(scale.as_u64()?).ok();
        let reference = Reference {
            factors: list("factors").iter().filter_map(factor).collect(),
            chunk_scales: list("chunk_scale_factors").iter().filter_map(scale).collect(),
            seed: options["sparsity_seed"].as_u64().context("no seed")?.into(),
            depth: options["cross_level_depth"].as_i64().context("no depth")?,
            storage,
            ..Reference::default()
        };
        let refused = about["refused"].as_str().map(str::to_owned);
        let wide = about["dtype"] == "float64";
        Ok(Self { folder: folder.join(&id), id, reference, refused, wide })
    }

    /// Returns the path of the store with one level, to which zvf adds levels.
    fn our_store(&self) -> PathBuf {
        self.folder.join("store.zarrvectors")
    }

    /// Returns the path of the store with levels of zarr-vectors.
    fn reference_store(&self) -> PathBuf {
        self.folder.join("levels.zarrvectors")
    }

    async fn build(&self) -> anyhow::Result<()> {
        let (path, options) = (self.our_store(), corpus::unsynced_options());
        build_reference(&path.to_string_lossy(), &self.reference, &options).await?;
        Ok(())
    }
}

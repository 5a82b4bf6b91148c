//! Levels built one from another, and published together.
//!
//! Each level is read back from what was written of it, so a level is made of what a reader will find. Links
//! between levels are written when all levels are, and then the root.

use zvf_store::{Build, BuildOptions, Store};
use zvf_write::PairFolder;

use crate::aside::Aside;
use crate::ladder::{Ladder, Size};
use crate::making::Making;
use crate::num::to_u32;
use crate::report::LevelReport;
use crate::root::Root;
use crate::shape::Rules;
use crate::{Options, PyramidError, additive, levels, links};

/// Gives the store at `address` coarser levels, in place of those it has; `told` hears of each as it is
/// made.
///
/// The store is replaced as a whole, when all is written; what fails before, or is stopped, leaves it as
/// it is. Levels that a killed process had made are not made again when the same is asked for again.
///
/// Where level 0 only adds to coarser levels, what it shows is put together first, and told of as level 0:
/// all of that is read again, level by level, and counted. No levels ([`Options::levels`] is 0) leave that.
///
/// # Errors
///
/// When a setting means nothing for this store, the store is not in a folder of this machine, is older than
/// 0.9 or has chunks by an attribute, or cannot be read or written.
pub async fn build(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    mut told: impl FnMut(&LevelReport),
) -> Result<Vec<LevelReport>, PyramidError> {
    // What another build left goes, whatever becomes of this one; where it cannot, `Build::begin` says so.
    drop(Build::clear_beside(address));
    let store = Store::open(address, options.opening()).await?;
    let aside = Aside::open(address, &store, options).await?;
    let made = replace((address, &store), options, (how, aside.as_ref()), &mut told).await;
    if let Some(aside) = aside {
        aside.remove();
    }
    made
}

async fn replace(
    (address, store): (&str, &Store),
    options: &Options,
    (how, aside): (&BuildOptions, Option<&Aside>),
    told: &mut impl FnMut(&LevelReport),
) -> Result<Vec<LevelReport>, PyramidError> {
    levels::check(store)?;
    let mut ladder = Ladder::of(store, options).await?;
    if options.additive {
        if let Some(made) = additive::build((address, store), &ladder, (how, aside), told).await? {
            return Ok(made);
        }
        ladder = ladder.ended();
    }
    if store.level(0).await?.meta().is_additive() {
        let build = levels::begin_anew(address, store, how).await?;
        let made = anew(address, (&build, aside), &ladder, told).await;
        return levels::end(build, made).await;
    }
    let build = levels::begin(address, store, how).await?;
    // Files that got a second name are no longer the ones that were looked at.
    let store = Store::open(address, options.opening()).await?;
    let made = all(&store, (&build, aside), &ladder, told).await;
    levels::end(build, made).await
}

/// Level 0 put together again, and others made of that.
async fn anew(
    address: &str,
    (build, aside): (&Build, Option<&Aside>),
    ladder: &Ladder,
    told: &mut impl FnMut(&LevelReport),
) -> Result<(Vec<LevelReport>, zvf_format::metadata::Root), PyramidError> {
    let store = Store::open(address, ladder.options().opening()).await?;
    let (mut reports, root) = additive::alone(&store, (build, aside), ladder, told).await?;
    let store = build.preview(&root).await?;
    // Sizes are measured of what levels are made of.
    let ladder = Ladder::of(&store, ladder.options()).await?;
    let (coarser, root) = all(&store, (build, aside), &ladder, told).await?;
    reports.extend(coarser);
    Ok((reports, root))
}

async fn all(
    store: &Store,
    (build, aside): (&Build, Option<&Aside>),
    ladder: &Ladder,
    told: &mut impl FnMut(&LevelReport),
) -> Result<(Vec<LevelReport>, zvf_format::metadata::Root), PyramidError> {
    let options = ladder.options();
    let wanted = links::Wanted { storage: options.links, depth: options.depth };
    let folder = wanted.any().then(|| PairFolder::new(None, options.memory / 8));
    let mut root = Root::of(store);
    root.without_links();
    let names = Names::of(store).await?;
    let (mut source, mut below, mut reports) = (store.clone(), ladder.size(), Vec::new());
    let (mut error, mut steps) = (Some(0.0), Vec::new());
    while let Some(step) = ladder.step(to_u32(reports.len()).saturating_add(1), below) {
        let rules = Rules { named: options.rules.clone(), weight: names.weight.clone() };
        let (folder, names) = (folder.as_ref(), &names);
        let making =
            Making { source: &source, build, ladder, step: &step, rules, names, error, folder };
        let taken = match aside {
            Some(aside) => aside.take(build, step.level, folder.is_some()).await?,
            None => None,
        };
        let made = match taken {
            Some(made) => made,
            None => {
                let made = making.level().await?;
                if let Some(aside) = aside {
                    aside.put(build, &made.report, made.parents.as_ref()).await?;
                }
                made
            }
        };
        root.add_level(step.level, &step.bin);
        root.announce_level(&made.document);
        source = build.preview(&root.clone().finish()).await?;
        let mut report = made.report;
        report.bytes = stored(&source, step.level).await?;
        told(&report);
        let stuck = report.vertices.saturating_mul(20) > below.vertices.saturating_mul(19);
        below = Size { vertices: report.vertices, bytes: report.bytes };
        error = report.error;
        reports.push(report);
        steps.extend(made.parents);
        if options.levels.is_none() && stuck {
            break; // more of the same would not help
        }
    }
    if let Some(folder) = &folder {
        links::write(&source, build, steps, wanted, folder).await?;
        root.announce_links(
            links::depth(wanted, reports.len()),
            wanted.storage,
            !reports.is_empty(),
        );
    }
    Ok((reports, root.finish()))
}

/// How many bytes a level takes.
pub(crate) async fn stored(store: &Store, level: u32) -> Result<u64, PyramidError> {
    let objects = store.objects(&level.to_string()).await?;
    Ok(objects.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add))
}

/// Names of attributes that levels get, which no attribute of level 0 has.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// How many vertices of level 0 one stands for.
    pub(crate) weight: String,
    /// The id of an object at level 0.
    pub(crate) source_id: String,
}

impl Names {
    pub(crate) async fn of(store: &Store) -> Result<Self, PyramidError> {
        let free = async |path: &str, name: &str, prefix: &str| -> Result<String, PyramidError> {
            let taken = store.children(path).await?.names;
            let mut name = name.to_owned();
            while taken.contains(&name) {
                name.insert_str(0, prefix);
            }
            Ok(name)
        };
        Ok(Self {
            weight: free("0/vertex_attributes", "count", "vertex_").await?,
            source_id: free("0/object_attributes", "source_id", "zvf_").await?,
        })
    }
}

//! `zvf pyramid`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use zvf::edit::{CommitOptions, Refresh};
use zvf::format::Vocabulary as _;
use zvf::metadata::CrossLevelStorage;
use zvf::model::Kind;
use zvf::publish::StagingDir;
use zvf::pyramid::{
    Aggregation, KindOptions, LevelReport, Method, Options, PyramidEvent, PyramidPlan, RowsHook,
    Strategy,
};
use zvf::store::{Arrange, Build, BuildOptions, RearrangeCounts, Rearrangement};
use zvf::tasks::{Plan, PyramidJob, Tasks};
use zvf::{Error, Store, Timeouts};

use crate::arguments::{size, word};
use crate::commands::destination::{InPlace, check_nested};
use crate::commands::edit;
use crate::commands::{is_remote_url, make_absolute, refuse_given, text_of};
use crate::outcome::{CommandResult, Outcome, Usage, refuse};
use crate::progress::Progress;
use crate::session::Session;
use crate::table::format_count;

/// Build coarser levels of a store, which replace those it has.
///
/// Points are merged cell by cell, polylines and skeletons lose vertices within a tolerance, graphs are contracted,
/// meshes lose faces; objects keep their ids, attributes and groups. The store is replaced in one step when all levels
/// are written; a run that is stopped leaves it unchanged, and the same command continues with the levels that are
/// complete. On an object store the levels are committed, and "zvf history undo" takes them back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf pyramid --dry-run brain.zarrvectors
  zvf pyramid brain.zarrvectors --in-place --levels 4
  zvf pyramid brain.zarrvectors coarse.zarrvectors --levels 4
  zvf pyramid neurons.zarrvectors --in-place --prune 2 --cross-level-storage explicit --cross-level-depth -1
  zvf pyramid cells.zarrvectors --in-place --method mesh=cluster --cell-size mesh=2 --sparsity skeleton=4
  zvf pyramid roads.zarrvectors --in-place --tolerance 5 --sparsity 2 --sparsity-strategy length
  zvf pyramid tracts.zarrvectors --in-place --additive --sparsity 4 --sparsity-strategy length
  zvf pyramid tracts.zarrvectors --in-place --levels 0
  zvf pyramid scan.zarrvectors --in-place --levels 2 --aggregate intensity=max
  zvf pyramid tracts.zarrvectors --in-place --reference 2,1 --reference 2,2 --seed 7")]
pub(crate) struct Pyramid {
    /// The store: a folder, or a URL of an object store that can be written.
    store: String,
    /// A new store with the levels, which must not exist yet; or --in-place.
    new: Option<String>,
    /// Add the levels to the store itself, in one step when they are complete.
    #[arg(long, conflicts_with = "new")]
    in_place: bool,
    /// Replace the new store if it exists.
    #[arg(long, requires = "new")]
    overwrite: bool,
    /// Print what would be built, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Rebuild the levels that edits of level 0 made outdated, by the recorded method, in one commit.
    #[arg(long, conflicts_with_all = ["new", "in_place", "levels", "methods", "additive"])]
    refresh: bool,
    /// The number of coarser levels, 0 for none [default: until the coarsest has at most --max-vertices].
    #[arg(long, value_name = "N")]
    levels: Option<u32>,
    /// The largest number of vertices of the coarsest level.
    #[arg(
        long = "max-vertices",
        alias = "until",
        value_name = "N",
        default_value_t = 10_000,
        conflicts_with = "levels"
    )]
    until: u64,
    /// The largest size of the coarsest level instead: 20MiB.
    #[arg(long = "max-bytes", alias = "until-bytes", value_name = "SIZE", value_parser = size, conflicts_with = "levels")]
    until_bytes: Option<u64>,
    /// The method of simplification: cluster, subset, simplify, decimate, collapse or keep [default: by kind]. Where
    /// there are several kinds: for those it fits, or for one, as in mesh=cluster.
    #[arg(long = "method", value_name = "[KIND=]METHOD", value_parser = parse_setting::<Method>)]
    methods: Vec<OfOne<Method>>,
    /// For level 1, in world units: the edge of a cell, or a tolerance [default: measured].
    #[arg(long = "cell-size", visible_alias = "tolerance", alias = "size", value_name = "[KIND=]SIZE", value_parser = parse_setting::<f64>)]
    sizes: Vec<OfOne<f64>>,
    /// The growth of that value from level to level [default: 4 for tolerances, 2 for cells].
    #[arg(long, value_name = "FACTOR")]
    growth: Option<f64>,
    /// The share that subset, decimate and collapse keep at each level.
    #[arg(long = "ratio", alias = "keep", value_name = "[KIND=]SHARE", value_parser = parse_setting::<f64>)]
    keeps: Vec<OfOne<f64>>,
    /// Keep one object in N at each level: a divisor, where object_sparsity of the format is the share that is kept,
    /// 1/N [default: 1].
    #[arg(long, value_name = "[KIND=]N", value_parser = parse_setting::<f64>)]
    sparsity: Vec<OfOne<f64>>,
    /// Which objects are kept: random, length, largest:NAME, smallest:NAME, coverage, thinning or groups.
    #[arg(long = "sparsity-strategy", alias = "strategy", value_parser = word::<Strategy>, default_value = "random")]
    strategy: Strategy,
    /// The seed of random choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The number of chunks that one of the next level covers on each axis [default: 2; 1 with --reference].
    #[arg(long, value_name = "N")]
    chunk_scale: Option<u32>,
    /// Skeletons only: remove terminal branches shorter than this, in world units.
    #[arg(long, value_name = "LENGTH")]
    prune: Option<f64>,
    /// Number the objects of each level from 0 on; the attribute source_id keeps their ids.
    #[arg(long)]
    renumber: bool,
    /// Store everything once: each level holds only what coarser ones do not, and readers add theirs. Whole objects
    /// (keep), or points without objects (subset). Level 0 is rewritten.
    #[arg(long)]
    additive: bool,
    /// Links between vertices and their representatives at coarser levels: none, implicit (up) or explicit (up and
    /// down) [default: none; explicit with --reference].
    #[arg(long = "cross-level-storage", alias = "links", value_parser = storage)]
    links: Option<CrossLevelStorage>,
    /// How an attribute is aggregated: mean, sum, mode, count, min, max, first or drop.
    #[arg(long = "aggregate", alias = "rule", value_name = "NAME=RULE", value_parser = rule)]
    rules: Vec<(String, Aggregation)>,
    /// Build exactly the levels that zarr-vectors builds: one BINS,OBJECTS for each level.
    #[arg(conflicts_with = "refresh")]
    #[arg(long, value_name = "BINS,OBJECTS", value_parser = factors,
        conflicts_with_all = ["methods", "sizes", "keeps", "sparsity", "rules", "levels", "dry_run",
            "prune", "renumber", "until_bytes", "additive"])]
    reference: Vec<(f64, f64)>,
    /// With --reference: also write the attributes of vertices, edges, faces and groups that
    /// zarr-vectors leaves out.
    #[arg(long, requires = "reference")]
    full: bool,
    /// How many levels up and down vertices are linked to; 0 for none, -1 for all.
    #[arg(long = "cross-level-depth", alias = "depth", default_value_t = 1)]
    depth: i64,
}

impl Pyramid {
    /// Returns whether the levels are built in a copy that is committed to a repository of versions.
    fn is_committed(&self, session: &Session) -> anyhow::Result<bool> {
        Ok(self.new.is_none() && session.place(&self.store)?.is_of_versions())
    }

    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        #[cfg(not(feature = "reference"))]
        if self.is_reference() {
            return refuse(
                "--reference needs the feature reference, which this build lacks; install zvf-cli \
                 with --features reference",
            );
        }
        if self.refresh {
            let options = CommitOptions {
                dry_run: self.dry_run,
                message: Some("levels rebuilt".to_owned()),
                ..CommitOptions::default()
            };
            let place = session.place(&self.store)?;
            let done = zvf::edit::refresh(place, Refresh::Stale, &options);
            return edit::finish(done, &self.store, session);
        }
        if self.dry_run {
            return self.plan(session).await;
        }
        if self.new.is_none() && !self.in_place {
            return refuse(format!(
                "the levels of {} are built in place only with --in-place; add --in-place, or \
                 name a new store: zvf pyramid STORE NEW",
                self.store
            ));
        }
        if Path::new(&self.store).is_file() {
            return refuse(format!(
                "{} is a packed store, which cannot get levels; unpack it with zvf unpack",
                self.store
            ));
        }
        let target = self.new.as_ref().unwrap_or(&self.store);
        let is_beside = is_remote_url(target) && !self.is_committed(session)?;
        if is_beside {
            self.check_beside(target)?;
        }
        // With a journal, the levels are built in a copy that is committed.
        let (mut in_place, mut staging) = (None, None);
        let address = &match &self.new {
            Some(new) => {
                staging = self.copy(new, session).await?;
                let made = staging.as_ref().map(|staging| text_of(staging.path())).transpose()?;
                made.unwrap_or(new).to_owned()
            }
            None if is_beside => self.store.clone(),
            None => in_place.insert(InPlace::begin(&self.store, true, session)?).address.clone(),
        };
        let how = if staging.is_some() { inside_staging() } else { building(session) };
        let progress = Arc::new(session.progress("building levels"));
        let vertices = self.count_vertices(session, address).await?;
        let below = Arc::new(Mutex::new((1, vertices))); // level under construction, vertices of the level below
        let options =
            Options { on_rows: Some(self.rows_hook(&progress, &below)), ..self.options(session) };
        let mut notices = Vec::new();
        let on_event = |event: PyramidEvent<'_>| {
            if let PyramidEvent::Level(report) = event {
                let mut below = below.lock().unwrap_or_else(PoisonError::into_inner);
                *below = (report.level + 1, Some(report.vertices));
            } else {
                notices.push(event.to_string());
            }
        };
        let place = || format!("cannot build levels of {target}");
        let (built, commit) = if is_beside {
            build_beside(session, address, (&options, &how), on_event).await.with_context(place)?
        } else {
            let built = self.build_in_place(address, (&options, &how), on_event).await;
            (built.with_context(place)?, None)
        };
        drop((progress, options));
        staging.map_or(Ok(()), |new| new.publish()).map_err(Error::from).with_context(place)?;
        print(session, (target, &built), (&self.options(session), notices))?;
        in_place.map_or(Ok(()), |in_place| in_place.finish("pyramid", session))?;
        commit.map_or(Ok(()), |commit| edit::print_unless_json(&commit, session))?;
        Ok(Outcome::Clean)
    }

    /// Replaces the store at `address` by one with levels.
    async fn build_in_place(
        &self,
        address: &str,
        (options, how): (&Options, &BuildOptions),
        on_event: impl FnMut(PyramidEvent<'_>) + Send,
    ) -> Result<Vec<LevelReport>, Error> {
        #[cfg(feature = "reference")]
        if self.is_reference() {
            return zvf::pyramid::build_reference(address, &self.as_reference(), how).await;
        }
        zvf::pyramid::build(address, options, how, on_event).await
    }

    /// Returns whether the levels are those of the reference implementation.
    fn is_reference(&self) -> bool {
        !self.reference.is_empty()
    }

    /// Refuses options that only replace a folder of this machine.
    fn check_beside(&self, address: &str) -> Result<(), Usage> {
        let given = [("--additive", self.additive), ("--reference", self.is_reference())];
        let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
        refuse(format!(
            "{option} is not possible on an object store: {address}; build the levels in a local \
             folder, and copy the result there"
        ))
    }

    /// Returns the number of vertices of level 0, of all kinds, as its documents state it; `None` where it cannot be true.
    async fn count_vertices(
        &self,
        session: &Session,
        address: &str,
    ) -> anyhow::Result<Option<u64>> {
        let store = session.store(address).await?;
        let levels = session.kinds(&store, 0, None).await?;
        // Validation reports a negative count; here it only affects progress.
        let mut counts = levels.iter().map(|level| level.node().meta().vertex_count);
        Ok(counts.try_fold(0_u64, |total, count| total.checked_add(u64::try_from(count).ok()?)))
    }

    /// Returns the hook that reports how many vertices of the level below were read.
    fn rows_hook(
        &self,
        progress: &Arc<Progress>,
        below: &Arc<Mutex<(u32, Option<u64>)>>,
    ) -> RowsHook {
        let (progress, below) = (Arc::clone(progress), Arc::clone(below));
        let suffix = self.levels.map(|levels| format!(" of {levels}")).unwrap_or_default();
        RowsHook::new(move |rows| {
            let (level, total) = *below.lock().unwrap_or_else(PoisonError::into_inner);
            let prefix = format!("level {level}{suffix}: ");
            match total {
                Some(total) => progress.advance(&prefix, rows, total, "vertices"),
                None => progress.count(&prefix, rows, "vertex"),
            }
        })
    }

    /// Copies the store to `new`, which then gets the levels. A new folder is staged, so that it appears with them.
    async fn copy(&self, new: &str, session: &Session) -> anyhow::Result<Option<StagingDir>> {
        if new == self.store {
            return refuse(format!("{new} is the input itself; give a new name, or --in-place"));
        }
        check_nested(&self.store, new)?;
        let store = session.batch_store(&self.store).await?;
        let failed = || format!("cannot write {new}");
        let as_it_is = Rearrangement { shards: Arrange::Keep, codecs: None };
        Rearrangement::check(&store).with_context(failed)?;
        let options = session.build_options(self.overwrite);
        let staging = Build::stage(new, &options).with_context(failed)?;
        let build = match &staging {
            Some(staging) => {
                let options = BuildOptions { store: options.store, ..inside_staging() };
                Build::begin(text_of(staging.path())?, options).await
            }
            None => Build::begin(new, options).await,
        };
        let progress = session.progress("copying");
        let on_progress = |moved: &RearrangeCounts| progress.count("", moved.cells, "cell");
        let copied = as_it_is.apply(&store, build.with_context(failed)?, on_progress).await;
        copied.with_context(failed)?;
        Ok(staging)
    }

    async fn plan(&self, session: &Session) -> CommandResult {
        let store = session.store(&self.store).await?;
        let options = self.options(session);
        let plan = session.during("measuring", PyramidPlan::plan(&store, &options)).await;
        let plan = plan.with_context(|| format!("cannot plan levels of {}", self.store))?;
        let steps = plan.steps();
        let planned = json!({ "store": self.store, "vertices": plan.vertices(), "levels": steps });
        session.print(&planned, |out| {
            writeln!(out, "level 0: {}", format_count(plan.vertices(), "vertex"))?;
            Ok(steps.iter().try_for_each(|step| writeln!(out, "{step}"))?)
        })
    }

    fn options(&self, session: &Session) -> Options {
        let defaults = Options::default();
        Options {
            method: last_common_setting(&self.methods),
            size: last_common_setting(&self.sizes),
            growth: self.growth,
            keep: last_common_setting(&self.keeps),
            sparsity: last_common_setting(&self.sparsity).unwrap_or(defaults.sparsity),
            kinds: self.kinds(),
            strategy: self.strategy.clone(),
            seed: self.seed,
            chunk_scale: self.chunk_scale.unwrap_or(defaults.chunk_scale),
            levels: self.levels,
            until: self.until,
            until_bytes: self.until_bytes,
            equal_levels: false,
            prune: self.prune,
            renumber: self.renumber,
            additive: self.additive,
            links: self.links.unwrap_or(CrossLevelStorage::None),
            depth: self.depth,
            rules: self.rules.clone(),
            memory: session.memory_limit().unwrap_or(defaults.memory),
            on_rows: None,
        }
    }

    /// Returns the settings of each kind.
    fn kinds(&self) -> Vec<(Kind, KindOptions)> {
        let none = KindOptions::default();
        let methods = last_value(&self.methods, |method| KindOptions { method, ..none });
        let sizes = last_value(&self.sizes, |size| KindOptions { size, ..none });
        let keeps = last_value(&self.keeps, |keep| KindOptions { keep, ..none });
        let sparsity = last_value(&self.sparsity, |sparsity| KindOptions { sparsity, ..none });
        methods.chain(sizes).chain(keeps).chain(sparsity).collect()
    }

    #[cfg(feature = "reference")]
    fn as_reference(&self) -> zvf::pyramid::Reference {
        use zvf::pyramid::LevelContent;

        let none = self.depth == 0;
        zvf::pyramid::Reference {
            factors: self.reference.clone(),
            chunk_scales: self
                .chunk_scale
                .map_or_else(Vec::new, |scale| vec![scale; self.reference.len()]),
            kept: Vec::new(),
            seed: self.seed.into(),
            depth: self.depth,
            storage: match self.links {
                _ if none => CrossLevelStorage::None,
                links => links.unwrap_or(CrossLevelStorage::Explicit),
            },
            content: if self.full { LevelContent::Full } else { LevelContent::AsReference },
        }
    }

    /// Divides the work: a task for each level.
    pub(crate) async fn plan_levels(&self, session: &Session) -> anyhow::Result<Plan> {
        self.check_divisible()?;
        let store = make_absolute(&self.store)?;
        let open = session.options(Timeouts::BATCH);
        let plan = Plan::pyramid((&store, &open), self.options(session)).await;
        plan.with_context(|| format!("cannot plan levels of {store}"))
    }

    /// Refuses options that tasks do not support.
    fn check_divisible(&self) -> Result<(), Usage> {
        let given = [
            ("a new store", self.new.is_some(), "copy the store first"),
            ("--dry-run", self.dry_run, "zvf pyramid prints what would be built"),
            ("--additive", self.additive, "build such levels with zvf pyramid"),
            ("--refresh", self.refresh, "rebuild levels with zvf pyramid"),
            ("--reference", self.is_reference(), "build such levels with zvf pyramid"),
        ];
        refuse_given("levels that tasks build", &given)
    }
}

pub(crate) fn building(session: &Session) -> BuildOptions {
    let gate = session.interrupt().gate().clone();
    BuildOptions { gate, ..BuildOptions::default() }
}

/// Replaces the store by one with the levels that tasks built, and prints them.
pub(crate) async fn finish_levels(
    session: &Session,
    (tasks, job): (&Tasks, &PyramidJob),
) -> CommandResult {
    let (open, how) = (session.options(Timeouts::BATCH), building(session));
    let store = tasks.store()?;
    let progress = session.progress("building levels");
    let mut notices = Vec::new();
    let on_event = |event: PyramidEvent<'_>| {
        if !matches!(event, PyramidEvent::Level(_)) {
            notices.push(event.to_string());
        }
    };
    let built = tasks.finish_pyramid(&open, &how, on_event).await;
    drop(progress);
    match built? {
        Some(built) => print(session, (store, &built), (&job.options, notices)),
        None => print_earlier(session, store, "levels"),
    }
}

/// Builds the levels of the store at `address` and commits them. Returns them, with the report of the commit.
async fn build_beside(
    session: &Session,
    address: &str,
    (options, how): (&Options, &BuildOptions),
    on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> anyhow::Result<(Vec<LevelReport>, Option<Value>)> {
    let place = session.place(address)?;
    // The levels are built from a store that includes a commit that was not applied yet.
    let (head, _was_behind) = zvf::edit::settle(&place)?;
    let open = options.limit_reading(session.options(Timeouts::BATCH));
    let store = Store::open(address, open).await?;
    // Removed when it is dropped, also when the command is stopped.
    let folder = tempfile::Builder::new().prefix("zvf-levels-").tempdir()?;
    let levels = folder.path().join("levels");
    let from = (&store, levels.as_path());
    let built = zvf::pyramid::build_in_folder(from, options, how, (&[], None), on_event).await;
    let (built, reports) = built?;
    let message = Some("zvf pyramid".to_owned());
    let commit = CommitOptions { message, ..CommitOptions::default() };
    let operation = json!({"op": "pyramid"});
    let report = zvf::edit::commit_levels(&place, (head, &operation), &built, &commit)?;
    Ok((reports, Some(report)))
}

/// Returns how a store is written in a folder that is synced and published later.
fn inside_staging() -> BuildOptions {
    BuildOptions { sync: false, ..BuildOptions::default() }
}

/// Prints the levels.
fn print(
    session: &Session,
    (store, built): (&str, &[LevelReport]),
    (options, notices): (&Options, Vec<String>),
) -> CommandResult {
    // A level that adds nothing is an ordinary level.
    let additive = options.additive && built.len() > 1;
    let made = json!({"store": store, "additive": additive, "levels": built, "notices": notices});
    session.print(&made, |out| {
        for (at, report) in built.iter().enumerate() {
            let adds = additive && at + 1 < built.len();
            writeln!(out, "{report}{}", if adds { ", added to the next level" } else { "" })?;
        }
        if additive {
            writeln!(out, "readers without support for additive levels see only what each adds")?;
        }
        match options.levels {
            _ if !built.is_empty() || !notices.is_empty() => {}
            Some(_) => writeln!(out, "no coarser levels")?,
            None => {
                let most = format_count(options.until, "vertex");
                writeln!(out, "no coarser levels: the store has at most {most}")?;
            }
        }
        Ok(session.print_notices(notices.iter().cloned())?)
    })
}

/// A setting of all kinds, or of one.
type OfOne<T> = (Option<Kind>, T);

fn parse_setting<T: FromStr<Err: fmt::Display + 'static>>(text: &str) -> Result<OfOne<T>, String> {
    let (kind, value) = match text.split_once('=') {
        Some((kind, value)) => (Some(word(kind)?), value),
        None => (None, text),
    };
    Ok((kind, word(value)?))
}

/// Returns the last setting of all kinds.
fn last_common_setting<T: Copy>(settings: &[OfOne<T>]) -> Option<T> {
    settings.iter().rev().find(|(kind, _)| kind.is_none()).map(|(_, value)| *value)
}

/// Returns the last setting of the kind, or else of all kinds.
fn last_value<T: Copy>(
    settings: &[OfOne<T>],
    as_own: impl Fn(Option<T>) -> KindOptions,
) -> impl Iterator<Item = (Kind, KindOptions)> {
    let of_kinds = settings.iter().rev().filter_map(|(kind, value)| Some(((*kind)?, Some(*value))));
    of_kinds.map(move |(kind, value)| (kind, as_own(value)))
}

fn storage(text: &str) -> Result<CrossLevelStorage, String> {
    let storage = CrossLevelStorage::from_word(text);
    storage.ok_or_else(|| "expected none, implicit or explicit".to_owned())
}

fn rule(text: &str) -> Result<(String, Aggregation), String> {
    let (name, rule) = text.split_once('=').ok_or("expected NAME=RULE, such as mass=sum")?;
    Ok((name.to_owned(), word(rule)?))
}

fn factors(text: &str) -> Result<(f64, f64), String> {
    let expected = || "expected BINS,OBJECTS, such as 2,1".to_owned();
    let (bins, objects) = text.split_once(',').ok_or_else(expected)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_no_number| expected());
    Ok((number(bins)?, number(objects)?))
}

/// Prints that there was nothing left to do; `made` is what the JSON would hold.
pub(crate) fn print_earlier(session: &Session, store: &str, made: &str) -> CommandResult {
    session.print(&json!({"store": store, made: null}), |out| {
        Ok(writeln!(out, "{store} was finished by an earlier run")?)
    })
}

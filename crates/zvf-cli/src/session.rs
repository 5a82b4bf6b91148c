//! One run of the command: how stores are opened, and what is said on standard error meanwhile.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use serde_json::json;
#[cfg(feature = "edit")]
use zvf::format::Class;
use zvf::inspect::advise;
use zvf::{Kind, LevelId, LevelReader, Notice, OpenOptions, Reader, Store, Timeouts};

use crate::cli::Common;
use crate::interrupt::Interrupt;
use crate::outcome::Usage;
use crate::progress::{Progress, ProgressHook};

/// What the subcommands share.
#[derive(Debug)]
pub(crate) struct Session {
    common: Common,
    interrupt: Interrupt,
    on_progress: Option<ProgressHook>,
    mapped: Mutex<Vec<Store>>, // those whose bytes lie in a map
    #[cfg(feature = "edit")]
    held: Mutex<Vec<zvf::edit::Guard>>, // what keeps writers from changing stores meanwhile
    #[cfg(feature = "edit")]
    watched: Mutex<Vec<(zvf::edit::Place, u64)>>, // stores behind URLs that have a journal, and their heads
}

impl Session {
    pub(crate) const fn new(
        common: Common,
        interrupt: Interrupt,
        on_progress: Option<ProgressHook>,
    ) -> Self {
        Self {
            common,
            interrupt,
            on_progress,
            mapped: Mutex::new(Vec::new()),
            #[cfg(feature = "edit")]
            held: Mutex::new(Vec::new()),
            #[cfg(feature = "edit")]
            watched: Mutex::new(Vec::new()),
        }
    }

    /// Whether JSON is wanted.
    pub(crate) const fn json(&self) -> bool {
        self.common.json
    }

    pub(crate) const fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// How to open stores.
    pub(crate) fn options(&self, timeouts: Timeouts) -> OpenOptions {
        self.common.options(timeouts)
    }

    /// The common options of a command line that runs beside `jobs - 1` others on behalf of this one.
    pub(crate) fn common_words(&self, jobs: usize) -> Vec<String> {
        self.common.words(u64::try_from(jobs).unwrap_or(u64::MAX))
    }

    /// The common options of a program that does all of this command line.
    pub(crate) fn passed_words(&self) -> Vec<String> {
        let mut words = self.common.words(1);
        words.retain(|word| word != "--quiet" || self.common.quiet);
        words.extend(self.common.json.then(|| "--json".to_owned()));
        words
    }

    /// The memory allowed, where it was said.
    pub(crate) const fn memory_limit(&self) -> Option<u64> {
        self.common.memory_limit
    }

    /// Opens a store for looking into it: somebody waits.
    pub(crate) async fn store(&self, address: &str) -> anyhow::Result<Store> {
        self.open(address, Timeouts::INTERACTIVE).await
    }

    /// Opens a store for going through all of it.
    pub(crate) async fn batch_store(&self, address: &str) -> anyhow::Result<Store> {
        self.open(address, Timeouts::BATCH).await
    }

    /// Opens a store; a packed one of this machine is mapped when nobody can write to it.
    async fn open(&self, address: &str, timeouts: Timeouts) -> anyhow::Result<Store> {
        self.hold(address).await?;
        let options = self.common.options(timeouts);
        let opened = async {
            #[cfg(all(unix, feature = "local"))]
            if let Some(path) = Store::pack_at(address) {
                // Without it, a file that is cut short under the map would end the process.
                zvf::store::signal::install_sigbus_handler()
                    .map_err(|error| zvf::StoreError::io(zvf::store::Op::Open, error))?;
                let store = Store::open_mapped_if_immutable(&path, options).await?;
                self.mapped.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
                return Ok(store);
            }
            zvf::open_store(address, options).await
        };
        let store = opened.await.with_context(|| format!("cannot open {address}"))?;
        #[cfg(feature = "edit")]
        let store = self.watch(address, store).await?;
        Ok(store)
    }

    /// Waits until what was committed to a store of this machine is in its place, and keeps it as it is.
    #[cfg(feature = "edit")]
    async fn hold(&self, address: &str) -> anyhow::Result<()> {
        let Some(place) = self.place_of_journal(address)? else { return Ok(()) };
        if place.folder().is_some() {
            let guard = run_blocking(move || zvf::edit::hold_for_reading(place)).await?;
            self.held.lock().unwrap_or_else(PoisonError::into_inner).extend(guard);
        }
        Ok(())
    }

    /// Lets writers change stores again.
    #[cfg(feature = "edit")]
    pub(crate) fn release(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Where a store lies that is edited.
    #[cfg(feature = "edit")]
    pub(crate) fn place(&self, address: &str) -> anyhow::Result<zvf::edit::Place> {
        Ok(zvf::edit::Place::open(address, &self.options(Timeouts::BATCH))?)
    }

    /// The same of a store that is only read: nothing where nobody can write through this address, as over plain HTTP.
    #[cfg(feature = "edit")]
    fn place_of_journal(&self, address: &str) -> anyhow::Result<Option<zvf::edit::Place>> {
        match zvf::edit::Place::open(address, &self.options(Timeouts::BATCH)) {
            Ok(place) => Ok(Some(place)),
            // Opening the store says what cannot be read either.
            Err(error) if error.class == Class::Unsupported => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The number of the last commit to a store; none without a journal.
    #[cfg(feature = "edit")]
    pub(crate) fn journal_head(&self, address: &str) -> anyhow::Result<Option<u64>> {
        let Some(place) = self.place_of_journal(address)? else { return Ok(None) };
        if place.folder().is_some() {
            return Ok(zvf::edit::head(place)?);
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(watched
            .iter()
            .find(|(own, _)| own.to_string() == place.to_string())
            .map(|(_, head)| *head))
    }

    #[cfg(not(feature = "edit"))]
    pub(crate) fn journal_head(&self, _address: &str) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }

    /// Finds out whether the store behind a URL has a journal: what is committed is applied before it is read, and at
    /// the end nobody must have committed.
    #[cfg(feature = "edit")]
    async fn watch(&self, address: &str, store: Store) -> anyhow::Result<Store> {
        let root: serde_json::Value = serde_json::from_slice(&store.root_json())?;
        if root["attributes"]["zvf"]["journal"].is_null() {
            return Ok(store);
        }
        let Some(place) = self.place_of_journal(address)? else {
            self.print_notice(
                "the journal of this store cannot be read over plain HTTP: commits that are not yet applied are missing",
            );
            return Ok(store);
        };
        if place.folder().is_some() {
            return Ok(store);
        }
        let settled = place.clone();
        let (head, was_behind) = run_blocking(move || zvf::edit::settle(&settled)).await?;
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push((place, head));
        match was_behind {
            true => Ok(zvf::open_store(address, self.options(Timeouts::BATCH)).await?),
            false => Ok(store),
        }
    }

    /// Whether nobody committed to a store behind a URL while it was read.
    #[cfg(feature = "edit")]
    pub(crate) async fn check_watched(&self) -> anyhow::Result<()> {
        let watched =
            std::mem::take(&mut *self.watched.lock().unwrap_or_else(PoisonError::into_inner));
        for (place, head) in watched {
            run_blocking(move || zvf::edit::check_head(&place, head)).await?;
        }
        Ok(())
    }

    #[cfg(not(feature = "edit"))]
    #[expect(clippy::unused_async, reason = "the other one waits")]
    async fn hold(&self, _address: &str) -> anyhow::Result<()> {
        Ok(())
    }

    /// Whether everything that was read where it is mapped is what it was.
    pub(crate) fn check_maps(&self) -> anyhow::Result<()> {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        for store in &*mapped {
            store.check_maps().map_err(zvf::Error::from)?;
        }
        Ok(())
    }

    /// Opens a store for checking it: what is wrong with it is not said in words yet.
    pub(crate) async fn unchecked_store(&self, address: &str) -> Result<Store, zvf::StoreError> {
        // What cannot be held is for the check to tell.
        let _ = self.hold(address).await;
        Store::open(address, self.common.options(Timeouts::BATCH)).await
    }

    /// Opens a level of `store`.
    pub(crate) async fn level(&self, store: &Store, number: u32) -> anyhow::Result<LevelReader> {
        match LevelReader::open(store, LevelId(number)).await {
            Ok(level) => Ok(level),
            Err(error) => Err(advise(error.into(), store).await.into()),
        }
    }

    /// Every kind of a level that holds several, the first one first; otherwise the level alone.
    pub(crate) async fn kinds(
        &self,
        store: &Store,
        number: u32,
        only: Option<Kind>,
    ) -> anyhow::Result<Vec<LevelReader>> {
        let level = self.level(store, number).await?;
        let beside: Vec<Kind> = level.extra_kinds().collect();
        let mut all = Vec::new();
        if only.is_none_or(|kind| level.kinds().contains(&kind)) {
            all.push(level.clone());
        }
        for kind in beside.into_iter().filter(|kind| only.is_none_or(|only| only == *kind)) {
            all.extend(level.of_kind(kind).await.map_err(zvf::Error::from)?);
        }
        match only {
            Some(kind) if all.is_empty() => {
                Err(Usage::new(format!("level {number} holds no {kind}")).into())
            }
            _ => Ok(all),
        }
    }

    /// Opens a store for asking it, which may take long.
    pub(crate) async fn reader(&self, address: &str) -> anyhow::Result<Reader> {
        Ok(Reader::new(self.batch_store(address).await?))
    }

    /// Reports progress of `task` until it is dropped: a line on a terminal, lines of JSON with `--json`.
    pub(crate) fn progress(&self, task: &'static str) -> Progress {
        Progress::start(task, self.common.quiet, self.common.json, self.on_progress.clone())
    }

    /// Says each of `notices` once, after what was printed to `out`.
    pub(crate) fn print_notices(
        &self,
        out: &mut dyn io::Write,
        notices: impl IntoIterator<Item = String>,
    ) -> io::Result<()> {
        out.flush()?;
        if self.common.quiet {
            return Ok(());
        }
        let mut err = io::stderr().lock();
        let mut told = BTreeSet::new();
        for notice in notices {
            if told.insert(notice.clone()) {
                self.write_notice(&mut err, &notice)?;
            }
        }
        Ok(())
    }

    fn write_notice(&self, err: &mut dyn io::Write, notice: &str) -> io::Result<()> {
        match self.common.json {
            true => writeln!(err, "{}", json!({"type": "warning", "message": notice})),
            false => writeln!(err, "zvf: note: {notice}"),
        }
    }

    /// Says one notice at once.
    #[cfg(feature = "edit")]
    fn print_notice(&self, notice: &str) {
        if !self.common.quiet {
            // Nobody reads it when standard error is closed.
            drop(self.write_notice(&mut io::stderr().lock(), notice));
        }
    }

    /// Says the notices of `store`; those that differ only in the array are one.
    pub(crate) fn print_store_notices(
        &self,
        out: &mut dyn io::Write,
        store: &Store,
    ) -> io::Result<()> {
        self.print_notices(out, sentences(&store.notices()))
    }
}

/// Runs blocking work on a thread of its own, so that Ctrl-C is heard.
#[cfg(feature = "edit")]
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> zvf::edit::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

/// Notices in words.
pub(crate) fn sentences(notices: &[Notice]) -> Vec<String> {
    let mut silent = Vec::new();
    let mut words = Vec::new();
    for notice in notices {
        if let Notice::CannotEnumerate { key } = notice {
            silent.push(if key.is_root() { "the root" } else { key.as_str() });
        } else {
            words.push(notice.to_string());
        }
    }
    if let [_, _, ..] = silent.as_slice() {
        words.push(format!(
            "{} cannot be listed here: only what metadata or the caller names was read",
            silent.join(", ")
        ));
    } else {
        let alone = notices.iter().filter(|one| matches!(one, Notice::CannotEnumerate { .. }));
        words.extend(alone.map(ToString::to_string));
    }
    words
}

//! One run of the command: how stores are opened, and notices on standard error.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use zvf::inspect::advise;
use zvf::question::open_kinds;
use zvf::store::BuildOptions;
use zvf::{Error, Kind, LevelId, LevelReader, Notice, OpenOptions, Reader, Store, Timeouts};

use crate::global_options::{Common, write_note};
use crate::interrupt::Interrupt;
use crate::outcome::{CommandResult, Outcome, refuse};
use crate::progress::{Progress, ProgressHook};
use crate::table;

/// The output of a command: standard output, or what a caller collects.
pub(crate) type Output = Arc<Mutex<dyn io::Write + Send>>;

/// The state that subcommands share.
pub(crate) struct Session {
    common: Common,
    interrupt: Interrupt,
    on_progress: Option<ProgressHook>,
    mapped: Mutex<Vec<Store>>, // stores that are memory-mapped
    out: Output,
    completes: bool,
}

impl Session {
    /// Begins the session of one command, whose output goes to `out`. If nobody reads that, it
    /// `completes`, or ends.
    pub(crate) const fn new(
        common: Common,
        interrupt: Interrupt,
        on_progress: Option<ProgressHook>,
        out: Output,
        completes: bool,
    ) -> Self {
        Self { common, interrupt, on_progress, mapped: Mutex::new(Vec::new()), out, completes }
    }

    /// Takes output that nobody reads for written, where the command completes.
    fn unless_closed<T>(&self, otherwise: T, done: io::Result<T>) -> io::Result<T> {
        let stays = if self.completes { ", but what was done stays" } else { "" };
        match done {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(io::Error::new(
                error.kind(),
                format!("cannot write the output{stays}: {error}"),
            )),
            Err(_) if self.completes => Ok(otherwise),
            done => done,
        }
    }

    /// Returns a session like this one without output, for a command inside of a command.
    pub(crate) fn silenced(&self) -> Self {
        let out = Arc::new(Mutex::new(io::sink()));
        Self::new(self.common.clone(), self.interrupt.clone(), self.on_progress.clone(), out, true)
    }

    /// Returns the output of the command.
    pub(crate) const fn out(&self) -> impl io::Write {
        self
    }

    /// Returns whether JSON is printed.
    pub(crate) const fn json(&self) -> bool {
        self.common.json
    }

    /// Prints a result: as JSON, or as `text` writes it.
    pub(crate) fn print(
        &self,
        result: &impl serde::Serialize,
        text: impl FnOnce(&mut dyn io::Write) -> anyhow::Result<()>,
    ) -> CommandResult {
        match self.common.json {
            true => table::json(result, &mut self.out())?,
            false => text(&mut self.out())?,
        }
        Ok(Outcome::Clean)
    }

    /// Prints a line of text; JSON has none for it.
    pub(crate) fn print_text(&self, line: impl std::fmt::Display) -> io::Result<()> {
        if self.common.json { Ok(()) } else { writeln!(self.out(), "{line}") }
    }

    /// Returns how a store is written that may replace another one.
    pub(crate) fn build_options(&self, replace: bool) -> BuildOptions {
        BuildOptions {
            replace,
            store: self.options(Timeouts::BATCH),
            gate: self.interrupt.gate().clone(),
            ..BuildOptions::default()
        }
    }

    pub(crate) const fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns a flag that the first signal sets instead of stopping: the work that watches it ends by
    /// itself.
    pub(crate) fn ask_first(&self) -> Arc<AtomicBool> {
        let stop = Arc::default();
        self.interrupt.ask_first(&stop);
        stop
    }

    /// Returns the options for opening stores.
    pub(crate) fn options(&self, timeouts: Timeouts) -> OpenOptions {
        self.common.options(timeouts)
    }

    /// Returns the common options of a command line that runs for this one in parallel with `jobs - 1` others.
    pub(crate) fn common_words(&self, jobs: usize) -> Vec<String> {
        self.common.words(zvf::format::num::to_u64(jobs))
    }

    /// Returns the common options of a program that does all of this command line.
    pub(crate) fn passed_words(&self) -> Vec<String> {
        let mut words = self.common.words(1);
        words.retain(|word| word != "--quiet" || self.common.quiet);
        words.extend(self.common.json.then(|| "--json".to_owned()));
        words
    }

    /// Returns the memory limit, where one is given.
    pub(crate) const fn memory_limit(&self) -> Option<u64> {
        self.common.memory_limit
    }

    /// Opens a store for interactive commands.
    pub(crate) async fn store(&self, address: &str) -> anyhow::Result<Store> {
        self.open(address, Timeouts::INTERACTIVE).await
    }

    /// Opens a store for batch commands.
    pub(crate) async fn batch_store(&self, address: &str) -> anyhow::Result<Store> {
        self.open(address, Timeouts::BATCH).await
    }

    /// Opens a store; a packed one on this machine is memory-mapped when nobody can write to it.
    async fn open(&self, address: &str, timeouts: Timeouts) -> anyhow::Result<Store> {
        let options = self.common.options(timeouts);
        let opened = async {
            #[cfg(unix)]
            if let Some(path) = Store::pack_at(address) {
                // Without the handler, a file that is truncated under the map would end the process.
                zvf::map::install_sigbus_handler().map_err(|error| Error::io("open", error))?;
                let store = Store::open_mapped_if_immutable(&path, options).await?;
                self.mapped.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
                return Ok(store);
            }
            zvf::open_store(address, options).await
        };
        opened.await.with_context(|| format!("cannot open {address}"))
    }

    /// Returns the location of a store that is edited.
    pub(crate) fn place(&self, address: &str) -> anyhow::Result<zvf::edit::Place> {
        let place = zvf::edit::Place::open(address, &self.options(Timeouts::BATCH))?;
        let place = place.with_gate(self.interrupt.gate().clone());
        Ok(match self.memory_limit() {
            Some(limit) => place.with_memory_limit(limit),
            None => place,
        })
    }

    /// Checks that the memory-mapped stores did not change while they were read.
    pub(crate) fn check_maps(&self) -> anyhow::Result<()> {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        for store in &*mapped {
            store.check_maps()?;
        }
        Ok(())
    }

    /// Opens a store for validation: faults are not formatted yet.
    pub(crate) async fn unchecked_store(&self, address: &str) -> Result<Store, Error> {
        Store::open(address, self.common.options(Timeouts::BATCH)).await
    }

    /// Opens a level of `store`.
    pub(crate) async fn level(&self, store: &Store, number: u32) -> anyhow::Result<LevelReader> {
        match LevelReader::open(store, LevelId(number)).await {
            Ok(level) => Ok(level),
            Err(error) => Err(advise(error, store).await.into()),
        }
    }

    /// Opens every kind of a level that holds several, the first one first; otherwise the level alone.
    pub(crate) async fn kinds(
        &self,
        store: &Store,
        number: u32,
        only: Option<Kind>,
    ) -> anyhow::Result<Vec<LevelReader>> {
        let level = self.level(store, number).await?;
        let all = open_kinds(&level, only).await?;
        match only {
            Some(kind) if all.is_empty() => refuse(format!("level {number} holds no {kind}")),
            _ => Ok(all),
        }
    }

    /// Opens a store for queries, which may take long.
    pub(crate) async fn reader(&self, address: &str) -> anyhow::Result<Reader> {
        Ok(Reader::new(self.batch_store(address).await?))
    }

    /// Reports progress of `task` until it is dropped: a line on a terminal, lines of JSON with `--json`.
    pub(crate) fn progress(&self, task: &'static str) -> Progress {
        Progress::start(task, self.common.quiet, self.common.json, self.on_progress.clone())
    }

    /// Does `work`, and reports that `task` is under way meanwhile.
    pub(crate) async fn during<T>(&self, task: &'static str, work: impl Future<Output = T>) -> T {
        let _progress = self.progress(task);
        work.await
    }

    /// Prints each of `notices` once, after what was printed so far.
    pub(crate) fn print_notices(
        &self,
        notices: impl IntoIterator<Item = String>,
    ) -> io::Result<()> {
        self.out().flush()?;
        if self.common.quiet {
            return Ok(());
        }
        let mut err = io::stderr().lock();
        let mut printed = BTreeSet::new();
        for notice in notices {
            if printed.insert(notice.clone()) {
                write_note(&mut err, &notice, self.common.json)?;
            }
        }
        Ok(())
    }

    /// Ends a command that found no problems: prints the notices of `store`.
    pub(crate) fn finish(&self, store: &Store) -> CommandResult {
        self.print_store_notices(store)?;
        Ok(Outcome::Clean)
    }

    /// Prints the notices of `store`; those that differ only in the array are merged.
    pub(crate) fn print_store_notices(&self, store: &Store) -> io::Result<()> {
        self.print_notices(sentences(&store.notices()))
    }
}

impl io::Write for &Session {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.interrupt.check()?;
        let done = self.out.lock().unwrap_or_else(PoisonError::into_inner).write(bytes);
        self.unless_closed(bytes.len(), done)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), self.out.lock().unwrap_or_else(PoisonError::into_inner).flush())
    }
}

/// Formats notices.
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
    if !silent.is_empty() {
        let more = silent.split_off(silent.len().min(MAX_LISTED)).len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        words.push(format!(
            "{}{more} cannot be listed: only arrays that metadata or the command names were read",
            silent.join(", ")
        ));
    }
    words
}

/// The number of arrays without a listing that a notice names.
const MAX_LISTED: usize = 3;

//! Ctrl-C, SIGTERM and SIGHUP: stop waiting at once and writing at the next piece.
//!
//! Once something is being published, the first of them changes nothing: the command goes on to its end, and says what
//! it did. Who presses again stops it, and hears that nobody knows whether it was published. A signal that is ignored
//! when the command starts (`nohup`) stays ignored.
//!
//! Work that has something to show before its end is asked first ([`Interrupt::ask_first`]); only who presses
//! twice stops it the hard way.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use zvf::publish::CommitGate;

/// Whether somebody pressed Ctrl-C; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    gate: CommitGate,    // passed right before something is visible
    pressed: AtomicBool, // too late to cancel, once
    told: Notify,
    first: Mutex<Option<Arc<AtomicBool>>>, // set before anything is stopped
}

/// What a command ends with that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupted;

/// What a command ends with that was stopped while it published something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoppedAtCommit;

impl std::fmt::Display for StoppedAtCommit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "CommitUnknown, stopped while the result was being published: the old one or the new one is there, whole",
        )
    }
}

impl std::error::Error for StoppedAtCommit {}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cancelled, interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// The runtime of a command that hears no signals.
    pub(crate) fn silent_runtime() -> anyhow::Result<Runtime> {
        // Allocators keep for each thread what it once held: with hundreds a limit on memory means little.
        let readers =
            std::thread::available_parallelism().map_or(4, |cores| cores.get().clamp(4, 8));
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(WORKERS).max_blocking_threads(readers);
        threads.enable_all().build().context("cannot start")
    }

    /// The runtime of the command, on which the signal is waited for.
    pub(crate) fn runtime(&self) -> anyhow::Result<Runtime> {
        let runtime = Self::silent_runtime()?;
        let heard = {
            let _inside = runtime.enter();
            signals().context("cannot wait for signals")?
        };
        for mut signal in heard {
            let this = self.clone();
            runtime.spawn(async move {
                while signal.recv().await.is_some() {
                    this.stop();
                }
            });
        }
        Ok(runtime)
    }

    /// The gate that whatever publishes something passes.
    pub(crate) fn gate(&self) -> &CommitGate {
        &self.shared.gate
    }

    /// What a signal does.
    pub(crate) fn stop(&self) {
        if self.asked() {
            return;
        }
        let pressed_before = self.shared.stopped.load(Ordering::Relaxed);
        if !self.shared.gate.stop() && !pressed_before {
            // Too late to cancel: what is left is little, and nothing of it may be lost.
            if !self.shared.pressed.swap(true, Ordering::Relaxed) {
                return;
            }
        }
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.told.notify_one();
    }

    /// Sets `flag` the first time, and stops nothing: the work that watches it comes to an end of its own.
    pub(crate) fn ask_first(&self, flag: &Arc<AtomicBool>) {
        *self.first() = Some(Arc::clone(flag));
    }

    /// Stops everything from the first time on, as without [`ask_first`](Self::ask_first).
    pub(crate) fn ask_nobody(&self) {
        *self.first() = None;
    }

    /// Whether there was somebody to ask.
    fn asked(&self) -> bool {
        let flag = self.first().take();
        flag.is_some_and(|flag| !flag.swap(true, Ordering::Relaxed))
    }

    fn first(&self) -> std::sync::MutexGuard<'_, Option<Arc<AtomicBool>>> {
        self.shared.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `work` comes to, unless it is stopped first.
    pub(crate) async fn or_stopped<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            biased;
            () = self.shared.told.notified() => Err(self.reason()),
            done = work => done,
        }
    }

    /// Why a command ends that was stopped.
    pub(crate) fn reason(&self) -> anyhow::Error {
        if self.shared.gate.is_entered() { StoppedAtCommit.into() } else { Interrupted.into() }
    }

    /// Whether somebody pressed it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    fn check(&self) -> io::Result<()> {
        match self.is_stopped() {
            true => Err(io::Error::other(Interrupted)),
            false => Ok(()),
        }
    }
}

/// A writer that takes nothing more once the command was stopped.
#[derive(Debug)]
pub(crate) struct Watched<W> {
    inner: W,
    interrupt: Interrupt,
}

impl<W> Watched<W> {
    pub(crate) const fn new(inner: W, interrupt: Interrupt) -> Self {
        Self { inner, interrupt }
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.interrupt.check()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: io::Seek> io::Seek for Watched<W> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// The signals that stop a command.
#[cfg(unix)]
fn signals() -> io::Result<Vec<tokio::signal::unix::Signal>> {
    use tokio::signal::unix::{SignalKind, signal};
    let ignored = ignored_signals();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let heard = kinds.into_iter().filter(|kind| {
        let bit = kind.as_raw_value().checked_sub(1).and_then(|bit| u32::try_from(bit).ok());
        bit.is_none_or(|bit| (ignored >> bit) & 1 == 0)
    });
    heard.map(signal).collect()
}

/// The signals that this process was started to ignore, one bit each; none where the system does not tell.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) // none known to be ignored
}

#[cfg(not(unix))]
fn signals() -> io::Result<Vec<tokio::signal::windows::CtrlC>> {
    Ok(vec![tokio::signal::windows::ctrl_c()?])
}

/// Threads of the runtime: they move bytes and watch for the signal.
const WORKERS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_once_stopped() {
        let interrupt = Interrupt::default();
        let mut out = Watched::new(Vec::new(), interrupt.clone());
        out.write_all(b"one").unwrap();
        interrupt.shared.stopped.store(true, Ordering::Relaxed);
        let error = out.write_all(b"two").unwrap_err();
        assert!(error.get_ref().is_some_and(|inner| inner.is::<Interrupted>()));
        assert_eq!(out.into_inner(), b"one");
    }

    #[test]
    fn work_that_can_end_by_itself_is_asked_once() {
        let (interrupt, flag) = (Interrupt::default(), Arc::new(AtomicBool::new(false)));
        assert!(!interrupt.asked());
        interrupt.ask_first(&flag);
        assert!(interrupt.asked() && flag.load(Ordering::Relaxed));
        assert!(!interrupt.asked());
        interrupt.ask_first(&Arc::default());
        interrupt.ask_nobody();
        assert!(!interrupt.asked());
    }

    #[test]
    fn what_is_being_published_is_not_cancelled_by_the_first_signal() {
        let interrupt = Interrupt::default();
        interrupt.gate().enter().unwrap();
        interrupt.stop();
        assert!(!interrupt.is_stopped());
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(interrupt.or_stopped(async { Ok(()) })).unwrap();
        interrupt.stop();
        assert!(interrupt.is_stopped());
        let never = std::future::pending::<anyhow::Result<()>>();
        let error = runtime.block_on(interrupt.or_stopped(never)).unwrap_err();
        assert!(error.is::<StoppedAtCommit>());
    }

    #[test]
    fn nothing_is_published_after_a_signal() {
        let interrupt = Interrupt::default();
        interrupt.stop();
        assert!(interrupt.is_stopped() && interrupt.gate().enter().is_err());
    }

    #[test]
    fn waiting_ends_when_stopped() {
        let interrupt = Interrupt::default();
        interrupt.shared.told.notify_one();
        let runtime = Builder::new_current_thread().build().unwrap();
        let never = std::future::pending::<anyhow::Result<()>>();
        let error = runtime.block_on(interrupt.or_stopped(never)).unwrap_err();
        assert!(error.is::<Interrupted>());
    }
}

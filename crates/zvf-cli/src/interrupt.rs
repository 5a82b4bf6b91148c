//! Ctrl-C, SIGTERM and SIGHUP: reads stop at once, and writes at the next piece.
//!
//! While a result is being published or committed, the first signal has no effect: the command
//! completes and reports the result. A second signal stops it, with an error that the state of the
//! result is unknown. Work that blocks, as edits do, sees the first signal at the gate that every
//! commit passes; a second signal ends the program. A signal that is ignored when the command
//! starts (`nohup`) stays ignored.
//!
//! Work that has partial results is asked to stop first ([`Interrupt::ask_first`]); a second signal stops it at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use zvf::publish::CommitGate;

use crate::outcome;
pub(crate) use crate::outcome::Interrupted;

/// Stops a command from another thread: it has whether a signal arrived, and clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    shared: Arc<InterruptState>,
}

#[derive(Debug, Default)]
struct InterruptState {
    stopped: AtomicBool,
    gate: CommitGate,    // passed right before something becomes visible
    pressed: AtomicBool, // whether a signal arrived too late to cancel
    notify: Notify,
    first: Mutex<Option<Arc<AtomicBool>>>, // set before anything is stopped
}

impl Interrupt {
    /// Creates the runtime of a command that does not listen for signals.
    pub(crate) fn silent_runtime() -> anyhow::Result<Runtime> {
        // Allocators cache memory per thread: with hundreds of threads a memory limit means little.
        let readers =
            std::thread::available_parallelism().map_or(4, |cores| cores.get().clamp(4, 8));
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(WORKERS).max_blocking_threads(readers);
        threads.enable_all().build().context("cannot start")
    }

    /// Creates the runtime of the command, which listens for signals. Where a second one ends the
    /// program, the reason is printed, as JSON with `is_json`.
    pub(crate) fn runtime(&self, is_json: bool) -> anyhow::Result<Runtime> {
        let runtime = Self::silent_runtime()?;
        let signals_to_wait_for = {
            let _inside = runtime.enter();
            signals().context("cannot wait for signals")?
        };
        for mut signal in signals_to_wait_for {
            let this = self.clone();
            runtime.spawn(async move {
                while signal.recv().await.is_some() {
                    let is_second = this.has_signal();
                    this.stop();
                    if is_second && this.is_stopped() {
                        this.end_soon(is_json);
                    }
                }
            });
        }
        Ok(runtime)
    }

    /// Returns the gate that publishing passes.
    pub(crate) fn gate(&self) -> &CommitGate {
        &self.shared.gate
    }

    /// Stops the command as Ctrl-C stops the program.
    pub fn stop(&self) {
        let flag = self.shared.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A flag that no work holds any more stops nothing.
        if let Some(flag) = flag.filter(|flag| Arc::strong_count(flag) > 1)
            && !flag.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let pressed_before = self.shared.stopped.load(Ordering::Relaxed);
        if !self.shared.gate.stop() && !pressed_before {
            // Too late to cancel: little work is left, and none of it may be lost.
            if !self.shared.pressed.swap(true, Ordering::Relaxed) {
                return;
            }
        }
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.notify.notify_one();
    }

    /// Ends the program, unless the command ends first.
    fn end_soon(&self, is_json: bool) {
        let this = self.clone();
        std::thread::spawn(move || {
            std::thread::sleep(LAST_WAIT);
            outcome::end(&this.reason(), is_json);
        });
    }

    /// Sets `flag` on the first signal instead of stopping: the work that watches it ends by itself.
    pub(crate) fn ask_first(&self, flag: &Arc<AtomicBool>) {
        *self.shared.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(flag));
    }

    /// Returns the result of `work`, unless it is stopped first.
    pub(crate) async fn or_stopped<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            biased;
            () = self.shared.notify.notified() => Err(self.reason()),
            done = work => done,
        }
    }

    /// Returns the error of a stopped command.
    pub(crate) fn reason(&self) -> anyhow::Error {
        if self.shared.gate.is_entered() {
            outcome::stopped_at_commit().into()
        } else {
            Interrupted.into()
        }
    }

    /// Returns whether a signal arrived, in time or too late to cancel.
    pub(crate) fn has_signal(&self) -> bool {
        self.is_stopped() || self.shared.pressed.load(Ordering::Relaxed)
    }

    /// Returns whether the command is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Refuses to write more once the command is to stop; what it committed is still reported.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.is_stopped() && !self.gate().is_entered() {
            true => Err(io::Error::other(Interrupted)),
            false => Ok(()),
        }
    }
}

/// A writer that accepts no more bytes once the command was stopped, unless it has committed
/// something.
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

/// Returns the signals that stop a command.
#[cfg(unix)]
fn signals() -> io::Result<Vec<tokio::signal::unix::Signal>> {
    use tokio::signal::unix::{SignalKind, signal};
    let ignored = ignored_signals();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let handled = kinds.into_iter().filter(|kind| {
        let bit = kind.as_raw_value().checked_sub(1).and_then(|bit| u32::try_from(bit).ok());
        bit.is_none_or(|bit| (ignored >> bit) & 1 == 0)
    });
    handled.map(signal).collect()
}

/// Returns the signals that this process ignores from its start, one bit each; none where the system does not report
/// them.
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

/// How long a command may take to end by itself after a second signal.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Threads of the runtime: they move bytes and wait for signals.
const WORKERS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_after_a_stop() {
        let interrupt = Interrupt::default();
        let mut out = Watched::new(Vec::new(), interrupt.clone());
        out.write_all(b"one").unwrap();
        interrupt.shared.stopped.store(true, Ordering::Relaxed);
        let error = out.write_all(b"two").unwrap_err();
        assert!(error.get_ref().is_some_and(|inner| inner.is::<Interrupted>()));
        assert_eq!(out.inner, b"one");
        out.interrupt.gate().enter().unwrap();
        out.write_all(b"report").unwrap();
        assert_eq!(out.into_inner(), b"onereport");
    }
}

//! Work on threads of its own: the GIL is released, Ctrl-C is heard, callbacks are called, and nothing hangs
//! after a fork.
//!
//! ```text
//! Python thread                                   worker thread
//! start(work) -> Job  ------------------------->  work(control)            no GIL
//! job.wait(): every 50 ms signals and progress    control.wait(future)     dropped when the job is stopped
//!             <---------------------------------  outcome, hook
//! ```
//!
//! A read that is answered out of what the library holds takes less time than a thread takes to wake up. So the thread
//! that waits for a read begins it, without the GIL, and hands over what is not answered at the first poll:
//!
//! ```text
//! Python thread                                   worker thread
//! prepare(future) -> Job
//! job.wait(): polls the future once               no GIL
//!             the rest, if any  --------------->  as above
//! ```
//!
//! A process has one runtime, made when it is first needed and known by the process id: in a forked child the
//! threads of the parent are gone, so a child makes its own, and its own pool for CPU work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use zvf::format::Class;

use crate::error::Fault;

/// What a job gives back, made into a Python object by whoever waits.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Returns a value as the outcome of a job.
pub(crate) fn outcome<T: for<'py> IntoPyObject<'py> + Send + 'static>(value: T) -> Outcome {
    Box::new(move |py| value.into_py_any(py))
}

/// Returns a value in the form that its JSON has in Python as the outcome of a job.
pub(crate) fn document(value: &impl serde::Serialize) -> Result<Outcome, Fault> {
    let text = serde_json::to_string(value)
        .map_err(|error| Fault::Plain(Class::Encoding, error.to_string()))?;
    Ok(Box::new(move |py| Ok(py.import("json")?.call_method1("loads", (text,))?.unbind())))
}

/// What the worker and whoever waits for it share.
#[derive(Default)]
pub(crate) struct Control {
    stopped: AtomicBool,
    stop: Notify,
    done: AtomicU64,
    total: AtomicU64,
    on_stop: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Control {
    /// Runs `future` to its end on this worker, unless the job is stopped first.
    pub(crate) fn wait<T, E: Into<Fault>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Fault> {
        self.check()?;
        Handle::current().block_on(async {
            tokio::select! {
                biased;
                done = future => done.map_err(Into::into),
                () = self.stop.notified() => Err(Fault::Stopped),
            }
        })
    }

    /// Fails once the job is stopped.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.stopped.load(Ordering::Relaxed) { Err(Fault::Stopped) } else { Ok(()) }
    }

    /// Calls `stop` when the job is stopped.
    pub(crate) fn on_stop(&self, stop: impl Fn() + Send + 'static) {
        *lock(&self.on_stop) = Some(Box::new(stop));
    }

    /// Records how far the work is.
    pub(crate) fn advance(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Records how far the work is, and of how much where that is known.
    pub(crate) fn advance_of(&self, done: u64, total: Option<u64>) {
        self.total.store(total.unwrap_or(0), Ordering::Relaxed); // 0 is shown as no total
        self.advance(done);
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.stop.notify_one();
        if let Some(stop) = &*lock(&self.on_stop) {
            stop();
        }
    }
}

#[derive(Default)]
struct Slot {
    result: Option<Result<Outcome, Fault>>,
    is_done: bool,
    hook: Option<Py<PyAny>>,
}

/// Work under way.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Job {
    control: Arc<Control>,
    slot: Arc<(Mutex<Slot>, Condvar)>,
    process: Arc<Process>,
    read: Mutex<Option<Read>>, // that nobody began
}

/// A future whose output is what a job gives back.
type Read = Pin<Box<dyn Future<Output = Result<Outcome, Fault>> + Send>>;

/// Starts `work` on a worker thread.
pub(crate) fn start(
    work: impl FnOnce(&Arc<Control>) -> Result<Outcome, Fault> + Send + 'static,
) -> PyResult<Job> {
    let job = Job::new(None)?;
    job.start(work);
    Ok(job)
}

/// Prepares a read, which whoever waits for it begins.
pub(crate) fn prepare(
    read: impl Future<Output = Result<Outcome, Fault>> + Send + 'static,
) -> PyResult<Job> {
    Job::new(Some(Box::pin(read)))
}

#[pymethods]
impl Job {
    /// Waits for the end and returns the outcome; `progress(done, total)` is called meanwhile.
    #[pyo3(signature = (progress=None))]
    fn wait(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        if self.process.pid != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "the work was started by the parent process: start it again after the fork",
            ));
        }
        let read = lock(&self.read).take();
        let mut is_done = py.detach(|| {
            match (read, &progress) {
                (Some(read), None) => self.begin(read),
                (Some(read), Some(_)) => self.hand_over(read),
                (None, _) => {}
            }
            self.is_done_within(STEP)
        });
        while !is_done {
            let heard = py.check_signals().and_then(|()| self.report(py, progress.as_ref()));
            if let Err(error) = heard {
                self.control.stop();
                lock(&STOPPED).push(Arc::clone(&self.slot));
                // What is being published is not left half-way: a moment for the worker to end.
                py.detach(|| self.is_done_within(GRACE));
                return Err(error);
            }
            is_done = py.detach(|| self.is_done_within(STEP));
        }
        if progress.is_some() {
            self.report(py, progress.as_ref())?;
        }
        self.result(py)
    }

    /// Returns the outcome of work that has ended.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let taken = lock(&self.slot.0).result.take();
        match taken {
            Some(Ok(outcome)) => outcome(py),
            Some(Err(Fault::Stopped)) => Err(PyKeyboardInterrupt::new_err("stopped")),
            Some(Err(fault)) => Err(fault.to_py(py)),
            None => Err(PyRuntimeError::new_err("the outcome was taken already")),
        }
    }

    /// Returns whether the work has ended.
    fn is_done(&self) -> bool {
        self.start_read();
        lock(&self.slot.0).is_done
    }

    /// Stops the work at its next step.
    fn cancel(&self) {
        self.control.stop();
    }

    /// Calls `hook()` when the work has ended, from another thread; at once when it has.
    fn on_done(&self, hook: Py<PyAny>) {
        self.start_read();
        let mut slot = lock(&self.slot.0);
        if slot.is_done {
            drop(slot);
            call_hook(hook);
        } else {
            slot.hook = Some(hook);
        }
    }
}

impl Job {
    fn new(read: Option<Read>) -> PyResult<Self> {
        Ok(Self {
            control: Arc::default(),
            slot: Arc::default(),
            process: Process::find_current()?,
            read: Mutex::new(read),
        })
    }

    /// Runs `work` on a worker thread.
    fn start(&self, work: impl FnOnce(&Arc<Control>) -> Result<Outcome, Fault> + Send + 'static) {
        let (control, slot) = (Arc::clone(&self.control), Arc::clone(&self.slot));
        let process = Arc::clone(&self.process);
        self.process.runtime.spawn_blocking(move || {
            let run = || match &process.pool {
                Some(pool) => {
                    let handle = Handle::current();
                    pool.install(|| {
                        let _inside = handle.enter();
                        work(&control)
                    })
                }
                None => work(&control),
            };
            let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Fault::Panic));
            finish(&slot, result);
        });
    }

    /// Has a worker do a read that nobody began.
    fn start_read(&self) {
        let read = lock(&self.read).take();
        if let Some(read) = read {
            self.hand_over(read);
        }
    }

    fn hand_over(&self, read: Read) {
        self.start(move |control| control.wait(read));
    }

    /// Polls a read once on this thread, which may be all that it takes; a worker does the rest.
    fn begin(&self, mut read: Read) {
        if self.process.pool.is_some() || self.control.check().is_err() {
            return self.hand_over(read);
        }
        let inside = self.process.runtime.enter();
        let mut context = std::task::Context::from_waker(Waker::noop());
        let poll = || read.as_mut().poll(&mut context);
        let polled = catch_unwind(AssertUnwindSafe(poll));
        drop(inside);
        match polled {
            Ok(Poll::Ready(result)) => finish(&self.slot, result),
            Ok(Poll::Pending) => self.hand_over(read),
            Err(_panic) => finish(&self.slot, Err(Fault::Panic)),
        }
    }

    /// Lets it go on alone; [`settle`] waits for it.
    pub(crate) fn leave(&self) {
        lock(&STOPPED).push(Arc::clone(&self.slot));
    }

    fn is_done_within(&self, time: Duration) -> bool {
        is_done_within(&self.slot, time)
    }

    fn report(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        let Some(progress) = progress else { return Ok(()) };
        let done = self.control.done.load(Ordering::Relaxed);
        let total = self.control.total.load(Ordering::Relaxed);
        progress.call1(py, (done, (total > 0).then_some(total)))?;
        Ok(())
    }
}

/// Keeps the outcome for whoever waits, and tells them.
fn finish((slot, done): &(Mutex<Slot>, Condvar), result: Result<Outcome, Fault>) {
    let hook = {
        let mut slot = lock(slot);
        slot.result = Some(result);
        slot.is_done = true;
        slot.hook.take()
    };
    done.notify_all();
    if let Some(hook) = hook {
        call_hook(hook);
    }
}

fn is_done_within((slot, done): &(Mutex<Slot>, Condvar), time: Duration) -> bool {
    let until = Instant::now() + time;
    let mut slot = lock(slot);
    while !slot.is_done {
        let Some(left) = until.checked_duration_since(Instant::now()).filter(|d| !d.is_zero())
        else {
            return false;
        };
        slot = done.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

/// Jobs that were stopped, or left alone: they still remove what they have begun to write.
static STOPPED: Mutex<Vec<Arc<(Mutex<Slot>, Condvar)>>> = Mutex::new(Vec::new());

/// Waits at most so many seconds for jobs that were stopped, so that nothing half-written stays behind a program.
#[pyfunction]
pub(crate) fn settle(py: Python<'_>, seconds: f64) {
    const DAY: f64 = 86_400.0;
    let wait = Duration::try_from_secs_f64(seconds.clamp(0.0, DAY)).unwrap_or_default(); // 0 for NaN
    let until = Instant::now() + wait;
    let stopped = std::mem::take(&mut *lock(&STOPPED));
    py.detach(|| {
        for job in stopped {
            is_done_within(&job, until.saturating_duration_since(Instant::now()));
        }
        let left = until.saturating_duration_since(Instant::now());
        drop(TELLING.1.wait_timeout_while(lock(&TELLING.0), left, |threads| *threads > 0));
    });
}

/// Tells Python that a job has ended; an interpreter that is going away is not told.
fn call_hook(hook: Py<PyAny>) {
    *lock(&TELLING.0) += 1;
    let called = Python::try_attach(|py| {
        if let Err(error) = hook.call0(py) {
            error.write_unraisable(py, None);
        }
        drop(hook);
    });
    let _ = called;
    *lock(&TELLING.0) -= 1;
    TELLING.1.notify_all();
}

/// The number of threads that tell Python of a job. [`settle`] waits for them: a thread that needs
/// the interpreter while it goes away aborts the program.
static TELLING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The threads of one process.
struct Process {
    pid: u32,
    runtime: Runtime,
    pool: Option<rayon::ThreadPool>, // in a forked child: the global one has no threads there
}

impl Process {
    fn find_current() -> PyResult<Arc<Self>> {
        static CURRENT: Mutex<Option<Arc<Process>>> = Mutex::new(None);
        static FIRST: OnceLock<u32> = OnceLock::new();
        let pid = std::process::id();
        let first = *FIRST.get_or_init(|| pid);
        let mut current = lock(&CURRENT);
        match &*current {
            Some(process) if process.pid == pid => Ok(Arc::clone(process)),
            parent => {
                // The threads of the parent cannot be ended from here.
                std::mem::forget(parent.clone());
                lock(&STOPPED).clear();
                let made = Arc::new(Self::new(pid, pid != first)?);
                *current = Some(Arc::clone(&made));
                Ok(made)
            }
        }
    }

    fn new(pid: u32, is_child: bool) -> PyResult<Self> {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        let failed = |error: &dyn std::fmt::Display| {
            PyRuntimeError::new_err(format!("the threads of zvf do not start: {error}"))
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores.clamp(2, 8))
            .thread_name("zvf")
            .thread_stack_size(STACK)
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let pool = is_child.then(|| rayon::ThreadPoolBuilder::new().num_threads(cores + 2).build());
        let pool = pool.transpose().map_err(|error| failed(&error))?;
        Ok(Self { pid, runtime, pool })
    }
}

/// Locks a mutex. One whose holder panicked is as good as any other: nothing is left half-changed under it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the stack of a thread that does work: as many as the first thread of a program has, where the same work runs in
/// the command. Building a store has deep futures, of which builds that are not optimised keep every copy.
pub(crate) const STACK: usize = 8 << 20;
/// How long whoever waits sleeps between two looks at signals.
const STEP: Duration = Duration::from_millis(50);

/// How long a stopped worker is waited for.
const GRACE: Duration = Duration::from_millis(120);

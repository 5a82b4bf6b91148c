//! Streams: answers batch by batch, in order, some of them prefetched.
//!
//! A future that is polled only while somebody waits for the next batch keeps what it holds between two
//! batches: places in the single-flight cache and permits of the budget, for which the next query of the
//! same handle may wait for ever. So no work of a stream is left to its consumer:
//!
//! ```text
//! remote store, in a tokio runtime    a task for each wave         aborted when the stream is dropped
//! files of this machine               a thread for each wave       stopped when it is dropped
//! remote store, no runtime            one wave, while it is waited for; nothing ahead
//! ```
//!
//! A wave that is done holds its batch and nothing else.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError};

#[cfg(not(all(test, zvf_loom)))]
use futures_executor::block_on;
use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use futures_util::stream::{self, Stream};
#[cfg(all(test, zvf_loom))]
use loom::{future::block_on, sync::Mutex, thread};
#[cfg(not(all(test, zvf_loom)))]
use std::{sync::Mutex, thread};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zvf_format::num::saturating_usize;
use zvf_format::{Class, Expected};
use zvf_model::{Batch, ModelError};

use super::{Context, Purpose, SizedWave, WorkUnit, contexts, join, waves};
use crate::error::QueryError;
use crate::query::Query;
use crate::reader::Reader;

/// Returns the answer to `query`, batch by batch. Nothing happens before the first poll.
pub(crate) fn stream(
    reader: Reader,
    query: Query,
) -> impl Stream<Item = Result<Batch, QueryError>> + Send {
    stream::unfold(State::Fresh(Box::new((reader, query))), |state| async move {
        let mut pipeline = match state {
            State::Fresh(question) => Pipeline::start(question.0, question.1),
            State::Running(pipeline) => pipeline,
            State::Ended => return None,
        };
        match pipeline.next().await {
            Ok(Some(batch)) => Some((Ok(batch), State::Running(pipeline))),
            Ok(None) => None,
            Err(error) => Some((Err(error), State::Ended)),
        }
    })
}

enum State {
    Fresh(Box<(Reader, Query)>),
    Running(Box<Pipeline>),
    Ended,
}

/// Some work of one level.
type Work = (Arc<Context>, WorkUnit);
type SizedWork = (Arc<Context>, SizedWave);

/// The waves of a stream: not started, in progress, done.
struct Pipeline {
    runner: Runner,
    /// The number of vertices that the limit still allows.
    left: usize,
    /// Vertices that one wave may give: one more than the limit shows whether an object is cut off.
    wave_limit: usize,
    /// The maximum number of waves in progress.
    ahead: usize,
    /// The level being opened and divided into waves.
    opening: Option<Running<Result<Vec<Work>, QueryError>>>,
    /// Waves as divided by estimates.
    coarse: VecDeque<Work>,
    /// A wave that is being divided by its indexes.
    dividing: Option<Running<Result<Vec<SizedWork>, QueryError>>>,
    /// Waves of a known size, and errors of dividing.
    fine: VecDeque<Result<SizedWork, QueryError>>,
    /// Waves being answered, in order, each with the bytes it takes.
    answers: VecDeque<(Running<Result<Batch, QueryError>>, u64)>,
    /// Bytes that all waves in progress may take together; one alone may take more.
    max_bytes: u64,
}

impl Pipeline {
    fn start(reader: Reader, query: Query) -> Box<Self> {
        let runner = Runner::for_store(reader.store().is_remote());
        let left = query.limit.map_or(usize::MAX, saturating_usize);
        let max_bytes = reader.store().budget().max_bytes() / 4;
        let opening = async move {
            let mut work = Vec::new();
            for context in contexts(&reader, &query).await? {
                let context = Arc::new(context);
                let waves = waves(&context, Purpose::Stream).await?;
                work.extend(waves.into_iter().map(|wave| (Arc::clone(&context), wave)));
            }
            Ok(work)
        };
        Box::new(Self {
            runner,
            left,
            wave_limit: left.saturating_add(1), // no limit stays no limit
            ahead: 1,
            opening: Some(runner.run(opening)),
            coarse: VecDeque::new(),
            dividing: None,
            fine: VecDeque::new(),
            answers: VecDeque::new(),
            max_bytes,
        })
    }

    async fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        if let Some(opening) = &mut self.opening {
            let work = opening.finish().await?;
            self.opening = None;
            self.coarse = work?.into();
            self.ahead = match self.coarse.front() {
                _ if self.runner == Runner::Inline => 1,
                // An edge or face takes several times what a vertex takes on its way.
                Some((context, _)) if context.kind.has_links() => PREFETCH_UNITS_WITH_LINKS,
                _ => PREFETCH_UNITS,
            };
        }
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            self.start_answers().await;
            if let Some((answer, _)) = self.answers.front_mut() {
                let batch = answer.finish().await?;
                self.answers.pop_front();
                let batch = batch?;
                if batch.len() > self.left {
                    let batch = join::cut(&batch, self.left)?;
                    self.left = 0;
                    return Ok(Some(batch));
                }
                self.left -= batch.len();
                return Ok(Some(batch));
            }
            if self.dividing.is_none() {
                return Ok(None);
            }
            self.finish_dividing().await;
        }
    }

    /// Starts waves until the maximum is in progress.
    async fn start_answers(&mut self) {
        while self.answers.len() < self.ahead {
            if let Some(next) = self.fine.front() {
                let bytes = next.as_ref().map_or(0, |(_, sized)| sized.bytes);
                if !self.has_room_for(bytes) {
                    return;
                }
                let Some(work) = self.fine.pop_front() else { return };
                let limit = self.wave_limit;
                let answer = self.runner.run(async move {
                    let (context, sized) = work?;
                    let batch = context.answer(&sized.wave, limit).await?;
                    context.cache.level.store().check_maps()?;
                    Ok(batch)
                });
                self.answers.push_back((answer, bytes));
                continue;
            }
            if self.dividing.is_none()
                && let Some((context, wave)) = self.coarse.pop_front()
            {
                self.dividing = Some(self.runner.run(async move {
                    let waves = context.refine_wave(wave, Purpose::Stream).await?;
                    Ok(waves.into_iter().map(|sized| (Arc::clone(&context), sized)).collect())
                }));
            }
            if !self.dividing.as_ref().is_some_and(Running::is_finished) {
                return;
            }
            self.finish_dividing().await;
        }
    }

    /// Returns whether a wave of `bytes` bytes may be in progress beside the others.
    fn has_room_for(&self, bytes: u64) -> bool {
        // Estimates.
        let used = self.answers.iter().fold(bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.answers.is_empty() || used <= self.max_bytes
    }

    /// Takes over the waves that one was divided into. An error is returned in its turn.
    async fn finish_dividing(&mut self) {
        let Some(dividing) = &mut self.dividing else { return };
        let waves = dividing.finish().await;
        self.dividing = None;
        match waves.and_then(std::convert::identity) {
            Ok(waves) => self.fine.extend(waves.into_iter().map(Ok)),
            Err(error) => self.fine.push_back(Err(error)),
        }
    }
}

/// What runs the work of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Tasks,
    Threads,
    Inline,
}

impl Runner {
    fn for_store(is_remote: bool) -> Self {
        match Handle::try_current() {
            _ if !is_remote => Self::Threads,
            Ok(_) => Self::Tasks,
            Err(_) => Self::Inline,
        }
    }

    fn run<T: Send + 'static>(self, work: impl Future<Output = T> + Send + 'static) -> Running<T> {
        match (self, Handle::try_current()) {
            (Self::Tasks, Ok(runtime)) => Running::Task(runtime.spawn(work)),
            (Self::Threads, _) => Running::on_thread(work.boxed()),
            (Self::Tasks, Err(_)) | (Self::Inline, _) => Running::Inline(work.map(Ok).boxed()),
        }
    }
}

/// Work in progress. Dropping it cancels the work.
enum Running<T> {
    Task(JoinHandle<T>),
    Thread {
        result: oneshot::Receiver<T>,
        handle: Option<thread::JoinHandle<()>>,
        /// Dropped with the rest, which stops the thread where it waits.
        _stop: oneshot::Sender<Infallible>,
    },
    Inline(BoxFuture<'static, Result<T, QueryError>>),
}

impl<T: Send + 'static> Running<T> {
    /// Runs `work` on a thread of its own: reads of local files then need no runtime and hold up none.
    fn on_thread(work: BoxFuture<'static, T>) -> Self {
        let (sender, result) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let shared = Arc::new(Mutex::new(Some(work)));
        let thread_work = Arc::clone(&shared);
        let take = |shared: &Mutex<Option<BoxFuture<'static, T>>>| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let run = move || {
            let Some(work) = take(&thread_work) else { return };
            let stopped = pin!(stopped);
            if let Either::Left((value, _)) = block_on(select(work, stopped)) {
                // The receiver is gone when the stream was dropped meanwhile.
                drop(sender.send(value));
            }
        };
        match thread::Builder::new().name("zvf-stream".into()).spawn(run) {
            Ok(handle) => Self::Thread { result, handle: Some(handle), _stop: stop },
            // No thread could be started: the consumer does the work.
            Err(_) => match take(&shared) {
                Some(work) => Self::Inline(work.map(Ok).boxed()),
                None => Self::Inline(async { Err(runtime_stopped()) }.boxed()),
            },
        }
    }

    /// Waits for the result. May be dropped and called again until it gave one.
    async fn finish(&mut self) -> Result<T, QueryError> {
        match self {
            Self::Task(task) => match task.await {
                Ok(value) => Ok(value),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => Err(runtime_stopped()),
            },
            Self::Thread { result, handle, .. } => match result.await {
                Ok(value) => Ok(value),
                Err(_) => match handle.take().map(thread::JoinHandle::join) {
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    Some(Ok(())) | None => Err(runtime_stopped()),
                },
            },
            Self::Inline(work) => work.await,
        }
    }

    /// Returns whether the result is there, so that `finish` does not wait.
    fn is_finished(&self) -> bool {
        match self {
            Self::Task(task) => task.is_finished(),
            Self::Thread { result, .. } => !result.is_empty(),
            Self::Inline(_) => false,
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if let Self::Task(task) = self {
            task.abort();
        }
    }
}

/// Returns the error of work that was cancelled because its runtime was shut down.
fn runtime_stopped() -> QueryError {
    let expected = Expected::Rule("a runtime that runs until the stream ends");
    ModelError::refused(Class::Cancelled, "stream", expected, "one that was shut down").into()
}

/// Waves that are prefetched.
const PREFETCH_UNITS: usize = 3;
/// The same for graphs, skeletons and meshes.
const PREFETCH_UNITS_WITH_LINKS: usize = 2;

/// What `cargo xtask loom` runs in every order of its steps.
#[cfg(all(test, zvf_loom))]
mod models {
    use loom::thread::yield_now;
    use zvf_store::{Budget, OpenOptions};

    use super::*;

    /// Runs `model` in every order in which threads are interrupted at most three times where they need not be.
    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut checker = loom::model::Builder::new();
        checker.preemption_bound = Some(3);
        checker.check(model);
    }

    /// A budget that one wave takes all of.
    fn budget() -> Budget {
        let options =
            OpenOptions { budget_bytes: 1 << 10, cache_bytes: 0, ..OpenOptions::default() };
        Budget::new(&options)
    }

    #[test]
    fn a_wave_returns_its_result() {
        check(|| {
            let mut running = Running::on_thread(async { 7 }.boxed());
            let was_finished = running.is_finished();
            assert_eq!(block_on(running.finish()).unwrap(), 7);
            drop(was_finished);
        });
    }

    #[test]
    fn a_wave_that_is_not_polled_releases_its_budget() {
        check(|| {
            let budget = budget();
            let held = budget.clone();
            let mut running = Running::on_thread(
                async move {
                    let reserved = held.reserve(1 << 10).await;
                    yield_now();
                    reserved.is_ok()
                }
                .boxed(),
            );
            // A second query between two batches of the first.
            drop(block_on(budget.reserve(1 << 10)).unwrap());
            assert!(block_on(running.finish()).unwrap());
        });
    }

    #[test]
    fn a_stream_that_is_dropped_stops_its_waves() {
        check(|| {
            let budget = budget();
            let held = budget.clone();
            let running = Running::on_thread(
                async move {
                    let _reserved = held.reserve(1 << 10).await;
                    std::future::pending::<()>().await;
                }
                .boxed(),
            );
            drop(running);
            drop(block_on(budget.reserve(1 << 10)).unwrap());
        });
    }
}

//! Streams: answers batch by batch, in order, some of them prefetched.
//!
//! No work of a stream is left to its consumer: each work unit has a task or thread of its own
//! ([`runner`](super::runner)). A work unit that is done holds its batch and nothing else.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};
use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_model::Batch;

use super::runner::{Runner, Running};
use super::{Context, Purpose, SizedWorkUnit, WorkUnit, contexts, join, work_units};
use crate::query::Query;
use crate::reader::Reader;

/// Returns the answer to `query`, batch by batch. Nothing happens before the first poll.
pub(crate) fn stream(reader: Reader, query: Query) -> impl Stream<Item = Result<Batch>> + Send {
    stream::once(async { Pipeline::start(reader, query) }).flat_map(|pipeline| {
        stream::try_unfold(pipeline, |mut pipeline| async move {
            Ok(pipeline.next().await?.map(|batch| (batch, pipeline)))
        })
    })
}

/// Some work of one level.
type Work = (Arc<Context>, WorkUnit);
type SizedWork = (Arc<Context>, SizedWorkUnit);

/// The work units of a stream: not started, in progress, done.
struct Pipeline {
    runner: Runner,
    /// The number of vertices that the limit still allows; without a limit more than can be counted.
    left: u64,
    /// Vertices that one work unit may give: one more than the limit shows whether an object is cut off.
    unit_limit: usize,
    /// The maximum number of work units in progress.
    ahead: usize,
    /// The level being opened and divided into work units.
    opening: Option<Running<Result<Vec<Work>>>>,
    /// Work units as divided by estimates.
    coarse: VecDeque<Work>,
    /// A work unit that is being divided by its indexes.
    dividing: Option<Running<Result<Vec<SizedWork>>>>,
    /// Work units of a known size, and errors of dividing.
    fine: VecDeque<Result<SizedWork>>,
    /// Work units being answered, in order, each with the bytes it takes.
    answers: VecDeque<(Running<Result<Batch>>, u64)>,
    /// Bytes that all work units in progress may take together; one alone may take more.
    max_bytes: u64,
}

impl Pipeline {
    fn start(reader: Reader, query: Query) -> Box<Self> {
        let runner = Runner::for_store(reader.store().is_remote());
        let left = query.limit.unwrap_or(u64::MAX);
        let max_bytes = reader.store().budget().max_bytes() / 4;
        let opening = async move {
            let mut work = Vec::new();
            for context in contexts(&reader, &query).await? {
                let units = work_units(&context, Purpose::Stream).await?;
                work.extend(units.into_iter().map(|unit| (Arc::clone(&context), unit)));
            }
            Ok(work)
        };
        Box::new(Self {
            runner,
            left,
            unit_limit: saturating_usize(left).saturating_add(1), // no limit stays no limit
            ahead: 1,
            opening: Some(runner.run(opening)),
            coarse: VecDeque::new(),
            dividing: None,
            fine: VecDeque::new(),
            answers: VecDeque::new(),
            max_bytes,
        })
    }

    async fn next(&mut self) -> Result<Option<Batch>> {
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
                let rows = to_u64(batch.len());
                if rows > self.left {
                    let batch = join::cut(&batch, saturating_usize(self.left))?; // fewer than there are
                    self.left = 0;
                    return Ok(Some(batch));
                }
                self.left -= rows;
                return Ok(Some(batch));
            }
            if self.dividing.is_none() {
                return Ok(None);
            }
            self.finish_dividing().await;
        }
    }

    /// Starts work units until the maximum is in progress.
    async fn start_answers(&mut self) {
        while self.answers.len() < self.ahead {
            if let Some(next) = self.fine.front() {
                let bytes = next.as_ref().map_or(0, |(_, sized)| sized.bytes); // an error takes none
                if !self.has_room_for(bytes) {
                    return;
                }
                let Some(work) = self.fine.pop_front() else { return };
                let limit = self.unit_limit;
                let answer = self.runner.run(async move {
                    let (context, sized) = work?;
                    let batch = context.answer(&sized.unit, limit).await?;
                    context.cache.level.store().check_maps()?;
                    Ok(batch)
                });
                self.answers.push_back((answer, bytes));
                continue;
            }
            if self.dividing.is_none()
                && let Some((context, unit)) = self.coarse.pop_front()
            {
                self.dividing = Some(self.runner.run(async move {
                    let units = context.refine_unit(unit, Purpose::Stream).await?;
                    Ok(units.into_iter().map(|sized| (Arc::clone(&context), sized)).collect())
                }));
            }
            let Some(dividing) = &self.dividing else { return };
            // Dividing a work unit takes a few reads of local files, but may take a round trip of a remote store: there an
            // answer that is complete must not wait for it.
            if self.runner != Runner::Threads && !dividing.is_finished() {
                return;
            }
            self.finish_dividing().await;
        }
    }

    /// Returns whether a work unit of `bytes` bytes may be in progress beside the others.
    fn has_room_for(&self, bytes: u64) -> bool {
        // Estimates.
        let used = self.answers.iter().fold(bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.answers.is_empty() || used <= self.max_bytes
    }

    /// Takes over the work units that one was divided into. An error is returned in its turn.
    async fn finish_dividing(&mut self) {
        let Some(dividing) = &mut self.dividing else { return };
        let units = dividing.finish().await;
        self.dividing = None;
        match units.and_then(std::convert::identity) {
            Ok(units) => self.fine.extend(units.into_iter().map(Ok)),
            Err(error) => self.fine.push_back(Err(error)),
        }
    }
}

/// Work units that are prefetched.
const PREFETCH_UNITS: usize = 3;
/// The same for graphs, skeletons and meshes.
const PREFETCH_UNITS_WITH_LINKS: usize = 2;

//! Streams: answers batch by batch, in order, some of them prefetched.
//!
//! A stream does not depend on its consumer to make progress: each work unit has its own task or
//! thread ([`runner`](super::runner)). A finished work unit holds only its batch.

use std::collections::VecDeque;

use futures_util::stream::{self, Stream, StreamExt as _};
use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_model::Batch;

use super::runner::{Runner, Running};
use super::work_units::Unit;
use super::{Purpose, Units, contexts, join};
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

/// The work units that were created, `None` after the last, and the rest.
type Divided = Result<(Units, Option<Vec<Unit>>)>;

/// The work units of a stream: not started, in progress, done.
struct Pipeline {
    runner: Runner,
    /// The number of vertices that the limit still allows; without a limit, the largest number.
    left: u64,
    /// Maximum number of vertices of one work unit: one more than the limit shows whether an object
    /// is truncated.
    unit_limit: usize,
    /// The maximum number of work units in progress.
    ahead: usize,
    /// The rest of the work units, unless it is being divided.
    units: Option<Units>,
    dividing: Option<Running<Divided>>,
    /// Work units that can be started, and errors of dividing.
    fine: VecDeque<Result<Unit>>,
    /// Work units being answered, in order, with the bytes of each.
    answers: VecDeque<(Running<Result<Batch>>, u64)>,
    /// Bytes that all work units in progress may take together; a single one may take more.
    max_bytes: u64,
}

impl Pipeline {
    fn start(reader: Reader, query: Query) -> Box<Self> {
        let runner = Runner::for_store(reader.store().is_remote());
        let left = query.limit.unwrap_or(u64::MAX);
        let max_bytes = reader.store().budget().max_bytes() / 4;
        let first = async move {
            divide(Units::new(contexts(&reader, &query).await?, Purpose::Stream)).await
        };
        Box::new(Self {
            runner,
            left,
            unit_limit: saturating_usize(left).saturating_add(1), // no limit stays no limit
            ahead: 1,
            units: None,
            dividing: Some(runner.run(first)),
            fine: VecDeque::new(),
            answers: VecDeque::new(),
            max_bytes,
        })
    }

    async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            self.start_answers().await;
            if let Some((answer, _)) = self.answers.front_mut() {
                let batch = answer.finish().await?;
                self.answers.pop_front();
                let mut batch = batch?;
                if to_u64(batch.len()) > self.left {
                    batch = join::cut(&batch, saturating_usize(self.left))?; // fewer than there are
                    self.left = 0;
                }
                self.left = self.left.saturating_sub(to_u64(batch.len())); // none after a cut
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
                let bytes = next.as_ref().map_or(0, |unit| unit.bytes); // an error takes none
                if !self.has_room_for(bytes) {
                    return;
                }
                let Some(unit) = self.fine.pop_front() else { return };
                let limit = self.unit_limit;
                let answer = self.runner.run(async move {
                    let unit = unit?;
                    let answered = unit.answer(limit).await?;
                    unit.context.level.store().check_maps()?;
                    Ok(answered.batch)
                });
                self.answers.push_back((answer, bytes));
                continue;
            }
            if let Some(units) = self.units.take() {
                self.dividing = Some(self.runner.run(divide(units)));
            }
            let Some(dividing) = &self.dividing else { return };
            // Dividing a work unit takes a few reads of local files, but may take a round trip to a
            // remote store: there, a finished answer must not wait for it.
            if self.runner != Runner::Threads && !dividing.is_finished() {
                return;
            }
            self.finish_dividing().await;
        }
    }

    /// Returns whether a work unit of `bytes` bytes may run beside the others.
    fn has_room_for(&self, bytes: u64) -> bool {
        // Estimates.
        let used = self.answers.iter().fold(bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.answers.is_empty() || used <= self.max_bytes
    }

    /// Takes the work units that one was divided into. An error is returned in its turn.
    async fn finish_dividing(&mut self) {
        let Some(dividing) = &mut self.dividing else { return };
        let divided = dividing.finish().await;
        self.dividing = None;
        match divided.and_then(std::convert::identity) {
            Ok((units, Some(more))) => {
                self.units = Some(units);
                self.ahead = match more.first() {
                    _ if self.runner == Runner::Inline => 1,
                    // Processing an edge or face takes several times the bytes of a vertex.
                    Some(unit) if unit.context.kind.has_links() => PREFETCH_UNITS_WITH_LINKS,
                    _ => PREFETCH_UNITS,
                };
                self.fine.extend(more.into_iter().map(Ok));
            }
            Ok((_, None)) => {}
            Err(error) => self.fine.push_back(Err(error)),
        }
    }
}

/// Creates some of the next work units.
async fn divide(mut units: Units) -> Divided {
    let more = units.divide().await?;
    Ok((units, more))
}

/// Number of work units that are prefetched.
const PREFETCH_UNITS: usize = 3;
/// The same for graphs, skeletons and meshes.
const PREFETCH_UNITS_WITH_LINKS: usize = 2;

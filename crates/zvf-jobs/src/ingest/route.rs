//! Routes slices of the input into files: one thread reads, others route the slices.
//!
//! ```text
//! read (the caller's thread)     slice 0   slice 1   slice 2   ...
//! route                                    slice 0 ........    slice 2 ...
//! route                                              slice 1 ........
//! ```
//!
//! A slice takes at most a quarter of the memory, and at most three are in memory: one being read
//! and one per routing thread. Slices are handed over whole, so the work and the result are the
//! same whether a slice is one of many or a task of its own.
//!
//! Not here: the division of the input (`create::slices`), and routing itself
//! ([`zvf_write::Router`]).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use zvf_convert::read::FileReader;
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::flow::Piece;
use zvf_write::{Router, Task};

use super::{Ingest, source};
use crate::Error;
use crate::create::{CreateStage, OnStage, SlicePlace, open, report_progress};
use crate::error::bad_request_error;

/// A slice in memory.
struct ReadSlice {
    task: Task,
    router: Router,
    pieces: Vec<(usize, Piece)>, // each with the number of its file
}

impl Ingest {
    /// Routes the missing slices of these tasks, reading every file once; returns for each whether
    /// it was done now. A task that is named twice is done once.
    pub(super) fn route_missing(
        &self,
        tasks: &[Task],
        progress: &mut OnStage<'_>,
    ) -> Result<Vec<bool>, Error> {
        let (mut missing, mut done) = (Vec::new(), Vec::with_capacity(tasks.len()));
        let mut named = BTreeSet::new();
        for task in tasks {
            let is_missing = named.insert(task) && !self.tasks.is_whole(*task)?;
            if is_missing {
                let planned = self.tasks.plan().slices.get(usize_from_u32(task.number));
                missing.push((*task, source::place(planned)?));
            }
            done.push(is_missing);
        }
        self.route_slices(missing, progress)?;
        Ok(done)
    }

    fn route_slices(
        &self,
        mut missing: Vec<(Task, SlicePlace)>,
        progress: &mut OnStage<'_>,
    ) -> Result<(), Error> {
        missing.sort_by_key(|(task, _)| *task); // in the order of the input
        let has_failed = AtomicBool::new(false);
        // A slice is handed over when a thread is free to route it.
        let (sender, receiver) = sync_channel(0);
        let receiver = Arc::new(Mutex::new(receiver));
        thread::scope(|scope| {
            let routers = (0..ROUTERS).map(|_| {
                let (receiver, has_failed) = (Arc::clone(&receiver), &has_failed);
                scope.spawn(move || self.route_received(&receiver, has_failed))
            });
            let routers: Vec<_> = routers.collect();
            drop(receiver); // nothing waits for routers that are gone
            let read = self.read_slices(missing, &sender, &has_failed, progress);
            drop(sender);
            let faults = routers.into_iter().filter_map(|router| match router.join() {
                Ok(fault) => fault,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            // All slices before a failed one were routed, so the reported error is always the first
            // one in the input.
            match faults.min_by_key(|(task, _)| *task) {
                Some((_, fault)) => Err(fault),
                None => read,
            }
        })
    }

    /// Reads slices and hands them over, until one fails.
    fn read_slices(
        &self,
        missing: Vec<(Task, SlicePlace)>,
        to: &SyncSender<ReadSlice>,
        has_failed: &AtomicBool,
        progress: &mut OnStage<'_>,
    ) -> Result<(), Error> {
        let Some((_, first)) = missing.first() else { return Ok(()) };
        let mut pieces = Pieces::from_input(self, first.input)?;
        for (task, place) in missing {
            let slice = self.read_slice(task, place, &mut pieces, progress)?;
            if has_failed.load(Ordering::Relaxed) || to.send(slice).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn read_slice(
        &self,
        task: Task,
        place: SlicePlace,
        pieces: &mut Pieces<'_>,
        progress: &mut OnStage<'_>,
    ) -> Result<ReadSlice, Error> {
        pieces.advance_to(place, progress)?;
        let mut router = self.tasks.router(task.number)?;
        let mut vertices = router.writer().vertices();
        let mut read = Vec::with_capacity(place.pieces);
        for _ in 0..place.pieces {
            let Some(piece) = pieces.next().transpose()? else { break };
            if let Piece::Vertices(batch) = &piece {
                vertices += to_u64(batch.len());
            }
            read.push((pieces.input, piece));
            report_progress(progress, CreateStage::Read, vertices)?;
        }
        Ok(ReadSlice { task, router, pieces: read })
    }

    /// Routes slices until no more arrive; returns the first failure. After a failure, further
    /// slices are received and discarded.
    fn route_received(
        &self,
        from: &Mutex<Receiver<ReadSlice>>,
        has_failed: &AtomicBool,
    ) -> Option<(Task, Error)> {
        let mut fault = None;
        loop {
            let slice = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(slice) = slice else { return fault };
            if fault.is_some() {
                continue;
            }
            let task = slice.task;
            if let Err(error) = self.route_slice(slice) {
                has_failed.store(true, Ordering::Relaxed);
                fault = Some((task, error));
            }
        }
    }

    fn route_slice(&self, slice: ReadSlice) -> Result<(), Error> {
        let ReadSlice { mut router, pieces, .. } = slice;
        for (input, piece) in pieces {
            let before = self.source.count_before(input);
            let piece = self.source.shift(input).apply(piece, before)?;
            if let Piece::Groups { .. } = piece {
                let expected = "a format without groups: use `zvf create`";
                return Err(bad_request_error("the input", expected, "groups"));
            }
            router.writer().write(piece)?;
        }
        self.tasks.route(router)
    }
}

/// The pieces of all files in order.
struct Pieces<'a> {
    ingest: &'a Ingest,
    input: usize,
    taken: usize, // of this file
    reader: Option<FileReader>,
}

impl<'a> Pieces<'a> {
    fn from_input(ingest: &'a Ingest, input: usize) -> Result<Self, Error> {
        let reader = Self::open(ingest, input)?;
        Ok(Self { ingest, input, taken: 0, reader })
    }

    /// Skips to the start of a slice. A file is opened at its start: the piece after the last one
    /// of a file is the first of the next, and reaching it must not require reading.
    fn advance_to(&mut self, place: SlicePlace, progress: &mut OnStage<'_>) -> Result<(), Error> {
        if self.input < place.input {
            *self = Self::from_input(self.ingest, place.input)?;
        }
        let before =
            if self.input == place.input { place.skip.checked_sub(self.taken) } else { None };
        let Some(before) = before else {
            let text = "a slice begins before the piece that is read next; this is a bug in zvf";
            return Err(Error::custom(Class::CountMismatch, text));
        };
        if let Some(reader) = &mut self.reader
            && reader.seek_past(before)?
        {
            self.taken += before;
        }
        while (self.input, self.taken) < (place.input, place.skip) {
            if self.next().transpose()?.is_none() {
                break;
            }
            report_progress(progress, CreateStage::Read, 0)?;
        }
        Ok(())
    }

    fn open(ingest: &Ingest, input: usize) -> Result<Option<FileReader>, Error> {
        match ingest.source.file(input)? {
            Some(path) => Ok(Some(open(path, &ingest.recipe)?)),
            None => Ok(None),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.as_mut()?.next() {
                Some(piece) => {
                    self.taken += 1;
                    return Some(piece);
                }
                None => {
                    self.input += 1;
                    self.taken = 0;
                    match Self::open(self.ingest, self.input) {
                        Ok(reader) => self.reader = reader,
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }
}

/// Number of routing threads: a slice for each, and the one being read, fit in memory.
const ROUTERS: usize = 2;

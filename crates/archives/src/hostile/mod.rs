//! Runs a corpus of small, broken blobs, and lists the errors of decoders.
//!
//! A corpus is a folder with `cases.jsonl`, one case per line, and the blobs it names. A case
//! states what a reader must do with the blob: a verdict in default and in strict mode, the allowed
//! error classes, and limits on memory and time. [`Corpus::open`] reads one; [`run`](Runner::run)
//! runs the decoder on each blob at eight alignments, catches panics, and lists errors.
//!
//! The decoders are in `zvf-format`. A program has one allocator, so the program provides the
//! counting one as a [`Heap`].

mod corpus;
mod decode;
mod fault;
mod run;

pub use corpus::{Case, Corpus, Expect, LastStep, Sweep};
pub use decode::{Document, Kind, LIST, RANGE, Visit};
pub use fault::Refused;
pub use run::{Heap, Outcome, Runner};

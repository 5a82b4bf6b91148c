//! Runs a corpus of small, broken blobs, and says where a decoder fell short.
//!
//! A corpus is a folder with `cases.jsonl`, one case per line, and the blobs it names. A case says
//! what a reader owes the blob: a verdict in default and in strict mode, the classes an error may
//! have, how much memory and time it may take. [`Corpus::open`] reads one; [`run`](Runner::run) gives
//! each blob to its decoder at eight alignments, catching panics, and lists what was wrong.
//!
//! Not here: the decoders (`zvf-format`), and the counting allocator: a program has one allocator, so
//! the program brings it, as a [`Heap`].

mod corpus;
mod decode;
mod document;
mod frame;
mod payload;
mod run;

pub use corpus::{Case, Corpus, Expect, Params, Stage, Sweep};
pub use decode::{Fault, Kind};
pub use document::Document;
pub use run::{Heap, Outcome, Runner};

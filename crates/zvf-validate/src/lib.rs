//! Checks a store against every rule of the Zarr Vectors format.
//!
//! ```text
//! validate         ->  Report   findings, worst first; what was looked into
//! validate_at      ->  Report   of a store by its address, one that does not open included
//! report_unopened  ->  Report   of the error with which a store did not open
//! survey           ->  [Scan]   what many processes can divide; record_part does some of it, merge makes the Report
//! RULES                         all rules: id, level, severity, versions, what is wrong, what to do
//! ```
//!
//! All findings are reported, not only the first, each with its rule and place. The store may have
//! any size and any backend: cells are read in small batches and checked on the rayon pool while
//! the next batch is read.
//!
//! A validator that relied on the same metadata as readers would not find errors in this metadata.
//! So cells are read whole, without the cache and regardless of presence lists, and everything that
//! is compared is computed here. Only documents are opened as readers open them, by
//! `zvf_model::open`, which reports all faults.
//!
//! ```text
//! run, options, validation               the order of all checks, and the state of a validation
//! structure                              level 1: which nodes there are
//! documents                              level 2: root and level documents
//! array, chunks, cells, links, objects,  level 3: arrays, cells, links, the object index
//!   parametric
//! geometry, composite                    level 4: kinds of geometry
//! pyramid, level                         level 5: how levels fit together
//! rule, rules, finding, findings, report rules, and what was found
//! parts                                  one validation, divided between processes
//! pipeline, pool, hash, unopened         batches on threads; hashes; stores that do not open
//! ```
//!
//! Not here: how findings are printed, and how findings could be repaired.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]
#![expect(clippy::expect_used, reason = "each states the invariant that it relies on")]

mod array;
mod cells;
mod chunks;
mod composite;
mod documents;
mod finding;
mod findings;
mod geometry;
mod hash;
mod level;
mod links;
mod objects;
mod options;
mod parametric;
mod parts;
mod pipeline;
mod pool;
mod pyramid;
mod report;
mod rule;
mod rules;
mod run;
mod structure;
mod unopened;
mod validation;

pub use finding::Finding;
pub use options::{Checks, Listener, Observer, Progress, Sample};
pub use parts::{RecordSink, RecordStream, Scan, Stage, StagePart, merge, record_part, survey};
pub use report::{CheckCounts, Report};
pub use rule::{Depth, Rule, Severity};
pub use rules::RULES;
pub use run::validate;
pub use unopened::{report_unopened, validate_at};

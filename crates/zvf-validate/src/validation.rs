//! The state of a validation in progress: its options and findings.

use std::ops::Range;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::{Capability, MetadataError, Node};
use zvf_model::open::OpenFault;
use zvf_store::{DenseArray, Store};

use crate::finding::{Finding, is_content, readable};
use crate::findings::Findings;
use crate::options::{Checks, Observer, Progress};
use crate::parts::Work;
use crate::report::CheckCounts;
use crate::rule::Rule;
use crate::rules::{C, M, S};

/// One validation in progress.
pub(crate) struct Validation {
    pub(crate) store: Store,
    pub(crate) options: Checks,
    pub(crate) observer: Observer,
    /// The part of the validation that this process does.
    pub(crate) work: Work,
    pub(crate) found: Findings,
    pub(crate) checked: CheckCounts,
    /// The fragments and object ids of the levels so far that are kept.
    pub(crate) fragments: u64,
    pub(crate) ids: u64,
    /// Whether an array was reported that is not packed as the root declares.
    pub(crate) is_misdeclared: bool,
}

impl Validation {
    /// Returns the part of a validation of `store` that is `work`.
    pub(crate) fn new(store: &Store, options: &Checks, observer: &Observer, work: Work) -> Self {
        Self {
            store: store.clone(),
            options: options.clone(),
            observer: observer.clone(),
            work,
            found: Findings::new(options.max_findings, options.strict),
            checked: CheckCounts::default(),
            fragments: 0,
            ids: 0,
            is_misdeclared: false,
        }
    }

    /// Adds a finding.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.found.add(finding);
    }

    /// Reports that `rule` was not checked for `path`: there are `found` items, and at most
    /// `max_kept` are kept.
    pub(crate) fn report_too_many(
        &mut self,
        rule: &'static Rule,
        path: &str,
        what: &str,
        max_kept: u64,
        found: u64,
    ) {
        self.found.skip(rule.at(path).expects(what, format!("at most {max_kept}"), found));
    }

    /// Returns the names below `path`; if they cannot be listed, the known ones that exist, and
    /// reports that for `rule`.
    pub(crate) async fn names(&mut self, rule: &'static Rule, path: &str) -> Result<Vec<String>> {
        let Some(listing) = readable(self.store.nodes().children(path).await)? else {
            return Ok(Vec::new());
        };
        if !listing.complete {
            self.report_unlisted(rule, path);
        }
        Ok(listing.names)
    }

    /// Reports that the nodes below `path` could not be listed.
    pub(crate) fn report_unlisted(&mut self, rule: &'static Rule, path: &str) {
        self.found.skip(rule.at(path).expects("names", "a listing", "none"));
    }

    /// Returns a value that was read from `path`; reports a fault for `rule`, or fails if it is not
    /// a fault of the store.
    pub(crate) fn take<T>(
        &mut self,
        rule: &'static Rule,
        path: &str,
        read: Result<T>,
    ) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if is_content(&error) => {
                self.add(Finding::from_store(rule, path, &error));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the document of `path`; reports M20 if it does not parse.
    pub(crate) async fn node(&mut self, path: &str) -> Result<Option<Option<Arc<Node>>>> {
        let node = self.store.nodes().node(path).await;
        self.take(S[18], path, node)
    }

    /// Opens an array that is not over the grid of chunks; a fault is reported, and there is none then.
    pub(crate) async fn dense(&mut self, path: &str) -> Result<Option<Option<DenseArray>>> {
        let array = self.store.nodes().dense(path).await;
        self.take(C[2], path, array)
    }

    /// Returns a document that parses; a fault is reported.
    pub(crate) fn parsed<T>(&mut self, path: &str, doc: Result<T, MetadataError>) -> Option<T> {
        doc.map_err(|error| self.add(Finding::from_metadata(M[20], path, &error))).ok()
    }

    /// Reports a fault that an opener found in `path`, which is then not used.
    pub(crate) fn collect(&mut self, fault: OpenFault, path: &str, error: Error) -> Result<bool> {
        let path = error.array().unwrap_or(path);
        let rule = match fault {
            OpenFault::Unlisted => {
                self.report_unlisted(C[37], path);
                return Ok(false);
            }
            _ if !is_content(&error) => return Err(error),
            OpenFault::Node => S[18],
            OpenFault::Document => M[20],
            OpenFault::Unsupported => S[17],
            OpenFault::Contradiction | OpenFault::Redundant => C[37],
        };
        let finding = Finding::from_store(rule, path, &error);
        let offset = finding.offset.filter(|_| rule.id != C[37].id);
        self.add(Finding { offset, ..finding });
        Ok(false)
    }

    /// Checks M21: the root announces a capability that a level uses.
    pub(crate) fn check_announced(&mut self, capability: Capability, name: &str) {
        if !self.store.root().zarr_vectors.has(capability) {
            let finding = M[21].at("zarr.json");
            self.add(finding.expects("format_capabilities", name, "no word of it"));
        }
    }

    /// Reads all rows of an array in batches; reports C2 if some cannot be read.
    pub(crate) async fn read_rows(&mut self, path: &str, array: &DenseArray) -> Result<()> {
        for rows in batches(array.len(), BATCH_ROWS) {
            let read = array.rows(rows.clone()).await;
            if self.take(C[2], path, read)?.is_none() {
                return Ok(());
            }
            self.step(path, rows.end, array.len())?;
        }
        Ok(())
    }

    /// Reports the progress; fails if the validation is cancelled.
    pub(crate) fn step(&self, path: &str, done: u64, total: u64) -> Result<()> {
        if self.observer.is_cancelled() {
            let (what, expected) = ("validation", "one that goes on");
            return Err(Error::new(Class::Cancelled, what, expected, "a cancelled one"));
        }
        self.observer.report_progress(&Progress { path: path.to_owned(), done, total });
        Ok(())
    }
}

/// Divides the rows below `end` into ranges of at most `size`.
pub(crate) fn batches(end: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    (0..end.div_ceil(size)).map(move |n| n * size..end.min((n + 1).saturating_mul(size)))
}

/// Rows that are read at once: the chunk size of writers.
const BATCH_ROWS: u64 = 1 << 16;

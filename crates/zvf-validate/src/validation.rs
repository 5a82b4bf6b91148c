//! The state of a validation in progress: its options and findings.

use zvf_error::Error;
use zvf_store::Store;

use crate::finding::Finding;
use crate::findings::Findings;
use crate::options::{Observer, Options, Progress};
use crate::parts::Work;
use crate::report::CheckCounts;
use crate::rule::Rule;
use crate::stop::Stop;

/// One validation in progress.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) store: Store,
    pub(crate) options: Options,
    pub(crate) observer: Observer,
    /// The part of the validation that this process does.
    pub(crate) work: Work,
    pub(crate) found: Findings,
    pub(crate) checked: CheckCounts,
    /// Fragments, and ids of objects, that are kept of the levels so far.
    pub(crate) fragments: u64,
    pub(crate) ids: u64,
}

impl Validation {
    /// Returns the part of a validation of `store` that is `work`.
    pub(crate) fn new(store: &Store, options: &Options, observer: &Observer, work: Work) -> Self {
        Self {
            store: store.clone(),
            options: options.clone(),
            observer: observer.clone(),
            work,
            found: Findings::new(options.max_findings, options.strict),
            checked: CheckCounts::default(),
            fragments: 0,
            ids: 0,
        }
    }

    /// Adds a finding.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.found.add(finding);
    }

    /// Reports that `rule` was not checked for `path`: there are `found` items, and at most `max_kept` are kept.
    pub(crate) fn report_too_many(
        &mut self,
        rule: &'static Rule,
        path: &str,
        what: &str,
        max_kept: u64,
        found: u64,
    ) {
        let finding = Finding::new(rule, path);
        self.found.skip(finding.with_details(what, format!("at most {max_kept}"), found));
    }

    /// Returns the names below `path`; where they cannot be listed, those that are known, and that is reported for `rule`.
    pub(crate) async fn names(
        &mut self,
        rule: &'static Rule,
        path: &str,
    ) -> Result<Vec<String>, Stop> {
        let listing = match self.store.nodes().children(path).await {
            Ok(listing) => listing,
            Err(error) if crate::finding::is_content(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        if !listing.complete {
            self.report_unlisted(rule, path);
        }
        Ok(listing.names)
    }

    /// Reports that the nodes below `path` could not be listed.
    pub(crate) fn report_unlisted(&mut self, rule: &'static Rule, path: &str) {
        self.found.skip(Finding::new(rule, path).with_details("names", "a listing", "none"));
    }

    /// Adds a finding of what the store could not read under `path`; what is no finding is a stop.
    pub(crate) fn add_store_error(
        &mut self,
        rule: &'static Rule,
        path: &str,
        error: &Error,
    ) -> Result<(), Stop> {
        if !crate::finding::is_content(error) {
            return Err(error.clone().into());
        }
        self.add(Finding::from_store(rule, path, error));
        Ok(())
    }

    /// Reports the progress; stops if the validation is cancelled.
    pub(crate) fn step(&self, path: &str, done: u64, total: u64) -> Result<(), Stop> {
        if self.observer.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.observer.report_progress(&Progress { path: path.to_owned(), done, total });
        Ok(())
    }
}

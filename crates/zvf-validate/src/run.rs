//! The run of a validation: the order of its checks, and cancellation.
//!
//! ```text
//! root, levels, arrays      structure.rs, documents.rs, array.rs     S, M
//! cells of every level      cells/                                   C: positions, fragments, columns
//! links of every level      links/                                   C, G: they need the rows of both ends
//! objects of every level    objects/                                 C, G: they need fragments and links
//! beside the levels         parametric.rs, composite.rs              C
//! all together              geometry.rs, pyramid.rs                  G, P
//! ```
//!
//! Cells of all levels are checked before links, and links before objects, so that both ends of a
//! link, and both levels of a parent and its child, are known when they are compared.
//!
//! Only errors of the backend end it with an error; stored data never does.

use async_recursion::async_recursion as boxed;
use zvf_error::Result;
use zvf_format::Class;
use zvf_metadata::{Capability, GeometryType, Token};
use zvf_store::Store;

use crate::level::LevelState;
use crate::options::{Checks, Observer};
use crate::parts::{Stage, Work};
use crate::report::Report;
use crate::rule::Depth;
use crate::validation::Validation;
use crate::{
    cells, composite, documents, geometry, links, objects, parametric, pyramid, structure,
};

/// Checks everything that `options` select, and reports all faults.
///
/// The store is open, so the worst faults are excluded; for a store that cannot be opened, see
/// [`report_unopened`](crate::report_unopened). A local store never waits; a remote one needs the
/// caller's tokio runtime. Memory is bounded, whatever the size of the store: a few cells at a
/// time, and a few numbers for each chunk.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_store::Store;
/// use zvf_validate::{Observer, Checks, validate};
///
/// let store = Store::open(path, Default::default()).await?;
/// let report = validate(&store, &Checks::default(), &Observer::default()).await?;
/// assert!(report.is_clean());
/// assert_eq!((report.checked.levels, report.checked.rows), (1, 3));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When something cannot be fetched: the backend fails or refuses. A fault in stored data is never
/// an error, but a finding.
#[boxed]
pub async fn validate(store: &Store, options: &Checks, observer: &Observer) -> Result<Report> {
    Validation::new(store, options, observer, Work::Whole).into_report().await
}

impl Validation {
    /// Runs the validation, and returns its report.
    pub(crate) async fn into_report(mut self) -> Result<Report> {
        let complete = self.run().await?;
        let options = self.options;
        let sample = options.sample.filter(|_| options.level.reads_cells());
        let report = self.found.into_report(|rule| options.wants(rule));
        Ok(Report { sample, checked: self.checked, complete, ..report })
    }

    /// Runs the validation; returns whether it is complete.
    pub(crate) async fn run(&mut self) -> Result<bool> {
        match self.run_checks().await {
            Err(error) if error.class() == Class::Cancelled && self.observer.is_cancelled() => {
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    async fn run_checks(&mut self) -> Result<()> {
        structure::check_root(self).await?;
        let mut levels = structure::open_levels(self).await?;
        documents::check(self, &levels);
        if self.options.level.reads_cells() {
            for level in &mut levels {
                cells::check(self, level).await?;
                for extra in &mut level.extra_kinds {
                    cells::check(self, extra).await?;
                }
            }
            if self.work.ends_with(Stage::Cells) {
                return Ok(());
            }
            for at in 0..levels.len() {
                links::check(self, &mut levels, at).await?;
            }
            self.check_extra_links(&mut levels).await?;
            if self.work.ends_with(Stage::Links) {
                return Ok(());
            }
            let announced = self.store.root().zarr_vectors.has(Capability::AdditiveLevels);
            let additive = announced || levels.iter().any(|l| l.node.meta().is_additive());
            for level in &mut levels {
                // Groups contain objects of all kinds.
                for extra in &mut level.extra_kinds {
                    objects::check(self, extra).await?;
                }
                level.objects.present_rows = additive.then(Vec::new);
                objects::check(self, level).await?;
            }
            if !self.work.is_reported() {
                return Ok(());
            }
            parametric::check(self).await?;
            for level in &levels {
                composite::check(self, level).await?;
            }
        }
        self.check_together(&levels);
        Ok(())
    }

    /// Checks the links of each extra kind, which lead to the same kind of other levels.
    async fn check_extra_links(&mut self, levels: &mut [LevelState]) -> Result<()> {
        for kind in list_extra_kinds(levels) {
            let mut same_kind: Vec<LevelState> = Vec::new();
            for level in levels.iter_mut() {
                same_kind.extend(level.extra_kinds.extract_if(.., |extra| extra.kinds == kind));
            }
            for at in 0..same_kind.len() {
                links::check(self, &mut same_kind, at).await?;
            }
            for extra in same_kind {
                let number = extra.node.number();
                let level = levels.iter_mut().find(|level| level.node.number() == number);
                if let Some(level) = level {
                    level.extra_kinds.push(extra);
                }
            }
        }
        Ok(())
    }

    fn check_together(&mut self, levels: &[LevelState]) {
        if self.options.level >= Depth::Geometry {
            geometry::check(self, levels);
        }
        if self.options.level >= Depth::Pyramid {
            pyramid::check(self, &levels.iter().collect::<Vec<_>>());
            for kind in list_extra_kinds(levels) {
                let extra_kinds = levels.iter().flat_map(|level| &level.extra_kinds);
                let same_kind: Vec<&LevelState> =
                    extra_kinds.filter(|extra| extra.kinds == kind).collect();
                pyramid::check_kind(self, &same_kind);
            }
        }
    }
}

/// Returns the distinct extra kinds of `levels`.
fn list_extra_kinds(levels: &[LevelState]) -> Vec<Vec<Token<GeometryType>>> {
    let mut kinds: Vec<Vec<Token<GeometryType>>> = Vec::new();
    for extra in levels.iter().flat_map(|level| &level.extra_kinds) {
        if !kinds.contains(&extra.kinds) {
            kinds.push(extra.kinds.clone());
        }
    }
    kinds
}

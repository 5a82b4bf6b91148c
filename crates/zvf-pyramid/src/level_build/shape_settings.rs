//! The method and settings for coarsening a batch.

use zvf_error::Result;

use crate::Method;
use crate::offload::Stop;
use crate::shape::{Coarsened, Rules, collapse, contract, tree};

/// A method with its settings, for graphs, skeletons and meshes.
#[derive(Clone, Debug)]
pub(super) struct ShapeSettings {
    pub(super) method: Method,
    pub(super) size: f64,
    pub(super) keep: f64,
    pub(super) prune: f64,
    /// Whether edges are equal only if they have the same direction.
    pub(super) directed: bool,
    pub(super) rules: Rules,
}

impl ShapeSettings {
    /// Returns a coarser batch in which the `fixed` rows are unchanged.
    pub(super) fn coarsen(
        &self,
        batch: zvf_model::Batch,
        fixed: &[bool],
        stop: &Stop,
    ) -> Result<Coarsened> {
        match self.method {
            Method::Cluster => {
                contract::contract_cells(&batch, self.size, self.directed, fixed, &self.rules)
            }
            Method::Simplify => {
                tree::simplify_skeletons(&batch, self.size, self.prune, &self.rules)
            }
            Method::Collapse => {
                collapse::collapse_edges(&batch, self.keep, fixed, &self.rules, stop)
            }
            Method::Subset | Method::Decimate | Method::Keep => Ok(Coarsened::from_batch(batch)),
        }
    }
}

//! The options of a migration.

use zvf_store::CodecPipeline;

/// The options of the new store.
///
/// ```
/// let plain = zvf_migrate::Migration::default();
/// assert_eq!((plain.shard, plain.codecs), (None, zvf_store::CodecPipeline::empty()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The name in the document of the store; empty for none.
    pub name: String,
    /// Cells per shard on each axis; a single number applies to all axes. `None` for one object per
    /// cell.
    pub shard: Option<Vec<u64>>,
    /// The codecs of cells.
    pub codecs: CodecPipeline,
}

//! The change of one object of a store.

use bytes::Bytes;
use zvf_metadata::Node;

/// One object.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// for change in zvf_repair::plan(&store, "three", false).await?.changes {
///     assert!(!change.words.is_empty() && !change.rules.is_empty());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The object, relative to the root of the store.
    pub path: String,
    /// The current document; `None` if it does not exist.
    pub before: Option<Node>,
    /// The new contents.
    pub after: Bytes,
    /// The changes in words, one phrase each.
    pub words: Vec<String>,
    /// The violated rules.
    pub rules: Vec<&'static str>,
}

impl Change {
    /// Returns whether the object is still as the change was planned for it: with the same document,
    /// or missing.
    pub(crate) fn is_planned_for(&self, found: Option<&[u8]>) -> bool {
        match (&self.before, found) {
            (None, None) => true,
            (Some(before), Some(bytes)) => Node::parse(bytes).as_ref() == Ok(before),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

//! A location on an object store.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

/// The location of a store that is not a directory, for callers that replace single objects.
///
/// ```
/// use zvf_store::{OpenOptions, Store};
///
/// let backend = Store::backend("memory:///brain", &OpenOptions::default())?.expect("a URL");
/// assert_eq!((backend.prefix.as_ref(), backend.store.to_string().as_str()), ("brain", "InMemory"));
/// assert!(backend.can_list);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// The bucket or another object store.
    pub store: Arc<dyn ObjectStore>,
    /// The common prefix of all objects of the store.
    pub prefix: Path,
    /// Whether names can be listed. Plain HTTP cannot: only a `WebDAV` server lists, and a failed
    /// listing is not evidence of absence.
    pub can_list: bool,
}

impl Backend {
    /// Returns the location `prefix` of `store`, which can list.
    pub const fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { store, prefix, can_list: true }
    }
}

//! A place on an object store.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

/// Where a store lies that is no directory, for callers that replace single objects of it.
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
    /// The bucket, or what else has objects.
    pub store: Arc<dyn ObjectStore>,
    /// What the names of all objects of the store begin with.
    pub prefix: Path,
    /// Whether names can be listed. Plain HTTP cannot: it lists only where it is `WebDAV`, and a failed try is not evidence of
    /// absence.
    pub can_list: bool,
}

impl Backend {
    /// Returns the place `prefix` of `store`, which can be listed.
    #[must_use]
    pub const fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { store, prefix, can_list: true }
    }
}

//! What a commit changes in a store.

use std::collections::BTreeMap;

use bytes::Bytes;

/// New bytes by key; none removes the key.
pub(crate) type Changes = BTreeMap<String, Option<Bytes>>;

//! The changes of a commit.

use std::collections::BTreeMap;

use bytes::Bytes;

/// New bytes by key; `None` removes the key.
pub(crate) type Changes = BTreeMap<String, Option<Bytes>>;

//! A cache of encoded objects with a byte limit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// The most recently used objects, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct Cache {
    inner: Mutex<CacheState>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct CacheState {
    objects: HashMap<String, (u64, Bytes)>,
    by_use: BTreeMap<u64, String>,
    clock: u64,
    bytes: usize,
}

impl Cache {
    /// Creates a cache of at most `max_bytes`, names included.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { inner: Mutex::default(), max_bytes }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Bytes> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let now = inner.clock;
        let (used, bytes) = inner.objects.get_mut(key)?;
        let (before, bytes) = (std::mem::replace(used, now), bytes.clone());
        if let Some(key) = inner.by_use.remove(&before) {
            inner.by_use.insert(now, key);
        }
        Some(bytes)
    }

    /// Keeps an object, unless it takes half of the limit or more.
    pub(crate) fn put(&self, key: &str, bytes: Bytes) {
        if bytes.len() > self.max_bytes / 2 {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.remove(key);
        inner.clock += 1;
        inner.bytes += bytes.len() + key.len();
        let now = inner.clock;
        inner.by_use.insert(now, key.to_owned());
        inner.objects.insert(key.to_owned(), (now, bytes));
        while inner.bytes > self.max_bytes {
            let Some((_, oldest)) = inner.by_use.first_key_value() else { break };
            let oldest = oldest.clone();
            inner.remove(&oldest);
        }
    }
}

impl CacheState {
    fn remove(&mut self, key: &str) {
        if let Some((used, bytes)) = self.objects.remove(key) {
            self.by_use.remove(&used);
            self.bytes -= bytes.len() + key.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_entries_are_evicted_first() {
        const MAX_BYTES: usize = 1 << 20;
        let cache = Cache::new(MAX_BYTES);
        let large = Bytes::from(vec![0; MAX_BYTES / 5]);
        for key in ["a", "b", "c", "d"] {
            cache.put(key, large.clone());
        }
        assert!(cache.get("a").is_some());
        cache.put("e", large.clone());
        assert!(cache.get("a").is_some() && cache.get("b").is_none());
        cache.put("f", Bytes::from(vec![0; MAX_BYTES / 2 + 1]));
        assert!(cache.get("f").is_none() && cache.get("e").is_some());
        cache.put("e", Bytes::from_static(b"new"));
        assert_eq!(cache.get("e").unwrap(), "new");
        assert!(cache.inner.lock().unwrap().bytes < MAX_BYTES);
    }
}

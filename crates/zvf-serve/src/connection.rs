//! Connections: their number, and whether a request is in progress.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of connections, in all and from each address.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    by_peer: Mutex<HashMap<IpAddr, usize>>,
}

/// A counted connection, until it is dropped.
pub(crate) struct CountedConnection {
    table: Arc<ConnectionTable>,
    peer: IpAddr,
}

impl ConnectionTable {
    /// Counts a connection, unless there are `max` already or `max_per_peer` from this address.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: IpAddr,
        max: usize,
        max_per_peer: usize,
    ) -> Option<CountedConnection> {
        let mut by_peer = self.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        let open: usize = by_peer.values().sum();
        let open_of_peer = by_peer.get(&peer).copied().unwrap_or(0);
        if open >= max || open_of_peer >= max_per_peer {
            return None;
        }
        by_peer.insert(peer, open_of_peer + 1);
        Some(CountedConnection { table: Arc::clone(self), peer })
    }

    pub(crate) fn len(&self) -> usize {
        self.by_peer.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut by_peer = self.table.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        match by_peer.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(by_peer.remove(&self.peer)),
        }
    }
}

/// The number of requests of a connection in progress; shared by the connection and its answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProgress(Arc<AtomicU64>);

/// One request in progress, until it is dropped.
pub(crate) struct RequestInProgress(Arc<AtomicU64>);

impl InProgress {
    pub(crate) fn begin(&self) -> RequestInProgress {
        self.0.fetch_add(1, Ordering::Relaxed);
        RequestInProgress(Arc::clone(&self.0))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn counts_connections_in_total_and_by_peer() {
        let table = Arc::new(ConnectionTable::default());
        let [a, b] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let first = table.admit(a, 3, 2).unwrap();
        let second = table.admit(a, 3, 2).unwrap();
        assert!(table.admit(a, 3, 2).is_none());
        let third = table.admit(b, 3, 2).unwrap();
        assert!(table.admit(b, 3, 2).is_none());
        assert_eq!(table.len(), 3);
        drop(first);
        assert!(table.admit(a, 3, 2).is_some());
        drop((second, third));
        assert_eq!(table.len(), 0);
    }
}

//! Connections: how many there are, and how long each may say or take nothing.
//!
//! The header of a request has a timer of its own in the HTTP layer. Below it, [`TimedStream`] ends a connection on which
//! no byte moved for the idle time while no request was in progress, and one whose client takes no byte of an answer.

use std::collections::HashMap;
use std::future::Future as _;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How many connections there are, in all and from each address.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    by_peer: Mutex<HashMap<IpAddr, usize>>,
}

/// One of the connections that are counted, until it is dropped.
#[derive(Debug)]
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
        let own = by_peer.get(&peer).copied().unwrap_or(0);
        if open >= max || own >= max_per_peer {
            return None;
        }
        by_peer.insert(peer, own + 1);
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
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(by_peer.remove(&self.peer)),
        }
    }
}

/// How many requests of a connection are in progress; shared by the connection and what answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProgress(Arc<AtomicUsize>);

/// One request in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestInProgress(Arc<AtomicUsize>);

impl InProgress {
    pub(crate) fn begin(&self) -> RequestInProgress {
        self.0.fetch_add(1, Ordering::Relaxed);
        RequestInProgress(Arc::clone(&self.0))
    }

    fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that fails when nothing moves for too long.
pub(crate) struct TimedStream<S> {
    stream: S,
    in_progress: InProgress,
    read: Timer,
    write: Timer,
}

/// A time span that begins with the first wait after a byte moved.
struct Timer {
    span: Duration,
    sleep: Pin<Box<Sleep>>,
    is_running: bool,
}

impl Timer {
    fn new(span: Duration) -> Self {
        Self { span, sleep: Box::pin(sleep(span)), is_running: false }
    }

    const fn stop(&mut self) {
        self.is_running = false;
    }

    /// Whether the span has passed since the first wait.
    fn poll_expired(&mut self, context: &mut Context<'_>) -> bool {
        if !self.is_running {
            self.sleep.as_mut().reset(Instant::now() + self.span);
            self.is_running = true;
        }
        self.sleep.as_mut().poll(context).is_ready()
    }
}

impl<S> TimedStream<S> {
    pub(crate) fn new(stream: S, idle: Duration, stall: Duration, in_progress: InProgress) -> Self {
        Self { stream, in_progress, read: Timer::new(idle), write: Timer::new(stall) }
    }

    /// A write that moved, failed or waits; it fails where it has waited too long.
    fn timed_write<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write.stop();
            self.read.stop();
        } else if self.write.poll_expired(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.read.stop();
            return polled;
        }
        if self.in_progress.any() {
            self.read.stop(); // the span begins anew after the answer
        }
        while self.read.poll_expired(context) {
            if !self.in_progress.any() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.read.stop();
        }
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed_write(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.timed_write(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed_write(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.timed_write(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn counts_connections_in_all_and_by_peer() {
        let table = Arc::new(ConnectionTable::default());
        let [a, b] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
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

    #[test]
    fn an_idle_stream_fails_and_one_that_is_answered_does_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let in_progress = InProgress::default();
            let span = Duration::from_millis(20);
            let (_client, server) = tokio::io::duplex(8);
            let mut stream = TimedStream::new(server, span, span, in_progress.clone());
            let mut byte = [0];
            let request = in_progress.begin();
            let read = tokio::io::AsyncReadExt::read(&mut stream, &mut byte);
            assert!(tokio::time::timeout(span * 5, read).await.is_err(), "waits while answering");
            drop(request);
            let read = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let write = tokio::io::AsyncWriteExt::write_all(&mut stream, &[0; 100]).await;
            assert_eq!(write.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}

//! The stream below the HTTP layer: requests must arrive, and answers must be read, within timeouts.
//!
//! ```text
//! head      held back until it is complete and checked (head); a fault is answered here, and the connection ends
//! body      passed on, as many bytes as the head states; then a head again
//! ```
//!
//! Timeouts apply to the first byte of a connection, to a head from its first byte on, to idle connections without a
//! request in progress, and to writes that the client does not read. A connection that ends here is first closed for
//! writing and read a little longer, so that a client that is still sending receives the answer and not a reset.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use zvf::format::num::saturating_usize;

use crate::answer::raw_answer;
use crate::connection::InProgress;
use crate::head::scan_head;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::refusal::Refusal;

/// A stream of checked requests that fails when no byte moves for too long.
pub(crate) struct RequestStream<S> {
    stream: S,
    limits: Limits,
    metrics: Arc<Metrics>,
    in_progress: InProgress,
    phase: Phase,
    came: Vec<u8>,  // received and not passed on
    is_fresh: bool, // no request arrived yet
    is_shut: bool,
    read: Timer,
    write: Timer,
    linger: Timer,
}

/// The state of the input.
enum Phase {
    /// A head, of which `scanned` bytes were scanned.
    Head { scanned: usize },
    /// Remaining bytes of a request.
    Request { left: u64 },
    /// No more input; the answer to a refused request is sent before the end.
    Refused { answer: Vec<u8>, sent: usize },
}

/// A time span that begins with the first wait after it was stopped.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    is_running: bool,
}

impl Timer {
    fn new() -> Self {
        Self { sleep: Box::pin(sleep(Duration::ZERO)), is_running: false }
    }

    const fn stop(&mut self) {
        self.is_running = false;
    }

    /// Returns whether `span` has passed since the first wait.
    fn poll_expired(&mut self, span: Duration, context: &mut Context<'_>) -> bool {
        if !self.is_running {
            self.sleep.as_mut().reset(Instant::now() + span);
            self.is_running = true;
        }
        self.sleep.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RequestStream<S> {
    pub(crate) fn new(
        stream: S,
        limits: Limits,
        metrics: Arc<Metrics>,
        in_progress: InProgress,
    ) -> Self {
        Self {
            stream,
            limits,
            metrics,
            in_progress,
            phase: Phase::Head { scanned: 0 },
            came: Vec::new(),
            is_fresh: true,
            is_shut: false,
            read: Timer::new(),
            write: Timer::new(),
            linger: Timer::new(),
        }
    }

    /// Ends the input; the refusal is sent after the answers of the layer above.
    fn refuse(&mut self, refusal: &Refusal) {
        let with_body = !self.came.starts_with(b"HEAD ");
        self.metrics.record_answer(refusal.status.as_u16(), Duration::ZERO);
        self.phase = Phase::Refused { answer: raw_answer(refusal, with_body), sent: 0 };
    }

    /// Checks the head, or the part of it that arrived.
    fn check_head(&mut self, scanned: usize) {
        // An empty line before a request is ignored, as HTTP recommends.
        while self.came.starts_with(b"\r\n") {
            self.came.drain(..2);
        }
        let scanned = scanned.min(self.came.len());
        self.phase = Phase::Head { scanned: self.came.len() };
        if self.came == b"\r" {
            return;
        }
        match scan_head(&self.came, scanned, &self.limits) {
            Ok(None) => {}
            Ok(Some(head)) => {
                (self.is_fresh, self.phase) =
                    (false, Phase::Request { left: head.request_bytes() });
                self.read.stop();
            }
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Waits for bytes of a head; the end of the stream in the middle of one is refused.
    fn poll_more_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut piece = [0; PIECE_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        if Pin::new(&mut self.stream).poll_read(context, &mut buffer)?.is_pending() {
            return self.poll_head_timer(context).map_ok(|()| 0);
        }
        let count = buffer.filled().len();
        if self.came.is_empty() {
            self.read.stop(); // the time of a head begins with its first byte
        } else if count == 0 {
            self.refuse(&Refusal::bad_request("the head of the request ends early"));
        }
        self.came.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(count))
    }

    /// Waits for the next byte of a head until the timeout.
    fn poll_head_timer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let span = match (self.came.is_empty(), self.is_fresh) {
            (false, _) => self.limits.header_timeout,
            (true, true) => self.limits.first_byte_timeout,
            (true, false) => self.limits.idle_timeout,
        };
        if self.in_progress.has_requests() {
            self.read.stop(); // the time starts again after the answer
        }
        while self.read.poll_expired(span, context) {
            if self.in_progress.has_requests() {
                self.read.stop();
                continue;
            }
            if self.came.is_empty() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let message = "the head of the request did not come in time";
            self.refuse(&Refusal::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message));
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Passes on bytes of the checked request.
    fn poll_request(
        &mut self,
        left: u64,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let max = buffer.remaining().min(saturating_usize(left));
        let count = if self.came.is_empty() {
            let mut unfilled = ReadBuf::new(buffer.initialize_unfilled_to(max));
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut unfilled))?;
            let count = unfilled.filled().len();
            buffer.advance(count);
            count
        } else {
            let count = max.min(self.came.len());
            buffer.put_slice(self.came.get(..count).unwrap_or_default());
            self.came.drain(..count);
            count
        };
        self.phase = Phase::Request { left: left - count as u64 };
        Poll::Ready(Ok(()))
    }

    /// Returns the result of a write; fails if it has waited too long.
    fn timed_write<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write.stop();
        } else if self.write.poll_expired(self.limits.write_stall_timeout, context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }

    /// Sends the answer to a refused request.
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Phase::Refused { answer, sent } = &mut self.phase {
            let rest = answer.get(*sent..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let polled = Pin::new(&mut self.stream).poll_write(context, rest);
            let count = ready!(self.timed_write(context, polled))?;
            if let Phase::Refused { sent, .. } = &mut self.phase {
                *sent += count;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads remaining input for a moment, if some was left unread.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_unread = match &self.phase {
            Phase::Head { .. } => !self.came.is_empty(),
            Phase::Request { left } => *left > 0,
            Phase::Refused { .. } => true,
        };
        let mut piece = [0; PIECE_BYTES];
        while is_unread && !self.linger.poll_expired(LINGER_TIMEOUT, context) {
            let mut buffer = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for RequestStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.phase {
                Phase::Refused { .. } => return Poll::Ready(Ok(())),
                Phase::Request { left: 0 } => this.phase = Phase::Head { scanned: 0 },
                Phase::Request { left } => return this.poll_request(left, context, buffer),
                Phase::Head { scanned } if scanned < this.came.len() => this.check_head(scanned),
                Phase::Head { .. } => {
                    let count = ready!(this.poll_more_head(context))?;
                    if count == 0 && this.came.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for RequestStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.read.stop(); // idle from here on, not from the request on
        }
        self.timed_write(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.timed_write(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        if !self.is_shut {
            let polled = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.timed_write(context, polled))?;
            self.is_shut = true;
        }
        self.poll_linger(context).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        if polled.is_ready() {
            self.read.stop();
        }
        self.timed_write(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The bytes read at a time for a head.
const PIECE_BYTES: usize = 4096;
/// The time for a client to receive an answer before the connection is reset.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SPAN: Duration = Duration::from_millis(20);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn connected_pair(
        in_progress: InProgress,
    ) -> (tokio::io::DuplexStream, RequestStream<tokio::io::DuplexStream>) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let limits = Limits {
            first_byte_timeout: SPAN,
            header_timeout: SPAN,
            idle_timeout: SPAN,
            write_stall_timeout: SPAN,
            ..Limits::default()
        };
        (client, RequestStream::new(server, limits, Arc::new(Metrics::default()), in_progress))
    }

    #[test]
    fn an_idle_stream_times_out_unless_a_request_is_in_progress() {
        runtime().block_on(async {
            let in_progress = InProgress::default();
            let (_client, mut stream) = connected_pair(in_progress.clone());
            let mut byte = [0];
            let request = in_progress.begin();
            let read = stream.read(&mut byte);
            assert!(tokio::time::timeout(SPAN * 5, read).await.is_err(), "waits while answering");
            drop(request);
            let read = stream.read(&mut byte).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let write = stream.write_all(&vec![0; 1 << 17]).await;
            assert_eq!(write.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn an_empty_flush_does_not_extend_timeouts() {
        runtime().block_on(async {
            let (_client, mut stream) = connected_pair(InProgress::default());
            let (mut byte, mut polls) = ([0], 0);
            // Like the layer above, this reads and flushes on every wake-up.
            let read = std::future::poll_fn(|context| {
                polls += 1;
                let mut buffer = ReadBuf::new(&mut byte);
                let read = Pin::new(&mut stream).poll_read(context, &mut buffer);
                drop(Pin::new(&mut stream).poll_flush(context));
                read
            });
            let read = tokio::time::timeout(SPAN * 50, read).await.expect("the stream times out");
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!(polls < 5, "{polls} times");
        });
    }

    #[test]
    fn requests_are_forwarded_in_order() {
        runtime().block_on(async {
            let (mut client, mut stream) = connected_pair(InProgress::default());
            let first = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
            let second = b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
            client.write_all(&[&b"\r\n"[..], first, second].concat()).await.unwrap();
            let mut bytes = vec![0; first.len() + second.len()];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(bytes, [&first[..], second].concat());
            client.write_all(b"GET /c HTTP/1.1\nHost: a\n\n").await.unwrap();
            assert_eq!(
                stream.read(&mut bytes).await.unwrap(),
                0,
                "a refused request is not forwarded"
            );
            drop(stream.shutdown().await);
            let mut answer = vec![0; 12];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, b"HTTP/1.1 400");
        });
    }

    #[test]
    fn a_late_head_is_answered_with_status_408() {
        runtime().block_on(async {
            let (mut client, mut stream) = connected_pair(InProgress::default());
            client.write_all(b"GET /").await.unwrap();
            assert_eq!(stream.read(&mut [0; 9]).await.unwrap(), 0);
            drop(stream.shutdown().await);
            let mut answer = vec![0; 12];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, b"HTTP/1.1 408");
        });
    }
}

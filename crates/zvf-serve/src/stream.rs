//! The stream below the HTTP layer: requests must arrive, and answers must be read, within timeouts.
//!
//! Timeouts apply to the first byte of a connection, to a head from its first byte on, to idle
//! connections without a request in progress, and to writes that the client does not read. A
//! connection that the server ends is first closed for writing and read a little longer, so that a
//! client that is still sending receives the answer and not a reset.
//!
//! Not here: the time for a body, which the answer of its request limits ([`crate::service`]).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::connection::InProgress;
use crate::limits::Limits;

/// A stream that fails when no byte moves for too long.
pub(crate) struct TimedStream<S> {
    stream: S,
    limits: Limits,
    in_progress: InProgress,
    is_fresh: bool,         // nothing was answered yet
    has_part_of_head: bool, // bytes came since the last answer
    is_shut: bool,
    read: Timer,
    write: Timer,
    linger: Timer,
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

impl<S: AsyncRead + AsyncWrite + Unpin> TimedStream<S> {
    pub(crate) fn new(stream: S, limits: Limits, in_progress: InProgress) -> Self {
        Self {
            stream,
            limits,
            in_progress,
            is_fresh: true,
            has_part_of_head: false,
            is_shut: false,
            read: Timer::new(),
            write: Timer::new(),
            linger: Timer::new(),
        }
    }

    /// Waits for the next byte until the timeout. While a request is being answered there is none.
    fn poll_read_timer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let span = match (self.has_part_of_head, self.is_fresh) {
            (true, _) => self.limits.header_timeout,
            (false, true) => self.limits.first_byte_timeout,
            (false, false) => self.limits.idle_timeout,
        };
        if self.in_progress.count() > 0 {
            self.read.stop(); // the time starts again after the answer
        }
        while self.read.poll_expired(span, context) {
            if self.in_progress.count() == 0 {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.read.stop();
        }
        Poll::Pending
    }

    /// Returns the result of a write of an answer, after which a connection is idle.
    fn answered<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.read.stop();
            (self.is_fresh, self.has_part_of_head) = (false, false);
        }
        self.timed_write(context, polled)
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

    /// Reads what the client still sends, for a moment.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut piece = [0; PIECE_BYTES];
        while !self.linger.poll_expired(LINGER_TIMEOUT, context) {
            let mut buffer = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_pending() {
            return self.poll_read_timer(context);
        }
        if !self.has_part_of_head && buffer.filled().len() > before {
            self.read.stop(); // the time of a head begins with its first byte
            self.has_part_of_head = true;
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.answered(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.timed_write(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        self.answered(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The bytes read at a time after the answer.
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
    ) -> (tokio::io::DuplexStream, TimedStream<tokio::io::DuplexStream>) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let limits = Limits {
            first_byte_timeout: SPAN,
            header_timeout: SPAN,
            idle_timeout: SPAN,
            write_stall_timeout: SPAN,
            ..Limits::default()
        };
        (client, TimedStream::new(server, limits, in_progress))
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
    fn a_head_has_its_time_from_its_first_byte_on() {
        runtime().block_on(async {
            let (mut client, mut stream) = connected_pair(InProgress::default());
            let drip = async {
                loop {
                    client.write_all(b"G").await.unwrap();
                    sleep(SPAN / 4).await;
                }
            };
            let read = async {
                loop {
                    if let Err(error) = stream.read(&mut [0; 9]).await {
                        break error;
                    }
                }
            };
            tokio::select! {
                error = read => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
                () = drip => {}
            }
        });
    }
}

//! `/api/<name>/query`: an answer sent batch by batch while it is read.
//!
//! A task reads batches and encodes each in the requested format; the output goes through a channel
//! of two pieces, so that a slow client slows the reading (backpressure) and memory is limited to a
//! few batches. An error after the first byte aborts the transfer: the client receives a body that
//! ends early, never an answer that looks complete.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use tokio::sync::mpsc;
use zvf::convert::Format;
use zvf::convert::write::{self, Target, WriteOptions};
use zvf::model::flow::{Header, Piece};
use zvf::question::axis_names;
use zvf::{Query, Reader};

use crate::answer::{Answer, AnswerBody, empty_body, new_answer};
use crate::api_request::{ApiRequest, resolve_groups};
use crate::query_fields::{parse_query, too_many_rows};
use crate::refusal::Refusal;
use crate::state::State;
use crate::stores::ServedStore;

/// The formats that are sent, with the types of their bodies.
const FORMATS: [(Format, &str); 4] = [
    (Format::Arrows, "application/vnd.apache.arrow.stream"),
    (Format::Csv, "text/csv; charset=utf-8"),
    (Format::Jsonl, "application/x-ndjson"),
    (Format::Parquet, "application/vnd.apache.parquet"),
];

type Pieces = mpsc::Sender<io::Result<Bytes>>;

/// Answers a query; its first batch is read before the status is sent.
pub(crate) async fn answer_query(
    state: &Arc<State>,
    held: impl Send + 'static,
    request: ApiRequest,
) -> Result<Answer, Refusal> {
    let parsed = parse_query(request.fields, state.limits.max_rows, &["format"])?;
    let name = parsed.other_fields.first().map_or("arrows", |(_, format)| format.as_str());
    let found = FORMATS.iter().find(|(format, _)| format.token() == name);
    let Some(&(format, content_type)) = found else {
        return Err(Refusal::bad_request("format: expected arrows, csv, jsonl or parquet"));
    };
    if request.is_head {
        return Ok(new_answer(StatusCode::OK, content_type, empty_body()));
    }
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (pieces, received) = mpsc::channel(PIECES_AHEAD);
    let handle = tokio::runtime::Handle::current();
    let deadline = state.limits.request_timeout;
    let max_rows = state.limits.max_rows;
    let store = Arc::clone(&request.store);
    tokio::task::spawn_blocking(move || {
        let _held = held;
        handle.block_on(async move {
            let resolved = tokio::time::timeout(deadline, resolve_groups(&store, parsed)).await;
            let (reader, parsed) = match resolved {
                Ok(Ok(resolved)) => resolved,
                Ok(Err(refusal)) => return drop(begun.send(Err(refusal))),
                Err(_elapsed) => {
                    return drop(begun.send(Err(Refusal::service_unavailable(
                        "the store did not answer in time",
                    ))));
                }
            };
            let mut begun = Some(begun);
            let sending =
                Sending { store: &store, reader: &reader, pieces: &pieces, deadline, max_rows };
            let fault = match sending.send_answer(parsed.query, format, &mut begun).await {
                Ok(()) => return,
                Err(refusal) => refusal,
            };
            match begun {
                Some(begun) => drop(begun.send(Err(fault))),
                None => drop(pieces.send(Err(io::Error::other("the answer ends here"))).await),
            }
        });
    });
    match begins.await {
        Ok(Ok(())) => Ok(new_answer(StatusCode::OK, content_type, channel_body(received))),
        Ok(Err(refusal)) => Err(refusal),
        Err(_closed) => Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Io",
            "the answer could not be read",
        )),
    }
}

/// Returns a body of the pieces of a channel.
fn channel_body(received: mpsc::Receiver<io::Result<Bytes>>) -> AnswerBody {
    let pieces = stream::unfold(received, |mut received| async move {
        let piece = received.recv().await?;
        Some((piece.map(Frame::data), received))
    });
    BodyExt::boxed_unsync(StreamBody::new(pieces))
}

/// An answer in progress. Each batch has the time limit of a request; the client's time is not
/// counted, because the connection times out by itself when no byte moves.
struct Sending<'a> {
    store: &'a ServedStore,
    reader: &'a Reader,
    pieces: &'a Pieces,
    deadline: std::time::Duration,
    max_rows: u64,
}

impl Sending<'_> {
    /// Sends the whole answer. `begun` is notified when the first batch was encoded.
    async fn send_answer(
        &self,
        query: Query,
        format: Format,
        begun: &mut Option<tokio::sync::oneshot::Sender<Result<(), Refusal>>>,
    ) -> Result<(), Refusal> {
        let axes = axis_names(self.reader.store());
        let buffer = SharedBuffer::default();
        let target = Target::stream(buffer.clone());
        let sink = write::open(format, target, &WriteOptions::default());
        let mut sink = sink.map_err(refuse_unencodable)?;
        let mut batches = self.reader.stream(query.clone());
        let (mut rows, mut is_empty) = (0, true);
        while let Some(batch) = self.await_until_deadline(batches.next()).await? {
            let batch = batch.map_err(|error| self.store.refuse(&error))?;
            if batch.is_empty() {
                continue;
            }
            rows += batch.len() as u64;
            if rows > self.max_rows {
                return Err(too_many_rows(self.max_rows)); // never an answer that looks complete
            }
            if std::mem::take(&mut is_empty) {
                let header = Header::from_batch(&batch, axes.clone());
                sink.begin(&header).map_err(refuse_unencodable)?;
            }
            sink.write(Piece::Vertices(batch)).map_err(refuse_unencodable)?;
            report_begin(begun);
            if send_bytes(self.pieces, buffer.take()).await.is_err() {
                return Ok(()); // the client is gone
            }
        }
        if is_empty {
            // Without a batch, the columns are those of an empty answer.
            let empty = self.await_until_deadline(self.reader.run(&query)).await?;
            let empty = empty.map_err(|error| self.store.refuse(&error))?;
            if empty.truncated {
                let is_own = query.limit.is_some_and(|limit| limit <= self.max_rows);
                return Err(if is_own {
                    below_first_object()
                } else {
                    too_many_rows(self.max_rows)
                });
            }
            let empty = empty.batch;
            sink.begin(&Header::from_batch(&empty, axes)).map_err(refuse_unencodable)?;
            sink.write(Piece::Vertices(empty)).map_err(refuse_unencodable)?;
        }
        sink.finish().map_err(refuse_unencodable)?;
        report_begin(begun);
        // An error means that the client disconnected.
        let _ = send_bytes(self.pieces, buffer.take()).await;
        Ok(())
    }

    async fn await_until_deadline<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
        tokio::time::timeout(self.deadline, work).await.map_err(|_elapsed| {
            let status = StatusCode::GATEWAY_TIMEOUT;
            Refusal::new(status, "Timeout", "the request took too long")
        })
    }
}

fn report_begin(begun: &mut Option<tokio::sync::oneshot::Sender<Result<(), Refusal>>>) {
    if let Some(begun) = begun.take() {
        // An error means that the client disconnected.
        let _ = begun.send(Ok(()));
    }
}

async fn send_bytes(pieces: &Pieces, bytes: Vec<u8>) -> Result<(), ()> {
    if bytes.is_empty() {
        return Ok(());
    }
    pieces.send(Ok(bytes.into())).await.map_err(|_closed| ())
}

/// Returns the refusal of an answer that the limit leaves without any object.
fn below_first_object() -> Refusal {
    let message = "the first object has more vertices than the limit, and objects are not cut";
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "LimitExceeded", message)
        .with_key("limit")
        .with_hint("raise the limit")
}

fn refuse_unencodable(error: zvf::Error) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, &error.class().to_string(), error.to_string())
}

/// The encoded bytes that were not sent yet.
#[derive(Clone, Debug, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The number of pieces that wait for the client.
const PIECES_AHEAD: usize = 2;

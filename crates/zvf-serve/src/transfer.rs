//! `/api/<name>/query`: an answer sent batch by batch while it is read.
//!
//! A task reads batches and encodes each in the requested format; the output goes through a channel
//! of two pieces, so that a slow client slows the reading (backpressure) and memory is limited to a
//! few batches. An error after the first byte aborts the transfer: the client receives a body that
//! ends early, never an answer that looks complete.
//!
//! ```text
//! tables (arrows, csv, jsonl, parquet)   sent while they are read
//! every other file that zvf writes       complete before it is sent, so that all losses are known
//! ```

use std::io::{self, Read as _, Seek as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::mpsc;
use zvf::convert::Format;
use zvf::convert::write::{self, FormatOptions, Target};
use zvf::export::{CUT_OFF, Export};
use zvf::format::Class;
use zvf::model::flow::{Loss, Piece, Source as _};
use zvf::{Query, Reader};

use crate::answer::{Answer, AnswerBody, empty_body, new_answer};
use crate::api_request::{ApiRequest, resolve_groups};
use crate::query_fields::{parse_query, too_many_rows};
use crate::refusal::Refusal;
use crate::state::AppState;
use crate::stores::ServedStore;
use crate::work::within;

/// The tables, with the types of their bodies.
const TABLES: [(Format, &str); 4] = [
    (Format::Arrows, "application/vnd.apache.arrow.stream"),
    (Format::Csv, "text/csv; charset=utf-8"),
    (Format::Jsonl, "application/x-ndjson"),
    (Format::Parquet, "application/vnd.apache.parquet"),
];

type Pieces = mpsc::Sender<io::Result<Bytes>>;
/// Gets the notes of an answer when its first bytes are there, or the reason why there are none.
type Begun = tokio::sync::oneshot::Sender<Result<Vec<String>, Refusal>>;

/// Answers a query; its first batch is read before the status is sent.
pub(crate) async fn answer_query(
    state: &Arc<AppState>,
    held: impl Send + 'static,
    request: ApiRequest,
) -> Result<Answer, Refusal> {
    let parsed = parse_query(request.fields, state.limits.max_rows, &["format"])?;
    let name = parsed.other_fields.first().map_or("arrows", |(_, format)| format.as_str());
    let format = Format::from_token(name).filter(is_sent).ok_or_else(|| {
        let sent: Vec<_> = Format::ALL.iter().filter(|format| is_sent(format)).collect();
        let names = sent.iter().map(|format| format.token()).collect::<Vec<_>>().join(", ");
        Refusal::bad_request(format!("format: expected one of {names}"))
    })?;
    let table = TABLES.iter().find(|(table, _)| *table == format);
    let content_type = table.map_or("application/octet-stream", |(_, content_type)| content_type);
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
            let resolved = within(deadline, resolve_groups(&store, parsed)).await.flatten();
            let (reader, parsed) = match resolved {
                Ok(resolved) => resolved,
                Err(refusal) => return drop(begun.send(Err(refusal))),
            };
            let mut begun = Some(begun);
            let sending =
                Sending { store: &store, reader: &reader, pieces: &pieces, deadline, max_rows };
            let how = (format, table.is_some());
            let fault = match sending.send(parsed.query, how, &mut begun).await {
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
        Ok(Ok(notes)) => {
            let mut answer = new_answer(StatusCode::OK, content_type, channel_body(received));
            let more = notes.len().saturating_sub(MAX_NOTES);
            let more = (more > 0).then(|| format!("and {more} more"));
            for note in notes.into_iter().take(MAX_NOTES).chain(more) {
                let line = note.replace(char::is_control, " ");
                if let Ok(line) = HeaderValue::from_bytes(line.as_bytes()) {
                    answer.headers_mut().append(NOTE, line);
                }
            }
            Ok(answer)
        }
        Ok(Err(refusal)) => Err(refusal),
        Err(_closed) => Err(Refusal::internal("the answer could not be read")),
    }
}

/// Returns whether an answer can be a file of this format.
fn is_sent(format: &Format) -> bool {
    format.is_written() && !format.capabilities().is_folder
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
    /// Sends an answer as `zvf query --output` writes it. `begun` is notified when the first rows of
    /// a table were encoded, or any other file is complete.
    async fn send(
        &self,
        query: Query,
        (format, is_table): (Format, bool),
        begun: &mut Option<Begun>,
    ) -> Result<(), Refusal> {
        let refuse = |error: zvf::Error| self.store.refuse(&error);
        let refuse_scratch = |error: io::Error| refuse(zvf::Error::io("write", error));
        let export = match is_table {
            true => Export::open_table(self.reader, query.clone()),
            false => Export::open(self.reader, query.clone(), None),
        };
        let mut export = within(self.deadline, export).await?.map_err(refuse)?;
        let mut losses = write::find_losses(&export.header, format).map_err(refuse_unencodable)?;
        let options = FormatOptions { memory: FILE_MEMORY, ..FormatOptions::default() };
        let buffer = SharedBuffer::default();
        let mut file =
            if is_table { None } else { Some(tempfile::tempfile().map_err(refuse_scratch)?) };
        let target = file.as_mut().map_or_else(|| Target::stream(buffer.clone()), Target::file);
        let mut sink = write::open(format, target, &options).map_err(refuse_unencodable)?;
        sink.begin(&export.header).map_err(refuse_unencodable)?;
        let mut rows = 0;
        while let Some(piece) = within(self.deadline, export.next()).await?.map_err(refuse)? {
            if let Piece::Vertices(batch) = &piece {
                rows += batch.len() as u64;
            }
            if rows > self.max_rows {
                return Err(too_many_rows(self.max_rows)); // never an answer that looks complete
            }
            sink.write(piece).map_err(refuse_unencodable)?;
            if is_table && rows > 0 {
                report_begin(begun, &export.notes, &losses);
                if send_bytes(self.pieces, buffer.take()).await.is_err() {
                    return Ok(()); // the client is gone
                }
            }
        }
        if rows == 0 && export.notes.iter().any(|note| note == CUT_OFF) {
            return Err(below_first_object());
        }
        losses.extend(sink.finish().map_err(refuse_unencodable)?.losses);
        let mut notes = export.notes();
        notes.extend(export.header.left_out.iter().map(|what| format!("not read: {what}")));
        report_begin(begun, &notes, &losses);
        // An error means that the client disconnected.
        let _ = send_bytes(self.pieces, buffer.take()).await;
        let Some(mut file) = file else { return Ok(()) };
        file.rewind().map_err(refuse_scratch)?;
        loop {
            let mut bytes = Vec::new();
            (&file).take(FILE_PIECE).read_to_end(&mut bytes).map_err(refuse_scratch)?;
            if bytes.is_empty() || send_bytes(self.pieces, bytes).await.is_err() {
                return Ok(()); // it is sent, or the client is gone
            }
        }
    }
}

fn report_begin(begun: &mut Option<Begun>, notes: &[String], losses: &[Loss]) {
    if let Some(begun) = begun.take() {
        let losses = losses.iter().map(ToString::to_string);
        // An error means that the client disconnected.
        let _ = begun.send(Ok(notes.iter().cloned().chain(losses).collect()));
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
    Refusal::too_large(message).with_key("limit").with_hint("raise the limit")
}

fn refuse_unencodable(error: zvf::Error) -> Refusal {
    let status = match error.class() {
        Class::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Refusal::new(status, &error.class().to_string(), error.to_string())
}

/// The encoded bytes that were not sent yet.
#[derive(Clone, Default)]
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

/// The header of a note, such as what the format cannot hold, or that an answer is not all.
pub(crate) const NOTE: HeaderName = HeaderName::from_static("zvf-note");
/// The largest number of notes: clients limit the headers of an answer.
const MAX_NOTES: usize = 20;
/// The memory for a file whose format is written as a whole; a larger one is refused.
const FILE_MEMORY: u64 = 64 << 20;
/// The bytes of a file that are sent at once.
const FILE_PIECE: u64 = 1 << 20;
/// The number of pieces that wait for the client.
const PIECES_AHEAD: usize = 2;

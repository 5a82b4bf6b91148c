//! Bytes from JavaScript, as a backend of zvf-store: GET of whole objects and of ranges, nothing else.
//!
//! The page gives an object with `get(key, first, last, suffix, signal) -> Promise<{status, bytes, first, total, etag}>`:
//! `fetch` over HTTP, slices of files that were dropped, or buffers. Dropping a request here aborts it there.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::{self, BoxStream};
use js_sys::{Reflect, Uint8Array};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use tokio::sync::{mpsc, oneshot};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

#[wasm_bindgen]
extern "C" {
    /// Where bytes come from.
    pub type Source;

    /// Asks for a range of an object, or for all of it where `first` is -1; `suffix` asks for its last bytes.
    #[wasm_bindgen(method)]
    fn get(
        this: &Source,
        key: &str,
        first: f64,
        last: f64,
        suffix: f64,
        signal: &JsValue,
    ) -> js_sys::Promise;

    type AbortController;

    #[wasm_bindgen(constructor)]
    fn new() -> AbortController;

    #[wasm_bindgen(method, getter)]
    fn signal(this: &AbortController) -> JsValue;

    #[wasm_bindgen(method)]
    fn abort(this: &AbortController);
}

/// What came of a request.
struct Reply {
    status: u16,
    bytes: Bytes,
    first: u64,
    total: u64,
    version: Option<String>,
}

struct Asked {
    key: String,
    range: Option<GetRange>,
    answer: oneshot::Sender<std::result::Result<Reply, String>>,
}

/// The backend. Values of JavaScript stay in tasks of this thread; only bytes go through channels.
pub(crate) struct PageStore {
    asked: mpsc::UnboundedSender<Asked>,
}

impl PageStore {
    pub(crate) fn new(source: Source) -> Self {
        let (asked, mut asks) = mpsc::unbounded_channel::<Asked>();
        let source = std::rc::Rc::new(source);
        spawn_local(async move {
            while let Some(asked) = asks.recv().await {
                let source = std::rc::Rc::clone(&source);
                spawn_local(answer(source, asked));
            }
        });
        Self { asked }
    }
}

async fn answer(source: std::rc::Rc<Source>, asked: Asked) {
    let Asked { key, range, answer: mut sender } = asked;
    let controller = AbortController::new();
    let (first, last, suffix) = match range {
        None => (-1.0, -1.0, 0.0),
        Some(GetRange::Bounded(Range { start, end })) => (number(start), number(end) - 1.0, 0.0),
        Some(GetRange::Offset(start)) => (number(start), -1.0, 0.0),
        Some(GetRange::Suffix(bytes)) => (-1.0, -1.0, number(bytes)),
    };
    let reply = JsFuture::from(source.get(&key, first, last, suffix, &controller.signal()));
    let first = {
        let closed = std::pin::pin!(sender.closed());
        match select(reply, closed).await {
            Either::Left((reply, _)) => Some(reply),
            Either::Right(_) => None,
        }
    };
    let Some(done) = first else {
        controller.abort();
        return;
    };
    let done = match done {
        Ok(reply) => parse_reply(&reply).ok_or_else(|| "the source gave something else".to_owned()),
        Err(error) => Err(message(&error)),
    };
    // An error says that nobody waits any more.
    let _ = sender.send(done);
}

/// Sizes of objects are far below 2^53.
fn number(n: u64) -> f64 {
    n as f64
}

fn message(error: &JsValue) -> String {
    let text = Reflect::get(error, &"message".into()).ok().and_then(|text| text.as_string());
    text.or_else(|| error.as_string()).unwrap_or_else(|| "the request failed".to_owned())
}

fn parse_reply(reply: &JsValue) -> Option<Reply> {
    let field = |name: &str| Reflect::get(reply, &name.into()).ok();
    let number = |name: &str| field(name)?.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64);
    let bytes = field("bytes").filter(|bytes| bytes.is_instance_of::<Uint8Array>())?;
    let bytes = Uint8Array::from(bytes).to_vec().into();
    Some(Reply {
        status: u16::try_from(number("status")?).ok()?,
        bytes,
        first: number("first")?,
        total: number("total")?,
        version: field("etag").and_then(|tag| tag.as_string()),
    })
}

impl fmt::Debug for PageStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageStore")
    }
}

// Named as the backend of plain HTTP is, because the same holds for it: it is never listed.
impl fmt::Display for PageStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpStore of the page")
    }
}

#[async_trait]
impl ObjectStore for PageStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let key = location.to_string();
        let (answer, reply) = oneshot::channel();
        let asked = Asked { key: key.clone(), range: options.range.clone(), answer };
        let fault = |source: String| Error::Generic { store: "page", source: source.into() };
        self.asked.send(asked).map_err(|_closed| fault("the page is closed".to_owned()))?;
        let reply = reply.await.map_err(|_closed| fault("the page is closed".to_owned()))?;
        let reply = reply.map_err(fault)?;
        let source = || format!("status {}", reply.status).into();
        match reply.status {
            200 | 206 => {}
            404 | 403 | 410 => return Err(Error::NotFound { path: key, source: source() }),
            401 => return Err(Error::Unauthenticated { path: key, source: source() }),
            412 => return Err(Error::Precondition { path: key, source: source() }),
            _ => return Err(fault(format!("status {}", reply.status))),
        }
        let bytes = if reply.status == 200 {
            cut(reply.bytes, options.range.as_ref())
        } else {
            (reply.first, reply.bytes)
        };
        let (first, bytes) = bytes;
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: DateTime::UNIX_EPOCH,
            size: reply.total,
            e_tag: reply.version,
            version: None,
        };
        let range = first..first + bytes.len() as u64;
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed());
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: object_store::Attributes::default(),
            extensions: object_store::Extensions::default(),
        })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only("put"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only("put"))
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(read_only("delete"))]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(read_only("list"))]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(read_only("list"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only("copy"))
    }
}

/// The part asked for, out of an answer that is the whole object: a server without ranges.
fn cut(bytes: Bytes, range: Option<&GetRange>) -> (u64, Bytes) {
    let length = bytes.len() as u64;
    let (start, end) = match range {
        None => (0, length),
        Some(GetRange::Bounded(range)) => (range.start.min(length), range.end.min(length)),
        Some(GetRange::Offset(start)) => ((*start).min(length), length),
        Some(GetRange::Suffix(suffix)) => (length - (*suffix).min(length), length),
    };
    (start, bytes.slice(start as usize..end.max(start) as usize))
}

fn read_only(what: &str) -> Error {
    Error::NotImplemented { operation: what.to_owned(), implementer: "page".to_owned() }
}

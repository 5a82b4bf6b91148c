//! An emulator of S3 on loopback: one bucket, in memory, for tests.
//!
//! ```text
//! GET, HEAD      an object, or a range of it; conditional on its version
//! PUT            an object, also conditional on its absence or version; a copy of another one
//! DELETE, POST   one object, or many
//! GET ?list-type the names below a prefix, page by page
//! ```
//!
//! Signatures are not checked. Multipart uploads are refused: tests have no objects of that size.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::{Reply, Request, decode, serve};

/// A server that runs until the process ends.
#[derive(Clone, Debug)]
pub struct S3 {
    address: SocketAddr,
    objects: Arc<Mutex<Objects>>,
}

#[derive(Debug, Default)]
struct Objects {
    by_key: BTreeMap<String, Object>,
    puts: u64,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Vec<u8>,
    version: u64,
}

impl S3 {
    /// Starts a server on a free port, with an empty bucket called `bucket`.
    ///
    /// # Errors
    ///
    /// When the port cannot be opened.
    pub fn start() -> io::Result<Self> {
        let objects = Arc::<Mutex<Objects>>::default();
        let shared = Arc::clone(&objects);
        let address = serve(move |request| answer(&mut lock(&shared), request))?;
        Ok(Self { address, objects })
    }

    /// Returns the storage options of a client as names and values; upper-case names are
    /// environment variables.
    pub fn options(&self) -> [(&'static str, String); 5] {
        [
            ("aws_endpoint", format!("http://{}", self.address)),
            ("aws_allow_http", "true".to_owned()),
            ("aws_access_key_id", "key".to_owned()),
            ("aws_secret_access_key", "secret".to_owned()),
            ("aws_region", "us-east-1".to_owned()),
        ]
    }

    /// Puts files below a prefix.
    pub fn put(&self, prefix: &str, files: &[(String, Vec<u8>)]) {
        let mut objects = lock(&self.objects);
        for (name, bytes) in files {
            objects.put(&format!("{prefix}/{name}"), bytes.clone());
        }
    }

    /// Removes all objects below a prefix.
    pub fn remove(&self, prefix: &str) {
        let prefix = format!("{prefix}/");
        lock(&self.objects).by_key.retain(|key, _| !key.starts_with(&prefix));
    }

    /// Returns all objects below a prefix, by their relative names.
    pub fn tree(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let prefix = format!("{prefix}/");
        let objects = lock(&self.objects);
        let below = objects.by_key.iter().filter_map(|(key, object)| {
            Some((key.strip_prefix(&prefix)?.to_owned(), object.bytes.clone()))
        });
        below.collect()
    }
}

fn lock(objects: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(objects: &mut Objects, request: &Request) -> Reply {
    let Some(key) = request.path.strip_prefix("/bucket") else {
        return Reply::error("404 Not Found", "NoSuchBucket");
    };
    let key = key.trim_start_matches('/');
    match request.method.as_str() {
        "POST" if request.query.contains_key("delete") => objects.delete(&request.body),
        "GET" if request.query.contains_key("list-type") => objects.list(&request.query),
        "DELETE" if !key.is_empty() => {
            objects.by_key.remove(key);
            Reply::new("204 No Content")
        }
        "PUT" if !key.is_empty() && request.query.is_empty() => objects.take(key, request),
        "GET" | "HEAD" if !key.is_empty() => objects.give(key, request),
        _ => Reply::error("501 Not Implemented", "NotImplemented"),
    }
}

impl Objects {
    fn put(&mut self, key: &str, bytes: Vec<u8>) -> u64 {
        self.puts += 1;
        self.by_key.insert(key.to_owned(), Object { bytes, version: self.puts });
        self.puts
    }

    /// Handles a put, or a copy of another object.
    fn take(&mut self, key: &str, request: &Request) -> Reply {
        let found = self.by_key.get(key).map(|object| tag(object.version));
        if request.header("if-none-match") == Some("*") && found.is_some() {
            return Reply::error("412 Precondition Failed", "PreconditionFailed");
        }
        if let Some(wanted) = request.header("if-match") {
            match found.as_deref() {
                None => return Reply::error("404 Not Found", "NoSuchKey"),
                Some(found) if found != wanted => {
                    return Reply::error("412 Precondition Failed", "PreconditionFailed");
                }
                Some(_) => {}
            }
        }
        let Some(from) = request.header("x-amz-copy-source") else {
            let version = self.put(key, request.body.clone());
            return Reply::new("200 OK").with_header("ETag", &tag(version));
        };
        let from = decode(from.trim_start_matches('/'));
        let object = from.strip_prefix("bucket/").and_then(|from| self.by_key.get(from)).cloned();
        let Some(object) = object else { return Reply::error("404 Not Found", "NoSuchKey") };
        let version = tag(self.put(key, object.bytes));
        let text =
            format!("<CopyObjectResult><ETag>{}</ETag></CopyObjectResult>", escape(&version));
        Reply::new("200 OK").with_body(text.into_bytes())
    }

    /// Returns an object, or the requested range of it.
    fn give(&self, key: &str, request: &Request) -> Reply {
        let Some(object) = self.by_key.get(key) else {
            return Reply::error("404 Not Found", "NoSuchKey");
        };
        let found = tag(object.version);
        if request.header("if-match").is_some_and(|wanted| wanted != found) {
            return Reply::error("412 Precondition Failed", "PreconditionFailed");
        }
        if request.header("if-none-match").is_some_and(|known| known == found) {
            return Reply::new("304 Not Modified").with_header("ETag", &found);
        }
        let has_range = request.range().is_none() || !object.bytes.is_empty();
        let part = has_range.then(|| Reply::with_part(&object.bytes, request, &found));
        part.flatten().unwrap_or_else(|| Reply::error("416 Range Not Satisfiable", "InvalidRange"))
    }

    /// Removes the objects in an XML body.
    fn delete(&mut self, body: &[u8]) -> Reply {
        let body = String::from_utf8_lossy(body);
        let mut text = "<DeleteResult>".to_owned();
        for key in body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
            self.by_key.remove(&unescape(key));
            write!(text, "<Deleted><Key>{key}</Key></Deleted>").unwrap();
        }
        Reply::new("200 OK").with_body((text + "</DeleteResult>").into_bytes())
    }

    /// Returns a page of the names below a prefix; with a delimiter, up to the next one.
    fn list(&self, query: &BTreeMap<String, String>) -> Reply {
        let word = |name: &str| query.get(name).map_or("", String::as_str);
        let (prefix, delimiter) = (word("prefix"), word("delimiter"));
        let after = word("start-after").max(word("continuation-token"));
        let (mut text, mut folders, mut last) = (String::new(), BTreeSet::new(), None);
        let below = self.by_key.iter().filter(|(key, _)| key.starts_with(prefix));
        for (count, (key, object)) in below.filter(|(key, _)| key.as_str() > after).enumerate() {
            if count == PAGE {
                let token = escape(last.unwrap_or(key));
                write!(text, "<NextContinuationToken>{token}</NextContinuationToken>").unwrap();
                break;
            }
            last = Some(key);
            let rest = &key[prefix.len()..];
            match rest.find(delimiter).filter(|_| !delimiter.is_empty()) {
                Some(end) => drop(folders.insert(&key[..prefix.len() + end + delimiter.len()])),
                None => write!(
                    text,
                    "<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag><LastModified>{LISTED}</LastModified></Contents>",
                    escape(key),
                    object.bytes.len(),
                    escape(&tag(object.version))
                )
                .unwrap(),
            }
        }
        for folder in folders {
            let folder = escape(folder);
            write!(text, "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>").unwrap();
        }
        let text = format!("<ListBucketResult>{text}</ListBucketResult>");
        Reply::new("200 OK").with_body(text.into_bytes())
    }
}

fn tag(version: u64) -> String {
    format!("\"{version}\"")
}

fn escape(text: &str) -> String {
    ENTITIES.iter().fold(text.to_owned(), |text, (plain, entity)| text.replace(plain, entity))
}

fn unescape(text: &str) -> String {
    ENTITIES.iter().rev().fold(text.to_owned(), |text, (plain, entity)| text.replace(entity, plain))
}

/// The first entity is encoded first and decoded last.
const ENTITIES: [(&str, &str); 5] =
    [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&apos;")];
/// The number of objects per page of a list: small, so that there are several pages.
const PAGE: usize = 50;
const LISTED: &str = "2026-01-05T10:00:00.000Z";

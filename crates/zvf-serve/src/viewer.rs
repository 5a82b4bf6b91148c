//! The viewer: a page, its script and style, and the reader in WebAssembly, as files of this crate.
//!
//! The files are built from `viewer/` and kept compressed in `page/`, so that building the server needs no Node. The
//! server sends them unchanged to clients that accept gzip, and unpacks them for others.

use std::io::Read as _;

use flate2::read::GzDecoder;
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderValue, VARY,
};
use hyper::{Response, StatusCode};

use crate::answer::{Answer, empty_body, full_body, new_answer, takes_gzip};
use crate::data::is_known;
use crate::refusal::Refusal;

/// One file of the page.
struct PageFile {
    name: &'static str,
    content_type: &'static str,
    gzipped: &'static [u8],
}

const FILES: [PageFile; 5] = [
    file("index.html", "text/html; charset=utf-8", include_bytes!("../page/index.html.gz")),
    file("viewer.css", "text/css; charset=utf-8", include_bytes!("../page/viewer.css.gz")),
    file("viewer.js", "text/javascript; charset=utf-8", include_bytes!("../page/viewer.js.gz")),
    file("worker.js", "text/javascript; charset=utf-8", include_bytes!("../page/worker.js.gz")),
    file("zvf_wasm_bg.wasm", "application/wasm", include_bytes!("../page/zvf_wasm_bg.wasm.gz")),
];

const fn file(name: &'static str, content_type: &'static str, gzipped: &'static [u8]) -> PageFile {
    PageFile { name, content_type, gzipped }
}

/// Returns the files of the page for a static host, by name. The page contains its own policy,
/// because such a host sends none: stores may be on any host, everything else next to the page.
///
/// ```
/// let files = zvf_serve::static_viewer_files()?;
/// assert!(files.iter().any(|(name, _)| *name == "index.html"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// When a file of this crate cannot be decompressed.
pub fn static_viewer_files() -> std::io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut files = Vec::with_capacity(FILES.len());
    for file in &FILES {
        let mut bytes = file.unpack()?;
        if file.name == "index.html" {
            let policy = VIEWER_POLICY.replace("connect-src 'self'", "connect-src *");
            // `frame-ancestors` is not allowed in a policy inside of a page.
            let policy = policy.replace("; frame-ancestors 'self'", "");
            let tag = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
            bytes = String::from_utf8_lossy(&bytes).replace(POLICY_PLACE, &tag).into_bytes();
        }
        files.push((file.name, bytes));
    }
    Ok(files)
}

impl PageFile {
    fn unpack(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.gzipped).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the version of the file: the checksum and the length at the end of gzip.
    fn tag(&self) -> String {
        let end = self.gzipped.len().saturating_sub(8);
        let digits = self.gzipped.get(end..).unwrap_or_default().iter();
        format!("\"{}\"", digits.map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

/// Answers `/view/<name>`.
pub(crate) fn answer_viewer(name: &str, request: &HeaderMap) -> Result<Answer, Refusal> {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return Err(Refusal::not_found("the page has no such file"));
    };
    let tag = file.tag();
    let mut sent = if is_known(request, &tag) {
        let mut sent: Answer = Response::new(empty_body());
        *sent.status_mut() = StatusCode::NOT_MODIFIED;
        sent
    } else if takes_gzip(request) {
        let mut sent = new_answer(StatusCode::OK, file.content_type, full_body(file.gzipped));
        sent.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        sent
    } else {
        let bytes = file.unpack().map_err(|_error| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Refusal::new(status, "Encoding", "a file of the page does not unpack")
        })?;
        new_answer(StatusCode::OK, file.content_type, full_body(bytes))
    };
    let headers = sent.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(VIEWER_POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    Ok(sent)
}

/// The content policy of the page: its own files, including the reader, and nothing of any other host.
const VIEWER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'";
/// The placeholder of the policy in the page for a static host.
const POLICY_PLACE: &str = "<!--POLICY-->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_every_file_compressed_and_plain() {
        for file in &FILES {
            let mut request = HeaderMap::new();
            let plain = answer_viewer(file.name, &request).unwrap();
            assert!(!plain.headers().contains_key(CONTENT_ENCODING), "{}", file.name);
            request.insert("accept-encoding", "gzip".parse().unwrap());
            let packed = answer_viewer(file.name, &request).unwrap();
            assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip", "{}", file.name);
            assert_eq!(packed.headers()[ETAG], plain.headers()[ETAG], "{}", file.name);
            request.insert("if-none-match", packed.headers()[ETAG].clone());
            assert_eq!(answer_viewer(file.name, &request).unwrap().status(), 304, "{}", file.name);
        }
        assert_eq!(answer_viewer("other.js", &HeaderMap::new()).unwrap_err().status, 404);
    }

    #[test]
    fn the_page_for_static_hosts_contains_its_policy() {
        let files = static_viewer_files().unwrap();
        let (_, page) = files.iter().find(|(name, _)| *name == "index.html").unwrap();
        let page = String::from_utf8(page.clone()).unwrap();
        assert!(page.contains("connect-src *"), "{page}");
        assert!(!page.contains(POLICY_PLACE) && !page.contains("frame-ancestors"), "{page}");
        assert!(!page.contains("http:") && !page.contains("https:"), "no other host is named");
    }
}

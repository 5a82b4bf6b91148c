//! The body of a question, and a query string: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _is_question = zvf_serve::examine_body(body);
    let line = [b"GET /api/a/query?", body, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat();
    let _segments = zvf_serve::examine_request(&line);
});

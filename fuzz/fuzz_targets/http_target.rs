//! A request target: whatever it is spelt like, what is looked up has segments that lead nowhere else.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|target: &[u8]| {
    let end: &[u8] = b" HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for request in [[b"GET ", target, end].concat(), target.to_vec()] {
        let Some(segments) = zvf_serve::examine_request(&request) else { continue };
        assert!(segments.len() <= 32, "{segments:?}");
        for segment in segments {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte);
            assert!(
                (1..=255).contains(&segment.len()) && segment.bytes().all(is_safe),
                "{segment:?}"
            );
            assert!(
                segment != "." && segment != ".." && !segment.starts_with(".tmp-"),
                "{segment:?}"
            );
        }
    }
});

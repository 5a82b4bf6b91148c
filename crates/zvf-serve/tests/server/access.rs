//! Access control.

use super::Served;
use zvf_serve::{Config, ServeError, Server};

#[test]
fn answers_loopback_names_only() {
    let served = Served::start(|_| {});
    let status = |host: &str| {
        served
            .send(format!("GET /healthz HTTP/1.1\r\n{host}Connection: close\r\n\r\n").as_bytes())
            .status
    };
    assert_eq!(status("Host: 127.0.0.1:1\r\n"), 200);
    assert_eq!(status("Host: evil.example\r\n"), 403);
    assert_eq!(status(""), 400);
    assert_eq!(status("Host: localhost\r\nHost: evil.example\r\n"), 400);
    let absolute = served.send(
        b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(absolute.status, 403);
}

const WORD: &str = "0123456789abcdef";

#[test]
fn requires_the_token() {
    let served = Served::start(|config| config.access.token = Some(WORD.parse().unwrap()));
    let refused = served.get("/api/stores", &[]);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    let status =
        |word: &str| served.get("/api/stores", &[&format!("Authorization: Bearer {word}")]).status;
    assert_eq!((status("0123456789abcdex"), status(WORD)), (401, 200));
}

#[test]
fn answers_allowed_origins_only() {
    let served =
        Served::start(|config| config.access.origins = vec!["https://a.example".to_owned()]);
    let allowed = served.get("/api/stores", &["Origin: https://a.example"]);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!(allowed.header("access-control-allow-credentials"), None);
    let refused = served.get("/api/stores", &["Origin: https://b.example"]);
    assert_eq!(refused.header("access-control-allow-origin"), None);
    let preflight =
        served.request("OPTIONS", "/data/three/zarr.json", &["Origin: https://a.example"], "");
    assert_eq!(
        (preflight.status, preflight.header("access-control-allow-methods")),
        (204, Some("GET, HEAD"))
    );
    assert_eq!(served.request("OPTIONS", "/", &["Origin: https://b.example"], "").status, 405);
}

#[test]
fn refuses_open_addresses_and_missing_stores() {
    let path = super::source().to_str().unwrap().to_owned();
    let refused = Server::start(Config::new([path.clone()], "0.0.0.0:0".parse().unwrap()));
    assert!(matches!(refused, Err(ServeError::Open(_))));
    let mut config = Config::new([path.clone()], "0.0.0.0:0".parse().unwrap());
    config.is_public = true;
    let shown = Server::start(config).unwrap();
    assert!(shown.url().starts_with("http://127.0.0.1:"), "{}", shown.url());
    let no_addresses: [&str; 0] = [];
    assert!(matches!(
        Server::start(Config::new(no_addresses, "127.0.0.1:0".parse().unwrap())),
        Err(ServeError::NoStore)
    ));
    let absent =
        Server::start(Config::new([format!("{path}-absent")], "127.0.0.1:0".parse().unwrap()));
    assert!(matches!(absent, Err(ServeError::Store { .. })));
}

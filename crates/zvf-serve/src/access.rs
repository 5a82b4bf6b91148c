//! Access control: the `Host` header, the token, and the origins of other pages.
//!
//! A server on loopback answers only requests for a loopback name, so that no page of another site reaches it through a
//! host name of its own (DNS rebinding). Elsewhere a token is required and compared in constant time.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{StatusCode, Uri};

use crate::refusal::Refusal;
use crate::target::parse_fields;

/// The access control of a server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The required token, if any.
    pub token: Option<Token>,
    /// Origins of pages that may read answers, exactly as browsers send them.
    pub origins: Vec<String>,
}

/// A secret, which is never printed.
///
/// ```
/// use zvf_serve::Token;
///
/// let token: Token = "c2VjcmV0".parse()?;
/// assert_eq!(format!("{token:?}"), "Token(..)");
/// assert!("".parse::<Token>().is_err());
/// # Ok::<(), zvf_serve::EmptyToken>(())
/// ```
#[derive(Clone)]
pub struct Token(String);

/// The error for an empty token, or one with spaces.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a token is one word of at least one character, without spaces")]
pub struct EmptyToken;

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl std::str::FromStr for Token {
    type Err = EmptyToken;

    fn from_str(text: &str) -> Result<Self, EmptyToken> {
        let text = text.trim();
        let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_word { Ok(Self(text.to_owned())) } else { Err(EmptyToken) }
    }
}

impl Token {
    /// Compares in constant time.
    fn equals(&self, given: &str) -> bool {
        let (token, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = token.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        token.len() == given.len() && std::hint::black_box(differences) == 0
    }
}

impl Access {
    /// Refuses a request without the required token.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut sent = texts(AUTHORIZATION);
        let bearer = match (sent.next().and_then(|sent| sent.split_once(' ')), sent.next()) {
            (Some((scheme, sent)), None) if scheme.eq_ignore_ascii_case("bearer") => sent.trim(),
            _ => "",
        };
        let cookies = texts(COOKIE).flat_map(|cookies| cookies.split(';'));
        let mut given = cookies.filter_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME));
        let is_known = token.equals(bearer) || given.any(|given| token.equals(given));
        if is_known { Ok(()) } else { Err(Refusal::unauthorized()) }
    }

    /// For an address that contains the token, returns a cookie and the address without the token:
    /// a browser cannot send a header when a user opens a page.
    pub(crate) fn sign_in(&self, uri: &Uri) -> Option<(HeaderValue, HeaderValue)> {
        let token = self.token.as_ref()?;
        let is_token = |field: &&str| field.starts_with("token=");
        let (signs, rest): (Vec<&str>, Vec<&str>) = uri.query()?.split('&').partition(is_token);
        let (_, given) = parse_fields(signs.first()?, 1).ok()?.pop()?;
        if !token.equals(&given) {
            return None;
        }
        let mark = if rest.is_empty() { "" } else { "?" };
        // Only one slash: with two, the address would name another host.
        let address = format!("/{}{mark}{}", uri.path().trim_start_matches('/'), rest.join("&"));
        let cookie = format!("{COOKIE_NAME}{}; Path=/; HttpOnly; SameSite=Lax", token.0);
        Some((HeaderValue::try_from(cookie).ok()?, HeaderValue::try_from(address).ok()?))
    }

    /// Refuses requests that a page of another site makes a browser send, unless its origin is
    /// allowed.
    pub(crate) fn check_site(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_foreign = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        if !is_foreign || self.allowed_origin(headers).is_some() {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "PermissionDenied",
            "a page of another site may not ask this address",
        ))
    }

    /// Returns whether the public Neuroglancer client may read answers.
    pub(crate) fn allows_public_client(&self) -> bool {
        self.origins.iter().any(|origin| PUBLIC_CLIENT.strip_suffix('/') == Some(origin))
    }

    /// Returns the origin to name in the answer, if the request comes from an allowed one.
    pub(crate) fn allowed_origin(&self, headers: &HeaderMap) -> Option<&str> {
        let origin = headers.get(ORIGIN)?.to_str().ok()?;
        self.origins.iter().map(String::as_str).find(|allowed| *allowed == origin)
    }
}

/// Refuses a request with a foreign `Host`: on loopback another name is that of another site.
pub(crate) fn check_host(bound: IpAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next().map(|host| host.to_str()), hosts.next()) {
        (Some(Ok(host)), None) => host,
        (None, None) => uri.authority().map_or("", hyper::http::uri::Authority::as_str),
        _ => {
            return Err(Refusal::bad_request(
                "the request has several Host headers, or one that is not text",
            ));
        }
    };
    if host.is_empty() {
        return Err(Refusal::bad_request("the request names no host"));
    }
    let names = uri.authority().map(hyper::http::uri::Authority::as_str).into_iter().chain([host]);
    for name in names {
        if bound.is_loopback() && !is_loopback_name(name) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "PermissionDenied",
                "this server answers on loopback names only: localhost, 127.0.0.1, [::1]",
            ));
        }
    }
    Ok(())
}

/// Returns whether `host` (with or without a port) names this machine.
fn is_loopback_name(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) => (name, port.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_port && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

/// The start of the cookie that holds the token.
const COOKIE_NAME: &str = "zvf_token=";

/// The client hosted by its authors. A page from there may read this machine only with permission of the browser's
/// user.
pub(crate) const PUBLIC_CLIENT: &str = "https://neuroglancer-demo.appspot.com/";

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn status(access: &Access, fields: &[(&'static str, &str)]) -> Option<u16> {
        let bound = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let headers = headers(fields);
        let checked = check_host(bound, &"/".parse().unwrap(), &headers);
        checked
            .and_then(|()| access.check_token(&headers))
            .err()
            .map(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn accepts_loopback_names_only() {
        let access = Access::default();
        for host in ["localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]", "[::1]:80"]
        {
            assert_eq!(status(&access, &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "localhost:x", "[::2]"] {
            assert_eq!(status(&access, &[("host", host)]), Some(403), "{host}");
        }
        assert_eq!(status(&access, &[]), Some(400));
        assert_eq!(status(&access, &[("host", "localhost"), ("host", "localhost")]), Some(400));
    }

    #[test]
    fn requires_the_configured_token() {
        let access = Access { token: Some("abc".parse().unwrap()), origins: Vec::new() };
        let status_of = |value| status(&access, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(status_of("Bearer abc"), None);
        assert_eq!(status_of("bearer abc"), None);
        for invalid in ["Bearer abd", "Bearer ab", "Bearer abcd", "Basic abc", "abc", "Bearer "] {
            assert_eq!(status_of(invalid), Some(401), "{invalid}");
        }
        assert_eq!(status(&access, &[("host", "localhost")]), Some(401));
    }

    #[test]
    fn a_token_in_an_address_becomes_a_cookie() {
        let access = Access { token: Some("a+b".parse().unwrap()), origins: Vec::new() };
        let sign_in = |address: &str| access.sign_in(&address.parse().unwrap());
        let (cookie, address) = sign_in("/view/?a=1&token=a%2Bb&b=2").unwrap();
        assert_eq!(address, "/view/?a=1&b=2");
        assert_eq!(cookie, "zvf_token=a+b; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(sign_in("//evil.example/?token=a%2Bb").unwrap().1, "/evil.example/");
        for address in ["/", "/?token=", "/?token=a%2Bc", "/?x=token=a%2Bb"] {
            assert!(sign_in(address).is_none(), "{address}");
        }
        let status_of = |cookie| status(&access, &[("host", "localhost"), ("cookie", cookie)]);
        assert_eq!(status_of("a=1; zvf_token=a+b"), None);
        for cookie in ["zvf_token=a+c", "zvf_token=", "xzvf_token=a+b", "a+b"] {
            assert_eq!(status_of(cookie), Some(401), "{cookie}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = Access { token: None, origins: vec!["https://a.example".to_owned()] };
        let refused =
            |fields: &[(&'static str, &str)]| access.check_site(&headers(fields)).is_err();
        assert!(refused(&[("sec-fetch-site", "cross-site")]));
        assert!(refused(&[("sec-fetch-site", "cross-site"), ("origin", "https://b.example")]));
        assert!(!refused(&[("sec-fetch-site", "cross-site"), ("origin", "https://a.example")]));
        for site in ["same-origin", "same-site", "none"] {
            assert!(!refused(&[("sec-fetch-site", site)]), "{site}");
        }
        assert!(!refused(&[]));
    }

    #[test]
    fn origins_are_compared_exactly() {
        let access = Access { token: None, origins: vec!["https://a.example".to_owned()] };
        let allowed =
            |origin| access.allowed_origin(&headers(&[("origin", origin)])).map(str::to_owned);
        assert_eq!(allowed("https://a.example").as_deref(), Some("https://a.example"));
        assert_eq!(allowed("https://a.example.evil"), None);
        assert_eq!(allowed("http://a.example"), None);
    }
}

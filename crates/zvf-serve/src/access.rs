//! Access control: the `Host` header, the token, and the origins of other pages.
//!
//! A server on loopback answers only requests for a loopback name, so that no page of another site reaches it through a
//! host name of its own (DNS rebinding). Elsewhere a token is required and compared in constant time.

use std::net::IpAddr;

use hyper::Uri;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};

use crate::refusal::Refusal;
use crate::target::parse_fields;

/// The access control of a server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The required token, if any.
    pub token: Option<AccessToken>,
    /// Origins of pages that may read answers, exactly as browsers send them.
    pub origins: Vec<String>,
    /// Reverse proxies: the client of their requests is the one that they name.
    pub proxies: Vec<IpAddr>,
}

/// A secret, which is never printed.
///
/// ```
/// use zvf_serve::AccessToken;
///
/// let token: AccessToken = "c2VjcmV0IHRva2Vu".parse()?;
/// assert_eq!(format!("{token:?}"), "AccessToken(..)");
/// assert!("abc".parse::<AccessToken>().is_err(), "it can be guessed");
/// # Ok::<(), zvf_serve::WeakToken>(())
/// ```
#[derive(Clone)]
pub struct AccessToken(String);

/// The error for a token that can be guessed, or that has spaces.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "a token is one word of at least {MIN_TOKEN_CHARS} characters, without spaces; \"openssl rand -hex 16\" prints one"
)]
pub struct WeakToken;

/// The shortest token.
const MIN_TOKEN_CHARS: usize = 16;

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessToken(..)")
    }
}

impl std::str::FromStr for AccessToken {
    type Err = WeakToken;

    fn from_str(text: &str) -> Result<Self, WeakToken> {
        let text = text.trim();
        let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_word && text.len() >= MIN_TOKEN_CHARS {
            Ok(Self(text.to_owned()))
        } else {
            Err(WeakToken)
        }
    }
}

impl AccessToken {
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
        Err(Refusal::forbidden("a page of another site may not ask this address"))
    }

    /// Returns whether the public Neuroglancer client may read answers.
    pub(crate) fn allows_public_client(&self) -> bool {
        self.origins.iter().any(|origin| PUBLIC_CLIENT.strip_suffix('/') == Some(origin))
    }

    /// Returns whether connections from this address are those of many clients.
    pub(crate) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.contains(&peer.to_canonical())
    }

    /// Returns the client that a proxy names: the last one that is no proxy. Anybody can write what
    /// stands before it.
    pub(crate) fn forwarded_client(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        let lists = headers.get_all(FORWARDED_FOR).iter().filter(|_| self.is_proxy(peer));
        let hops: Vec<&[u8]> =
            lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b',')).collect();
        let last = hops
            .into_iter()
            .rev()
            .map_while(|hop| std::str::from_utf8(hop).ok()?.trim().parse().ok());
        last.into_iter().find(|hop| !self.is_proxy(*hop))
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
            return Err(Refusal::forbidden(
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

/// The header in which a proxy names its client.
const FORWARDED_FOR: &str = "x-forwarded-for";
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

    const WORD: &str = "0123456789abcdef";

    #[test]
    fn the_client_is_the_one_that_a_known_proxy_names() {
        let [proxy, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let access = Access { proxies: vec![proxy], ..Access::default() };
        let client = |peer, text| {
            access
                .forwarded_client(peer, &headers(&[(FORWARDED_FOR, text)]))
                .map(|ip| ip.to_string())
        };
        assert_eq!(client(proxy, "1.1.1.1, 2.2.2.2, 10.0.0.1").as_deref(), Some("2.2.2.2"));
        assert_eq!(client(proxy, "1.1.1.1, unknown"), None);
        assert_eq!(client(other, "1.1.1.1"), None, "anybody can write this");
        assert!("0123456789abcde".parse::<AccessToken>().is_err());
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
        let access = Access { token: Some(WORD.parse().unwrap()), ..Access::default() };
        let status_of =
            |value: String| status(&access, &[("host", "localhost"), ("authorization", &value)]);
        assert_eq!(status_of(format!("Bearer {WORD}")), None);
        assert_eq!(status_of(format!("bearer {WORD}")), None);
        for scheme in ["Bearer x", "Basic ", ""] {
            assert_eq!(status_of(format!("{scheme}{WORD}")), Some(401), "{scheme}");
        }
        for invalid in [&WORD[1..], &format!("{WORD}d"), ""] {
            let invalid = format!("Bearer {invalid}");
            assert_eq!(status_of(invalid), Some(401));
        }
        assert_eq!(status(&access, &[("host", "localhost")]), Some(401));
    }

    #[test]
    fn a_token_in_an_address_becomes_a_cookie() {
        let access =
            Access { token: Some("a+b0123456789abcd".parse().unwrap()), ..Access::default() };
        let sign_in = |address: &str| access.sign_in(&address.parse().unwrap());
        let (cookie, address) = sign_in("/view/?a=1&token=a%2Bb0123456789abcd&b=2").unwrap();
        assert_eq!(address, "/view/?a=1&b=2");
        assert_eq!(cookie, "zvf_token=a+b0123456789abcd; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(
            sign_in("//evil.example/?token=a%2Bb0123456789abcd").unwrap().1,
            "/evil.example/"
        );
        for address in ["/", "/?token=", "/?token=a%2Bc", "/?x=token=a%2Bb0123456789abcd"] {
            assert!(sign_in(address).is_none(), "{address}");
        }
        let status_of = |cookie| status(&access, &[("host", "localhost"), ("cookie", cookie)]);
        assert_eq!(status_of("a=1; zvf_token=a+b0123456789abcd"), None);
        for cookie in
            ["zvf_token=a+c", "zvf_token=", "xzvf_token=a+b0123456789abcd", "a+b0123456789abcd"]
        {
            assert_eq!(status_of(cookie), Some(401), "{cookie}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = Access { origins: vec!["https://a.example".to_owned()], ..Access::default() };
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
        let access = Access { origins: vec!["https://a.example".to_owned()], ..Access::default() };
        let allowed =
            |origin| access.allowed_origin(&headers(&[("origin", origin)])).map(str::to_owned);
        assert_eq!(allowed("https://a.example").as_deref(), Some("https://a.example"));
        assert_eq!(allowed("https://a.example.evil"), None);
        assert_eq!(allowed("http://a.example"), None);
    }
}

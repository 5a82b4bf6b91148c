//! The address of a store in a repository: the location and version of the repository, and the
//! group of the store.
//!
//! ```text
//! icechunk+<where>[?branch=NAME | ?tag=NAME | ?snapshot=ID][&path=GROUP]
//! ```
//!
//! Not here: whether the repository or the version exists.

use std::path::PathBuf;

use url::Url;
use zvf_error::{Error, Result};
use zvf_format::Class;

/// The place of a store in a repository.
#[derive(Debug, PartialEq)]
pub(crate) struct Address {
    /// As it was given.
    pub(crate) text: String,
    pub(crate) location: Location,
    pub(crate) version: Version,
    /// The group of the store, without slashes around it; empty for the root.
    pub(crate) group: String,
}

/// The location of a repository.
#[derive(Debug, PartialEq)]
pub(crate) enum Location {
    Folder(PathBuf),
    Bucket { name: String, prefix: String },
    Server(String),
}

/// The version of a repository.
#[derive(Debug, PartialEq)]
pub(crate) enum Version {
    Branch(String),
    Tag(String),
    Snapshot(String),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refused = |expected: &str, found: &str| {
            let message = format!("address {text:?}: expected {expected}, found {found}");
            Error::custom(Class::InvalidArgument, message)
        };
        let inner = text.strip_prefix("icechunk+").unwrap_or_default(); // no text is no URL
        let url = Url::parse(inner).map_err(|error| {
            refused("icechunk+file://, icechunk+s3:// or icechunk+https://", &error.to_string())
        })?;
        if url.fragment().is_some() {
            return Err(refused("no \"#\"; the group of the store is said with \"path=\"", "one"));
        }
        let (version, group) = parse_query(&url, refused)?;
        let location = parse_location(&url, refused)?;
        Ok(Self { text: text.to_owned(), location, version, group })
    }
}

fn parse_location(url: &Url, refused: impl Fn(&str, &str) -> Error) -> Result<Location> {
    match url.scheme() {
        "file" => match url.to_file_path() {
            Ok(path) => Ok(Location::Folder(path)),
            Err(()) => {
                Err(refused("a full path after icechunk+file://", url.host_str().unwrap_or("none")))
            }
        },
        "s3" | "s3a" => match url.host_str().filter(|name| !name.is_empty()) {
            Some(name) => {
                let prefix = decode_percent(url.path()).trim_matches('/').to_owned();
                Ok(Location::Bucket { name: name.to_owned(), prefix })
            }
            None => Err(refused("a bucket after icechunk+s3://", "none")),
        },
        "http" | "https" => {
            let mut server = url.clone();
            server.set_query(None);
            Ok(Location::Server(server.to_string()))
        }
        other => Err(refused(
            "a repository in a folder (icechunk+file), in S3 (icechunk+s3) or behind plain HTTP (icechunk+https)",
            &format!("icechunk+{other}"),
        )),
    }
}

fn parse_query(url: &Url, refused: impl Fn(&str, &str) -> Error) -> Result<(Version, String)> {
    let (mut version, mut group) = (None, None);
    let pairs = url.query().into_iter().flat_map(|query| query.split('&'));
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode_percent(value);
        let named = match name {
            "branch" => Version::Branch(value.clone()),
            "tag" => Version::Tag(value.clone()),
            "snapshot" => Version::Snapshot(value.clone()),
            "path" if group.is_none() => {
                group = Some(value.trim_matches('/').to_owned());
                continue;
            }
            "path" => return Err(refused("one \"path=\"", "two")),
            other => {
                let found = format!("{other:?}");
                return Err(refused("branch=, tag=, snapshot= or path= after the \"?\"", &found));
            }
        };
        if value.is_empty() {
            return Err(refused(&format!("a name after \"{name}=\""), "none"));
        }
        if version.replace(named).is_some() {
            return Err(refused("one of branch=, tag= and snapshot=", "two of them"));
        }
    }
    let main = || Version::Branch("main".to_owned()); // what icechunk calls the branch that every repository has
    Ok((version.unwrap_or_else(main), group.unwrap_or_default()))
}

/// Decodes the `%xx` of a text.
fn decode_percent(text: &str) -> String {
    // A plus sign stays a plus sign here; in forms it means a space.
    let text = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.map(|(name, _)| name.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_location_a_version_and_a_group() {
        let branch = |name: &str| Version::Branch(name.to_owned());
        let folder = |path: &str| Location::Folder(PathBuf::from(path));
        #[rustfmt::skip]
        let table = [
            ("icechunk+file:///a/b%20c", folder("/a/b c"), branch("main"), ""),
            ("icechunk+file:///a?branch=fix%2Fone+two", folder("/a"), branch("fix/one+two"), ""),
            ("icechunk+file:///a?tag=v1&path=/all/brain/", folder("/a"), Version::Tag("v1".into()), "all/brain"),
            ("icechunk+s3://bucket/x/y/?snapshot=VY7", Location::Bucket { name: "bucket".into(), prefix: "x/y".into() },
                Version::Snapshot("VY7".into()), ""),
            ("icechunk+https://host:80/x?path=a%3Db", Location::Server("https://host:80/x".into()), branch("main"), "a=b"),
        ];
        for (text, location, version, group) in table {
            let actual = Address::parse(text).unwrap();
            let expected =
                Address { text: text.to_owned(), location, version, group: group.to_owned() };
            assert_eq!(actual, expected, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_a_message() {
        for (text, message) in [
            ("icechunk+gs://b/x", "in S3 (icechunk+s3)"),
            ("icechunk+file://data/x", "expected a full path after icechunk+file://, found data"),
            ("icechunk+s3:///x", "bucket"),
            (
                "icechunk+file:///x?branch=a&tag=b",
                "expected one of branch=, tag= and snapshot=, found two of them",
            ),
            ("icechunk+file:///x?path=a&path=b", "expected one \"path=\", found two"),
            ("icechunk+file:///x?tag=", "expected a name after \"tag=\", found none"),
            ("icechunk+file:///x?brunch=a", "after the \"?\", found \"brunch\""),
            ("icechunk+file:///x#a", "is said with \"path=\""),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.class(), Class::InvalidArgument);
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}

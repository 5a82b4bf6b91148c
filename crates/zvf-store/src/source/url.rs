//! From an address to a backend.
//!
//! ```text
//! data/brain.zarr, /data/…, file:///data/…       a directory of this machine       feature local
//! …/brain.tet                                    a store in one file, anywhere below
//! memory:                                        an empty store in memory
//! s3://bucket/prefix (also s3a)                  S3 and its kin                     feature s3
//! gs://bucket/prefix                             Google Cloud Storage               feature gcs
//! az://container/prefix, abfs[s]://…             Azure Blob Storage                 feature azure
//! http://…, https://…                            plain HTTP, or a cloud by its host feature http
//! icechunk+…                                     a repository of versions           the hook of the options
//! ```
//!
//! Text is a URL when it has a scheme of two letters or more and `//` after it, or is one of
//! `file:` and `memory:`; everything else is a path. Backends are configured as in `object_store`:
//! from the environment, then from the given options, which take precedence; an unknown option is
//! refused. Their own retries are disabled, because [`super::remote`] retries.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::ObjectStoreScheme as Scheme;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;
use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use super::Backend;
use crate::options::OpenOptions;

/// The location that an address names.
#[derive(Debug)]
pub(crate) enum Address {
    Directory(PathBuf),
    Remote(Scheme, Url, Path),
    /// A versioned repository; the address is kept unchanged.
    Versions(String),
}

impl Address {
    /// Parses `text`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(refuse("a path or a URL", "nothing"));
        }
        if !is_url(text) {
            return Ok(Self::Directory(PathBuf::from(text)));
        }
        if is_of_versions(text) {
            return Ok(Self::Versions(text.to_owned()));
        }
        let Ok(url) = Url::parse(text) else { return Err(refuse("a URL", text)) };
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse("a URL without \"?\" and \"#\"", url.scheme()));
        }
        if url.scheme() == "file" {
            return match file_path(&url) {
                Some(path) => Ok(Self::Directory(path)),
                None => Err(refuse("a file URL of this machine", text)),
            };
        }
        match Scheme::parse(&url) {
            Ok((scheme, path)) => Ok(Self::Remote(scheme, url, path)),
            Err(_) => Err(refuse("a scheme that zvf knows, and a name after it", url.scheme())),
        }
    }
}

impl Address {
    /// Returns whether this is a store in one file: its name ends in `.tet`, and it is not a
    /// directory.
    pub(crate) fn is_pack(&self) -> bool {
        match self {
            Self::Directory(path) => is_pack_file(path),
            Self::Remote(_, _, path) => is_pack(path),
            Self::Versions(_) => false,
        }
    }
}

/// Returns the local path that a file URL names; a browser has none.
fn file_path(url: &Url) -> Option<PathBuf> {
    #[cfg(not(target_arch = "wasm32"))]
    return url.to_file_path().ok();
    #[cfg(target_arch = "wasm32")]
    {
        let _no_paths_here = url;
        None
    }
}

/// Returns whether the local `path` is a store in one file.
pub(crate) fn is_pack_file(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tet") && !path.is_dir()
}

/// Returns whether the object at `path` is a store in one file, by its name.
pub(crate) fn is_pack(path: &Path) -> bool {
    path.as_ref().ends_with(".tet")
}

/// Returns the backend that `scheme` and `url` name, with the location `prefix` on it.
pub(crate) fn build(
    scheme: Scheme,
    url: &Url,
    prefix: Path,
    options: &OpenOptions,
) -> Result<Backend> {
    let can_list = scheme != Scheme::Http;
    Ok(Backend { store: build_store(scheme, url, options)?, prefix, can_list })
}

fn build_store(scheme: Scheme, url: &Url, options: &OpenOptions) -> Result<Arc<dyn ObjectStore>> {
    match scheme {
        Scheme::Memory => Ok(Arc::new(InMemory::new())),
        #[cfg(feature = "s3")]
        Scheme::AmazonS3 => super::cloud::s3(url, options),
        #[cfg(feature = "gcs")]
        Scheme::GoogleCloudStorage => super::cloud::gcs(url, options),
        #[cfg(feature = "azure")]
        Scheme::MicrosoftAzure => super::cloud::azure(url, options),
        #[cfg(feature = "http")]
        Scheme::Http => super::cloud::http(url, options),
        lacking => {
            let _ = options;
            Err(refuse_lacking(lacking, url.scheme()))
        }
    }
}

/// Returns the error for a scheme whose backend this build lacks.
fn refuse_lacking(scheme: Scheme, name: &str) -> Error {
    let feature = match scheme {
        Scheme::AmazonS3 => "s3",
        Scheme::GoogleCloudStorage => "gcs",
        Scheme::MicrosoftAzure => "azure",
        Scheme::Http => "http",
        Scheme::Local | Scheme::Memory | _ => {
            return Error::unsupported("scheme", name);
        }
    };
    let text = format!(
        "scheme {name:?} needs the feature {feature}, which this build lacks: cargo install --path crates/zvf-cli --features {feature}"
    );
    Error::custom(Class::Unsupported, text)
}

/// Returns whether `text` is a URL; `C:\data` is not.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.len() >= 2
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme && (rest.starts_with("//") || matches!(scheme, "file" | "memory"))
}

/// Returns whether a URL names a versioned repository: its scheme contains a `+`.
fn is_of_versions(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| scheme.contains('+'))
}

fn refuse(rule: &'static str, found: &str) -> Error {
    Error::new(Class::InvalidArgument, "address", rule, quote(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (text, expected) in [
            ("data/brain.zarr", "dir data/brain.zarr"),
            ("/data/a b", "dir /data/a b"),
            ("C:\\data", "dir C:\\data"),
            ("c:/data", "dir c:/data"),
            ("s3:odd", "dir s3:odd"),
            ("a:b:c", "dir a:b:c"),
            ("1s://x", "dir 1s://x"),
            (".", "dir ."),
            ("file:///data/a%20b", "dir /data/a b"),
            ("file:/data", "dir /data"),
            ("file://localhost/data", "dir /data"),
            ("memory:", "Memory "),
            ("memory:///x", "Memory x"),
            ("s3://bucket/a/b", "AmazonS3 a/b"),
            ("s3://bucket", "AmazonS3 "),
            ("s3a://bucket/a%20b", "AmazonS3 a b"),
            ("gs://bucket/a", "GoogleCloudStorage a"),
            ("az://container/a", "MicrosoftAzure a"),
            ("abfs://container/a", "MicrosoftAzure a"),
            ("abfss://fs@account.dfs.core.windows.net/a", "MicrosoftAzure a"),
            ("http://host:8080/a/b/", "Http a/b"),
            ("https://host/a", "Http a"),
            ("icechunk+s3://b/x?tag=v1", "versions icechunk+s3://b/x?tag=v1"),
            ("https://bucket.s3.eu-central-1.amazonaws.com/a", "AmazonS3 a"),
        ] {
            let found = match Address::parse(text).unwrap() {
                Address::Directory(path) => format!("dir {}", path.display()),
                Address::Remote(scheme, _, path) => format!("{scheme:?} {path}"),
                Address::Versions(address) => format!("versions {address}"),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_a_message() {
        for (text, message) in [
            ("", "a path or a URL, found \"nothing\""),
            ("http://", "a URL, found \"http://\""),
            ("http://[::1/x", "a URL, found \"http://[::1/x\""),
            ("ftp://host/x", "a scheme that zvf knows, and a name after it, found \"ftp\""),
            ("s3:///x", "a scheme that zvf knows, and a name after it, found \"s3\""),
            ("memory://host/x", "a scheme that zvf knows, and a name after it, found \"memory\""),
            ("s3://b//x", "a scheme that zvf knows, and a name after it, found \"s3\""),
            ("file://elsewhere/x", "a file URL of this machine, found \"file://elsewhere/x\""),
            ("https://host/x?token=secret", "a URL without \"?\" and \"#\", found \"https\""),
            ("https://host/x#part", "a URL without \"?\" and \"#\", found \"https\""),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.to_string(), format!("InvalidArgument, address: expected {message}"));
        }
    }

    #[test]
    #[cfg(not(feature = "s3"))]
    fn a_backend_that_is_not_built_in_is_named() {
        let url = Url::parse("s3://bucket/x").unwrap();
        let error =
            build(Scheme::AmazonS3, &url, Path::default(), &OpenOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Unsupported, scheme \"s3\" needs the feature s3, which this build lacks: cargo install \
             --path crates/zvf-cli --features s3"
        );
    }
}

//! The backends of `object_store`, configured in the same way.
//!
//! Settings are applied in this order, and later ones win: our timeouts, the environment, the
//! caller's options. Only the connect timeout can be overridden: the time limit of a request
//! depends on its length, and retries are up to the handle, so [`super::remote`] decides both.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use url::Url;
use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use super::remote::clients::Connector;
use crate::error::{BackendAnswer, backend_error};
use crate::options::{OpenOptions, Timeouts};

/// Returns the bucket that `url` names, with its service.
#[cfg(feature = "s3")]
pub(super) fn s3(url: &Url, options: &OpenOptions) -> Result<Arc<dyn ObjectStore>> {
    use object_store::aws::AmazonS3Builder as Builder;

    let builder = configure(Builder::new(), "AWS_", options, Builder::with_config)?;
    let builder = builder.with_url(url.as_str());
    share_store(builder.with_retry(no_retry()).with_http_connector(Connector).build())
}

/// Returns the bucket that `url` names.
#[cfg(feature = "gcs")]
pub(super) fn gcs(url: &Url, options: &OpenOptions) -> Result<Arc<dyn ObjectStore>> {
    use object_store::gcp::GoogleCloudStorageBuilder as Builder;

    let builder = configure(Builder::new(), "GOOGLE_", options, Builder::with_config)?;
    let builder = builder.with_url(url.as_str());
    share_store(builder.with_retry(no_retry()).with_http_connector(Connector).build())
}

/// Returns the container that `url` names.
#[cfg(feature = "azure")]
pub(super) fn azure(url: &Url, options: &OpenOptions) -> Result<Arc<dyn ObjectStore>> {
    use object_store::azure::MicrosoftAzureBuilder as Builder;

    let builder = configure(Builder::new(), "AZURE_", options, Builder::with_config)?;
    let builder = builder.with_url(url.as_str());
    share_store(builder.with_retry(no_retry()).with_http_connector(Connector).build())
}

/// Returns the server that `url` names; the path of the store is kept separately.
#[cfg(feature = "http")]
pub(super) fn http(url: &Url, options: &OpenOptions) -> Result<Arc<dyn ObjectStore>> {
    use object_store::http::HttpBuilder as Builder;

    // An explicit http:// URL means that plain HTTP is intended.
    let builder = Builder::new().with_config(object_store::ClientConfigKey::AllowHttp, "true");
    let builder = configure(builder, "HTTP_STORE_", options, Builder::with_config)?;
    let server = &url[..url::Position::BeforePath];
    let builder = builder.with_url(server);
    share_store(builder.with_retry(no_retry()).with_http_connector(Connector).build())
}

/// Installs ring as the TLS provider of the process, unless the program has chosen one: the HTTP
/// client does not include one.
pub(super) fn choose_tls_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, so there is a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Returns `builder` with all settings for its backend.
fn configure<B, K: FromStr>(
    builder: B,
    environment: &str,
    options: &OpenOptions,
    set: impl Fn(B, K, String) -> B,
) -> Result<B> {
    choose_tls_provider();
    let millis = |time: Duration| format!("{}ms", time.as_millis().max(1)); // zero would be no limit
    let connect = options.timeouts.connect;
    let ours = [("connect_timeout", millis(connect)), ("timeout", millis(Timeouts::MAX_WAIT))];
    let ours = ours.into_iter().map(|(name, value)| (name.to_owned(), value));
    let theirs = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(environment))
        .map(|(name, value)| (name.to_ascii_lowercase(), value));
    let builder = ours.chain(theirs).fold(builder, |builder, (name, value)| match name.parse() {
        Ok(key) => set(builder, key, value),
        Err(_) => builder,
    });
    options.storage_options.iter().try_fold(builder, |builder, (name, value)| {
        match name.to_ascii_lowercase().parse() {
            Ok(key) => Ok(set(builder, key, value.clone())),
            Err(_) => Err(Error::new(
                Class::InvalidArgument,
                "storage option",
                "one that this backend has",
                quote(name),
            )),
        }
    })
}

fn share_store<S: ObjectStore>(store: object_store::Result<S>) -> Result<Arc<dyn ObjectStore>> {
    match store {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => {
            let class = Class::InvalidArgument;
            Err(backend_error(class, "open", BackendAnswer::Setup, error))
        }
    }
}

fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, backoff: BackoffConfig::default(), retry_timeout: Duration::ZERO }
}

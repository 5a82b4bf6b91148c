//! Zarr Vectors stores over HTTP.
//!
//! ```text
//! accept (server) -> limits per connection (connection), timeouts (stream) -> limits of a head, access, route (service; target)
//!     /data  files by range, beneath a directory descriptor        data, files, range
//!     /api   queries, objects, pictures on blocking threads        api, query_fields, transfer, picture
//!     /precomputed  stores as Neuroglancer's formats                 precomputed
//!     /view  the viewer, out of files of this crate                 viewer
//!     /      the stores                                             page
//! shared by all routes: state, stores, work (blocking threads), answer, refusal, api_request, limits, metrics; examine for fuzzing
//! ```
//!
//! Read only. A [`Server`] binds to loopback unless it has a token or is explicitly public. Everything has a limit
//! ([`Limits`]); excess requests are answered 503 with `Retry-After`. Names in paths are decoded once and checked
//! (`target`), files are opened beneath the store's root without following links, and errors have class, key and hint
//! but no address of this machine.
//!
//! HTTP is handled by hyper, without a framework: there are a dozen routes, and the timeouts of a connection (header,
//! idle, stalled writes) need the layer below.
//!
//! TLS (put a reverse proxy in front), writing and the command line are elsewhere.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a class or a kind that has no answer of its own has the general one"
)]
#![expect(clippy::result_large_err, reason = "a refusal is a whole answer, made once a request")]
#![forbid(unsafe_code)]
#![cfg(unix)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod access;
mod answer;
mod api;
mod api_request;
mod connection;
mod data;
mod examine;
mod files;
mod limits;
mod metrics;
mod page;
mod picture;
mod precomputed;
mod query_fields;
mod range;
mod refusal;
mod server;
mod service;
mod state;
mod stores;
mod stream;
mod target;
mod transfer;
mod viewer;
mod work;

pub use access::{Access, AccessToken, WeakToken};
#[doc(hidden)]
pub use examine::{examine_body, examine_request};
pub use limits::Limits;
pub use server::{Config, ServeError, Server};
pub use state::{AccessLog, AccessRecord};
pub use viewer::static_viewer_files;

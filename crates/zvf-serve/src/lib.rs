//! Zarr Vectors stores over HTTP.
//!
//! ```text
//! accept (server) -> limits per connection (connection), bytes of requests (stream, head) -> head, access, route (service)
//!     /data  files by range, beneath a directory descriptor        data, files, range
//!     /api   questions, objects, pictures on threads that block    api, question, transfer, picture
//!     /precomputed  stores as Neuroglancer's formats                 precomputed
//!     /view  the viewer, out of files of this crate                 viewer
//!     /      the stores                                             page
//! ```
//!
//! Read only. A [`Server`] binds to loopback unless it has a token or is public in so many words. Everything it does
//! has a limit ([`Limits`]); too much at once is answered 503 with `Retry-After`. Names in paths are decoded once and
//! checked (`target`), files are opened beneath the store's root without following links, and faults carry class,
//! key and hint but no address of this machine.
//!
//! HTTP is spoken by hyper itself, without a framework: there are a dozen routes, and the timers of a connection (header,
//! idle, stalled writes) need the layer below anyway.
//!
//! Not here: TLS (put a reverse proxy in front), writing, the command line.

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
mod connection;
mod data;
mod examine;
mod files;
mod head;
mod limits;
mod metrics;
mod page;
mod picture;
mod precomputed;
mod question;
mod range;
mod refusal;
mod server;
mod service;
mod stores;
mod stream;
mod target;
mod transfer;
mod viewer;

pub use access::{Access, EmptyToken, Token};
#[doc(hidden)]
pub use examine::{examine_body, examine_request};
pub use limits::Limits;
pub use server::{Config, ServeError, Server};
pub use service::{AccessLog, AccessRecord};
pub use viewer::static_viewer_files;

//! The limits of a server: bytes of requests, time for each part of one, connections, queries.

use std::num::ParseIntError;
use std::time::Duration;

/// The limits of a server; each is an option of the command.
///
/// ```
/// use zvf_serve::Limits;
///
/// let limits = Limits { max_connections: 16, ..Limits::default() };
/// assert_eq!(limits.max_connections_per_peer, 64);
/// ```
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Maximum number of connections.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub max_connections: usize,
    /// Maximum number of connections from one address.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_connections_per_peer: usize,
    /// Concurrent queries and pictures; further ones are answered 503.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub max_queries: usize,
    /// Maximum number of vertices in an answer.
    #[arg(long, value_name = "N", default_value_t = 50_000_000)]
    pub max_rows: u64,
    /// Maximum size of a request line.
    #[arg(long = "max-request-line", value_name = "BYTES", default_value_t = 8 << 10)]
    pub max_request_line_bytes: usize,
    /// Maximum size of all headers of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 10)]
    pub max_header_bytes: usize,
    /// Maximum number of headers of a request.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_headers: usize,
    /// Maximum size of the body of a request.
    #[arg(long = "max-body", value_name = "BYTES", default_value_t = 1 << 20)]
    pub max_body_bytes: usize,
    /// Maximum number of fields of a query string.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_query_fields: usize,
    /// Maximum number of objects in an answer.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_objects: usize,
    /// Maximum number of pixels of a picture.
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    pub max_pixels: u64,
    /// Size of the cache of Neuroglancer objects, for each store.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub max_kept_bytes: usize,
    /// The largest mesh, in faces, that Neuroglancer gets in one piece; larger ones are divided
    /// into an octree.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub max_whole_faces: usize,
    /// Seconds for the first byte on a new connection.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub first_byte_timeout: Duration,
    /// Seconds for the header of a request, from its first byte on.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub header_timeout: Duration,
    /// Seconds for the body of a request.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub body_timeout: Duration,
    /// Seconds that a connection may be idle.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub idle_timeout: Duration,
    /// Seconds that a client may read no byte of an answer.
    #[arg(long = "write-timeout", value_name = "SECONDS")]
    #[arg(default_value = "30", value_parser = seconds)]
    pub write_stall_timeout: Duration,
    /// Seconds for the work of one request.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub request_timeout: Duration,
    /// Seconds that requests in progress get when the server stops.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub stop_timeout: Duration,
}

impl Default for Limits {
    /// Returns the limits of a command line that gives none.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Nothing {
            #[command(flatten)]
            limits: Limits,
        }
        <Nothing as clap::Parser>::parse_from(["zvf"]).limits
    }
}

fn seconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_secs)
}

/// The largest number of segments of a path.
pub(crate) const MAX_PATH_SEGMENTS: usize = 32;
/// The largest length of one segment of a path in bytes.
pub(crate) const MAX_SEGMENT_BYTES: usize = 255;

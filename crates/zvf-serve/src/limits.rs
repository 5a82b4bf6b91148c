//! The limits of a server: bytes of requests, time for each part of one, connections, queries.

use std::time::Duration;

/// The limits of a server; each is an option of the command.
///
/// ```
/// use zvf_serve::Limits;
///
/// let limits = Limits { max_connections: 16, ..Limits::default() };
/// assert_eq!(limits.max_connections_per_peer, 64);
/// ```
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of the request line.
    pub max_request_line_bytes: usize,
    /// Bytes of all headers of a request.
    pub max_header_bytes: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// Bytes of the body of a request.
    pub max_body_bytes: usize,
    /// Fields of a query string.
    pub max_query_fields: usize,
    /// Vertices in the answer to one query.
    pub max_rows: u64,
    /// Pixels of one picture.
    pub max_pixels: u64,
    /// Objects in one answer.
    pub max_objects: usize,
    /// Bytes of precomputed objects that are kept for each store.
    pub max_kept_bytes: usize,
    /// The largest precomputed mesh, in faces, that is sent in one piece; larger ones are divided
    /// into an octree.
    pub max_whole_faces: usize,
    /// Time for the first byte on a new connection.
    pub first_byte_timeout: Duration,
    /// Time for the header of a request, from its first byte on.
    pub header_timeout: Duration,
    /// Time for the body of a request.
    pub body_timeout: Duration,
    /// Time without a byte in either direction while no request is being answered.
    pub idle_timeout: Duration,
    /// Time that a client may read no byte of an answer.
    pub write_stall_timeout: Duration,
    /// Time for the work of one request.
    pub request_timeout: Duration,
    /// Concurrent connections.
    pub max_connections: usize,
    /// Concurrent connections from one address.
    pub max_connections_per_peer: usize,
    /// Concurrent queries and pictures; further ones are answered 503 with `Retry-After`.
    pub max_queries: usize,
    /// Time that requests in progress get when the server stops.
    pub stop_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_line_bytes: 8 << 10,
            max_header_bytes: 16 << 10,
            max_headers: 64,
            max_body_bytes: 1 << 20,
            max_query_fields: 200,
            max_rows: 50_000_000,
            max_pixels: 1 << 24,
            max_objects: 10_000,
            max_kept_bytes: 256 << 20,
            max_whole_faces: 1_000_000,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(30),
            write_stall_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            max_connections: 1024,
            max_connections_per_peer: 64,
            max_queries: 32,
            stop_timeout: Duration::from_secs(10),
        }
    }
}

/// The largest number of segments of a path.
pub(crate) const MAX_PATH_SEGMENTS: usize = 32;
/// The largest length of one segment of a path in bytes.
pub(crate) const MAX_SEGMENT_BYTES: usize = 255;

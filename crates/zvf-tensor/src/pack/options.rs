//! The options for packing a store.

use crate::tet::Compression;

/// How a store is packed.
///
/// ```
/// use zvf_tensor::{Compression, PackOptions};
///
/// assert_eq!(PackOptions::default().compression, Compression::None);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PackOptions {
    /// The compression of chunks. Uncompressed cells can be read from a map in place; compressed
    /// files are smaller.
    pub compression: Compression,
}

impl PackOptions {
    /// Sets the compression.
    #[must_use]
    pub const fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }
}

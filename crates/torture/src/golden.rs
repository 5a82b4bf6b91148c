//! A good blob that is edited, and the naive decoder it is compared with.

use archives::hostile::Kind;

/// A blob to edit.
pub(crate) struct Golden {
    /// Kind and name.
    pub(crate) id: String,
    pub(crate) blob: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) compare: Option<Compare>,
}

/// A comparison of the library with a naive decoder.
pub(crate) type Compare = Box<dyn Fn(&[u8]) -> anyhow::Result<()>>;

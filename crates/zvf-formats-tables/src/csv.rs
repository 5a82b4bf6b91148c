//! Text with commas or tabs.

pub(crate) mod read;
pub(crate) mod write;

use zvf_formats::{Capabilities, Spec, TABLE, WriteFn, recognizes_nothing};

/// Text with commas.
pub const CSV: Spec = Spec {
    token: "csv",
    name: "CSV",
    extensions: &["csv"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::open(bytes, options, b','),
    write: Some(WriteFn::Pieces(|file| write::open(file, b','))),
    capabilities: Capabilities { own_names: &["x", "y", "z", "object"], ..TABLE },
};

/// Text with tabs.
pub const TSV: Spec = Spec {
    token: "tsv",
    name: "TSV",
    extensions: &["tsv"],
    read: |bytes, options| read::open(bytes, options, b'\t'),
    write: Some(WriteFn::Pieces(|file| write::open(file, b'\t'))),
    ..CSV
};

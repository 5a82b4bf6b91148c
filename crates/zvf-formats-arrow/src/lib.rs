//! Files of Arrow and Parquet, and features in them: `GeoArrow` and GeoParquet.
//!
//! ```text
//! batch, column   a batch as a record batch: columns are shared, not copied
//! files           files of record batches
//! read            tables of vertices, and features
//! geoparquet      features
//! wkb             geometries in well-known binary
//! ```
//!
//! Not here: the table of all formats (`zvf-convert`).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod batch;
mod column;
mod files;
mod geoparquet;
mod read;
#[cfg(test)]
mod tests;
mod wkb;

pub use batch::record_batch;
pub use column::attribute_array;

use arrow_schema::ArrowError;
use zvf_error::Error;
use zvf_formats::{Capabilities, FEATURES, Spec, TABLE, WriteFn, cannot_hold, recognizes_nothing};

/// A file of Arrow record batches.
pub const ARROW: Spec = Spec {
    token: "arrow",
    name: "Arrow",
    extensions: &["arrow", "feather", "ipc"],
    recognizes: |start| start.bytes.starts_with(b"ARROW1"),
    read: |bytes, options| read::open(bytes, options, Form::File),
    write: Some(WriteFn::Pieces(|file| files::open(file, Form::File))),
    capabilities: Capabilities { own_names: &["position", "object"], streams_in: false, ..TABLE },
};

/// A stream of Arrow record batches.
pub const ARROWS: Spec = Spec {
    token: "arrows",
    name: "Arrow stream",
    extensions: &["arrows"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::open(bytes, options, Form::Stream),
    write: Some(WriteFn::Pieces(|file| files::open(file, Form::Stream))),
    ..ARROW
};

/// A Parquet file.
pub const PARQUET: Spec = Spec {
    token: "parquet",
    name: "Parquet",
    extensions: &["parquet"],
    recognizes: |start| start.bytes.starts_with(b"PAR1"),
    read: |bytes, options| read::open(bytes, options, Form::Parquet),
    write: Some(WriteFn::Pieces(|file| files::open(file, Form::Parquet))),
    ..ARROW
};

/// Features in a Parquet file.
pub const GEOPARQUET: Spec = Spec {
    token: "geoparquet",
    name: "GeoParquet",
    extensions: &["geoparquet", "geo.parquet"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::open(bytes, options, Form::Parquet),
    write: Some(WriteFn::Pieces(|file| geoparquet::open(file, Form::Parquet))),
    capabilities: FEATURES,
};

/// Features in a file of Arrow record batches.
pub const GEOARROW: Spec = Spec {
    token: "geoarrow",
    name: "GeoArrow",
    extensions: &["geoarrow", "geo.arrow"],
    recognizes: recognizes_nothing,
    read: |bytes, options| read::open(bytes, options, Form::File),
    write: Some(WriteFn::Pieces(|file| geoparquet::open(file, Form::File))),
    capabilities: FEATURES,
};
/// The container of record batches.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// A file of Arrow, with a footer.
    File,
    /// A stream of Arrow, which can be read while it is written.
    Stream,
    /// A file of Parquet.
    Parquet,
}

fn from_arrow_error(error: ArrowError) -> Error {
    if let ArrowError::IoError(_, error) = error {
        return error.into();
    }
    let advice = "write another format";
    cannot_hold("Arrow", error, advice)
}

#[cfg(test)]
const ALL: &[&Spec] = &[&ARROW, &ARROWS, &GEOARROW, &GEOPARQUET, &PARQUET];

#[cfg(test)]
use zvf_formats_tables::CsvWriter;

#[cfg(test)]
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;

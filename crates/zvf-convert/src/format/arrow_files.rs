//! Arrow and Parquet files in the table of formats.
#![cfg(feature = "arrow")]

use super::{Spec, TABLE};
use crate::format::Capabilities;
use crate::write;

pub(super) const SPEC: Spec = Spec {
    token: "arrow",
    name: "Arrow",
    extensions: &["arrow", "feather", "ipc"],
    recognizes: |start| start.bytes.starts_with(b"ARROW1"),
    read: None,
    write: Some(write::arrow::open),
    can: TABLE,
};

pub(super) const STREAM: Spec = Spec {
    token: "arrows",
    name: "Arrow stream",
    extensions: &["arrows"],
    recognizes: super::never,
    read: None,
    write: Some(write::arrow::open_stream),
    can: TABLE,
};

pub(super) const PARQUET: Spec = Spec {
    token: "parquet",
    name: "Parquet",
    extensions: &["parquet"],
    recognizes: |start| start.bytes.starts_with(b"PAR1"),
    read: None,
    write: Some(write::arrow::open_parquet),
    can: Capabilities { streams_in: false, ..TABLE },
};

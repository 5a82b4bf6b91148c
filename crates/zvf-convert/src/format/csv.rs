//! Tables of text in the table of formats.

use super::{Spec, TABLE, recognizes_nothing};
use crate::{read, write};

pub(super) const SPEC: Spec = Spec {
    token: "csv",
    name: "CSV",
    extensions: &["csv"],
    recognizes: recognizes_nothing,
    read: Some(|bytes, options| read::csv::open(bytes, options, b',')),
    write: Some(|target, options| write::csv::open(target, options, b',')),
    capabilities: TABLE,
};

pub(super) const TSV: Spec = Spec {
    token: "tsv",
    name: "TSV",
    extensions: &["tsv"],
    recognizes: recognizes_nothing,
    read: Some(|bytes, options| read::csv::open(bytes, options, b'\t')),
    write: Some(|target, options| write::csv::open(target, options, b'\t')),
    capabilities: TABLE,
};

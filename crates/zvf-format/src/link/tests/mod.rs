//! Tests of links: [`cells`] of bytes, and [`places`] of records.

use std::vec::Vec;

use super::*;
use crate::key::ChunkKey;

#[cfg(feature = "alloc")]
mod cells;
mod places;

/// The record of these rows, with the permutation of this code.
fn record(perm: Option<u64>, rows: &[u64]) -> LinkRecord {
    let width = rows.len().try_into().unwrap();
    let order = perm.map(|code| Permutation::from_code(code, width).unwrap());
    LinkRecord::new(rows, order).unwrap()
}

fn key(text: &str) -> ChunkKey {
    ChunkKey::parse(text).unwrap()
}

/// Endpoints in these chunks.
fn endpoints<'a>(chunks: &'a [ChunkKey], rows: &[u64]) -> Vec<Endpoint<'a>> {
    chunks.iter().zip(rows).map(|(chunk, &row)| Endpoint { chunk, row }).collect()
}

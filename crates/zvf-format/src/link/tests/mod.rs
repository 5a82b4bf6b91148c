//! Tests of links: [`cells`] of bytes, and [`places`] of records.

use std::vec::Vec;

use super::*;
use crate::key::ChunkKey;

#[cfg(feature = "alloc")]
mod cells;
mod places;

fn key(text: &str) -> ChunkKey {
    text.parse::<ChunkKey>().unwrap()
}

/// Endpoints in these chunks.
fn endpoints<'a>(chunks: &'a [ChunkKey], rows: &[u64]) -> Vec<Endpoint<'a>> {
    chunks.iter().zip(rows).map(|(chunk, &row)| Endpoint { chunk, row }).collect()
}

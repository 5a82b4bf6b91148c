//! What fuzz targets do with their bytes, by name. A test replays the kept seeds without a fuzzer.
//!
//! Nothing may panic: [`run`] asserts what else must hold.

mod blobs;
mod codecs;
mod files;
mod round_trips;
mod store;
#[cfg(test)]
mod tests;

use archives::hostile::{Document, Kind};

/// Runs the target `name` on `bytes`.
///
/// # Panics
///
/// When a promise is broken, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    match name {
        "array_json" => blobs::decode(&Kind::Document(Document::Array), bytes),
        "level_json" => blobs::decode(&Kind::Document(Document::Level), bytes),
        "root_json" => blobs::decode(&Kind::Document(Document::Root), bytes),
        "frag" => blobs::decode(&Kind::FragmentIndex { rows: Some(28) }, bytes),
        "tet" => blobs::decode(&Kind::Tet { export: true }, bytes),
        "manifest" => blobs::manifest(bytes),
        "ragged" => blobs::ragged(bytes),
        "tidx" => blobs::tidx(bytes),
        "vlen" => blobs::vlen(bytes),
        "link_cell" => blobs::link_cell(bytes),
        "shard_index" => blobs::shard_index(bytes),
        "caterva" => blobs::caterva(bytes),
        "frag_rt" => round_trips::fragments(bytes),
        "manifest_rt" => round_trips::manifest(bytes),
        "ragged_rt" => round_trips::ragged(bytes),
        "key_grid" => round_trips::keys_and_grid(bytes),
        "blosc" => codecs::blosc(bytes),
        "fast_codecs" => codecs::fast_codecs(bytes),
        "tensor_tet" => codecs::tensors(bytes),
        "tensor_blocks" => codecs::blocks(bytes),
        "store_open" => store::ask(bytes),
        "http_target" => files::http_target(bytes),
        "query_body" => files::query_body(bytes),
        _ => files::read_format(name, bytes),
    }
}

/// Values made of the bytes of an input: what is past its end is zero.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        std::array::from_fn(|at| taken.get(at).copied().unwrap_or(0)) // 0: past the end
    }

    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    fn signed(&mut self) -> i64 {
        i64::from_le_bytes(self.bytes())
    }

    fn slice(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    /// Returns a list of at most seven values.
    fn list<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % 8).map(|_| one(self)).collect()
    }
}

//! Keys of a repository: the document of a node, or a chunk of an array. A repository holds nothing
//! else.

use icechunk::format::{ChunkIndices, Path};

/// The object that a key names.
#[derive(Debug, PartialEq)]
pub(crate) enum Key {
    Document(Path),
    Chunk(Path, ChunkIndices),
}

impl Key {
    /// Parses `key`; returns `None` for a key that no repository can hold.
    pub(crate) fn parse(key: &str) -> Option<Self> {
        if key == DOCUMENT {
            return Some(Self::Document(Path::root()));
        }
        if let Some(node) = key.strip_suffix(DOCUMENT).and_then(|node| node.strip_suffix('/')) {
            return Some(Self::Document(node_path(node)?));
        }
        let parts: Vec<&str> = key.split('/').collect();
        let at = parts.iter().rposition(|part| *part == CHUNKS)?;
        let (node, numbers) = (parts.get(..at)?, parts.get(at + 1..)?);
        let coordinates: Option<Vec<u32>> = numbers.iter().map(|part| parse_number(part)).collect();
        Some(Self::Chunk(node_path(&node.join("/"))?, ChunkIndices(coordinates?)))
    }

    /// Returns the key of a document.
    pub(crate) fn document_key(node: &Path) -> String {
        match name_of(node) {
            name if name.is_empty() => DOCUMENT.to_owned(),
            name => format!("{name}/{DOCUMENT}"),
        }
    }

    /// Returns the key of a chunk.
    pub(crate) fn chunk_key(node: &Path, at: &ChunkIndices) -> String {
        let mut key = name_of(node);
        for part in [CHUNKS.to_owned()].into_iter().chain(at.0.iter().map(u32::to_string)) {
            if !key.is_empty() {
                key.push('/');
            }
            key.push_str(&part);
        }
        key
    }
}

/// Returns the path of a node without a leading slash.
pub(crate) fn name_of(node: &Path) -> String {
    node.to_string().trim_start_matches('/').to_owned()
}

/// Returns the node of that name; `None` if the path is invalid.
pub(crate) fn node_path(name: &str) -> Option<Path> {
    Path::try_from(format!("/{name}").as_str()).ok()
}

/// Parses a number without leading zeros, as in keys.
fn parse_number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The name of documents.
pub(crate) const DOCUMENT: &str = "zarr.json";
/// The first component of chunk keys below their array.
pub(crate) const CHUNKS: &str = "c";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_documents_or_chunks() {
        let chunk = |node: &str, at: &[u32]| {
            Some(Key::Chunk(node_path(node).unwrap(), ChunkIndices(at.to_vec())))
        };
        for (key, expected) in [
            ("zarr.json", Some(Key::Document(Path::root()))),
            ("a/b/zarr.json", Some(Key::Document(node_path("a/b").unwrap()))),
            ("a/c/0/12", chunk("a", &[0, 12])),
            ("c/c/7", chunk("c", &[7])),
            ("a/c", chunk("a", &[])),
            ("a/c/01", None),
            ("a/c/-1", None),
            ("a/b", None),
            ("a/.zarray", None),
            ("", None),
        ] {
            let actual = Key::parse(key);
            assert_eq!(actual, expected, "{key}");
            match actual {
                Some(Key::Document(node)) => assert_eq!(Key::document_key(&node), key),
                Some(Key::Chunk(node, at)) => assert_eq!(Key::chunk_key(&node, &at), key),
                None => {}
            }
        }
    }
}

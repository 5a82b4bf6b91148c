//! Names of the objects of one array, in each encoding of chunk keys.
//!
//! ```text
//! default  /    c/4/0      what stores of this format have
//! default  .    c.4.0
//! v2       /    4/0
//! v2       .    4.0        an array without axes: 0, where default has c
//! ```
//!
//! Chunks are searched only at the names that the document declares, as in other Zarr readers.

use zvf_format::key::ChunkPath;
use zvf_metadata::ChunkKeyEncoding;

/// Returns the name, below its array, of the chunk or shard at `index`.
///
/// ```
/// use zvf_metadata::ChunkKeyEncoding;
/// use zvf_store::{name_chunk, parse_chunk_name};
///
/// let name = name_chunk(ChunkKeyEncoding::V2Dots, &[4, 0]);
/// assert_eq!(name, "4.0");
/// let place = parse_chunk_name(ChunkKeyEncoding::V2Dots, &name);
/// assert_eq!(place.map(|place| place.to_string()).as_deref(), Some("c/4/0"));
/// ```
pub fn name_chunk(encoding: ChunkKeyEncoding, index: &[u64]) -> String {
    let (prefix, separator) = spelling(encoding);
    let mut words: Vec<String> = prefix.map(str::to_owned).into_iter().collect();
    words.extend(index.iter().map(u64::to_string));
    if words.is_empty() { "0".to_owned() } else { words.join(separator) }
}

/// Returns the index of the chunk with the name `name` below its array; `None` if it is not the
/// name of a chunk.
pub fn parse_chunk_name(encoding: ChunkKeyEncoding, name: &str) -> Option<ChunkPath> {
    let (prefix, separator) = spelling(encoding);
    let other_separator = if separator == "/" { "." } else { "/" };
    if name.contains(other_separator) {
        return None;
    }
    let usual = name.replace(separator, "/");
    match prefix {
        Some(_) => usual.parse::<ChunkPath>().ok(),
        None => ["c/", &usual].concat().parse::<ChunkPath>().ok(),
    }
}

/// Returns the folder that contains all chunks of an array, if there is one.
pub(crate) const fn chunk_folder(encoding: ChunkKeyEncoding) -> Option<&'static str> {
    match encoding {
        ChunkKeyEncoding::Default => Some("c"),
        ChunkKeyEncoding::DefaultDots | ChunkKeyEncoding::V2Dots | ChunkKeyEncoding::V2Slashes => {
            None
        }
    }
}

/// Returns the prefix of names, and the separator between their parts.
pub(super) const fn spelling(encoding: ChunkKeyEncoding) -> (Option<&'static str>, &'static str) {
    match encoding {
        ChunkKeyEncoding::Default => (Some("c"), "/"),
        ChunkKeyEncoding::DefaultDots => (Some("c"), "."),
        ChunkKeyEncoding::V2Slashes => (None, "/"),
        ChunkKeyEncoding::V2Dots => (None, "."),
    }
}

#[cfg(test)]
mod tests {
    use ChunkKeyEncoding::{Default, DefaultDots, V2Dots, V2Slashes};

    use super::*;

    #[test]
    fn each_encoding_spells_its_own_names() {
        type Row<'a> = (ChunkKeyEncoding, &'a [u64], &'a str);
        #[rustfmt::skip]
        let table: [Row<'_>; 9] = [
            (Default,     &[4, 0, 12], "c/4/0/12"),
            (Default,     &[],         "c"),
            (DefaultDots, &[4, 0, 12], "c.4.0.12"),
            (DefaultDots, &[7],        "c.7"),
            (V2Slashes,   &[4, 0, 12], "4/0/12"),
            (V2Dots,      &[4, 0, 12], "4.0.12"),
            (V2Dots,      &[7],        "7"),
            (V2Dots,      &[],         "0"),
            (V2Slashes,   &[],         "0"),
        ];
        for (encoding, index, name) in table {
            assert_eq!(name_chunk(encoding, index), name);
            if !index.is_empty() {
                let parsed = parse_chunk_name(encoding, name);
                assert_eq!(parsed.as_ref().map(ChunkPath::index), Some(index), "{name}");
            }
        }
    }

    #[test]
    fn no_encoding_takes_the_names_of_another() {
        for (encoding, names) in [
            (Default, ["c.0.1", "0/1", "0.1", "zarr.json"]),
            (DefaultDots, ["c/0/1", "0/1", "0.1", "zarr.json"]),
            (V2Slashes, ["c/0/1", "c.0.1", "0.1", "zarr.json"]),
            (V2Dots, ["c/0/1", "c.0.1", "0/1", "zarr.json"]),
        ] {
            for name in names {
                assert_eq!(parse_chunk_name(encoding, name), None, "{name}");
            }
        }
    }
}

//! Reads a metadata document, validates it, prints it, and reads the output again.

use std::fmt::Debug;
use std::hint::black_box;

use zvf_metadata::{ArrayDoc, GroupDoc, LevelDoc, MetadataError, Root, validate};

/// The type of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// Of the root group.
    Root,
    /// Of a level group.
    Level,
    /// Of an array.
    Array,
}

impl Document {
    /// Reads and prints `text`.
    pub(super) fn decode(self, text: &[u8]) -> Result<(), MetadataError> {
        match self {
            Self::Root => {
                let root = Root::parse(text)?;
                black_box((validate(&root, &[]), root.ome(), root.zarr_vectors.attribute_specs()));
                check_round_trip(&root, &root.print(), Root::parse);
            }
            Self::Level => {
                let level = LevelDoc::parse(text)?;
                check_round_trip(&level, &level.print(), LevelDoc::parse);
            }
            Self::Array => {
                let array = ArrayDoc::parse(text)?;
                black_box((array.items(), array.chunk_bytes(), array.inner_chunk_shape()));
                check_round_trip(&array, &array.print(), ArrayDoc::parse);
            }
        }
        if let Ok(group) = GroupDoc::parse(text) {
            check_round_trip(&group, &group.print(), GroupDoc::parse);
        }
        Ok(())
    }
}

/// Checks that the printed document parses to the same document and prints to the same text.
fn check_round_trip<T: PartialEq + Debug>(
    document: &T,
    printed: &str,
    parse: impl Fn(&[u8]) -> Result<T, MetadataError>,
) {
    match parse(printed.as_bytes()) {
        Ok(again) => assert_eq!(again, *document, "printed {printed}"),
        Err(error) => panic!("{error}, in what was printed: {printed}"),
    }
}

//! S: which nodes there are, and of which kind.

use crate::rule::Rule;

pub(crate) const ALL: &[&Rule] = &[
    &S1, &S2, &S3, &S4, &S5, &S6, &S7, &S8, &S9, &S10, &S11, &S12, &S13, &S14, &S15, &S16, &S17,
    &S18, &S19, &S20,
];

pub(crate) const S1: Rule = Rule::error(
    "S1",
    "all",
    "The store does not open: its root document is missing, no JSON, or not one of a Zarr v3 group.",
    "Check the address; restore zarr.json of the root from a copy.",
);
pub(crate) const S2: Rule = Rule::error(
    "S2",
    "all",
    "The attributes of the root have no block zarr_vectors, or lack a key that every reader needs.",
    "If this is a Zarr Vectors store, restore its root document; if it is another Zarr group, give the store.",
);
pub(crate) const S3: Rule = Rule::error(
    "S3",
    "all",
    "There is no level: no group below the root has a number for its name.",
    "Write the data again; without a level there is nothing to read.",
);
pub(crate) const S4: Rule = Rule::error(
    "S4",
    "all",
    "A level does not open: its document is missing, unreadable, or not one of a group.",
    "Restore the document of the level, or write the level again.",
);
pub(crate) const S5: Rule = Rule::error(
    "S5",
    "all",
    "A level has no vertices.",
    "Restore the array vertices of the level; nothing in the level can be read without it.",
);
pub(crate) const S6: Rule = Rule::error(
    "S6",
    "all",
    "A level has no vertex_fragments, without which no reader can tell which rows belong together.",
    "Restore the array vertex_fragments, or write the level again.",
);
pub(crate) const S7: Rule = Rule::error(
    "S7",
    "all",
    "The document of a level has no attributes: the level cannot be read.",
    "Restore zarr_vectors_level in the document of the level.",
);
pub(crate) const S8: Rule = Rule::note(
    "S8",
    "all",
    "Which optional arrays a level has: attributes, object index, groups, links.",
    "Nothing to do.",
);
pub(crate) const S9: Rule = Rule::warning(
    "S9",
    "all",
    "A level has the group links, or cross_chunk_links, and no family in it.",
    "Remove the empty group, or write the links again.",
);
pub(crate) const S10: Rule = Rule::warning(
    "S10",
    "0.9.2 and later",
    "The root has no ome node, by which generic tools know the store.",
    "Run \"zvf repair\": the node follows from the rest of the document.",
);
pub(crate) const S11: Rule = Rule::error(
    "S11",
    "all",
    "The version of the store is not one that can be read, or not a version at all.",
    "Convert stores older than 0.6 with the program that wrote them; update zvf for newer ones.",
);
pub(crate) const S12: Rule = Rule::error(
    "S12",
    "all",
    "The layout of the store is not the one of its version: vertices is an array from 0.9 on, a group before.",
    "Restore zv_version in the root document; a store is never converted by changing it.",
);
pub(crate) const S13: Rule = Rule::error(
    "S13",
    "0.6, 0.7",
    "arrays_present of a level names links, and links/0 is not there.",
    "Restore links/0, or take the name out of arrays_present.",
);
pub(crate) const S14: Rule = Rule::warning(
    "S14",
    "all",
    "Links between levels are stored, and format_capabilities does not have multiscale_links.",
    "Run \"zvf repair\": the token is added.",
);
pub(crate) const S15: Rule = Rule::error(
    "S15",
    "all",
    "A node is a group where an array belongs, or an array where a group belongs.",
    "Restore the node; one of another layout or version may have been copied in.",
);
pub(crate) const S16: Rule = Rule::warning(
    "S16",
    "all",
    "A file lies in the store that belongs to no array and no group.",
    "Remove it, or move it outside the store; other Zarr readers warn about it too.",
);
pub(crate) const S17: Rule = Rule::error(
    "S17",
    "all",
    "An array uses a codec, a data type or a layout that this build does not know: it was not looked into.",
    "Write the array with codecs that every reader has, or validate with a build that knows this one.",
);
pub(crate) const S18: Rule = Rule::error(
    "S18",
    "all",
    "The document of a node is no JSON, or not one of a Zarr v3 node.",
    "Restore zarr.json of the node from a copy.",
);
pub(crate) const S19: Rule = Rule::warning(
    "S19",
    "0.9",
    "A folder has arrays in it and no document of a group: readers that ask for the group find nothing.",
    "Put a group document there; without attributes it is {\"zarr_format\": 3, \"node_type\": \"group\"}.",
);
pub(crate) const S20: Rule = Rule::error(
    "S20",
    "0.9",
    "An array names its chunks otherwise than c/0/1, or its files are not named as its chunk_key_encoding says.",
    "Write the array again with the default encoding and \"/\"; files named otherwise are not found by readers.",
);

//! M: what the documents of root, levels and arrays say.

use crate::rule::Rule;

pub(crate) const ALL: &[&Rule] = &[
    &M1, &M2, &M3, &M4, &M5, &M6, &M7, &M8, &M9, &M10, &M11, &M12, &M13, &M14, &M15, &M16, &M17,
    &M18, &M19, &M20, &M21, &M22,
];

pub(crate) const M1: Rule = Rule::error(
    "M1",
    "all",
    "The root document lacks a key that readers need, or has a value of another type there.",
    "Restore the root document, or set the key to what the data says.",
);
pub(crate) const M2: Rule = Rule::error(
    "M2",
    "all",
    "The store has no axis.",
    "Restore multiscales[0].axes in the root document.",
);
pub(crate) const M3: Rule = Rule::error(
    "M3",
    "all",
    "chunk_shape has not one size above zero for each axis.",
    "Restore chunk_shape in the root document; the names of all chunks depend on it.",
);
pub(crate) const M4: Rule = Rule::error(
    "M4",
    "all",
    "bounds are not two corners with a finite number for each axis, the lower one first.",
    "Set bounds to the extent of the data.",
);
pub(crate) const M5: Rule = Rule::error(
    "M5",
    "all",
    "A convention is none that the format has.",
    "Set links_convention, object_index_convention or cross_chunk_strategy to a word of the format.",
);
pub(crate) const M6: Rule = Rule::warning(
    "M6",
    "all",
    "geometry_types is empty: readers cannot know what the store holds.",
    "Name the kinds of geometry in the root document, unless nothing was written yet.",
);
pub(crate) const M7: Rule = Rule::error(
    "M7",
    "all",
    "base_bin_shape does not divide a chunk into whole bins.",
    "Set base_bin_shape so that each size divides that of the chunk.",
);
pub(crate) const M8: Rule = Rule::error(
    "M8",
    "0.7 and later",
    "The chunks of a level are not whole multiples of the root's, or its bins do not divide them.",
    "Write the level again with a chunk shape that nests.",
);
pub(crate) const M9: Rule = Rule::error(
    "M9",
    "all",
    "vertex_count of a level is negative.",
    "Run \"zvf repair\": the rows are counted.",
);
pub(crate) const M10: Rule = Rule::error(
    "M10",
    "all",
    "bin_shape of a level has not one size above zero for each axis, or does not divide its chunks.",
    "Set it to the bins the level was made with, or leave it out.",
);
pub(crate) const M11: Rule = Rule::error(
    "M11",
    "all",
    "bin_ratio of a level has not one number from 1 on for each axis.",
    "Set it to the level's bins over those of level 0, or leave it out.",
);
pub(crate) const M12: Rule = Rule::error(
    "M12",
    "all",
    "object_sparsity of a level is not above 0 and at most 1.",
    "Set it to the share of objects that the level kept.",
);
pub(crate) const M13: Rule = Rule::error(
    "M13",
    "all",
    "The document of a level lacks level, vertex_count or arrays_present, or has another type there.",
    "Restore the keys in zarr_vectors_level.",
);
pub(crate) const M14: Rule = Rule::error(
    "M14",
    "all",
    "The root document breaks a rule of its version: axes, kinds of geometry, conventions or pyramid policy.",
    "Correct the value that is named.",
);
pub(crate) const M15: Rule = Rule::error(
    "M15",
    "all",
    "The document of a level contradicts itself or its place: number, parent, attribute bins or kept ids.",
    "Correct the value that is named.",
);
pub(crate) const M16: Rule = Rule::warning(
    "M16",
    "all",
    "multiscales.datasets does not fit the levels, or a scale or translation not the bins of its level.",
    "List each level once; scale is level bin over base bin, translation half the level bin.",
);
pub(crate) const M17: Rule = Rule::warning(
    "M17",
    "0.9.1 and later",
    "attribute_specs has an unknown scope, an unknown type, or rows of no value.",
    "Correct the declaration; it is not what readers go by.",
);
pub(crate) const M18: Rule = Rule::error(
    "M18",
    "0.9",
    "nonempty_chunks has a text that is no key, a key twice or out of order, or chunk_grid_origin another rank.",
    "Run \"zvf repair\": the list is made again from what is stored. Restore the origin from a copy.",
);
pub(crate) const M19: Rule = Rule::warning(
    "M19",
    "all",
    "The name of an attribute has other characters than letters, digits and underscores.",
    "Rename the attribute; some readers turn names into identifiers.",
);
pub(crate) const M20: Rule = Rule::error(
    "M20",
    "all",
    "The attributes of an array or group lack a key that its reader needs, or have an unknown value there.",
    "Restore the key that is named: nothing can be read without it.",
);
pub(crate) const M21: Rule = Rule::warning(
    "M21",
    "all",
    "A level has preserved ids or shared fragments, and format_capabilities does not say so.",
    "Run \"zvf repair\": the token is added.",
);
pub(crate) const M22: Rule = Rule::warning(
    "M22",
    "all",
    "arrays_present of a level names an array that is not there.",
    "Run \"zvf repair\": the list is made again from what is there.",
);

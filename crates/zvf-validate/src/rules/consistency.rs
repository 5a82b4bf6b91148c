//! C: cells, manifests, links, attributes.

use crate::rule::Rule;

pub(crate) const ALL: &[&Rule] = &[
    &C1, &C2, &C3, &C4, &C5, &C6, &C7, &C8, &C9, &C10, &C11, &C12, &C13, &C14, &C15, &C16, &C17,
    &C18, &C19, &C20, &C21, &C22, &C23, &C24, &C25, &C26, &C27, &C28, &C29, &C30, &C31, &C32, &C33,
    &C34, &C35, &C36, &C37, &C38, &C39, &C40, &C41, &C42, &C43,
];

pub(crate) const C1: Rule = Rule::warning(
    "C1",
    "all",
    "A level holds nothing.",
    "Nothing to do, unless there should be data: then write the level again.",
);
pub(crate) const C2: Rule = Rule::error(
    "C2",
    "all",
    "A cell does not decode: it is cut short, compressed otherwise than said, or no cell at all.",
    "Restore the object from a copy.",
);
pub(crate) const C3: Rule = Rule::error(
    "C3",
    "all",
    "A vertex cell is not a whole number of rows of its type and axes.",
    "Restore the object, or the dtype of the array if that was changed.",
);
pub(crate) const C4: Rule = Rule::warning(
    "C4",
    "all",
    "A coordinate is not a number, or infinite.",
    "Remove such points at their source: no box finds them, and means of them are worthless.",
);
pub(crate) const C5: Rule = Rule::error(
    "C5",
    "0.9.2 and later",
    "fragments_tile is set, and the fragments of some chunk are not ranges that cover its rows in order.",
    "Run \"zvf repair\": the flag is taken out; readers then follow the fragments.",
);
pub(crate) const C6: Rule = Rule::error(
    "C6",
    "all",
    "A chunk of binned points has more fragments than bins.",
    "Write the level again; box queries take the number of a fragment for that of its bin.",
);
pub(crate) const C7: Rule = Rule::warning(
    "C7",
    "all",
    "A point lies outside the bin that its fragment stands for.",
    "Write the level again; box queries by bin miss the point.",
);
pub(crate) const C8: Rule = Rule::error(
    "C8",
    "all",
    "vertex_count of a level is not the number of its rows.",
    "Run \"zvf repair\": the rows are counted.",
);
pub(crate) const C9: Rule = Rule::error(
    "C9",
    "all",
    "A manifest does not decode, or names a chunk or a fragment that is not there.",
    "Restore the object index, or write the object again: its rows cannot be found.",
);
pub(crate) const C10: Rule = Rule::note(
    "C10",
    "0.9",
    "A link family was never written to: it has no sid_ndim.",
    "Nothing to do.",
);
pub(crate) const C11: Rule = Rule::error(
    "C11",
    "0.9",
    "The name of an array of links is not that of offsets of the family's rank and width.",
    "Rename the folder if the offsets are known; readers refuse the family.",
);
pub(crate) const C12: Rule = Rule::error(
    "C12",
    "0.9",
    "An undirected family that stores links once has an array of negative offsets.",
    "Write the links again: the smaller chunk is the source.",
);
pub(crate) const C13: Rule = Rule::error(
    "C13",
    "0.9",
    "An undirected family that stores links once has an array whose offsets descend.",
    "Write the links again: endpoints are sorted by chunk.",
);
pub(crate) const C14: Rule = Rule::error(
    "C14",
    "0.8.1 and later",
    "num_physical_records of a link family is not the number of its rows.",
    "Run \"zvf repair\": the rows are counted. If links are missing, restore them.",
);
pub(crate) const C15: Rule = Rule::error(
    "C15",
    "all",
    "A cell of links lies under a chunk that the level does not have.",
    "Restore the vertices of the chunk, or remove the links.",
);
pub(crate) const C16: Rule = Rule::error(
    "C16",
    "all",
    "A link leads to a chunk that the level does not have.",
    "Restore the vertices of the chunk, or remove the links.",
);
pub(crate) const C17: Rule = Rule::error(
    "C17",
    "all",
    "A link between levels leads to a chunk or a level that is not there.",
    "Build the other level again, or remove the links.",
);
pub(crate) const C18: Rule = Rule::error(
    "C18",
    "all",
    "A link names a row that its chunk does not have.",
    "Write the links again: the rows of the chunk may have changed since.",
);
pub(crate) const C19: Rule = Rule::error(
    "C19",
    "all",
    "num_links is not the number of links, an order of endpoints does not exist, or a copy of a link is missing.",
    "Run \"zvf repair\" for the count; write the links again for the rest.",
);
pub(crate) const C20: Rule = Rule::error(
    "C20",
    "all",
    "An attribute of links has not one row for each link.",
    "Write the attribute again; values belong to other links from here on.",
);
pub(crate) const C21: Rule = Rule::error(
    "C21",
    "all",
    "The fragment index of a chunk contradicts itself or names rows that the chunk does not have.",
    "Restore the object from a copy. Bits and bytes that mean nothing are only warned about.",
);
pub(crate) const C22: Rule = Rule::error(
    "C22",
    "all",
    "An attribute has not one row for each row, or fragment, of its chunk.",
    "Write the attribute again. Rows wider than declared, the same everywhere, are only warned about.",
);
pub(crate) const C23: Rule = Rule::warning(
    "C23",
    "all",
    "An attribute of objects has fewer rows than there are objects, or another type than declared.",
    "Write the attribute again: values belong to rows of the object index.",
);
pub(crate) const C24: Rule = Rule::error(
    "C24",
    "all",
    "The object index contradicts itself: number of rows or of objects present, ids twice, or not in order.",
    "Run \"zvf repair\" for counts and order. Ids that occur twice need the source.",
);
pub(crate) const C25: Rule = Rule::warning(
    "C25",
    "all",
    "A fragment belongs to two objects, and the level does not say shared_fragments.",
    "Set shared_fragments if that is meant; otherwise write one of the objects again.",
);
pub(crate) const C26: Rule = Rule::warning(
    "C26",
    "all",
    "A group has a member that is no object.",
    "Remove the id from the group, or restore the object.",
);
pub(crate) const C27: Rule = Rule::error(
    "C27",
    "0.9",
    "chunk_attribute_values has no value for a bin that chunks lie in.",
    "Restore the values: they are stored nowhere else.",
);
pub(crate) const C28: Rule = Rule::error(
    "C28",
    "0.9",
    "nonempty_chunks is not what is stored: it is missing, lists a cell that is not, or hides one that is.",
    "Run \"zvf repair\" when the objects are right; restore the objects when the list is.",
);
pub(crate) const C29: Rule = Rule::error(
    "C29",
    "0.9",
    "The owner column of the fragments is not what the manifests say.",
    "Write the column fragment_attributes/object_id again, or remove it.",
);
pub(crate) const C30: Rule = Rule::error(
    "C30",
    "all",
    "Vertex cells are encoded in a way that cannot be decoded, or do not keep the order that links between chunks mean.",
    "Write the level again; a build without the feature draco decodes streams of the sequential method only.",
);
pub(crate) const C31: Rule = Rule::warning(
    "C31",
    "all",
    "Positions lie outside the bounds of the store.",
    "Set bounds to the extent of the data; programs frame and plan by it.",
);
pub(crate) const C32: Rule = Rule::error(
    "C32",
    "0.7 and later",
    "A code of a categorical attribute has no category.",
    "Restore the categories or the cell; readers refuse the column.",
);
pub(crate) const C33: Rule = Rule::error(
    "C33",
    "all",
    "A checksum does not fit its bytes.",
    "Restore the object from a copy: the bytes changed after they were written.",
);
pub(crate) const C34: Rule = Rule::error(
    "C34",
    "all",
    "A point lies outside the chunk that it is stored in.",
    "Write the level again; box queries miss the point.",
);
pub(crate) const C35: Rule = Rule::error(
    "C35",
    "all",
    "vertices and vertex_fragments do not hold the same chunks.",
    "Restore the cell that is missing: the rows of the chunk cannot be told apart without it.",
);
pub(crate) const C36: Rule = Rule::error(
    "C36",
    "all",
    "A cell of links does not decode.",
    "Restore the object from a copy.",
);
pub(crate) const C37: Rule = Rule::error(
    "C37",
    "all",
    "The attributes of an array of links contradict its name or its family.",
    "Restore the attributes: width, offsets and permutation follow from name and family.",
);
pub(crate) const C38: Rule = Rule::error(
    "C38",
    "all",
    "Groups are not rows of ids, another number of rows than said, or ranges of rows that do not exist.",
    "Write the groups again.",
);
pub(crate) const C39: Rule = Rule::warning(
    "C39",
    "all",
    "A parametric object is of an unknown type, or arrays of parametric objects differ in length.",
    "Register the type in the attributes of parametric, or write the object again.",
);
pub(crate) const C40: Rule = Rule::error(
    "C40",
    "all",
    "The geometries of a composite store do not fit their index.",
    "Write the geometry again.",
);
pub(crate) const C41: Rule = Rule::warning(
    "C41",
    "all",
    "The index of link fragments is missing, does not decode, or does not cover the links of its chunk.",
    "Run \"zvf repair\" where it is missing: one fragment holds all links of a chunk.",
);
pub(crate) const C42: Rule = Rule::warning(
    "C42",
    "all",
    "Bytes that mean nothing: behind the last group of links, or a name spelled in a needless way.",
    "Nothing to do for readers; strict writers never leave them.",
);
pub(crate) const C43: Rule = Rule::error(
    "C43",
    "all",
    "num_objects of the parametric objects is not the number of their rows, or there is not one name for each.",
    "Set num_objects to the number of rows, and write the names again.",
);

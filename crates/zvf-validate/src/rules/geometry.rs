//! G: what the kinds of geometry ask for.

use crate::rule::Rule;

pub(crate) const ALL: &[&Rule] = &[&G1, &G2, &G3, &G4, &G5, &G6, &G7, &G8, &G9, &G10];

pub(crate) const G1: Rule = Rule::warning(
    "G1",
    "all",
    "A kind of geometry is none that the format has.",
    "Correct geometry_types in the root document.",
);
pub(crate) const G2: Rule = Rule::error(
    "G2",
    "all",
    "links_convention does not fit the kind of geometry.",
    "Lines and polylines are implicit_sequential, graphs and meshes explicit, skeletons explicit or branches.",
);
pub(crate) const G3: Rule = Rule::error(
    "G3",
    "0.9",
    "The faces of a mesh have fewer than three corners, or there is nothing about them.",
    "Write the faces again with link_width 3 or more.",
);
pub(crate) const G4: Rule = Rule::warning(
    "G4",
    "all",
    "A store of points alone has links within a level.",
    "Name the kind of geometry that the links are of, or remove them.",
);
pub(crate) const G5: Rule = Rule::warning(
    "G5",
    "all",
    "There is no level 0.",
    "Restore the full data; coarse levels alone answer no exact question.",
);
pub(crate) const G6: Rule = Rule::error(
    "G6",
    "all",
    "A skeleton has links of another width than two, an object without exactly one root, a row with two parents, or one before its parent in the same fragment; of directed families, and of levels whose objects share fragments, only the width is asked.",
    "Write the skeleton again from its parents; readers that walk up from the tips may not end.",
);
pub(crate) const G7: Rule = Rule::warning(
    "G7",
    "0.9",
    "The links of polylines across chunks are not those that follow from their manifests.",
    "Readers go by the manifests; write the links again if programs walk them.",
);
pub(crate) const G8: Rule = Rule::error(
    "G8",
    "all",
    "A line has not two rows, or more than one fragment of two; not asked of levels whose objects share fragments.",
    "Write the line again: one fragment of two rows, or two of one row.",
);
pub(crate) const G9: Rule = Rule::warning(
    "G9",
    "0.9",
    "A face has the same row at every corner.",
    "Remove the face; it has no area.",
);
pub(crate) const G10: Rule = Rule::error(
    "G10",
    "0.9",
    "fragment_link_groups is claimed, and the groups of a chunk are not the links among the rows of each fragment.",
    "Take the claim out of the level's document.",
);

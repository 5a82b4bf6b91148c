//! P: how levels fit together.

use crate::rule::Rule;

pub(crate) const ALL: &[&Rule] =
    &[&P1, &P2, &P3, &P4, &P5, &P6, &P7, &P8, &P9, &P10, &P11, &P12, &P13];

pub(crate) const P1: Rule =
    Rule::note("P1", "all", "There is one level: nothing to compare.", "Nothing to do.");
pub(crate) const P2: Rule = Rule::error(
    "P2",
    "all",
    "Levels are not numbered without a gap from 0.",
    "Build the missing level again, or rename the coarser ones with all that names them.",
);
pub(crate) const P3: Rule = Rule::error(
    "P3",
    "all",
    "A level has more rows than the finer one.",
    "Build the level again; it may be of another store.",
);
pub(crate) const P4: Rule = Rule::error(
    "P4",
    "all",
    "The bins of a level are smaller than those of the finer one.",
    "Build the levels again in order, or correct multiscales.",
);
pub(crate) const P5: Rule = Rule::error(
    "P5",
    "all",
    "object_sparsity of a coarse level is not above 0 and at most 1.",
    "Set it to the share of objects that the level kept.",
);
pub(crate) const P6: Rule = Rule::warning(
    "P6",
    "all",
    "Rows of a level have no parent at the coarser level that its links lead to.",
    "Build the coarser level again; the links may be older than the data.",
);
pub(crate) const P7: Rule = Rule::error(
    "P7",
    "all",
    "A level says that it keeps the ids of its parent, and has another number of rows or other ids.",
    "Build the level again.",
);
pub(crate) const P8: Rule = Rule::warning(
    "P8",
    "all",
    "The links up and the links down between two levels are not the same.",
    "Build the coarser level again, or remove the links in one direction.",
);
pub(crate) const P9: Rule = Rule::error(
    "P9",
    "all",
    "The chunks of a level are not whole multiples of the root's: no chunk leads to those below it.",
    "Write the level again with a chunk shape that is a whole multiple.",
);
pub(crate) const P10: Rule = Rule::warning(
    "P10",
    "all",
    "The chunks of a level do not nest in those of the finer one.",
    "Nothing to do for readers; a chunk of this level has parts of chunks below it.",
);
pub(crate) const P11: Rule = Rule::error(
    "P11",
    "later than 0.9.2",
    "A level that adds to the next has an object that is there already.",
    "Remove the object from one of the levels: readers give it twice.",
);
pub(crate) const P12: Rule = Rule::error(
    "P12",
    "later than 0.9.2",
    "additive_levels is announced, and no level adds, or one that does not lacks objects of a coarser one.",
    "Set refinement to add at levels that lack what coarser ones have: readers miss it otherwise.",
);
pub(crate) const P13: Rule = Rule::warning(
    "P13",
    "0.9",
    "A level is marked as stale: level 0 was edited since it was built. P3, P6 and P8 are not asked of it.",
    "Build the level again with zvf pyramid.",
);

//! Why a row is not where it is wanted, as whoever measured it wrote down; a new run keeps it.

/// What a row must say, and what holds it back.
struct Reason {
    part: &'static str,
    /// How the work is called, or a part of that: numbers in it change with the scale.
    work: &'static str,
    why: &'static str,
}

/// What was written down of a work.
pub(crate) fn find(part: &str, work: &str) -> Option<&'static str> {
    let told = |reason: &&Reason| reason.part == part && work.contains(reason.work);
    TOLD.iter().find(told).map(|reason| reason.why)
}

/// One row for each work that was looked into; of those that are alike, the longer one first.
const TOLD: &[Reason] = &[
    Reason {
        part: "ask",
        work: "2000 objects",
        why: "the objects touch every cell: 43 % of the time is the system opening and reading files, 15 % the \
              allocator, 10 % manifests",
    },
    Reason {
        part: "ask",
        work: "one box of 1/1000, ",
        why: "the limit reads cells of vertices alone; such a box needs indexes of fragments, manifests and cells \
              of links as well",
    },
    Reason {
        part: "points",
        work: "all points and an attribute",
        why: "71 % of the time opens and reads files, a thousand of a few hundred bytes: 22 % opening, 33 % \
              reading; Parquet is one file",
    },
    Reason {
        part: "lines",
        work: "one streamline",
        why: "two fifths of the time open and read a file for each cell that the line passes, a fifth follows its \
              manifest, a sixth hands cells through the cache; TRX keeps a line in one piece of one file that \
              is mapped",
    },
    Reason {
        part: "lines",
        work: "streamlines through",
        why: "35 % is the system, files of cells; the rest finds whose fragments lie in the box, and gathers \
              each of those lines from all cells that it passes",
    },
    Reason {
        part: "lines",
        work: " streamlines, of",
        why: "43 % is the system, which opens and reads a file for each cell; the rest gathers lines from \
              their pieces in cells, which TRX keeps whole",
    },
    Reason {
        part: "shapes",
        work: " skeletons",
        why: "two fifths of the time open and read files: its vertices, fragments and edges lie in the \
              cells that it passes, 21 requests for one skeleton; precomputed is one file a shape, and the \
              limit reads that",
    },
    Reason {
        part: "shapes",
        work: " meshes",
        why: "as for skeletons: files of vertices, fragments and faces in each cell, against one file a \
              shape",
    },
    Reason {
        part: "open",
        work: "open a store of",
        why: "58 % of the time parses documents, three quarters of that checks the lists of cells; 15 % \
              reads files; the reference reads 1 KiB and no list, the limit looks at nothing",
    },
    Reason {
        part: "packed",
        work: "20 boxes",
        why: "44 % of the time is asking of each row of a cell whether it is in the box, the same for a pack and \
              for a folder; the limit reads bytes and looks at none",
    },
    Reason {
        part: "write",
        work: "points, two attributes",
        why: "43 % of the time is the system (pages of the memory file system, creating, mapping); 22 % gathers rows \
              that are in no order, a cache line for each; 10 % is the grid's arithmetic",
    },
    Reason {
        part: "write",
        work: "points in ",
        why: "a fifth of the time creates files, an eighth gathers rows by object, a tenth is the grid's arithmetic; \
              nothing else has more than a tenth",
    },
    Reason {
        part: "write",
        work: " triangles",
        why: "no part has more than a tenth: numbering ends, sorting them by chunk, and placing links that cross \
              chunks",
    },
    Reason {
        part: "pyramid",
        work: "1 million points in 10 000 objects",
        why: "58 % of the time is the system: the store is built anew beside the old one, every file of level 0 gets \
              a second name and the old names go; that alone takes as long as the wanted figure",
    },
    Reason {
        part: "pyramid",
        work: "2 million points",
        why: "about half is the system, as for objects; the rest decodes and numbers bins. In levels of our own, \
              attributes are merged too, which the reference leaves out",
    },
    Reason {
        part: "pyramid",
        work: "20 000 streamlines",
        why: "37 % is the system; 15 % measures how far lines may go from what they were, which the reference does \
              not do",
    },
    Reason {
        part: "files",
        work: "of CSV",
        why: "the text is read three times, for what its columns hold, for bounds, and to write: 47 % of the \
              time cuts records, a fifth is memory for their words, 15 % is numbers",
    },
    Reason {
        part: "files",
        work: "of OBJ",
        why: "the text is read three times, for its faces, for bounds, and to write: 69 % of the time cuts \
              lines into words and numbers",
    },
    Reason {
        part: "tensor",
        work: "tet: all, zstd",
        why: "66 % of the time is in zstd, as theirs; the limit copies the answer",
    },
    Reason {
        part: "tensor",
        work: "tet: open",
        why: "the index of all chunks is checked at once: 38 % of the time copies it, 29 % checks it, a \
              quarter is the system",
    },
    Reason {
        part: "tensor",
        work: "b2nd: plane across axis 0",
        why: "72 % of the time is in zstd and 11 % puts bytes back in order, as theirs; the limit copies the \
              answer",
    },
    Reason {
        part: "tensor",
        work: "b2nd: plane across axis 1",
        why: "every block is decoded for a few bytes, as theirs: 87 % of the time is in zstd",
    },
    Reason {
        part: "tensor",
        work: "b2nd: box",
        why: "whole blocks are decoded for a part of each, as theirs: 86 % of the time is in zstd",
    },
    Reason {
        part: "tensor",
        work: "b2nd: plane across axis 2",
        why: "every block is decoded for a few bytes, as theirs: the processors work no longer, but one thread reads \
              each lot of blocks before two decode it",
    },
    Reason {
        part: "tensor",
        work: "b2nd: all",
        why: "the processors work as long as theirs; one thread reads each lot of blocks before two decode it",
    },
    Reason {
        part: "grow",
        work: "all points",
        why: "most of the time is the system's: opening a file for each cell, copying out of its cache, and pages of \
              fresh memory for an answer of a hundred megabytes",
    },
    Reason {
        part: "remote",
        work: "a box of 1/1000",
        why: "nearly all is waiting: four rounds, one after the other: documents, the document of fragments, fragments, \
              vertices; in shards the last two are an index and a body each, as fragments say which rows are wanted",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ALL;

    #[test]
    fn a_work_is_found_by_a_part_of_its_name() {
        assert!(
            find("ask", "2000 objects").is_some() && find("ask", "2000 objects more").is_some()
        );
        assert_eq!((find("ask", "one more"), find("points", "2000 objects")), (None, None));
    }

    /// A row for a part that is gone, or behind one that says the same for more, is never seen.
    #[test]
    fn every_reason_can_be_reached() {
        for reason in TOLD {
            let known = ALL.iter().any(|part| part.name == reason.part);
            assert!(known || reason.part == "remote", "{}", reason.part);
            assert_eq!(find(reason.part, reason.work), Some(reason.why), "{}", reason.work);
        }
    }
}

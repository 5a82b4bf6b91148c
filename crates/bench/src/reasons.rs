//! Why a row is not where it is wanted, as whoever measured it wrote down; a new run keeps it.

/// What a row must say, and what holds it back.
struct Reason {
    part: &'static str,
    /// How the work is called, or how that begins: numbers in it change with the scale.
    work: &'static str,
    why: &'static str,
}

/// What was written down of a work.
pub(crate) fn of(part: &str, work: &str) -> Option<&'static str> {
    let told = |reason: &&Reason| reason.part == part && work.starts_with(reason.work);
    TOLD.iter().find(told).map(|reason| reason.why)
}

/// One row for each work that was looked into; those that begin alike: the longer one first.
const TOLD: &[Reason] = &[
    Reason {
        part: "ask",
        work: "2000 objects",
        why: "the objects touch every cell: 43 % of the time is the system opening and reading files, 15 % the \
              allocator, 10 % manifests",
    },
    Reason {
        part: "remote",
        work: "a box of 1/1000",
        why: "nearly all is waiting: requests that depend on the answer of another one follow it, 20 ms each",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ALL;

    #[test]
    fn a_work_is_found_by_how_it_begins() {
        assert!(of("ask", "2000 objects").is_some() && of("ask", "2000 objects more").is_some());
        assert_eq!((of("ask", "one more"), of("points", "2000 objects")), (None, None));
    }

    /// A row for a part that is gone, or behind one that says the same for more, is never seen.
    #[test]
    fn every_reason_can_be_reached() {
        for reason in TOLD {
            let known = ALL.iter().any(|part| part.name == reason.part);
            assert!(known || reason.part == "remote", "{}", reason.part);
            assert_eq!(of(reason.part, reason.work), Some(reason.why), "{}", reason.work);
        }
    }
}

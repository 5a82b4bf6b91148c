//! The table of rules: one constant for each, by level.
//!
//! ```text
//! S  structure      which nodes there are              structure.rs
//! M  metadata       what documents say                 metadata.rs
//! C  consistency    cells, manifests, links            consistency.rs
//! G  geometry       what kinds of geometry ask for     geometry.rs
//! P  pyramid        how levels fit together            pyramid.rs
//! ```
//!
//! Ids and severities are those of the specification as far as it goes: S to 15, M to 19, C to 30, G to 9,
//! P to 9. What was found to be missing there goes on with the next number. An id is never given twice. One
//! severity is another: S6 is an error, because no reader can do without what is missing then.
//!
//! Not here: the code of the rules.

pub(crate) mod consistency;
pub(crate) mod geometry;
pub(crate) mod metadata;
pub(crate) mod pyramid;
pub(crate) mod structure;

use crate::rule::Rule;

/// Every rule, by level and number.
///
/// ```
/// use zvf_validate::RULES;
///
/// assert!(RULES.len() > 80);
/// assert!(RULES.iter().all(|rule| rule.wrong.ends_with('.') && rule.remedy.ends_with('.')));
/// ```
pub static RULES: &[&Rule] = &joined();

impl Rule {
    /// The rule called `id`.
    #[must_use]
    pub fn find(id: &str) -> Option<&'static Self> {
        RULES.iter().copied().find(|rule| rule.id == id)
    }
}

/// Where `rule` stands in the table.
pub(crate) fn place(rule: &Rule) -> usize {
    RULES.iter().position(|other| other.id == rule.id).unwrap_or(RULES.len())
}

const PARTS: [&[&Rule]; 5] =
    [structure::ALL, metadata::ALL, consistency::ALL, geometry::ALL, pyramid::ALL];

const COUNT: usize = {
    let [s, m, c, g, p] = PARTS;
    s.len() + m.len() + c.len() + g.len() + p.len()
};

/// The parts, one after the other.
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "done by the compiler"
)]
const fn joined() -> [&'static Rule; COUNT] {
    let mut all = [&structure::S1; COUNT];
    let (mut part, mut at) = (0, 0);
    while part < PARTS.len() {
        let mut i = 0;
        while i < PARTS[part].len() {
            all[at] = PARTS[part][i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_in_order() {
        let number = |rule: &Rule| rule.id[1..].parse::<u32>().unwrap();
        for pair in RULES.windows(2) {
            let same = pair[0].level == pair[1].level;
            assert!(pair[0].level <= pair[1].level, "{}", pair[1]);
            assert!(!same || number(pair[0]) < number(pair[1]), "{}", pair[1]);
        }
        assert_eq!(place(&pyramid::P1), RULES.iter().position(|rule| rule.id == "P1").unwrap());
    }

    #[test]
    fn every_rule_of_the_specification_is_there() {
        let ids = |letter: char, last: u32| (1..=last).map(move |n| format!("{letter}{n}"));
        let all = ids('S', 15).chain(ids('M', 19)).chain(ids('C', 30));
        for id in all.chain(ids('G', 9)).chain(ids('P', 9)) {
            assert!(Rule::find(&id).is_some(), "{id}");
        }
    }
}

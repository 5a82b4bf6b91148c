//! The table of rules: one constant for each, by level.
//!
//! ```text
//! S  structure      nodes                              structure.rs
//! M  metadata       documents                          metadata.rs
//! C  consistency    cells, manifests, links            consistency.rs
//! G  geometry       constraints of kinds of geometry   geometry.rs
//! P  pyramid        consistency between levels         pyramid.rs
//! ```
//!
//! Ids and severities up to S15, M19, C30, G9 and P9 are those of the specification; further rules continue the
//! numbers. An id is never reused. One severity differs: S6 is an error, because no reader can do without the
//! array.
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
pub static RULES: &[&Rule] = &concat_parts();

impl Rule {
    /// Returns the rule with this id.
    #[must_use]
    pub fn find(id: &str) -> Option<&'static Self> {
        RULES.iter().copied().find(|rule| rule.id == id)
    }
}

/// Returns the position of `rule` in the table.
pub(crate) fn position(rule: &Rule) -> usize {
    RULES.iter().position(|other| other.id == rule.id).unwrap_or(RULES.len())
}

const PARTS: [&[&Rule]; 5] =
    [structure::ALL, metadata::ALL, consistency::ALL, geometry::ALL, pyramid::ALL];

const COUNT: usize = {
    let [s, m, c, g, p] = PARTS;
    s.len() + m.len() + c.len() + g.len() + p.len()
};

/// Concatenates the parts.
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "done by the compiler"
)]
const fn concat_parts() -> [&'static Rule; COUNT] {
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
        assert_eq!(position(&pyramid::P1), RULES.iter().position(|rule| rule.id == "P1").unwrap());
    }

    #[test]
    fn has_every_rule_of_the_specification() {
        let ids = |letter: char, last: u32| (1..=last).map(move |n| format!("{letter}{n}"));
        let all = ids('S', 15).chain(ids('M', 19)).chain(ids('C', 30));
        for id in all.chain(ids('G', 9)).chain(ids('P', 9)) {
            assert!(Rule::find(&id).is_some(), "{id}");
        }
    }
}

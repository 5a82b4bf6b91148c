//! The table of rules, from `rules.txt`: id, severity, versions, fault, remedy.
//!
//! ```text
//! S  structure      nodes
//! M  metadata       documents
//! C  consistency    cells, manifests, links
//! G  geometry       constraints of kinds of geometry
//! P  pyramid        consistency between levels
//! ```
//!
//! `C[28]` is rule C28. The compiler parses the table: a number without a rule does not compile.
//!
//! Ids and severities up to S15, M19, C30, G9 and P9 are those of the specification; further rules
//! continue the numbering. An id is never reused. One severity differs: S6 is an error, because no
//! reader can work without the array.
//!
//! Not here: the code that checks the rules.

use crate::rule::{Depth, Rule, Severity};

/// Every rule, by level and number.
///
/// ```
/// use zvf_validate::RULES;
///
/// assert!(RULES.len() > 80);
/// assert!(RULES.iter().all(|rule| rule.wrong.ends_with('.') && rule.remedy.ends_with('.')));
/// ```
pub static RULES: &[Rule] = &ALL;

// Index 0 of each holds a placeholder, so that indices are rule numbers.
pub(crate) static S: [&Rule; 22] = of_level(b'S');
pub(crate) static M: [&Rule; 25] = of_level(b'M');
pub(crate) static C: [&Rule; 47] = of_level(b'C');
pub(crate) static G: [&Rule; 11] = of_level(b'G');
pub(crate) static P: [&Rule; 14] = of_level(b'P');

impl Rule {
    /// Returns the rule with this id.
    pub fn find(id: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.id == id)
    }
}

/// Returns the position of `rule` in the table.
pub(crate) fn position(rule: &Rule) -> usize {
    RULES.iter().position(|other| other.id == rule.id).unwrap_or(RULES.len())
}

static ALL: [Rule; 114] = parse(include_str!("rules.txt"));

const fn parse<const N: usize>(mut text: &'static str) -> [Rule; N] {
    let (depth, severity) = (Depth::Structure, Severity::Note);
    let mut rules =
        [Rule { id: "", level: depth, severity, versions: "", wrong: "", remedy: "" }; N];
    let mut at = 0;
    while !text.is_empty() {
        let (id, rest) = field(text, b'|');
        let (severity, rest) = field(rest, b'|');
        let (versions, rest) = field(rest, b'|');
        let (wrong, rest) = field(rest, b'|');
        let (remedy, rest) = field(rest, b'\n');
        let (level, severity) = (Depth::of_id(id), Severity::of_name(severity));
        rules[at] = Rule { id, level, severity, versions, wrong, remedy };
        (text, at) = (rest, at + 1);
    }
    assert!(at == N, "the table has another number of rules");
    rules
}

/// Returns the text up to `end`, and the rest.
const fn field(text: &'static str, end: u8) -> (&'static str, &'static str) {
    let mut at = 0;
    while text.as_bytes()[at] != end {
        at += 1;
    }
    let (field, rest) = text.split_at(at);
    (field.trim_ascii(), rest.split_at(1).1)
}

const fn of_level<const N: usize>(letter: u8) -> [&'static Rule; N] {
    let mut rules = [&ALL[0]; N];
    let (mut at, mut number) = (0, 1);
    while at < ALL.len() {
        if ALL[at].id.as_bytes()[0] == letter {
            rules[number] = &ALL[at];
            number += 1;
        }
        at += 1;
    }
    assert!(number == N, "the level has another number of rules");
    rules
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
            assert!(!same || number(&pair[0]) < number(&pair[1]), "{}", pair[1]);
        }
        assert_eq!(position(P[1]), RULES.iter().position(|rule| rule.id == "P1").unwrap());
        for (letter, rules) in [("S", &S[..]), ("M", &M), ("C", &C), ("G", &G), ("P", &P)] {
            for (number, rule) in rules.iter().enumerate().skip(1) {
                assert_eq!(rule.id, format!("{letter}{number}"));
            }
        }
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

//! Ceilings for the size of the workspace: lines of code by package and in total, lines of tests,
//! and constructs that may only become fewer.
//!
//! The list has one row for each, `NAME NUMBER`. `cargo xtask tidy --lower` lowers ceilings. Each
//! version of the list is compared with the previous one in the git history. Lines may move from one
//! package to another, so for packages only the sum must not rise. Only a grant raises it, or the
//! number of tests: a row `granted:WHAT LINES` or `granted-tests:WHAT LINES`.

pub(crate) mod count;

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;

use crate::house::{House, say};

/// Returns the faults, one line each: numbers above their ceilings, and raised ceilings.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let list = parse(&house.read(LIST)?)?;
    let mut problems = find_above(&count::count(house)?, &list);
    let mut newer = list;
    for commit in history(house) {
        let text = house.program("git").args(&["show", &format!("{commit}:{LIST}")]).output();
        let older = parse(&text.with_context(|| format!("no {LIST} in commit {commit}"))?)?;
        problems.extend(find_raised(&older, &newer));
        newer = older;
    }
    Ok(problems)
}

/// Lowers each ceiling to the current count.
pub(super) fn lower(house: &House) -> anyhow::Result<()> {
    let counts = count::count(house)?;
    let text = house.read(LIST)?;
    let mut lowered = String::new();
    for line in text.lines() {
        match parse(line)?.pop_first() {
            Some((name, _)) if name.starts_with(GRANT) => lowered.push_str(&format!("{line}\n")),
            Some((name, ceiling)) => {
                let count = counts.get(&name).copied().unwrap_or(0); // 0: there is none left
                lowered.push_str(&format!("{name} {}\n", ceiling.min(count)));
            }
            None => lowered.push_str(&format!("{line}\n")),
        }
    }
    fs::write(house.path(LIST), lowered).with_context(|| format!("cannot write {LIST}"))?;
    say(&format!("lowered the ceilings in {LIST}; nothing raises one"));
    Ok(())
}

fn parse(text: &str) -> anyhow::Result<Ceilings> {
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows = rows.map(|line| {
        let (name, number) = line.split_once(' ').with_context(|| format!("{LIST}: {line:?}"))?;
        Ok((name.to_owned(), number.parse().with_context(|| format!("{LIST}: {line:?}"))?))
    });
    rows.collect()
}

/// Returns the counts above their ceilings. A count without a ceiling must be zero.
fn find_above(counts: &Ceilings, list: &Ceilings) -> Vec<String> {
    let ceiling = |name: &str| list.get(name).copied().unwrap_or(0); // without a row: none
    let above = counts.iter().filter(|(name, count)| **count > ceiling(name));
    above
        .map(|(name, count)| {
            format!("{LIST}: {name}: {count}, at most {}; make it smaller", ceiling(name))
        })
        .collect()
}

/// Returns the ceilings that are higher than in an older list.
fn find_raised(older: &Ceilings, newer: &Ceilings) -> Vec<String> {
    let sum = |list: &Ceilings, start: &str| -> usize {
        list.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, ceiling)| ceiling).sum()
    };
    let granted = |name: &str| match name {
        "all packages" | "total" => sum(newer, "granted:").saturating_sub(sum(older, "granted:")),
        "tests" => sum(newer, "granted-tests:").saturating_sub(sum(older, "granted-tests:")),
        _ => 0,
    };
    let mut pairs = vec![("all packages", sum(older, PACKAGE), sum(newer, PACKAGE))];
    let is_other = |name: &str| !name.starts_with(PACKAGE) && !name.starts_with(GRANT);
    let others = older.iter().filter(|(name, _)| is_other(name));
    pairs.extend(others.filter_map(|(name, old)| Some((name.as_str(), *old, *newer.get(name)?))));
    let raised = pairs.into_iter().filter(|(name, old, new)| *new > old + granted(name));
    raised
        .map(|(name, old, new)| format!("{LIST}: {name} was raised from {old} to {new}"))
        .collect()
}

/// Returns the commits that changed the list, the latest first; none outside of a repository.
fn history(house: &House) -> Vec<String> {
    let log = ["log", "--format=%H", "--first-parent", "--", LIST];
    let log = house.program("git").args(&log).output().unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

type Ceilings = BTreeMap<String, usize>;

const LIST: &str = "xtask/weight.txt";
/// The prefixes of the rows of packages, and of grants.
const PACKAGE: &str = "crate:";
const GRANT: &str = "granted";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_and_a_raised_ceiling_are_noticed() {
        let list = parse("# why\ncrate:a 10\ncrate:b 5\ntotal 15\n").unwrap();
        assert!(find_above(&list, &list).is_empty() && find_raised(&list, &list).is_empty());
        let grown = parse("crate:a 11\ncrate:new 1\ntotal 12\n").unwrap();
        assert_eq!(
            find_above(&grown, &list),
            [
                "xtask/weight.txt: crate:a: 11, at most 10; make it smaller",
                "xtask/weight.txt: crate:new: 1, at most 0; make it smaller",
            ]
        );
        let moved = parse("crate:a 3\ncrate:b 12\ntotal 14").unwrap();
        assert!(find_raised(&list, &moved).is_empty());
        let raised = parse("crate:a 11\ncrate:b 5\ntotal 16").unwrap();
        assert_eq!(
            find_raised(&list, &raised),
            [
                "xtask/weight.txt: all packages was raised from 15 to 16",
                "xtask/weight.txt: total was raised from 15 to 16",
            ]
        );
        let granted = parse("crate:a 11\ncrate:b 5\ngranted:why 1\ntotal 16").unwrap();
        assert!(find_raised(&list, &granted).is_empty());
        let again = parse("crate:a 12\ncrate:b 5\ngranted:why 1\ntotal 17").unwrap();
        assert_eq!(find_raised(&granted, &again).len(), 2);
        assert!(parse("crate:a\n").is_err());
    }
}

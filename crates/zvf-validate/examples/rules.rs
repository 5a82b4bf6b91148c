//! Prints the page of the book that lists all rules: `cargo run --example rules -p zvf-validate`.

use std::io::{self, Write as _};

use zvf_validate::{Depth, RULES, Severity};

fn main() -> io::Result<()> {
    io::stdout().lock().write_all(page().as_bytes())
}

/// Every rule by level.
pub(crate) fn page() -> String {
    let mut page = String::from(HEAD);
    for &level in Depth::ALL {
        page.push_str(&format!("\n## {}: {}\n\n", level.number(), level.name()));
        page.push_str("| rule | severity | versions | what is wrong | what to do |\n");
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for rule in RULES.iter().filter(|rule| rule.level == level) {
            let severity = if rule.severity == Severity::Note { "-" } else { rule.severity.name() };
            let (id, versions, wrong, remedy) = (rule.id, rule.versions, rule.wrong, rule.remedy);
            page.push_str(&format!("| {id} | {severity} | {versions} | {wrong} | {remedy} |\n"));
        }
    }
    page
}

const HEAD: &str = "\
# Rules

Written by `cargo xtask docs` from the table in `zvf-validate`; do not edit.

This page lists the rules that `zvf validate` checks. The letter of a rule is its depth; each depth includes
the checks before it. A finding can be milder than the severity of its rule if readers do not need the data.
`--strict` also reports an error for data that only a strict reader refuses. Ids never change. A rule without
a severity is information, not a fault.
";

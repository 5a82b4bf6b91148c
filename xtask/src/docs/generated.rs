//! Pages of the book that are generated from the library.

use std::fmt::Write;

use anyhow::Context;
use zvf_format::Class;

use crate::fixtures::{self, Mode};
use crate::house::House;

#[path = "../../../crates/zvf/src/exit_code.rs"]
#[expect(unreachable_pub, reason = "the library shows it to programs")]
mod exit_code;

/// Writes or compares every generated page.
pub(super) fn settle(house: &House, mode: Mode) -> anyhow::Result<()> {
    fixtures::settle(house, mode, "docs/src/format/faults.md", faults()?.as_bytes(), "docs")
}

/// Writes or compares the page of rules. A program of the crate prints it, to keep this program
/// small. A test of that crate compares it too.
pub(super) fn settle_rules(house: &House, mode: Mode) -> anyhow::Result<()> {
    let page = house.program(house.build_programs(&[])?.join("examples/rules")).output();
    let page = page.context("the rules cannot be printed")?;
    fixtures::settle(house, mode, "docs/src/rules.md", page.as_bytes(), "docs")
}

/// Returns every class of errors, with its exit code, retry and hint.
fn faults() -> Result<String, std::fmt::Error> {
    let mut page = String::from(FAULTS);
    for &class in Class::ALL {
        let hint = class.hint().map_or("", |hint| hint.text());
        let retry = if class.is_retryable() { "yes" } else { "" };
        writeln!(page, "| `{class}` | {} | {retry} | {hint} |", exit_code::exit_code(class))?;
    }
    Ok(page)
}

const FAULTS: &str = "\
# Faults

Written by `cargo xtask docs` from `zvf_format::Class` and the exit codes of the command; do not edit.

Every error of every layer carries a class. Its name, its exit code and whether trying again can help
are an interface: scripts may match on them. The classes that the format crate itself produces are
those with exit code 3, and `InvalidKey` and `InvalidArgument`.

A message is one line: `Truncated in fragment index, ranges at byte 24: expected 32 bytes, found 16`.
It names the class (the command does so with `--json` only), the structure, the field as the
specification calls it, the byte at which it starts, the expected and the found value.

| class | exit code | retry | advice when nothing more particular is known |
| --- | --- | --- | --- |
";

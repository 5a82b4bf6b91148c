//! `tidy`: project rules that a program can check. It is also a test, so `cargo test` runs it.
//!
//! [`files`] checks the text of each file, [`layers`] the dependencies of each package, [`modules`]
//! the files of each package that use each other, [`ceilings`] the size of the workspace. Every
//! rule is a function from text to problems, tested on text that violates it.

pub(crate) mod ceilings;
mod files;
mod layers;
mod modules;

use anyhow::ensure;

use crate::args::Args;
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let lower = args.flag("--lower");
    args.end()?;
    if lower {
        ceilings::lower(house)?;
    }
    let mut problems = files::check(house)?;
    problems.extend(layers::check(house)?);
    problems.extend(modules::check(house)?);
    problems.extend(ceilings::check(house)?);
    for problem in &problems {
        say(problem);
    }
    ensure!(problems.is_empty(), "{} house rules broken", problems.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        run(&House::find().unwrap(), Args::default()).unwrap();
    }
}

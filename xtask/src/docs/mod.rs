//! `docs`: the book and the pages of the API.
//!
//! The book is plain Markdown below `docs/src`; reading it needs no tool. Pages about facts of the library are
//! generated ([`generated`]), every link between pages is checked ([`links`]), and so are a few
//! rules for pages ([`pages`]). Every command is run ([`run`](mod@run)).

mod generated;
mod links;
mod pages;
pub(crate) mod run;

use anyhow::ensure;

use crate::args::Args;
use crate::cargo_toml::published_set;
use crate::fixtures::Mode;
use crate::house::{House, say};
use crate::parts::BOOK;

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    if args.flag("--run") {
        let with_sql = args.flag("--sql");
        args.end()?;
        return run::run(&house.for_ci(), with_sql); // pages show what the released command can do, which has all features
    }
    let (mode, open) = (Mode::from_args(&mut args), args.flag("--open"));
    args.end()?;
    generated::settle(house, mode)?;
    generated::settle_rules(house, mode)?;
    let mut problems = links::check(house)?;
    problems.extend(pages::check(house)?);
    for problem in &problems {
        say(problem);
    }
    ensure!(problems.is_empty(), "{} faults in pages", problems.len());
    if BOOK.settle(open || house.program("mdbook").words("--version").output().is_some()) {
        let book = house.program("mdbook").words("build docs");
        book.args(if open { &["--open"] } else { &[] }).run()?;
        if open {
            return Ok(());
        }
    }
    let doc = house.cargo("doc --no-deps --bins").args(&published_set(house)?);
    doc.env("RUSTDOCFLAGS", "-D warnings").run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_pages_are_up_to_date() {
        generated::settle(&House::find().unwrap(), Mode::Check).unwrap();
    }

    #[test]
    fn no_link_is_broken() {
        assert_eq!(links::check(&House::find().unwrap()).unwrap(), Vec::<String>::new());
    }
}

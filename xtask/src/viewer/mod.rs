//! `viewer`: the page that shows stores, built, checked with the current server, and tested in a
//! browser.
//!
//! The built page is in `crates/zvf-serve/page`, so that building the server does not need Node.
//! `BUILT.json` next to it lists the files of `viewer/` that it was built from and the files of the
//! page, with their SHA-256. The crates that the page was built with may change: it is rebuilt when
//! the behaviour of the viewer or its reader changes, and for a release.

mod build;
mod trial;

use anyhow::bail;

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "viewer",
    help: "check, build or try the page that shows stores

usage: cargo xtask viewer check|build
       cargo xtask viewer verify [--kept] [--flight SECONDS] [--points N] [--only CHECK,..]
       cargo xtask viewer npm [FILE..]
       cargo xtask viewer pictures
       cargo xtask viewer neuroglancer PYTHON

check         compares the kept page, and the sources in viewer/, with what they were when it was built; sends the
              current server all that the page asks for; no Node is needed
build         compiles the reader to WebAssembly, checks types, runs unit tests and bundles the page; needs Node with npm
              and the Rust target wasm32-unknown-unknown, and fetches the rest by its lock files when it is missing
verify        builds the page and compares it with the one that is kept (--kept: tries that one without), makes stores,
              serves them, and tries the page in headless Chromium (Debian's, or CHROMIUM): all figures that it must reach
npm           packs the reader for JavaScript and these files, installs the package in another folder, and reads the
              archived stores with it in Node
pictures      draws the pictures of the book anew
neuroglancer  opens --precomputed in the stock Neuroglancer client, out of the Python package; also reads it with CloudVolume",
    run,
};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let what = args.next().and_then(|what| what.into_string().ok()).unwrap_or_default();
    match what.as_str() {
        "check" => {
            args.end()?;
            build::check_page(house)
        }
        "build" => {
            args.end()?;
            build::build_page(house)
        }
        "verify" => trial::verify(house, args),
        "npm" => trial::pack_package(house, args),
        "pictures" => trial::draw_pictures(house, args),
        "neuroglancer" => trial::try_neuroglancer(house, args),
        other => bail!("{other:?}: expected check, build, verify, npm, pictures or neuroglancer"),
    }
}

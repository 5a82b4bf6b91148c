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

use crate::args::Args;
use crate::house::House;

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

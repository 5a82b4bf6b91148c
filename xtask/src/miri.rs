//! `miri`: the tests of the byte-level crates in an interpreter that detects undefined behaviour, on the host and on a
//! big-endian target; the vector code of zvf-blosc, and the table that zvf-map shares with its signal handler.

use crate::args::Args;
use crate::house::House;

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let hint = "Miri is missing: `rustup toolchain install nightly --component miri,rust-src`";
    house.nightly("", "miri --version").require(hint)?;
    let unsafe_only = args.flag("--unsafe-only");
    filters(house)?;
    tables(house)?;
    if unsafe_only {
        return args.end();
    }
    let words: Vec<_> = args.into_words().collect();
    for target in [None, Some("s390x-unknown-linux-gnu")] {
        let mut miri = house.nightly("", "miri test --lib --all-features").args(&PACKAGES);
        if let Some(target) = target {
            miri = miri.args(&["--target", target]);
        }
        miri.args(&["--", "--skip", ENDLESS])
            .args(&words)
            .env("PROPTEST_CASES", "4")
            // Properties store failing cases in files, and need the current folder.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            // The library of the benches contains a C file. The interpreter runs none of it, so any compiler suffices.
            .env("CC_s390x_unknown_linux_gnu", "cc")
            .env("AR_s390x_unknown_linux_gnu", "ar")
            .run()?;
    }
    Ok(())
}

/// Tests the table that the signal handler of zvf-map reads while other threads write it. The surrounding code makes
/// system calls, and the interpreter supports neither maps of files nor signals: `torture sigbus` tests those.
fn tables(house: &House) -> anyhow::Result<()> {
    house
        .nightly("", "miri test -p zvf-map --lib --")
        .arg("signal::place::tests::a_range_is_seen_whole_or_not_at_all")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-many-seeds=0..32")
        .run()
}

/// Tests the filters of zvf-blosc with vector code. The interpreter cannot call C, so the codecs are left out.
fn filters(house: &House) -> anyhow::Result<()> {
    let vectors = if cfg!(target_arch = "x86_64") { "-Ctarget-feature=+avx2" } else { "" };
    house
        .nightly("", "miri test -p zvf-blosc --lib --no-default-features --features fast-codecs")
        .words("-- filter::")
        .env("PROPTEST_CASES", "8")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        // The interpreter supports the vectors that the compiler is configured for.
        .env("RUSTFLAGS", vectors)
        .run()
}

/// The interpreted packages.
const PACKAGES: [&str; 8] =
    ["-p", "zvf-format", "-p", "zvf-metadata", "-p", "zvf-tet", "-p", "zvf-b2nd"];

/// A document with a million values would take hours to interpret, and smaller ones test the same
/// code.
const ENDLESS: &str = "hostile_documents_are_refused_early";

//! Passes the memory map of the board to the linker; does nothing on a host.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    io::Write::write_all(&mut out, b"cargo::rerun-if-changed=build.rs\n")?;
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return Ok(());
    }
    let Ok(folder) = env::var("OUT_DIR").map(PathBuf::from) else {
        return Err(io::Error::other("no folder for output"));
    };
    fs::write(folder.join("memory.x"), MEMORY)?;
    let search = format!("cargo::rustc-link-search={}\n", folder.display());
    io::Write::write_all(&mut out, search.as_bytes())?;
    io::Write::write_all(&mut out, b"cargo::rustc-link-arg-bins=-Tlink.x\n")
}

/// MPS2 board, image AN386: flash and memory of a Cortex-M4.
const MEMORY: &str = "\
MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 4M
  RAM   : ORIGIN = 0x20000000, LENGTH = 4M
}
";

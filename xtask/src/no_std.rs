//! `no-std`: the byte-level crates without an operating system, and on an emulated one.

use anyhow::ensure;

use crate::args::Args;
use crate::house::House;

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let emulate = args.flag("--run");
    args.end()?;
    for target in [BARE_METAL, "wasm32-unknown-unknown"] {
        require(house, target)?;
        for (package, features) in BUILDS {
            let build = format!("build -p {package} --no-default-features --target {target}");
            house.cargo(&build).args(&["--features", features]).run()?;
        }
    }
    if emulate { firmware(house) } else { Ok(()) }
}

/// Fails with the installation command when a target is missing.
pub(crate) fn require(house: &House, target: &str) -> anyhow::Result<()> {
    let found = house.program("rustc").words("--print target-libdir --target").arg(target);
    let folder = found.output().unwrap_or_default();
    ensure!(
        std::path::Path::new(folder.trim()).is_dir(),
        "target {target} is missing: `rustup target add {target}`"
    );
    Ok(())
}

fn firmware(house: &House) -> anyhow::Result<()> {
    house.cargo("build -p firmware --profile firmware --target").arg(BARE_METAL).run()?;
    let image = house.target().join(BARE_METAL).join("firmware").join("firmware");
    house.program("size").arg(&image).run()?; // of binutils, which every linker comes with
    let hint = format!("{EMULATOR} is missing (Debian: `apt-get install {EMULATOR}`)");
    house.program(EMULATOR).words("--version").require(&hint)?;
    let machine = "timeout 60 {} -machine mps2-an386 -cpu cortex-m4 -nographic \
        -semihosting-config enable=on,target=native -kernel {}";
    house.line(machine, &[&EMULATOR, &image]).run()
}

/// Packages without an operating system, each with and without an allocator where possible.
const BUILDS: [(&str, &str); 6] = [
    ("zvf-format", ""),
    ("zvf-format", "alloc"),
    ("zvf-metadata", ""),
    ("zvf-tet", ""),
    ("zvf-b2nd", ""),
    ("zvf-b2nd", "alloc"),
];

const BARE_METAL: &str = "thumbv7em-none-eabihf";
const EMULATOR: &str = "qemu-system-arm";

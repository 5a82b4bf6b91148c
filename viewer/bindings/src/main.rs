//! What the build of the page needs and Node does not have: `bindings web|node IN.wasm OUT_FOLDER` writes the bindings of a
//! module, `bindings pack IN OUT.gz` packs a file as small as gzip allows.
//!
//! The program wasm-bindgen writes bindings too; this one is always of the version that the lock file of the workspace names.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::{Context as _, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, from, to] = words.as_slice() else {
        bail!("usage: bindings web|node IN.wasm OUT_FOLDER, or bindings pack IN OUT.gz");
    };
    match what.as_str() {
        "web" | "node" => write_bindings(what, from, to),
        "pack" => pack_file(from, to),
        other => bail!("{other:?}: expected web, node or pack"),
    }
}

fn write_bindings(target: &str, module: &str, folder: &str) -> anyhow::Result<()> {
    let mut bindgen = Bindgen::new();
    if target == "web" { bindgen.web(true)? } else { bindgen.nodejs(true)? };
    bindgen.input_path(module).typescript(true);
    // The names stay for the optimizer, which orders functions by them and then leaves them out.
    bindgen.remove_producers_section(true);
    bindgen.generate(folder).with_context(|| format!("{module} cannot be bound"))
}

fn pack_file(from: &str, to: &str) -> anyhow::Result<()> {
    let bytes = File::open(from).with_context(|| format!("cannot open {from}"))?;
    let mut packed = BufWriter::new(File::create(to).with_context(|| format!("cannot make {to}"))?);
    zopfli::compress(zopfli::Options::default(), zopfli::Format::Gzip, bytes, &mut packed)?;
    packed.flush().with_context(|| format!("cannot write {to}"))
}

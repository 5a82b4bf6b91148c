//! Prints the public items of a crate, one per line, from the JSON that rustdoc writes: `zvf-api
//! FILE.json`.
//!
//! Of derived implementations, the line of the trait is printed without those of its methods.

use std::collections::BTreeSet;
use std::error::Error;

use public_api::Builder;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("zvf-api FILE.json")?;
    let builder =
        Builder::from_rustdoc_json(file).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let all = builder.clone().build()?;
    let written = builder.omit_auto_derived_impls(true).build()?;
    let derived = all.items().map(ToString::to_string).filter(|line| line.starts_with("impl"));
    let lines: BTreeSet<String> = written.items().map(ToString::to_string).chain(derived).collect();
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

//! Builds a fragment index and a manifest, prints their bytes, and walks both.
//!
//! `cargo run --example walk -p zvf-format`

use std::error::Error;

use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder};
use zvf_format::manifest::{Manifest, ManifestBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = FragmentIndexBuilder::new();
    builder.push_range(0, 4)?;
    builder.push_rows(&[12, 7, 19])?;
    builder.push_range(20, 8)?;
    let blob = builder.encode();
    print("fragment index", &blob);

    let index = FragmentIndex::parse(&blob)?;
    for (f, fragment) in index.iter().enumerate() {
        match fragment {
            Fragment::Range { start, count } => println!("  {f}: {count} rows from row {start}"),
            Fragment::Rows(_) => println!("  {f}: rows {:?}", fragment.rows().collect::<Vec<_>>()),
        }
    }
    println!(
        "  rows end at {}; ranges cover all of them in order: {}",
        index.extent(),
        index.tiles(28)
    );

    let mut builder = ManifestBuilder::new(3)?;
    builder.push_single(&[0, 0, -1], 0)?;
    builder.push_range(&[1, 0, -1], 2, 2)?;
    let blob = builder.encode();
    print("manifest", &blob);

    let manifest = Manifest::parse(&blob, 3)?;
    for reference in manifest.references() {
        let chunk: Vec<_> = reference.chunk.iter().map(|c| c.get()).collect();
        println!("  fragment {} of chunk {chunk:?}", reference.fragment);
    }

    let cut = Manifest::parse(&blob[..blob.len() - 1], 3).unwrap_err();
    println!("cut by a byte: {cut}");
    Ok(())
}

fn print(name: &str, blob: &[u8]) {
    println!("{name}, {} bytes", blob.len());
    for (at, line) in (0..).step_by(16).zip(blob.chunks(16)) {
        let bytes: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("  {at:04x}  {}", bytes.join(" "));
    }
}

//! Converts a file to another format; both formats follow from the file names: `convert IN OUT
//! [KIND]`.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;

use zvf_convert::Format;
use zvf_convert::read::{self, Input, Polygons, ReadOptions};
use zvf_convert::write::{self, Target, WriteOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, kind @ ..] = &words[..] else { return Err("convert IN OUT [KIND]".into()) };
    let to = PathBuf::from(to);
    let format = Format::from_extension(&to).ok_or("an unknown format")?;
    let kind = kind.first().map(|kind| kind.parse()).transpose()?;
    let options = ReadOptions { kind, polygons: Polygons::Triangles, ..ReadOptions::default() };
    let reader = read::open(Input::path(from), None, &options)?;
    for loss in write::find_losses(reader.header(), format)? {
        writeln!(io::stderr(), "{loss}")?;
    }
    let mut file = std::fs::File::create_new(&to)?;
    let writer = write::open(format, Target::file(&mut file), &WriteOptions::default())?;
    let report = write::copy(reader, writer)?;
    writeln!(io::stdout(), "{report:?}")?;
    Ok(())
}

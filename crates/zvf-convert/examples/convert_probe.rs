//! Converts one file to another format: a probe.
use zvf_convert::{Format, read, write};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    while let (Some(from), Some(to)) = (args.next(), args.next()) {
        let go = || -> Result<(), Box<dyn std::error::Error>> {
            let options =
                read::ReadOptions { polygons: read::Polygons::Rings, ..Default::default() };
            let reader = read::open(read::Input::path(&from), None, &options)?;
            for note in &reader.header().left_out {
                eprintln!("{from}: left out: {note}");
            }
            let format = Format::from_extension(to.as_ref()).ok_or("no format")?;
            for loss in write::find_losses(reader.header(), format)? {
                eprintln!("{from}: {loss}");
            }
            let file = std::fs::File::create(&to)?;
            let file = std::io::BufWriter::new(file);
            let writer =
                write::open(format, write::Target::file(file), &write::WriteOptions::default())?;
            let report = write::copy(reader, writer)?;
            eprintln!("{from} -> {to}: {} vertices, {:?}", report.vertices, report.losses);
            Ok(())
        };
        if let Err(error) = go() {
            eprintln!("{from} -> {to}: ERROR {error}");
        }
    }
    Ok(())
}

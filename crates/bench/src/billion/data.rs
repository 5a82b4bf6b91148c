//! Tables of points and of streamlines as npy, of any length, and the same on every run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use archives::random::Random;

use crate::data::SIDE;

/// The contents of a table.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Data {
    /// Points as scanners write them: neighbours in the file are neighbours in space.
    Points,
    /// Walks of a hundred vertices.
    Streamlines,
}

/// The settings of one kind of data.
pub(super) struct About {
    pub(super) name: &'static str,
    /// The value of `--kind`.
    pub(super) kind: &'static str,
    /// The arguments for levels.
    pub(super) levels: &'static [&'static str],
    /// The NumPy type of a row.
    row: &'static str,
    /// The number of consecutive vertices that are neighbours in space.
    run: u64,
}

impl Data {
    pub(super) const fn about(self) -> About {
        match self {
            Self::Points => About {
                name: "points",
                kind: "point_cloud",
                levels: &[],
                row: "[('position', '<f4', (3,)), ('intensity', '<f4')]",
                run: 1000,
            },
            Self::Streamlines => About {
                name: "streamlines",
                kind: "streamline",
                // No picture shows ten million streamlines.
                levels: &["--sparsity", "8"],
                row: "[('position', '<f4', (3,)), ('intensity', '<f4'), ('object', '<i4')]",
                run: LENGTH,
            },
        }
    }
}

/// Writes a table of `vertices` vertices.
pub(super) fn write_table(data: Data, vertices: u64, path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let About { row, run, .. } = data.about();
    write_header(row, vertices, &mut file)?;
    let mut random = Random::new(SEED);
    let mut unit = || random.next_unit() as f32;
    let (mut at, mut heading) = ([0.0; 3], [0.0; 3]);
    for n in 0..vertices {
        if n % run == 0 {
            at = [(); 3].map(|()| unit() * SIDE as f32);
            heading = [(); 3].map(|()| unit() - 0.5);
        }
        for (x, step) in at.iter_mut().zip(&mut heading) {
            *step += (unit() - 0.5) * 0.2;
            *x += *step * 0.5;
            // Walks turn round at the walls; if they continued along the walls, they would end in
            // the corners.
            if !(0.0..=SIDE as f32).contains(x) {
                *x = x.clamp(0.0, SIDE as f32);
                *step = -*step;
            }
            file.write_all(&x.to_le_bytes())?;
        }
        file.write_all(&(unit() * 100.0).to_le_bytes())?;
        if data == Data::Streamlines {
            file.write_all(&((n / LENGTH) as u32).to_le_bytes())?;
        }
    }
    file.flush()
}

fn write_header(row: &str, vertices: u64, file: &mut impl Write) -> std::io::Result<()> {
    let words = format!("{{'descr': {row}, 'fortran_order': False, 'shape': ({vertices},), }}");
    // The table begins at a multiple of 64.
    let length = (10 + words.len() + 1).next_multiple_of(64) - 10;
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(length as u16).to_le_bytes())?;
    writeln!(file, "{words:<width$}", width = length - 1)
}

/// The seed of the random numbers.
pub(super) const SEED: u64 = 0x5851_f42d_4c95_7f2d;
/// The number of vertices per streamline.
pub(super) const LENGTH: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_where_the_header_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (data, size) in [(Data::Points, 16), (Data::Streamlines, 20)] {
            write_table(data, 250, file.path()).unwrap();
            let bytes = std::fs::read(file.path()).unwrap();
            let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            assert!(header.is_multiple_of(64) && bytes[header - 1] == b'\n');
            assert_eq!(bytes.len(), header + 250 * size);
            let x = f32::from_le_bytes(bytes[header..][..4].try_into().unwrap());
            assert!((0.0..=100.0).contains(&x));
        }
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes[bytes.len() - 4..], 2_u32.to_le_bytes());
    }
}

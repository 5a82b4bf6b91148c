//! Tables of points and of streamlines as npy, of any length, and the same on every run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::parts::sample_data::{Random, SIDE};

/// The contents of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Data {
    /// Points as scanners write them: neighbours in the file are neighbours in space.
    Points,
    /// Walks of a hundred vertices.
    Streamlines,
}

impl Data {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Streamlines => "streamlines",
        }
    }

    /// Returns the value of `--kind`.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Points => "point_cloud",
            Self::Streamlines => "streamline",
        }
    }

    /// Returns the arguments for levels: no picture shows ten million streamlines.
    pub(super) const fn level_words(self) -> &'static [&'static str] {
        match self {
            Self::Points => &[],
            Self::Streamlines => &["--sparsity", "8"],
        }
    }

    /// Returns the NumPy type of a row.
    const fn row_dtype(self) -> &'static str {
        match self {
            Self::Points => "[('position', '<f4', (3,)), ('intensity', '<f4')]",
            Self::Streamlines => {
                "[('position', '<f4', (3,)), ('intensity', '<f4'), ('object', '<i4')]"
            }
        }
    }
}

/// Writes a table of `vertices` vertices.
pub(super) fn write_table(data: Data, vertices: u64, path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    write_header(data, vertices, &mut file)?;
    let mut random = Random::new(SEED);
    let (mut at, mut heading) = ([0.0; 3], [0.0; 3]);
    for n in 0..vertices {
        if n % run_length(data) == 0 {
            at = [(); 3].map(|()| random.next_unit() * SIDE as f32);
            heading = [(); 3].map(|()| random.next_unit() - 0.5);
        }
        for (x, step) in at.iter_mut().zip(&mut heading) {
            *step += (random.next_unit() - 0.5) * 0.2;
            *x += *step * 0.5;
            // Walks turn round at the walls; if they continued along the walls, they would end in
            // the corners.
            if !(0.0..=SIDE as f32).contains(x) {
                *x = x.clamp(0.0, SIDE as f32);
                *step = -*step;
            }
            file.write_all(&x.to_le_bytes())?;
        }
        file.write_all(&(random.next_unit() * 100.0).to_le_bytes())?;
        if data == Data::Streamlines {
            file.write_all(&((n / LENGTH) as u32).to_le_bytes())?;
        }
    }
    file.flush()
}

fn write_header(data: Data, vertices: u64, file: &mut impl Write) -> std::io::Result<()> {
    let row = data.row_dtype();
    let words = format!("{{'descr': {row}, 'fortran_order': False, 'shape': ({vertices},), }}");
    // The table begins at a multiple of 64.
    let length = (10 + words.len() + 1).next_multiple_of(64) - 10;
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(length as u16).to_le_bytes())?;
    writeln!(file, "{words:<width$}", width = length - 1)
}

/// Returns the number of consecutive vertices that are neighbours in space.
const fn run_length(data: Data) -> u64 {
    match data {
        Data::Points => 1000,
        Data::Streamlines => LENGTH,
    }
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

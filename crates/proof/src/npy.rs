//! NumPy files, as far as the peers use the format: `<f8` and `<i8`, C order.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// The numbers of one file, and the width of a row.
#[derive(Clone, Debug)]
pub(crate) struct Npy<T> {
    pub(crate) values: Vec<T>,
    pub(crate) width: usize,
}

impl<T: Clone> Npy<T> {
    /// Returns the rows.
    pub(crate) fn rows(&self) -> Vec<Vec<T>> {
        self.values.chunks(self.width).map(<[T]>::to_vec).collect()
    }
}

/// Reads a file of floats.
pub(crate) fn read_floats(path: &Path) -> anyhow::Result<Npy<f64>> {
    read_numbers(path, "<f8", f64::from_le_bytes)
}

/// Reads a file of integers.
pub(crate) fn read_ints(path: &Path) -> anyhow::Result<Npy<i64>> {
    read_numbers(path, "<i8", i64::from_le_bytes)
}

fn read_numbers<T>(
    path: &Path,
    kind: &str,
    number: impl Fn([u8; 8]) -> T,
) -> anyhow::Result<Npy<T>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = parse_numbers(&bytes, kind, number);
    parsed.with_context(|| format!("{} is no array of {kind}", path.display()))
}

fn parse_numbers<T>(
    bytes: &[u8],
    kind: &str,
    number: impl Fn([u8; 8]) -> T,
) -> anyhow::Result<Npy<T>> {
    ensure!(bytes.starts_with(b"\x93NUMPY\x01\x00"), "not version 1.0");
    let len = bytes.get(8..10).context("too short")?;
    let end = 10 + usize::from(u16::from_le_bytes([len[0], len[1]]));
    let header = std::str::from_utf8(bytes.get(10..end).context("too short")?)?;
    ensure!(header.contains(&format!("'descr': '{kind}'")), "another type: {header}");
    ensure!(header.contains("'fortran_order': False"), "another order: {header}");
    let Some((_, shape)) = header.split_once("'shape': (") else { bail!("no shape: {header}") };
    let (shape, _) = shape.split_once(')').context("no shape")?;
    let shape: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty())
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let width = shape.iter().skip(1).product::<usize>().max(1);
    let values: Vec<T> = bytes[end..].as_chunks::<8>().0.iter().map(|word| number(*word)).collect();
    ensure!(values.len() == shape.iter().product::<usize>(), "another number of values");
    Ok(Npy { values, width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file() {
        let header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }\n";
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header);
        file.extend([7_i64, -1].map(i64::to_le_bytes).concat());
        let found = parse_numbers(&file, "<i8", i64::from_le_bytes).unwrap();
        assert_eq!((found.rows(), found.width), (vec![vec![7], vec![-1]], 1));
        assert!(parse_numbers(&file, "<f8", f64::from_le_bytes).is_err());
    }
}

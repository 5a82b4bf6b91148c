//! Numbers of bytes on the command line.

/// Parses a number of bytes with a unit: powers of 1000 as `kB`, of 1024 as `KiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let unit = unit.trim().to_ascii_lowercase();
    let found = UNITS.into_iter().find(|(name, _)| *name == unit);
    let bytes = found.and_then(|(_, factor)| number.parse::<u64>().ok()?.checked_mul(factor));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "expected a size, such as 512MiB".to_owned())
}

const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_with_units() {
        for (text, bytes) in
            [("1", 1), ("10kB", 10_000), ("512MiB", 512 << 20), ("2 GiB", 2 << 30), ("3m", 3 << 20)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "0",
            "-1",
            "1.5GiB",
            "1 parsec",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}

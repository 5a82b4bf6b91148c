//! Times and sizes in the units that suit them.

/// A time with three digits, in the unit that suits it.
pub(crate) fn format_time(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or((1e-9, "ns"));
    let value = seconds / unit;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {name}")
}

/// Bytes, in the unit that suits them.
pub(crate) fn format_size(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_in_their_units() {
        for (seconds, text) in [
            (2.5, "2.50 s"),
            (0.0123, "12.3 ms"),
            (0.5, "500 ms"),
            (4.2e-5, "42.0 µs"),
            (5e-9, "5.00 ns"),
        ] {
            assert_eq!(format_time(seconds), text);
        }
        assert_eq!(
            [format_size(12), format_size(2048), format_size(3 << 20)],
            ["12 B", "2.0 KiB", "3.0 MiB"]
        );
    }
}

//! Dates of the proleptic Gregorian calendar.

/// Returns year, month and day of a day counted from 1970-01-01. Counts in eras of 400 years that
/// begin in March.
///
/// ```
/// assert_eq!(zvf_formats::civil_date(19_792), (2024, 3, 10));
/// ```
pub fn civil_date(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i128::from(month <= 2), month, day)
}

//! Points as lines of numbers: XYZ, PTS, and the XYZ of chemistry.
//!
//! ```text
//! xyz          x y z [more]                          numbers separated by blanks, or by commas
//!              n, a note, then: element x y z        if the first line is a single integer
//!              names first                           read as CSV
//! pts          n, then: x y z [intensity [r g b]]
//! ```
//!
//! The last three numbers are a colour if they are integers from 0 to 255 in every line. All lines have as many numbers as
//! the first one. A decimal comma is an error, never two numbers. The file is read in two passes, because types depend on
//! all lines.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_formats::{
    Bytes, FLOAT64, FileReader, INT32, Labels, Lines, NamedValues, RandomFile, ReadOptions, UINT8,
    Values, VertexBuilder, default_axes, parse_f64, point_kind, quote_start,
};
use zvf_model::Kind;
use zvf_model::flow::Header;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let source = RandomFile::open(bytes, options.memory)?;
    if PointLines::open(&source, XYZ)?.has_names() {
        return crate::csv::read::open(source.begin()?, options, b',');
    }
    read(source, XYZ, options)
}

pub(crate) fn open_pts(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let source = RandomFile::open(bytes, options.memory)?;
    read(source, PTS, options)
}

fn read(source: RandomFile, format: &'static str, options: &ReadOptions) -> Result<FileReader> {
    let kind = point_kind(options, format)?;
    let summary = Summary::scan(PointLines::open(&source, format)?)?;
    let dtype = options.positions.unwrap_or(FLOAT64);
    let rest = summary.numbers - 3 - if summary.has_colour { 3 } else { 0 };
    let mut fields: Vec<NamedValues> = (0..rest)
        .map(|at| {
            let name = if at == 0 { "intensity".to_owned() } else { format!("field_{}", at + 3) };
            let is_integer = summary.is_integer[at + 3];
            NamedValues::new(name, if is_integer { INT32 } else { FLOAT64 }, 1)
        })
        .collect();
    if summary.has_colour {
        fields.push(NamedValues::new("color", UINT8, 3));
    }
    let has_elements = !summary.elements.is_empty();
    if has_elements {
        let codes = summary.elements.into_iter().zip(0..).collect();
        let values = Values::new_labels(Labels::new(codes), 1);
        fields.push(NamedValues { name: "element".to_owned(), values });
    }
    let mut vertices = VertexBuilder::new(kind, Values::new(dtype, 3), fields, kind.is_chain());
    let header = Header { vertices: Some(summary.count), ..vertices.header(default_axes(3))? };
    let header = if has_elements { header.with_unit("angstrom") } else { header };
    let mut rows = PointLines::open(&source, format)?;
    let batch_rows = options.batch_rows.max(1);
    Ok(FileReader::from_steps(header, move || {
        while vertices.rows() < batch_rows
            && let Some(line) = rows.next()?
        {
            let (element, numbers) = rows.parse(&line)?;
            push(&mut vertices, element, &numbers);
        }
        (vertices.rows() > 0).then(|| vertices.take()).transpose()
    }))
}

/// Adds a point.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "integers in range, as the first pass checked"
)]
fn push(vertices: &mut VertexBuilder, element: Option<&str>, numbers: &[f64]) {
    // The file may have changed since the first pass.
    let (position, mut rest) = numbers.split_at_checked(3).unwrap_or((numbers, &[]));
    let is_float32 = vertices.positions.dtype().size == 4;
    for x in position {
        if is_float32 {
            vertices.positions.push_bytes(&nearest_f32(*x).to_le_bytes());
        } else {
            vertices.positions.push_bytes(&x.to_le_bytes());
        }
    }
    for NamedValues { name, values } in &mut vertices.fields {
        if *name == "element" {
            values.push_text(element.unwrap_or_default());
            continue;
        }
        let width = usize_from_u32(values.width());
        let (numbers, after) = rest.split_at_checked(width).unwrap_or((rest, &[]));
        rest = after;
        for x in numbers {
            match values.dtype() {
                UINT8 => values.push_bytes(&[*x as u8]),
                INT32 => values.push_bytes(&(*x as i32).to_le_bytes()),
                _ => values.push_bytes(&x.to_le_bytes()),
            }
        }
    }
    vertices.end_row(None, 0);
}

/// A reader of the lines that hold points.
struct PointLines {
    lines: Lines,
    /// The number of points in the first line, if it has one.
    count: Option<u64>,
    has_elements: bool,
    points_read: u64,
    /// The first line of points until it is returned, if nothing comes before it.
    first_line: Option<String>,
}

impl PointLines {
    /// Reads the first line and detects the form of the file.
    fn open(source: &RandomFile, format: &'static str) -> Result<Self> {
        let lines = Lines::new(source.begin()?);
        let mut all =
            Self { lines, count: None, has_elements: false, points_read: 0, first_line: None };
        let Some(line) = all.next_line()? else { return Ok(all) };
        all.count = line.parse().ok();
        match all.count {
            Some(_) if format == XYZ => {
                all.has_elements = true;
                all.lines.next()?; // the note
            }
            None if format == PTS => {
                let found = format!("{line:?}");
                return all.lines.here().refuse(Class::Encoding, "the number of points", found);
            }
            Some(_) => {}
            None => all.first_line = Some(line),
        }
        Ok(all)
    }

    /// Checks whether the first line has names instead of numbers.
    fn has_names(&self) -> bool {
        let words = self.first_line.as_deref().and_then(|line| split_words(line).ok());
        words.as_ref().and_then(|words| words.first()).is_some_and(|word| {
            word.starts_with(|c: char| c.is_alphabetic() || c == '"' || c == '_')
                && parse_f64(word).is_none()
        })
    }

    /// Returns the next line that is neither empty nor a comment.
    fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') && !line.starts_with("//") {
                return Ok(Some(line.to_owned()));
            }
        }
    }

    /// Returns the next line that holds a point.
    fn next(&mut self) -> Result<Option<String>> {
        let line = match self.first_line.take() {
            Some(line) => Some(line),
            None => self.next_line()?,
        };
        match (line, self.count) {
            (Some(_), Some(count)) if self.points_read == count => {
                let expected = format!("the end after {count} points");
                self.lines.here().refuse(Class::Trailing, expected, "one more")
            }
            (None, Some(count)) if self.points_read < count => {
                let expected = format!("{count} points, as the first line counts");
                self.lines.here().refuse(Class::Truncated, expected, self.points_read)
            }
            (Some(line), _) => {
                self.points_read += 1;
                Ok(Some(line))
            }
            (None, _) => Ok(None),
        }
    }

    /// Parses the element and the numbers of a line.
    fn parse<'a>(&self, line: &'a str) -> Result<(Option<&'a str>, Vec<f64>)> {
        let words = split_words(line).map_err(|found| {
            let spot = self.lines.here().hint("decimal commas have to become points");
            spot.error(Class::Encoding, "numbers apart by blanks, or by commas", found)
        })?;
        let (element, words) = match words.as_slice() {
            [first, rest @ ..] if self.has_elements => (Some(*first), rest),
            all => (None, all),
        };
        let number = |word: &&str| {
            parse_f64(word).ok_or_else(|| {
                self.lines.here().error(Class::Encoding, "a number", format!("{word:?}"))
            })
        };
        Ok((element, words.iter().map(number).collect::<Result<_, _>>()?))
    }
}

/// Splits a line into words. Fails with the start of the line if it has decimal commas.
fn split_words(line: &str) -> Result<Vec<&str>, String> {
    if !line.contains([',', ';']) {
        return Ok(line.split_ascii_whitespace().collect());
    }
    let words: Vec<&str> = line.split([',', ';']).map(str::trim).collect();
    if words.iter().any(|word| word.contains(char::is_whitespace)) {
        return Err(quote_start(line));
    }
    Ok(words)
}

/// What the first pass finds over all lines.
#[derive(Default)]
struct Summary {
    count: u64,     // points
    numbers: usize, // in a line
    /// For each number of a line: whether it is an integer of 32 bits in every line.
    is_integer: Vec<bool>,
    has_colour: bool,
    elements: Vec<String>,
}

impl Summary {
    /// Reads all lines.
    fn scan(mut rows: PointLines) -> Result<Self> {
        let mut summary = Self::default();
        let mut is_byte = Vec::new();
        while let Some(line) = rows.next()? {
            let (element, numbers) = rows.parse(&line)?;
            if summary.count == 0 {
                summary.numbers = numbers.len();
                summary.is_integer = vec![true; numbers.len()];
                is_byte = vec![true; numbers.len()];
            }
            if numbers.len() != summary.numbers || numbers.len() < 3 {
                let expected = format!("{} numbers, as in the first line", summary.numbers.max(3));
                return rows.lines.here().refuse(Class::BadShape, expected, numbers.len());
            }
            let flags = summary.is_integer.iter_mut().zip(&mut is_byte);
            for (number, (is_integer, is_byte)) in numbers.iter().zip(flags) {
                *is_integer &= number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX);
                *is_byte &= *is_integer && (0.0..=255.0).contains(number);
            }
            if let Some(element) =
                element.filter(|element| !summary.elements.iter().any(|listed| listed == element))
            {
                summary.elements.push(element.to_owned());
            }
            if summary.elements.len() > MAX_ELEMENTS {
                let expected = format!("at most {MAX_ELEMENTS} elements");
                return rows.lines.here().refuse(Class::LimitExceeded, expected, "more");
            }
            summary.count += 1;
        }
        summary.numbers = summary.numbers.max(3);
        summary.has_colour =
            summary.numbers >= 6 && is_byte.iter().rev().take(3).all(|is_byte| *is_byte);
        Ok(summary)
    }
}

/// The kinds of geometry that these formats hold.
pub(crate) const KINDS: &[Kind] = &[Kind::PointCloud];
const MAX_ELEMENTS: usize = 1024;
const XYZ: &str = "XYZ";
const PTS: &str = "PTS";

#[cfg(test)]
mod tests {
    use zvf_formats::Input;
    use zvf_model::flow::Piece;

    use super::*;
    use crate::XYZ;
    use crate::shared::{golden, open};

    #[test]
    fn reads_stock_files() {
        golden::check_files("text_points", &ReadOptions::default());
    }

    #[test]
    fn reads_every_form_of_a_number() {
        let text: &[u8] = b"# a note\n1. .5 +1E5\n\n-2 nan inf\n";
        let reader = open(Input::reader(text), Some(&XYZ), &ReadOptions::default()).unwrap();
        let pieces: Vec<Piece> = reader.collect::<Result<_, _>>().unwrap();
        let [Piece::Vertices(batch)] = &pieces[..] else { panic!() };
        assert_eq!(
            [0, 1, 2].map(|axis| batch.positions().float(0, axis).unwrap()),
            [1.0, 0.5, 1e5]
        );
        for (text, fault) in [
            ("1 2 3\n1 2\n", "line 2: expected 3 numbers, as in the first line, found 2"),
            ("1,5 2,5 3,5\n", "decimal commas have to become points"),
            ("2\nnote\nC 1 2 3\n", "expected 2 points, as the first line counts, found 1"),
            ("1\nnote\nC 1 2 3\nH 1 2 3\n", "expected the end after 1 points, found one more"),
        ] {
            let input = Input::reader(std::io::Cursor::new(text.as_bytes().to_vec()));
            let error = open(input, Some(&XYZ), &ReadOptions::default()).unwrap_err().to_string();
            assert!(error.contains(fault), "{error}");
        }
    }
}

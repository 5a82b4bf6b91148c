//! Helpers of the formats for streamlines: the kind, numeric fields and the letters of axes.

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{Bytes, ReadOptions};
use zvf_metadata::DtypeKind;
use zvf_model::{Field, Kind};

/// Returns the kind of the streamlines of a file that is read from front to back.
pub(crate) fn chain_kind(bytes: &Bytes, options: &ReadOptions) -> Result<Kind> {
    let kind = options.kind.unwrap_or(Kind::Streamline);
    let is_fit = !kind.has_links() && kind != Kind::Line;
    let expected = "streamline, polyline or point_cloud";
    bytes.spot("the file").ensure(is_fit, Class::Unsupported, expected, kind)?;
    Ok(kind)
}

/// Returns the fields of numbers.
pub(crate) fn numeric_fields(fields: &[Field]) -> impl Iterator<Item = &Field> {
    fields.iter().filter(|field| field.column.dtype().kind != DtypeKind::Text)
}

/// Returns the letters of axes that point along those of the world, or against them.
pub(crate) fn order_letters(order: &[(usize, bool)]) -> String {
    let letter = |(axis, forwards): &(usize, bool)| LETTERS[axis * 2 + usize::from(*forwards)];
    order.iter().map(letter).map(char::from).collect()
}

/// The letters of an axis against the world and along it: left and right, posterior and anterior, inferior and superior.
pub(crate) const LETTERS: &[u8; 6] = b"LRPAIS";

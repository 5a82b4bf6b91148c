//! Parser of a feature: its geometry, its attributes, its id.

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{FeatureCell, FeatureShape, PartKind};

use crate::geojson::read::json::{NAME, Text, nested_text};

/// The members of a feature, as parts of its text.
#[derive(Clone, Copy, Default)]
pub(crate) struct Feature<'a> {
    pub(crate) geometry: Option<Text<'a>>,
    pub(crate) properties: Option<Text<'a>>,
    pub(crate) id: Option<Text<'a>>,
}

impl<'a> Feature<'a> {
    /// Parses an object, which is a feature or a geometry.
    pub(crate) fn parse(mut text: Text<'a>) -> Result<Self> {
        let object = text;
        let (mut feature, mut kind) = (Self::default(), None);
        text.read_members(|key, text| {
            let start = *text;
            let slot = match &*key {
                "geometry" => &mut feature.geometry,
                "properties" => &mut feature.properties,
                "id" => &mut feature.id,
                "type" => {
                    kind = Some(text.read_string()?);
                    return Ok(());
                }
                _ => {
                    text.read_value()?;
                    return Ok(());
                }
            };
            if slot.replace(start).is_some() {
                let found = format!("{key:?} twice");
                return start.here().refuse(Class::Duplicate, "each member once", found);
            }
            text.read_value()?;
            Ok(())
        })?;
        text.expect_end()?;
        match kind.as_deref() {
            Some("Feature") => Ok(feature),
            Some(kind) if is_geometry(kind) => {
                Ok(Self { geometry: Some(object), ..Self::default() })
            }
            found => {
                let found = found.map_or_else(|| "none".to_owned(), |kind| format!("{kind:?}"));
                let expected = "the type Feature, FeatureCollection or a geometry";
                object.here().refuse(Class::BadTag, expected, found)
            }
        }
    }

    /// Reads the geometry into `shape`. Sets `has_extra_numbers` if a position has more than three numbers.
    pub(crate) fn read_shape(
        &self,
        shape: &mut FeatureShape,
        has_extra_numbers: &mut bool,
    ) -> Result<()> {
        shape.clear();
        let Some(text) = self.geometry else { return Ok(()) };
        let mut waiting = vec![text];
        while let Some(mut text) = waiting.pop() {
            if text.take_word("null") {
                continue;
            }
            let inner = read_geometry(text, shape, has_extra_numbers)?;
            waiting.extend(inner.into_iter().rev());
        }
        Ok(())
    }

    /// Calls `cell` with the name, the value and the text of each attribute.
    pub(crate) fn visit_cells(
        &self,
        mut cell: impl FnMut(&str, FeatureCell<'a>, Text<'a>) -> Result<()>,
    ) -> Result<()> {
        if let Some(mut id) = self.id {
            let start = id;
            cell("id", read_cell(&mut id)?, start)?;
        }
        let Some(mut text) = self.properties else { return Ok(()) };
        if text.take_word("null") {
            return Ok(());
        }
        text.read_members(|key, text| {
            let start = *text;
            let value = read_cell(text)?;
            let name = if *key == *"id" && self.id.is_some() { "properties.id" } else { &*key };
            cell(name, value, start)
        })
    }
}

pub(crate) fn is_geometry(kind: &str) -> bool {
    kind == "GeometryCollection" || part_kind_and_depth(kind).is_some()
}

/// Returns the kind of the parts of a geometry, and how deep the arrays of its positions are nested.
fn part_kind_and_depth(kind: &str) -> Option<(PartKind, usize)> {
    Some(match kind {
        "Point" => (PartKind::Point, 0),
        "MultiPoint" => (PartKind::Point, 1),
        "LineString" => (PartKind::Line, 1),
        "MultiLineString" => (PartKind::Line, 2),
        "Polygon" => (PartKind::Ring, 2),
        "MultiPolygon" => (PartKind::Ring, 3),
        _ => return None,
    })
}

/// Reads a geometry. Returns the members of a collection, which are not read yet.
fn read_geometry<'a>(
    mut text: Text<'a>,
    shape: &mut FeatureShape,
    has_extra_numbers: &mut bool,
) -> Result<Vec<Text<'a>>> {
    let (mut kind, mut coordinates, mut inner) = (None, None, Vec::new());
    let object = text;
    text.read_members(|key, text| {
        match &*key {
            "type" => kind = Some(text.read_string()?),
            "coordinates" => {
                coordinates = Some(*text);
                text.read_value()?;
            }
            "geometries" => text.read_items(|text| {
                inner.push(*text);
                text.read_value()?;
                Ok(())
            })?,
            _ => {
                text.read_value()?;
            }
        }
        Ok(())
    })?;
    let kind = kind.unwrap_or_default();
    if kind == "GeometryCollection" {
        return Ok(inner);
    }
    let Some((part, depth)) = part_kind_and_depth(&kind) else {
        return object.here().refuse(Class::BadTag, "a type of geometry", format!("{kind:?}"));
    };
    let expected = format_args!("the coordinates of a {kind}");
    let mut coordinates = object.here().need(coordinates, Class::NotFound, expected, "none")?;
    read_positions(&mut coordinates, part, depth, shape, has_extra_numbers)?;
    Ok(Vec::new())
}

/// Reads positions that are nested in `depth` arrays.
fn read_positions(
    text: &mut Text<'_>,
    part: PartKind,
    depth: usize,
    shape: &mut FeatureShape,
    has_extra_numbers: &mut bool,
) -> Result<()> {
    match (depth, part) {
        (0, _) => {
            let len = usize::from(read_position(text, shape, has_extra_numbers)?);
            shape.end_part(part, len);
            Ok(())
        }
        (1, PartKind::Line | PartKind::Ring) => {
            let mut len = 0;
            text.read_items(|text| {
                if !read_position(text, shape, has_extra_numbers)? {
                    return text.here().refuse(Class::BadShape, "a position", "an empty one");
                }
                len += 1;
                Ok(())
            })?;
            shape.end_part(part, len);
            Ok(())
        }
        _ => {
            text.read_items(|text| read_positions(text, part, depth - 1, shape, has_extra_numbers))
        }
    }
}

/// Reads a position. Returns `false` if it is empty.
fn read_position(
    text: &mut Text<'_>,
    shape: &mut FeatureShape,
    has_extra_numbers: &mut bool,
) -> Result<bool> {
    let start = *text;
    let mut numbers = 0;
    let expected = "a position: an array of numbers";
    text.here().ensure(text.peek() == b'[', Class::BadShape, expected, "another value")?;
    text.read_items(|text| {
        let place = *text;
        if !matches!(text.peek(), b'-' | b'0'..=b'9') {
            return place.here().refuse(Class::BadShape, "a number", "another value");
        }
        let number: Option<f64> = text.read_number()?.parse().ok().filter(|x: &f64| x.is_finite());
        let expected = "a number of float64";
        let number = place.here().need(number, Class::Overflow, expected, "a larger one")?;
        numbers += 1;
        if numbers <= 3 {
            shape.positions.push(number);
        } else {
            *has_extra_numbers = true;
        }
        Ok(())
    })?;
    let axes = numbers.min(3);
    if axes == 0 {
        return Ok(false);
    }
    if axes == 1 || (shape.axes != 0 && shape.axes != axes) {
        let expected = match shape.axes {
            0 => "positions of 2 or 3 numbers".to_owned(),
            axes => format!("positions of {axes} numbers, as before"),
        };
        return start.here().refuse(Class::BadShape, expected, numbers);
    }
    shape.axes = axes;
    Ok(true)
}

/// Reads the value of an attribute.
fn read_cell<'a>(text: &mut Text<'a>) -> Result<FeatureCell<'a>> {
    Ok(match text.peek() {
        b'"' => FeatureCell::Text(text.read_string()?),
        b'{' | b'[' => FeatureCell::Text(nested_text(text.read_value()?).into()),
        b't' if text.take_word("true") => FeatureCell::Bool(true),
        b'f' if text.take_word("false") => FeatureCell::Bool(false),
        b'n' if text.take_word("null") => FeatureCell::Missing,
        _ => {
            let start = *text;
            let number = parse_number(text.read_number()?);
            let found = format_args!("a larger one in {NAME}");
            start.here().need(number, Class::Overflow, "a number of float64", found)?
        }
    })
}

fn parse_number(text: &str) -> Option<FeatureCell<'static>> {
    let float = || text.parse().ok().filter(|x: &f64| x.is_finite()).map(FeatureCell::Float);
    let integer =
        text.parse().map(FeatureCell::Int).or_else(|_| text.parse().map(FeatureCell::UInt));
    integer.ok().or_else(float)
}

//! A feature taken apart: its geometry, its attributes, its id.

use zvf_format::Class;

use super::json::{NAME, Text, nested_text};
use crate::ConvertError;
use crate::error::BadInput;
use crate::read::features::{Cell, PartKind, Shape};

/// Where the parts of a feature lie in its text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feature<'a> {
    pub(super) geometry: Option<Text<'a>>,
    pub(super) properties: Option<Text<'a>>,
    pub(super) id: Option<Text<'a>>,
}

impl<'a> Feature<'a> {
    /// The members of an object, which is a feature or a geometry.
    pub(super) fn find(mut text: Text<'a>) -> Result<Self, ConvertError> {
        let whole = text;
        let (mut feature, mut kind) = (Self::default(), None);
        text.members(|key, text| {
            let here = *text;
            let slot = match &*key {
                "geometry" => &mut feature.geometry,
                "properties" => &mut feature.properties,
                "id" => &mut feature.id,
                "type" => {
                    kind = Some(text.string()?);
                    return Ok(());
                }
                _ => {
                    text.value()?;
                    return Ok(());
                }
            };
            if slot.replace(here).is_some() {
                let twice =
                    here.bad(Class::Duplicate, "each member once", format!("{key:?} twice"));
                return Err(twice.into());
            }
            text.value()?;
            Ok(())
        })?;
        text.end()?;
        match kind.as_deref() {
            Some("Feature") => Ok(feature),
            Some(kind) if is_geometry(kind) => {
                Ok(Self { geometry: Some(whole), ..Self::default() })
            }
            found => {
                let found = found.map_or_else(|| "none".to_owned(), |kind| format!("{kind:?}"));
                let expected = "the type Feature, FeatureCollection or a geometry";
                Err(whole.bad(Class::BadTag, expected, found).into())
            }
        }
    }

    /// Its positions.
    pub(super) fn shape(&self, shape: &mut Shape, dropped: &mut bool) -> Result<(), ConvertError> {
        shape.clear();
        let Some(text) = self.geometry else { return Ok(()) };
        let mut waiting = vec![text];
        while let Some(mut text) = waiting.pop() {
            if text.peek() == b'n' && text.word("null") {
                continue;
            }
            let inner = geometry(text, shape, dropped)?;
            waiting.extend(inner.into_iter().rev());
        }
        Ok(())
    }

    /// Its attributes, each with its name.
    pub(super) fn cells(
        &self,
        mut cell: impl FnMut(&str, Cell<'a>, Text<'a>) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        if let Some(mut id) = self.id {
            let here = id;
            cell("id", read_cell(&mut id)?, here)?;
        }
        let Some(mut text) = self.properties else { return Ok(()) };
        if text.peek() == b'n' && text.word("null") {
            return Ok(());
        }
        text.members(|key, text| {
            let here = *text;
            let value = read_cell(text)?;
            let name = if *key == *"id" && self.id.is_some() { "properties.id" } else { &*key };
            cell(name, value, here)
        })
    }
}

pub(super) fn is_geometry(kind: &str) -> bool {
    kind == "GeometryCollection" || depth_of(kind).is_some()
}

/// What a geometry is made of, and how deep its positions lie.
fn depth_of(kind: &str) -> Option<(PartKind, usize)> {
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

/// Takes in a geometry; those of a collection are yet to be.
fn geometry<'a>(
    mut text: Text<'a>,
    shape: &mut Shape,
    dropped: &mut bool,
) -> Result<Vec<Text<'a>>, ConvertError> {
    let (mut kind, mut coordinates, mut inner) = (None, None, Vec::new());
    let whole = text;
    text.members(|key, text| {
        match &*key {
            "type" => kind = Some(text.string()?),
            "coordinates" => {
                coordinates = Some(*text);
                text.value()?;
            }
            "geometries" => text.items(|text| {
                inner.push(*text);
                text.value()?;
                Ok(())
            })?,
            _ => {
                text.value()?;
            }
        }
        Ok(())
    })?;
    let kind = kind.unwrap_or_default();
    if kind == "GeometryCollection" {
        return Ok(inner);
    }
    let Some((part, depth)) = depth_of(&kind) else {
        let bad = whole.bad(Class::BadTag, "a type of geometry", format!("{kind:?}"));
        return Err(bad.into());
    };
    let Some(mut coordinates) = coordinates else {
        let expected = format!("the coordinates of a {kind}");
        return Err(whole.bad(Class::NotFound, expected, "none").into());
    };
    positions(&mut coordinates, part, depth, shape, dropped)?;
    Ok(Vec::new())
}

/// Takes in positions `depth` arrays deep.
fn positions(
    text: &mut Text<'_>,
    part: PartKind,
    depth: usize,
    shape: &mut Shape,
    dropped: &mut bool,
) -> Result<(), ConvertError> {
    match (depth, part) {
        (0, _) => {
            let len = usize::from(position(text, shape, dropped)?);
            shape.end_part(part, len);
            Ok(())
        }
        (1, PartKind::Line | PartKind::Ring) => {
            let mut len = 0;
            text.items(|text| {
                if !position(text, shape, dropped)? {
                    return Err(text.bad(Class::BadShape, "a position", "an empty one").into());
                }
                len += 1;
                Ok(())
            })?;
            shape.end_part(part, len);
            Ok(())
        }
        _ => text.items(|text| positions(text, part, depth - 1, shape, dropped)),
    }
}

/// Takes in a position; false where it is empty.
fn position(
    text: &mut Text<'_>,
    shape: &mut Shape,
    dropped: &mut bool,
) -> Result<bool, ConvertError> {
    let here = *text;
    let mut numbers = 0;
    if text.peek() != b'[' {
        return Err(text
            .bad(Class::BadShape, "a position: an array of numbers", "another value")
            .into());
    }
    text.items(|text| {
        let place = *text;
        if !matches!(text.peek(), b'-' | b'0'..=b'9') {
            return Err(place.bad(Class::BadShape, "a number", "another value").into());
        }
        let number: Option<f64> = text.number()?.parse().ok().filter(|x: &f64| x.is_finite());
        let Some(number) = number else {
            return Err(place.bad(Class::Overflow, "a number of float64", "a larger one").into());
        };
        numbers += 1;
        if numbers <= 3 {
            shape.positions.push(number);
        } else {
            *dropped = true;
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
        return Err(here.bad(Class::BadShape, expected, numbers.to_string()).into());
    }
    shape.axes = axes;
    Ok(true)
}

/// A value of an attribute.
fn read_cell<'a>(text: &mut Text<'a>) -> Result<Cell<'a>, BadInput> {
    Ok(match text.peek() {
        b'"' => Cell::Text(text.string()?),
        b'{' | b'[' => Cell::Text(nested_text(text.value()?).into()),
        b't' if text.word("true") => Cell::Bool(true),
        b'f' if text.word("false") => Cell::Bool(false),
        b'n' if text.word("null") => Cell::Missing,
        _ => {
            let here = *text;
            number(text.number()?).ok_or_else(|| {
                here.bad(Class::Overflow, "a number of float64", format!("a larger one in {NAME}"))
            })?
        }
    })
}

fn number(text: &str) -> Option<Cell<'static>> {
    if let Ok(n) = text.parse::<i64>() {
        return Some(Cell::Int(n));
    }
    if let Ok(n) = text.parse::<u64>() {
        return Some(Cell::UInt(n));
    }
    text.parse().ok().filter(|x: &f64| x.is_finite()).map(Cell::Float)
}

//! The contents of a pixel until all is drawn: a number that a map converts to a colour, or a colour.
//!
//! Either takes 32 bits, and one picture has one of the two, so a canvas need not know which: only interpolation along
//! an edge and the last step differ.

use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_metadata::DtypeKind;
use zvf_model::{Batch, Column, Field, ObjectId, Value};

use crate::colour::{PLAIN, Rgb, UNKNOWN, direction_colour, identity_colour, text_colour};
use crate::view::{Camera, sub};

/// A number or a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ink(u32);

impl Ink {
    /// The ink of an empty pixel.
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn number(x: f64) -> Self {
        Self(nearest_f32(x).to_bits())
    }

    pub(crate) fn colour([red, green, blue]: Rgb) -> Self {
        Self(u32::from_le_bytes([red, green, blue, 0]))
    }

    pub(crate) fn as_number(self) -> f64 {
        f32::from_bits(self.0).into()
    }

    pub(crate) fn as_colour(self) -> Rgb {
        let [red, green, blue, _] = self.0.to_le_bytes();
        [red, green, blue]
    }
}

/// Which of the two a picture has.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Meaning {
    Numbers,
    Colours,
}

/// The resolved source of the colour.
pub(crate) enum Tint {
    Plain,
    Object,
    Depth,
    Direction,
    /// The coordinate along an axis of the store, and its name.
    Axis(usize, String),
    Attribute(String),
}

impl Tint {
    /// Returns the title of the scale of the colours, which only numbers have.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Plain | Self::Object | Self::Direction => "",
            Self::Depth => "depth",
            Self::Axis(_, name) | Self::Attribute(name) => name,
        }
    }
}

/// The inks of one batch.
pub(crate) enum Inks {
    /// One for all vertices.
    One(Ink),
    /// One per vertex.
    Vertices(Vec<Ink>),
    /// One per edge or face.
    Elements(Vec<Ink>),
}

impl Inks {
    /// Returns the inks of `batch`, whose vertices the camera placed here, and their meaning.
    pub(crate) fn from_batch(
        batch: &Batch,
        source: &Tint,
        placed: &[[f64; 3]],
        camera: &Camera,
    ) -> (Self, Meaning) {
        match source {
            Tint::Plain => (Self::One(Ink::colour(PLAIN)), Meaning::Colours),
            Tint::Depth => {
                let near = placed.iter().map(|[_, _, near]| Ink::number(*near));
                (Self::Vertices(near.collect()), Meaning::Numbers)
            }
            Tint::Object => (Self::Vertices(object_inks(batch)), Meaning::Colours),
            Tint::Direction => (direction_inks(batch, placed, camera), Meaning::Colours),
            Tint::Axis(axis, _) => {
                (Self::Vertices(numbers(batch.positions(), *axis)), Meaning::Numbers)
            }
            Tint::Attribute(name) => {
                let vertex_field = batch.field(name);
                let bare = name.strip_prefix("link.").unwrap_or(name);
                let elements = batch.elements().into_iter().flat_map(|elements| elements.fields());
                let element_field = elements.into_iter().find(|field| *field.name == *bare);
                match (vertex_field, element_field) {
                    (Some(field), _) => (Self::Vertices(field_inks(field)), meaning(field)),
                    (None, Some(field)) => (Self::Elements(field_inks(field)), meaning(field)),
                    (None, None) => (Self::One(Ink::colour(UNKNOWN)), Meaning::Colours),
                }
            }
        }
    }

    /// Returns the ink of a vertex, as a corner of an element if given. If elements have inks, a
    /// single vertex has none.
    pub(crate) fn vertex_ink(&self, vertex: usize, element: Option<usize>) -> Option<Ink> {
        match self {
            Self::One(ink) => Some(*ink),
            Self::Vertices(inks) => inks.get(vertex).copied(),
            Self::Elements(inks) => inks.get(element?).copied(),
        }
    }
}

/// Returns the colours of the directions: of edges, or of the chain at each vertex, from the vertex
/// before it to the one after it.
fn direction_inks(batch: &Batch, placed: &[[f64; 3]], camera: &Camera) -> Inks {
    let ink = |from: usize, to: usize| {
        let ends = placed.get(from).zip(placed.get(to));
        let colour = |(from, to): (&[f64; 3], &[f64; 3])| {
            direction_colour(camera.turn_back(sub(*to, *from)))
        };
        Ink::colour(ends.map_or(UNKNOWN, colour))
    };
    if let Some(elements) = batch.elements() {
        let edge = |edge: &[usize]| match *edge {
            [from, to] => ink(from, to),
            _ => Ink::colour(UNKNOWN),
        };
        return Inks::Elements(elements.iter().map(edge).collect());
    }
    let mut inks = Vec::with_capacity(batch.len());
    for part in batch.parts().iter() {
        let (first, end) = (part.rows.start, part.rows.end);
        let around = |row: usize| {
            ink(row.saturating_sub(1).max(first), (row + 1).min(end.saturating_sub(1)))
        };
        inks.extend(part.rows.map(around));
    }
    inks.resize(batch.len(), Ink::colour(UNKNOWN));
    Inks::Vertices(inks)
}

fn object_inks(batch: &Batch) -> Vec<Ink> {
    let ink = |id: Option<ObjectId>| {
        Ink::colour(id.map_or(UNKNOWN, |id| identity_colour(id.0.cast_unsigned())))
    };
    if let Some(owners) = batch.vertex_objects() {
        return owners.iter().map(|owner| ink(*owner)).collect();
    }
    let mut inks = Vec::with_capacity(batch.len());
    for part in batch.parts().iter() {
        inks.extend(part.rows.map(|_| ink(Some(part.object))));
    }
    inks.resize(batch.len(), ink(None));
    inks
}

/// Returns the meaning of a column: text and categories are identities, three or four bytes are a
/// colour, anything else is a number.
fn meaning(field: &Field) -> Meaning {
    let text = field.column.dtype().kind == DtypeKind::Text;
    if text || field.categories.is_some() || is_colour(field) {
        Meaning::Colours
    } else {
        Meaning::Numbers
    }
}

fn is_colour(field: &Field) -> bool {
    let dtype = field.column.dtype();
    let bytes = dtype.kind == DtypeKind::UInt && dtype.size == 1;
    bytes && matches!(field.column.width(), 3 | 4)
}

fn field_inks(field: &Field) -> Vec<Ink> {
    let rows = 0..field.column.len();
    if meaning(field) == Meaning::Numbers {
        return numbers(&field.column, 0);
    }
    if is_colour(field) {
        let colour = |row: &[u8]| row.first_chunk().copied().unwrap_or(UNKNOWN);
        return field.column.rows().map(|row| Ink::colour(colour(row))).collect();
    }
    let colour = |row| match field.value(row, 0) {
        Ok(Value::Null) | Err(_) => UNKNOWN,
        Ok(value) => text_colour(&value.to_string()),
    };
    rows.map(|row| Ink::colour(colour(row))).collect()
}

/// Returns the value at one place of each row.
fn numbers(column: &Column, at: usize) -> Vec<Ink> {
    if let (Some(values), width @ 1..) = (column.as_slice::<f32>(), column.width()) {
        let values = values.iter().skip(at).step_by(usize_from_u32(width));
        return values.map(|x| Ink::number((*x).into())).collect();
    }
    let float = |row| Ink::number(column.float(row, at).unwrap_or(f64::NAN));
    (0..column.len()).map(float).collect()
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Categories, Column, Kind, Parts};

    use super::*;

    fn field(dtype: &str, width: u32, bytes: &[u8]) -> Field {
        let dtype = dtype.parse::<Dtype>().unwrap();
        Field::new("a", Column::new(dtype, width, bytes.to_vec().into()).unwrap())
    }

    #[test]
    fn fields_are_interpreted_as_numbers_or_colours() {
        let codes = field("uint8", 1, &[1, 0, 7]);
        let categories = Categories::new(vec![Value::from("axon"), Value::from("soma")], None);
        let codes = codes.with_categories(categories);
        for (field, expected, means) in [
            (field("uint8", 1, &[9, 200]), vec![Ink::number(9.0), Ink::number(200.0)], true),
            (field("int16", 2, &[0xfe, 0xff, 1, 0]), vec![Ink::number(-2.0)], true),
            (field("float32", 1, &1.5_f32.to_le_bytes()), vec![Ink::number(1.5)], true),
            (
                field("uint8", 3, &[1, 2, 3, 4, 5, 6]),
                vec![Ink::colour([1, 2, 3]), Ink::colour([4, 5, 6])],
                false,
            ),
            (field("uint8", 4, &[1, 2, 3, 4]), vec![Ink::colour([1, 2, 3])], false),
            (
                codes,
                [text_colour("soma"), text_colour("axon"), UNKNOWN].map(Ink::colour).to_vec(),
                false,
            ),
        ] {
            assert_eq!(meaning(&field) == Meaning::Numbers, means, "{field:?}");
            assert_eq!(field_inks(&field), expected, "{field:?}");
        }
    }

    #[test]
    fn vertices_have_the_colour_of_their_object() {
        let points = Column::new(Dtype::FLOAT32, 1, vec![0; 12].into()).unwrap();
        let parts = Parts::new(vec![0, 1, 3], vec![ObjectId(4), ObjectId(-9)]).unwrap();
        let batch = Batch::new(Kind::Polyline, points).with_parts(parts).unwrap();
        let four = identity_colour(4);
        let nine = identity_colour(9_u64.wrapping_neg());
        assert_eq!(object_inks(&batch), [four, nine, nine].map(Ink::colour));
        let owners = vec![None, Some(ObjectId(4)), None];
        let batch = batch.with_vertex_objects(owners).unwrap();
        assert_eq!(object_inks(&batch), [UNKNOWN, four, UNKNOWN].map(Ink::colour));
    }
}

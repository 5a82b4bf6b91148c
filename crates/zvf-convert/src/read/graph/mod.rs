//! Graphs whose nodes have names: `GraphML` and lists of edges.
//!
//! Nodes become vertices, their names the attribute `id` (whole numbers where all are, text otherwise); edges keep
//! their order, loops and doubles. Positions are the node attributes `x`, `y`, `z`, or those that
//! [`ColumnRoles::positions`](super::ColumnRoles::positions) names: a graph without any is refused with the names
//! there are. What a node or an edge lacks is NaN or empty, and for whole numbers and flags an attribute
//! `NAME_present` says which.

pub(crate) mod edges;
pub(crate) mod graphml;

use std::collections::HashMap;

use zvf_format::Class;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Field, Kind};

use super::ReadOptions;
use super::geometry::{FLOAT64, Geometry, dtype, numbers, text_field};
use super::values::{Values, column};
use crate::ConvertError;
use crate::error::{BadInput, Place};

/// Nodes and edges in the making.
#[derive(Debug, Default)]
struct Graph {
    nodes: Table,
    edges: Table,
    names: HashMap<String, usize>,
    /// For each name its node, once it came.
    rows: Vec<Option<usize>>,
    /// The names of nodes in their order.
    node_names: Vec<String>,
    /// The names of both ends of each edge, by number.
    ends: Vec<[usize; 2]>,
}

/// Attributes of nodes or of edges.
#[derive(Debug, Default)]
struct Table {
    columns: Vec<Attribute>,
    rows: usize,
}

/// An attribute in the making.
#[derive(Debug)]
struct Attribute {
    name: String,
    kind: ValueKind,
    default: Option<String>,
    numbers: Values,
    texts: Vec<String>,
    present: Vec<u8>,
    pending: Option<String>, // of the row that is read
}

/// Types of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Bool,
    Int32,
    Int64,
    Float32,
    Float64,
    Text,
}

impl ValueKind {
    const fn dtype(self) -> Dtype {
        match self {
            Self::Bool => dtype(DtypeKind::Bool, 1),
            Self::Int32 => dtype(DtypeKind::Int, 4),
            Self::Int64 => Dtype::INT64,
            Self::Float32 => Dtype::FLOAT32,
            Self::Float64 | Self::Text => FLOAT64,
        }
    }
}

impl Attribute {
    fn new(name: String, kind: ValueKind, default: Option<String>) -> Self {
        let numbers = Values::new(kind.dtype(), 1);
        let (texts, present, pending) = (Vec::new(), Vec::new(), None);
        Self { name, kind, default, numbers, texts, present, pending }
    }

    /// Ends a row; the text that is no value, where there is one.
    fn end_row(&mut self) -> Result<(), String> {
        let value = self.pending.take().or_else(|| self.default.clone());
        self.present.push(u8::from(value.is_some()));
        if self.kind == ValueKind::Text {
            self.texts.push(value.unwrap_or_default());
            return Ok(());
        }
        let Some(value) = value else {
            let size = usize::try_from(self.kind.dtype().size).unwrap_or(1);
            match self.kind {
                ValueKind::Float32 => self.numbers.push_bytes(&f32::NAN.to_le_bytes()),
                ValueKind::Float64 => self.numbers.push_bytes(&f64::NAN.to_le_bytes()),
                _ => self.numbers.push_bytes(&vec![0; size]),
            }
            return Ok(());
        };
        if self.numbers.push_text(value.trim()) { Ok(()) } else { Err(value) }
    }

    fn is_partial(&self) -> bool {
        self.present.contains(&0)
    }

    fn is_unused(&self) -> bool {
        !self.present.contains(&1)
    }

    fn into_fields(mut self) -> Result<Vec<Field>, ConvertError> {
        let partial = self.is_partial();
        let field = match self.kind {
            ValueKind::Text => return Ok(vec![text_field(&self.name, &self.texts)?]),
            _ => Field::new(self.name.as_str(), self.numbers.take()?),
        };
        if !partial || matches!(self.kind, ValueKind::Float32 | ValueKind::Float64) {
            return Ok(vec![field]);
        }
        let present = column(dtype(DtypeKind::Bool, 1), 1, self.present)?;
        Ok(vec![field, Field::new(format!("{}_present", self.name), present)])
    }
}

impl Table {
    fn end_row(&mut self) -> Result<(), (String, ValueKind, String)> {
        self.rows += 1;
        for attribute in &mut self.columns {
            let wrong = attribute.end_row();
            wrong.map_err(|text| (attribute.name.clone(), attribute.kind, text))?;
        }
        Ok(())
    }

    fn into_fields(self) -> Result<Vec<Field>, ConvertError> {
        let used = self.columns.into_iter().filter(|attribute| !attribute.is_unused());
        let fields: Vec<Vec<Field>> = used.map(Attribute::into_fields).collect::<Result<_, _>>()?;
        Ok(fields.into_iter().flatten().collect())
    }
}

impl Graph {
    /// The number of a name.
    fn intern(&mut self, name: &str) -> usize {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        self.names.insert(name.to_owned(), self.rows.len());
        self.rows.push(None);
        self.rows.len() - 1
    }

    /// Adds a node of this name; whether there was none yet.
    fn push_node(&mut self, name: &str) -> bool {
        let number = self.intern(name);
        let next = self.node_names.len();
        let Some(row) = self.rows.get_mut(number).filter(|row| row.is_none()) else { return false };
        *row = Some(next);
        self.node_names.push(name.to_owned());
        true
    }

    /// The nodes of each edge, or the first edge with an end that is no node.
    fn resolve(&self) -> Result<Vec<i64>, (usize, String)> {
        let mut rows = Vec::with_capacity(self.ends.len() * 2);
        for (at, ends) in self.ends.iter().enumerate() {
            for number in ends {
                let Some(row) = self.rows.get(*number).copied().flatten() else {
                    let name = self.names.iter().find(|(_, known)| *known == number);
                    return Err((at, name.map(|(name, _)| name.clone()).unwrap_or_default()));
                };
                rows.push(i64::try_from(row).unwrap_or(i64::MAX));
            }
        }
        Ok(rows)
    }

    /// The graph with positions.
    fn into_geometry(
        mut self,
        rows: &[i64],
        options: &ReadOptions,
        format: &'static str,
    ) -> Result<Geometry, ConvertError> {
        let (axes, positions) = self.take_positions(options, format)?;
        let mut geometry = Geometry::new(Kind::Graph, positions);
        geometry.axes = axes;
        let mut fields = self.nodes.into_fields()?;
        let taken = fields.iter().any(|field| &*field.name == "id");
        let numbered =
            self.node_names.iter().enumerate().all(|(row, name)| *name == format!("n{row}"));
        // Names that only count nodes are not kept beside the ids that a writer put there.
        let named = fields.iter().any(|field| &*field.name == "node_id") || (taken && numbered);
        if !named {
            let name = if taken { "node_id" } else { "id" };
            fields.insert(0, name_field(name, &self.node_names)?);
        }
        geometry.fields = fields;
        let elements = numbers(Dtype::INT64, 2, rows, |row| row.to_le_bytes())?;
        geometry.elements = Some((elements, self.edges.into_fields()?));
        Ok(geometry)
    }

    /// The attributes that are positions, as one column.
    fn take_positions(
        &mut self,
        options: &ReadOptions,
        format: &'static str,
    ) -> Result<(Vec<String>, Column), ConvertError> {
        let asked = &options.columns.positions;
        let names: Vec<String> = match asked.is_empty() {
            true => ["x", "y", "z"].map(str::to_owned).to_vec(),
            false => asked.clone(),
        };
        let mut axes = Vec::new();
        for name in &names {
            let at = self.nodes.columns.iter().position(|attribute| attribute.name == *name);
            match at {
                Some(at) => axes.push((name.clone(), self.nodes.columns.remove(at))),
                None if asked.is_empty() => break,
                None => return Err(self.no_position(name, format)),
            }
        }
        if axes.is_empty() && self.node_names.is_empty() {
            let empty = column(FLOAT64, 3, Vec::new())?;
            return Ok((super::roles::axes(3), empty));
        }
        if axes.is_empty() {
            return Err(self.no_position("x", format));
        }
        let single = axes.iter().all(|(_, attribute)| attribute.kind == ValueKind::Float32);
        let mut columns = Vec::new();
        for (name, attribute) in &mut axes {
            if attribute.kind == ValueKind::Text || attribute.is_partial() {
                return Err(self.bad_position(name, format));
            }
            columns.push(attribute.numbers.take()?);
        }
        let mut bytes = Vec::new();
        for row in 0..self.node_names.len() {
            for values in &columns {
                let x = values.float(row, 0).unwrap_or(f64::NAN);
                match single {
                    true => bytes.extend_from_slice(values.row(row)),
                    false => bytes.extend_from_slice(&x.to_le_bytes()),
                }
            }
        }
        let kept = if single { Dtype::FLOAT32 } else { FLOAT64 };
        let width = u32::try_from(axes.len()).unwrap_or(1);
        let names = axes.into_iter().map(|(name, _)| name).collect();
        Ok((names, column(kept, width, bytes)?))
    }

    fn no_position(&self, name: &str, format: &'static str) -> ConvertError {
        let known: Vec<&str> =
            self.nodes.columns.iter().map(|attribute| attribute.name.as_str()).collect();
        let found = match known.is_empty() {
            true => "nodes without attributes".to_owned(),
            false => format!("the attributes {}", known.join(", ")),
        };
        let place = Place::Named("the nodes".to_owned());
        let expected = format!("a position {name:?}");
        let bad = BadInput::new(Class::InvalidArgument, format, place, expected, found);
        bad.with_hint("name the attributes that are positions, or give a table of nodes").into()
    }

    fn bad_position(&self, name: &str, format: &'static str) -> ConvertError {
        let place = Place::Named("the nodes".to_owned());
        let expected = format!("a number {name:?} for each node");
        let found = "nodes without one".to_owned();
        BadInput::new(Class::Encoding, format, place, expected, found).into()
    }
}

/// Names as whole numbers where all are, as text otherwise.
fn name_field(name: &str, names: &[String]) -> Result<Field, ConvertError> {
    let plain = |text: &String| {
        let number = text.parse::<i64>().ok()?;
        (number.to_string() == *text).then_some(number)
    };
    let whole: Option<Vec<i64>> = names.iter().map(plain).collect();
    match whole.filter(|whole| !whole.is_empty()) {
        Some(whole) => {
            Ok(Field::new(name, numbers(Dtype::INT64, 1, &whole, |id| id.to_le_bytes())?))
        }
        None => text_field(name, names),
    }
}

#[cfg(test)]
mod tests;

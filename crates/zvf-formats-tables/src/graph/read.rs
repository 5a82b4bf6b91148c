//! Graphs whose nodes have names: `GraphML` and lists of edges.
//!
//! Nodes become vertices, and their names the attribute `id` (int64 if all names are integers, text otherwise).
//! Edges keep their order, loops and duplicates. Positions are the node attributes `x`, `y`, `z`, or those that
//! [`ColumnRoles::positions`](zvf_formats::ColumnRoles::positions) names. A graph without positions is refused; the error
//! lists its attributes. A missing value is NaN or empty text; integers and booleans with missing values get a
//! validity column `NAME_present`.

pub(crate) mod edges;
pub(crate) mod graphml;

use std::collections::HashMap;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::index_u32;
use zvf_formats::{
    BOOL, FLOAT64, INT32, ReadOptions, Spot, Values, WholeGeometry, missing_number, narrow_column,
    new_column, number_column, row_number, survives_float32, text_field,
};
use zvf_metadata::Dtype;
use zvf_model::{Column, Field, Kind};

/// Builder of a graph: nodes, edges and their attributes.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Table,
    edges: Table,
    names: HashMap<String, usize>,
    /// The row of the node of each name, once the node is read.
    rows: Vec<Option<usize>>,
    /// The names of the nodes in row order.
    node_names: Vec<String>,
    /// The name numbers of both ends of each edge.
    ends: Vec<[usize; 2]>,
}

/// Attributes of nodes or of edges.
#[derive(Default)]
struct Table {
    columns: Vec<Attribute>,
}

/// Builder of an attribute column.
struct Attribute {
    name: String,
    kind: ValueKind,
    default: Option<String>,
    numbers: Values,
    texts: Vec<String>,
    present: Vec<u8>,
    pending: Option<String>, // the value of the current row
    needs_float64: bool,     // a number that float32 does not keep
}

/// The type of an attribute.
#[derive(Clone, Copy, PartialEq)]
enum ValueKind {
    Bool,
    Int32,
    Int64,
    /// Numbers that are read as `float64`, and rounded to `float32` if that keeps all digits of
    /// each.
    Float32,
    Float64,
    Text,
}

impl ValueKind {
    const fn dtype(self) -> Dtype {
        match self {
            Self::Bool => BOOL,
            Self::Int32 => INT32,
            Self::Int64 => Dtype::INT64,
            Self::Float32 | Self::Float64 | Self::Text => FLOAT64,
        }
    }
}

impl Attribute {
    fn new(name: String, kind: ValueKind, default: Option<String>) -> Self {
        let numbers = Values::new(kind.dtype(), 1);
        let (texts, present, pending) = (Vec::new(), Vec::new(), None);
        Self { name, kind, default, numbers, texts, present, pending, needs_float64: false }
    }

    /// Ends a row. Returns the text of the value as an error if it does not parse.
    fn end_row(&mut self) -> Result<(), String> {
        let value = self.pending.take().or_else(|| self.default.clone());
        self.present.push(u8::from(value.is_some()));
        if self.kind == ValueKind::Text {
            self.texts.push(value.unwrap_or_default()); // a missing text is empty
            return Ok(());
        }
        let Some(value) = value else {
            self.numbers.push_bytes(&missing_number(self.kind.dtype()));
            return Ok(());
        };
        self.needs_float64 |= self.kind == ValueKind::Float32 && !survives_float32(value.trim());
        if self.numbers.push_text(value.trim()) { Ok(()) } else { Err(value) }
    }

    /// Takes the numbers, with the type of positions that is stated for `float` of a file.
    fn take_numbers(&mut self, stated: Option<Dtype>) -> Result<Column> {
        let column = self.numbers.take()?;
        let is_wide = stated.map_or(self.needs_float64, |dtype| dtype == FLOAT64);
        if self.kind == ValueKind::Float32 && !is_wide {
            narrow_column(&column)
        } else {
            Ok(column)
        }
    }

    fn is_partial(&self) -> bool {
        self.present.contains(&0)
    }

    fn is_unused(&self) -> bool {
        !self.present.contains(&1)
    }

    fn into_fields(mut self, stated: Option<Dtype>) -> Result<Vec<Field>> {
        let is_partial = self.is_partial();
        if self.kind == ValueKind::Text {
            return Ok(vec![text_field(&self.name, &self.texts)?]);
        }
        let column = self.take_numbers(stated)?;
        let field = Field::new(self.name.as_str(), column);
        if !is_partial || matches!(self.kind, ValueKind::Float32 | ValueKind::Float64) {
            return Ok(vec![field]);
        }
        let present = new_column(BOOL, 1, self.present)?;
        Ok(vec![field, Field::new(format!("{}_present", self.name), present)])
    }
}

impl Table {
    fn end_row(&mut self) -> Result<(), (String, ValueKind, String)> {
        for attribute in &mut self.columns {
            let result = attribute.end_row();
            result.map_err(|text| (attribute.name.clone(), attribute.kind, text))?;
        }
        Ok(())
    }

    fn into_fields(self, stated: Option<Dtype>) -> Result<Vec<Field>> {
        let used = self.columns.into_iter().filter(|attribute| !attribute.is_unused());
        let fields = used.map(|attribute| attribute.into_fields(stated));
        let fields: Vec<Vec<Field>> = fields.collect::<Result<_, _>>()?;
        Ok(fields.into_iter().flatten().collect())
    }
}

impl Graph {
    /// Returns the number of a name, a new one if the name is new.
    fn intern(&mut self, name: &str) -> usize {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        self.names.insert(name.to_owned(), self.rows.len());
        self.rows.push(None);
        self.rows.len() - 1
    }

    /// Adds a node. Returns false if the name is a duplicate.
    fn push_node(&mut self, name: &str) -> bool {
        let number = self.intern(name);
        let next = self.node_names.len();
        if self.rows[number].is_some() {
            return false;
        }
        self.rows[number] = Some(next);
        self.node_names.push(name.to_owned());
        true
    }

    /// Returns two node rows for each edge, or the first edge with an end that is not a node, with
    /// the name of that end.
    fn resolve_edges(&self) -> Result<Vec<i64>, (usize, String)> {
        let mut rows = Vec::with_capacity(self.ends.len() * 2);
        for (at, ends) in self.ends.iter().enumerate() {
            for number in ends {
                let Some(row) = self.rows[*number] else {
                    let name = self.names.iter().find(|(_, node)| *node == number); // each number has one
                    return Err((at, name.map(|(name, _)| name.clone()).unwrap_or_default()));
                };
                rows.push(row_number(row));
            }
        }
        Ok(rows)
    }

    /// Converts the graph, whose edges are `rows`, to vertices and elements.
    fn into_geometry(
        mut self,
        rows: &[i64],
        options: &ReadOptions,
        format: &'static str,
    ) -> Result<WholeGeometry> {
        let (axes, positions) = self.take_positions(options, format)?;
        let mut fields = self.nodes.into_fields(options.positions)?;
        let has_id = fields.iter().any(|field| &*field.name == "id");
        let are_row_numbers =
            self.node_names.iter().enumerate().all(|(row, name)| *name == format!("n{row}"));
        // Names n0, n1, … carry no information next to an attribute `id`.
        let has_names =
            fields.iter().any(|field| &*field.name == "node_id") || (has_id && are_row_numbers);
        if !has_names {
            let name = if has_id { "node_id" } else { "id" };
            fields.insert(0, name_field(name, &self.node_names)?);
        }
        let elements = number_column(Dtype::INT64, 2, rows, |row| row.to_le_bytes())?;
        let mut geometry = WholeGeometry::new(Kind::Graph, positions, fields)?;
        geometry.header.axes = axes;
        geometry.elements = Some((elements, self.edges.into_fields(options.positions)?));
        Ok(geometry)
    }

    /// Removes the attributes that are positions, and joins them into one column.
    fn take_positions(
        &mut self,
        options: &ReadOptions,
        format: &'static str,
    ) -> Result<(Vec<String>, Column)> {
        let requested = &options.columns.positions;
        let names: Vec<String> = match requested.is_empty() {
            true => ["x", "y", "z"].map(str::to_owned).to_vec(),
            false => requested.clone(),
        };
        let mut axes = Vec::new();
        for name in &names {
            let at = self.nodes.columns.iter().position(|attribute| attribute.name == *name);
            match at {
                Some(at) => axes.push((name.clone(), self.nodes.columns.remove(at))),
                None if requested.is_empty() => break,
                None => return Err(self.missing_position(name, format)),
            }
        }
        if axes.is_empty() && self.node_names.is_empty() {
            let empty = new_column(FLOAT64, 3, Vec::new())?;
            return Ok((zvf_formats::default_axes(3), empty));
        }
        if axes.is_empty() {
            return Err(self.missing_position("x", format));
        }
        let mut columns = Vec::new();
        for (name, attribute) in &mut axes {
            if attribute.kind == ValueKind::Text || attribute.is_partial() {
                let expected = format!("a number {name:?} for each node");
                let spot = Spot::new(format, "the nodes");
                return spot.refuse(Class::Encoding, expected, "nodes without one");
            }
            columns.push(attribute.take_numbers(options.positions)?);
        }
        let is_float32 = columns.iter().all(|column| column.dtype() == Dtype::FLOAT32);
        let mut bytes = Vec::new();
        for row in 0..self.node_names.len() {
            for values in &columns {
                let x = values.float(row, 0).unwrap_or(f64::NAN);
                match is_float32 {
                    true => bytes.extend_from_slice(values.row(row)),
                    false => bytes.extend_from_slice(&x.to_le_bytes()),
                }
            }
        }
        let position_dtype = if is_float32 { Dtype::FLOAT32 } else { FLOAT64 };
        let width = index_u32(axes.len());
        let names = axes.into_iter().map(|(name, _)| name).collect();
        Ok((names, new_column(position_dtype, width, bytes)?))
    }

    fn missing_position(&self, name: &str, format: &'static str) -> Error {
        let attribute_names: Vec<&str> =
            self.nodes.columns.iter().map(|attribute| attribute.name.as_str()).collect();
        let found = match attribute_names.is_empty() {
            true => "nodes without attributes".to_owned(),
            false => format!("the attributes {}", attribute_names.join(", ")),
        };
        let place = "the nodes";
        let expected = format!("a position {name:?}");
        let bad = Spot::new(format, place).error(Class::InvalidArgument, expected, found);
        bad.with_hint("name the attributes that are positions, or give a table of nodes")
    }
}

/// Returns a field of int64 if all names are canonical integers, of text otherwise.
fn name_field(name: &str, names: &[String]) -> Result<Field> {
    let parse_canonical = |text: &String| {
        let number = text.parse::<i64>().ok()?;
        (number.to_string() == *text).then_some(number)
    };
    let integers: Option<Vec<i64>> = names.iter().map(parse_canonical).collect();
    match integers.filter(|integers| !integers.is_empty()) {
        Some(integers) => {
            Ok(Field::new(name, number_column(Dtype::INT64, 1, &integers, |id| id.to_le_bytes())?))
        }
        None => text_field(name, names),
    }
}

#[cfg(test)]
mod tests;

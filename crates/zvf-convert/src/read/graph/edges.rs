//! Reader of edge lists: one edge per line.
//!
//! ```text
//! a b            two names, separated by white space or a comma; comments begin with # or %
//! a b 0.5        with a weight, or several numbers
//! a b {'w': 1}   with a Python dictionary
//! source,target,…   CSV with a header line; the node table has columns node_id,x,y,z,…
//! ```
//!
//! The node table is [`ReadOptions::nodes`], or for `NAME.edges.csv` the file `NAME.nodes.csv` of the same folder.
//! Without a table nodes have no positions, and the graph is refused.

use std::path::{Path, PathBuf};

use zvf_error::{Error, Result};
use zvf_format::Class;

use super::{Attribute, Graph, ValueKind};
use crate::error::{Place, bad_input};
use crate::read::geometry::{WholeFile, open_companion};
use crate::read::input::Bytes;
use crate::read::values::parse_f64;
use crate::read::{Format, ReadOptions, Reader};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader> {
    let nodes = find_node_table(bytes.path(), options)?;
    let file = WholeFile::read(bytes, options)?;
    let nodes = match nodes {
        Some(path) => {
            let mut bytes = Bytes::open(&path)?;
            bytes.set_format(Format::Edgelist);
            Some(WholeFile::read(bytes, options)?)
        }
        None => None,
    };
    let (graph, rows) = parse(&file, nodes.as_ref())?;
    graph.into_geometry(&rows, options, "edge list")?.into_reader(Format::Edgelist, options)
}

fn find_node_table(path: Option<&Path>, options: &ReadOptions) -> Result<Option<PathBuf>> {
    if let Some(path) = &options.nodes {
        return Ok(Some(path.clone()));
    }
    let name = path.and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(".edges.csv") else { return Ok(None) };
    let table_name = format!("{stem}.nodes.csv");
    let exists = path.is_some_and(|path| path.with_file_name(&table_name).is_file());
    if exists { open_companion("edge list", path, &table_name).map(Some) } else { Ok(None) }
}

/// Parses an edge list. Returns the graph, and two node rows for each edge.
pub(super) fn parse(file: &WholeFile, nodes: Option<&WholeFile>) -> Result<(Graph, Vec<i64>)> {
    let mut graph = Graph::default();
    if let Some(nodes) = nodes {
        read_nodes(nodes, &mut graph)?;
    }
    let text = file.text()?;
    let first = text.lines().map(strip_comment).find(|line| !line.is_empty()).unwrap_or_default();
    let names = split_csv(first);
    let is_csv =
        names.iter().any(|name| name == "source") && names.iter().any(|name| name == "target");
    let mut lines = Vec::new();
    if is_csv {
        read_csv_edges(file, &mut graph, &mut lines)?;
    } else {
        read_list(file, &mut graph, &mut lines)?;
    }
    if nodes.is_none() {
        let mut numbered: Vec<(usize, String)> =
            graph.names.iter().map(|(name, number)| (*number, name.clone())).collect();
        numbered.sort_unstable();
        for (_, name) in numbered {
            graph.push_node(&name);
        }
    }
    let rows = graph.resolve_edges().map_err(|(edge, name)| {
        let line = lines[edge];
        let shown: String = name.chars().take(60).collect();
        input_error(Class::NotFound, line, "a node of the table of nodes", format!("{shown:?}"))
    })?;
    Ok((graph, rows))
}

fn input_error(class: Class, line: u64, expected: &str, found: impl std::fmt::Display) -> Error {
    bad_input(class, "edge list", Place::Line(line), expected, found)
}

fn strip_comment(line: &str) -> &str {
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.starts_with('%') { "" } else { line }
}

/// Columns of text, whose types are inferred once all rows are read.
struct TextTable {
    names: Vec<String>,
    columns: Vec<Vec<Option<String>>>,
}

impl TextTable {
    fn new(names: Vec<String>) -> Self {
        let columns = names.iter().map(|_| Vec::new()).collect();
        Self { names, columns }
    }

    /// Sets a value in a column, and adds the column if it is new.
    fn set_value(&mut self, name: &str, row: usize, value: Option<String>) {
        let at = self.names.iter().position(|existing| existing == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.columns.push(Vec::new());
            self.names.len() - 1
        });
        if let Some(column) = self.columns.get_mut(at) {
            column.resize(row, None);
            column.push(value);
        }
    }

    /// Infers the type of each column, the first that all values parse as: int64, float64, bool, text.
    fn into_attributes(self, rows: usize) -> Vec<Attribute> {
        let named = self.names.into_iter().zip(self.columns);
        named
            .map(|(name, mut values)| {
                values.resize(rows, None);
                let all = |test: fn(&str) -> bool| {
                    values.iter().flatten().all(|value| test(value.trim()))
                };
                let kind = match () {
                    () if all(|text| text.parse::<i64>().is_ok()) => ValueKind::Int64,
                    () if all(|text| parse_f64(text).is_some()) => ValueKind::Float64,
                    () if all(|text| matches!(text, "True" | "False" | "true" | "false")) => {
                        ValueKind::Bool
                    }
                    () => ValueKind::Text,
                };
                let mut attribute = Attribute::new(name, kind, None);
                for value in values {
                    attribute.pending = value;
                    let _fits = attribute.end_row(); // all values parse as the inferred type
                }
                attribute
            })
            .collect()
    }
}

fn read_list(file: &WholeFile, graph: &mut Graph, lines: &mut Vec<u64>) -> Result<()> {
    let mut table = TextTable::new(Vec::new());
    let mut first: Option<(usize, bool)> = None;
    for (line, number) in file.text()?.lines().zip(1_u64..) {
        let line = strip_comment(line);
        if line.is_empty() {
            continue;
        }
        let (plain, dictionary) = match line.find('{') {
            Some(at) => (&line[..at], Some(&line[at..])),
            None => (line, None),
        };
        let words = plain.split(|c: char| c.is_whitespace() || c == ',');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let [source, target, values @ ..] = &words[..] else {
            let found = format!("{} names", words.len());
            return Err(input_error(Class::BadShape, number, "two names", found));
        };
        let shape = (values.len(), dictionary.is_some());
        let first_shape = *first.get_or_insert(shape);
        if shape != first_shape {
            let expected = "as many values as in the first line";
            let found = format!("{} instead of {}", shape.0, first_shape.0);
            return Err(input_error(Class::BadShape, number, expected, found));
        }
        let row = graph.ends.len();
        for (at, value) in values.iter().enumerate() {
            if parse_f64(value).is_none() {
                let shown: String = value.chars().take(40).collect();
                return Err(input_error(Class::Encoding, number, "a number", format!("{shown:?}")));
            }
            let name = if at == 0 { "weight".to_owned() } else { format!("value_{at}") };
            table.set_value(&name, row, Some((*value).to_owned()));
        }
        if let Some(dictionary) = dictionary {
            let pairs = parse_dictionary(dictionary).ok_or_else(|| {
                input_error(Class::Encoding, number, "a dictionary of Python", "other text")
            })?;
            for (key, value) in pairs {
                table.set_value(&key, row, value);
            }
        }
        let ends = [graph.intern(source), graph.intern(target)];
        graph.ends.push(ends);
        lines.push(number);
    }
    finish_edges(graph, table);
    Ok(())
}

fn finish_edges(graph: &mut Graph, table: TextTable) {
    let rows = graph.ends.len();
    graph.edges.columns = table.into_attributes(rows);
    for attribute in &mut graph.edges.columns {
        // A weight is float64, even if all of them are integers.
        if attribute.name == "weight" && attribute.kind == ValueKind::Int64 {
            let column = attribute.numbers.take();
            let mut weight = Attribute::new("weight".to_owned(), ValueKind::Float64, None);
            weight.present = std::mem::take(&mut attribute.present);
            if let Ok(column) = column {
                for row in 0..column.len() {
                    let x = column.float(row, 0).unwrap_or(f64::NAN);
                    weight.numbers.push_bytes(&x.to_le_bytes());
                }
            }
            *attribute = weight;
        }
    }
}

/// Parses a Python dictionary into keys and values. Nested lists and dictionaries stay text.
fn parse_dictionary(text: &str) -> Option<Vec<(String, Option<String>)>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut rest = inner.trim();
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let (key, after) = take_literal(rest, ':')?;
        let after = after.trim_start().strip_prefix(':')?;
        let (value, after) = take_literal(after.trim_start(), ',')?;
        pairs.push((key?, value.filter(|value| value != "None")));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(pairs)
}

/// Splits a Python literal off the start of `text`, up to `end` if it is not quoted.
fn take_literal(text: &str, end: char) -> Option<(Option<String>, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        let mut depth = 0_i64;
        let at = text.char_indices().find(|(_, c)| match c {
            '[' | '(' | '{' => {
                depth += 1;
                false
            }
            ']' | ')' | '}' => {
                depth -= 1;
                false
            }
            c => *c == end && depth == 0,
        });
        let (word, rest) = text.split_at(at.map_or(text.len(), |(at, _)| at));
        let word = word.trim();
        return (!word.is_empty()).then(|| (Some(word.to_owned()), rest));
    };
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'x' => {
                    let digits = [characters.next()?.1, characters.next()?.1];
                    let code =
                        digits.iter().try_fold(0, |code, c| Some(code * 16 + c.to_digit(16)?))?;
                    char::from_u32(code)?
                }
                character => character,
            }),
            c if c == quote => return Some((Some(value), text.get(at + 1..)?)),
            c => value.push(c),
        }
    }
    None
}

fn read_csv_edges(file: &WholeFile, graph: &mut Graph, lines: &mut Vec<u64>) -> Result<()> {
    let rows = read_csv(file)?;
    let Some((header, rows)) = rows.split_first() else { return Ok(()) };
    let find = |name: &str| header.1.iter().position(|column_name| column_name == name);
    let (Some(source), Some(target)) = (find("source"), find("target")) else {
        return Err(input_error(
            Class::BadShape,
            1,
            "columns source and target",
            header.1.join(","),
        ));
    };
    let attribute_columns: Vec<usize> =
        (0..header.1.len()).filter(|at| *at != source && *at != target).collect();
    let names = attribute_columns.iter().filter_map(|at| header.1.get(*at).cloned()).collect();
    let mut table = TextTable::new(names);
    for (line, cells) in rows {
        let ends = [graph.intern(&cells[source]), graph.intern(&cells[target])];
        graph.ends.push(ends);
        lines.push(*line);
        for (column, at) in table.columns.iter_mut().zip(&attribute_columns) {
            column.push(cells.get(*at).filter(|cell| !cell.is_empty()).cloned());
        }
    }
    graph.edges.columns = table.into_attributes(graph.ends.len());
    Ok(())
}

fn read_nodes(file: &WholeFile, graph: &mut Graph) -> Result<()> {
    let rows = read_csv(file)?;
    let Some((header, rows)) = rows.split_first() else { return Ok(()) };
    let id = ["node_id", "id"].iter().find_map(|name| header.1.iter().position(|h| h == name));
    let Some(id) = id else {
        return Err(input_error(Class::BadShape, 1, "a column node_id", header.1.join(",")));
    };
    let mut table = TextTable::new(header.1.clone());
    for (line, cells) in rows {
        let name = &cells[id];
        if !graph.push_node(name) {
            return Err(input_error(
                Class::Duplicate,
                *line,
                "each node once",
                format!("{name:?} twice"),
            ));
        }
        for (column, cell) in table.columns.iter_mut().zip(cells) {
            column.push(Some(cell.clone()).filter(|cell| !cell.is_empty()));
        }
    }
    graph.nodes.columns = table.into_attributes(graph.node_names.len());
    for attribute in &graph.nodes.columns {
        if !["x", "y", "z"].contains(&attribute.name.as_str()) {
            continue;
        }
        let mut texts = attribute.texts.iter().zip(rows); // none if all values are numbers
        if let Some((found, (line, _))) = texts.find(|(text, _)| parse_f64(text.trim()).is_none()) {
            return Err(input_error(Class::Encoding, *line, "a number", format!("{found:?}")));
        }
    }
    Ok(())
}

/// Reads the rows of a CSV file with their line numbers. All rows have as many cells as the first.
fn read_csv(file: &WholeFile) -> Result<Vec<(u64, Vec<String>)>> {
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    let mut text = String::new();
    let mut start = 1;
    for (line, number) in file.text()?.lines().zip(1_u64..) {
        if text.is_empty() {
            start = number;
        } else {
            text.push('\n');
        }
        text.push_str(line);
        if text.matches('"').count() % 2 == 1 {
            continue; // a quoted cell continues on the next line
        }
        let cells = split_csv(&std::mem::take(&mut text));
        if cells.len() == 1 && cells.first().is_some_and(String::is_empty) {
            continue;
        }
        if let Some((_, first)) = rows.first()
            && first.len() != cells.len()
        {
            let found = format!("{} cells", cells.len());
            return Err(input_error(
                Class::BadShape,
                start,
                &format!("{} cells", first.len()),
                found,
            ));
        }
        rows.push((start, cells));
    }
    if text.is_empty() {
        return Ok(rows);
    }
    Err(input_error(Class::Truncated, start, "a quote that ends", "the end of the file"))
}

fn split_csv(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells
}

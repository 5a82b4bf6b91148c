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

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{
    Bytes, FilePlace, FileReader, ReadOptions, Spot, WholeFile, open_companion, parse_f64, quote,
    quote_start,
};

use crate::csv::read::{TextRow, TextTable, parse_table};
use crate::graph::read::{Attribute, Graph, ValueKind};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let nodes = find_node_table(bytes.path(), options)?;
    let file = WholeFile::read(bytes, options)?;
    let nodes = match nodes {
        Some(path) => {
            let mut bytes = Bytes::open(&path)?;
            bytes.set_format("edge list");
            Some(WholeFile::read(bytes, options)?)
        }
        None => None,
    };
    let (graph, rows) = parse(&file, nodes.as_ref())?;
    graph.into_geometry(&rows, options, "edge list")?.into_reader("edge list", options)
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
pub(crate) fn parse(file: &WholeFile, nodes: Option<&WholeFile>) -> Result<(Graph, Vec<i64>)> {
    let mut graph = Graph::default();
    if let Some(nodes) = nodes {
        read_nodes(nodes, &mut graph)?;
    }
    let text = file.text()?;
    let first = text.lines().map(strip_comment).find(|line| !line.is_empty()).unwrap_or_default();
    let has_name = |name: &str| first.split(',').any(|word| word.trim().trim_matches('"') == name);
    let is_csv = has_name("source") && has_name("target");
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
        spot(lines[edge]).error(Class::NotFound, "a node of the table of nodes", quote(&name, 60))
    })?;
    Ok((graph, rows))
}

const fn spot(line: u64) -> Spot<FilePlace> {
    Spot::new("edge list", FilePlace::Line(line))
}

fn strip_comment(line: &str) -> &str {
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.starts_with('%') { "" } else { line }
}

/// Named columns of text, whose types are inferred once all rows are read.
#[derive(Default)]
struct TextColumns(Vec<(String, Vec<Option<String>>)>);

impl TextColumns {
    /// Takes the columns of a table, without those at `except`.
    fn new(table: &TextTable, except: &[usize]) -> Self {
        let columns = (0..table.names.len()).filter(|at| !except.contains(at)).map(|at| {
            let cell = |row: &TextRow| Some(row.values[at].clone()).filter(|cell| !cell.is_empty());
            (table.names[at].clone(), table.rows.iter().map(cell).collect())
        });
        Self(columns.collect())
    }

    /// Sets a value in a column, and adds the column if it is new.
    fn set_value(&mut self, name: &str, row: usize, value: Option<String>) {
        let at = self.0.iter().position(|(existing, _)| existing == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        let column = &mut self.0[at].1;
        column.resize(row, None);
        column.push(value);
    }

    /// Infers the type of each column, the first that all values parse as: int64, float64, bool, text.
    /// A weight is float64, even if all of them are integers.
    fn into_attributes(self, rows: usize, weight: Option<&str>) -> Vec<Attribute> {
        self.0
            .into_iter()
            .map(|(name, mut values)| {
                values.resize(rows, None);
                let all = |test: fn(&str) -> bool| {
                    values.iter().flatten().all(|value| test(value.trim()))
                };
                let is_weight = weight == Some(name.as_str());
                let kind = match () {
                    () if !is_weight && all(|text| text.parse::<i64>().is_ok()) => ValueKind::Int64,
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
    let mut table = TextColumns::default();
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
            return spot(number).refuse(Class::BadShape, "two names", found);
        };
        let shape = (values.len(), dictionary.is_some());
        let first_shape = *first.get_or_insert(shape);
        let expected = "as many values as in the first line";
        let found = format_args!("{} instead of {}", shape.0, first_shape.0);
        spot(number).ensure(shape == first_shape, Class::BadShape, expected, found)?;
        let row = graph.ends.len();
        for (at, value) in values.iter().enumerate() {
            if parse_f64(value).is_none() {
                return spot(number).refuse(Class::Encoding, "a number", quote_start(value));
            }
            let name = if at == 0 { "weight".to_owned() } else { format!("value_{at}") };
            table.set_value(&name, row, Some((*value).to_owned()));
        }
        if let Some(dictionary) = dictionary {
            let pairs = parse_dictionary(dictionary).ok_or_else(|| {
                spot(number).error(Class::Encoding, "a dictionary of Python", "other text")
            })?;
            for (key, value) in pairs {
                table.set_value(&key, row, value);
            }
        }
        let ends = [graph.intern(source), graph.intern(target)];
        graph.ends.push(ends);
        lines.push(number);
    }
    graph.edges.columns = table.into_attributes(graph.ends.len(), Some("weight"));
    Ok(())
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
    let table = read_csv(file)?;
    let source = find_column(&table, &["source"])?;
    let target = find_column(&table, &["target"])?;
    for TextRow { line, values } in &table.rows {
        let ends = [graph.intern(&values[source]), graph.intern(&values[target])];
        graph.ends.push(ends);
        lines.push(*line);
    }
    let columns = TextColumns::new(&table, &[source, target]);
    graph.edges.columns = columns.into_attributes(graph.ends.len(), None);
    Ok(())
}

fn read_nodes(file: &WholeFile, graph: &mut Graph) -> Result<()> {
    let table = read_csv(file)?;
    let id = find_column(&table, &["node_id", "id"])?;
    for TextRow { line, values } in &table.rows {
        let name = &values[id];
        let found = format_args!("{name:?} twice");
        spot(*line).ensure(graph.push_node(name), Class::Duplicate, "each node once", found)?;
    }
    graph.nodes.columns =
        TextColumns::new(&table, &[]).into_attributes(graph.node_names.len(), None);
    for attribute in &graph.nodes.columns {
        if !["x", "y", "z"].contains(&attribute.name.as_str()) {
            continue;
        }
        let mut texts = attribute.texts.iter().zip(&table.rows); // none if all values are numbers
        if let Some((found, row)) = texts.find(|(text, _)| parse_f64(text.trim()).is_none()) {
            return spot(row.line).refuse(Class::Encoding, "a number", format!("{found:?}"));
        }
    }
    Ok(())
}

fn read_csv(file: &WholeFile) -> Result<TextTable> {
    let mut bytes = Bytes::new(Box::new(std::io::Cursor::new(file.bytes.clone())), None);
    bytes.set_format("edge list");
    parse_table(bytes, b',')
}

/// Returns the column that has the first of `names` that one has.
fn find_column(table: &TextTable, names: &[&str]) -> Result<usize> {
    let column = names.iter().find_map(|name| table.names.iter().position(|column| column == name));
    column.ok_or_else(|| {
        spot(1).error(Class::BadShape, format!("a column {}", names[0]), table.names.join(","))
    })
}

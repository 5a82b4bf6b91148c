//! Reader of several files as one, with consecutive numbers of vertices and ids of objects.

use std::collections::VecDeque;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_formats::{
    FileReader, Input, Notes, ReadOptions, Spot, element_vertices, number_column, row_number,
};
use zvf_metadata::Dtype;
use zvf_model::ObjectId;
use zvf_model::flow::{Header, Piece};

use super::{open, unknown_format};
use crate::format::Format;

/// Opens several inputs of one kind and with the same columns as one. The ids of each input are shifted past the largest
/// id of the inputs before it.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions};
/// use zvf_model::flow::Piece;
///
/// let inputs = ["x\n1\n2\n", "x\n3\n"].map(|text| Input::reader(text.as_bytes()));
/// let reader = read::open_all(inputs, Some(Format::Csv), &ReadOptions::default())?;
/// let rows = reader.map(|piece| match piece {
///     Ok(Piece::Vertices(batch)) => batch.len(),
///     _ => 0,
/// });
/// assert_eq!(rows.sum::<usize>(), 3);
/// # Ok::<(), zvf_error::Error>(())
/// ```
///
/// # Errors
///
/// As [`open`], and when there is no input.
pub fn open_all(
    inputs: impl IntoIterator<Item = Input>,
    format: Option<Format>,
    options: &ReadOptions,
) -> Result<FileReader> {
    let mut inputs: VecDeque<Input> = inputs.into_iter().collect();
    let Some(first) = inputs.pop_front() else {
        return Err(unknown_format(None));
    };
    let reader = open(first, format, options)?;
    if inputs.is_empty() {
        return Ok(reader);
    }
    let mut header = reader.header().clone();
    header.vertices = None;
    header.notes.clear(); // they come with those of the other inputs
    let notes = Notes::default();
    let joined = JoinedReader {
        expected: header.clone(),
        reader,
        inputs,
        format,
        options: options.clone(),
        vertices: 0,
        own_vertices: 0,
        next_id: 0,
        shift: 0,
        notes: notes.clone(),
    };
    Ok(FileReader::new(header, joined).with_notes(notes))
}

/// Reads the inputs one after the other.
struct JoinedReader {
    expected: Header, // of the first input
    reader: FileReader,
    inputs: VecDeque<Input>,
    format: Option<Format>,
    options: ReadOptions,
    vertices: i64,     // of the inputs before the current one
    own_vertices: i64, // of the current input so far
    next_id: i64,      // one past the largest id so far
    shift: i64,        // added to the ids of the current input
    notes: Notes,
}

impl Iterator for JoinedReader {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next() {
                Some(Ok(piece)) => return Some(self.shift_piece(piece)),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.reader.notes().into_iter().for_each(|note| self.notes.push(note));
                    let input = self.inputs.pop_front()?;
                    if let Err(error) = self.advance(input) {
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}

impl JoinedReader {
    /// Opens the next input. Its columns must be those of the first one.
    fn advance(&mut self, input: Input) -> Result<()> {
        let reader = open(input, self.format, &self.options)?;
        let expected = describe_columns(&self.expected);
        let found = describe_columns(reader.header());
        if expected != found {
            let place = "the columns of an input";
            let bad =
                Spot::new("several inputs", place).error(Class::CountMismatch, expected, found);
            let hint = "convert them one by one, name the attributes that all of them have, or state the type of \
                        positions with --dtype float64";
            return Err(bad.with_hint(hint));
        }
        self.vertices += self.own_vertices;
        self.own_vertices = 0;
        if self.next_id == i64::MAX {
            return Err(number_overflow_error("the ids of objects"));
        }
        self.shift = self.next_id;
        self.reader = reader;
        Ok(())
    }

    fn shift_piece(&mut self, piece: Piece) -> Result<Piece> {
        if let Piece::Vertices(batch) = &piece {
            self.own_vertices += row_number(batch.len());
        }
        let (shift, before, next_id) = (self.shift, self.vertices, &mut self.next_id);
        let object = &mut |id: ObjectId| {
            let id = id.0.checked_add(shift);
            let id = id.ok_or_else(|| number_overflow_error("the ids of objects"))?;
            *next_id = (*next_id).max(id.saturating_add(1)); // at the maximum, `advance` fails
            Ok(ObjectId(id))
        };
        renumber(piece, object, &|n| count_on(n, before))
    }
}

/// Converts a vertex number of an input to one over all inputs.
fn count_on(n: i64, before: i64) -> Result<i64> {
    match n.checked_add(before) {
        _ if n < 0 => Ok(n), // the writer refuses it, as that of one input
        counted => counted.ok_or_else(|| number_overflow_error("the vertices")),
    }
}

/// Replaces the ids of objects in a piece, and the numbers of the vertices that its elements join.
///
/// # Errors
///
/// Those of `object` and `vertex`, and when elements do not have numbers of vertices.
pub fn renumber(
    piece: Piece,
    object: &mut dyn FnMut(ObjectId) -> Result<ObjectId>,
    vertex: &dyn Fn(i64) -> Result<i64>,
) -> Result<Piece> {
    Ok(match piece {
        Piece::Vertices(mut batch) => {
            if !batch.parts().is_empty() {
                let ids = batch.parts().objects().iter().map(|id| object(*id));
                let parts = batch.parts().with_objects(ids.collect::<Result<_, _>>()?)?;
                batch = batch.with_parts(parts)?;
            }
            if let Some(owners) = batch.vertex_objects() {
                let owners = owners.iter().map(|owner| owner.map(&mut *object).transpose());
                let owners = owners.collect::<Result<_, _>>()?;
                batch = batch.with_vertex_objects(owners)?;
            }
            Piece::Vertices(batch)
        }
        Piece::Elements { rows, fields } => {
            let numbers = element_vertices(&rows)?.map(vertex).collect::<Result<Vec<i64>>>()?;
            let rows = number_column(Dtype::INT64, rows.width(), &numbers, |n| n.to_le_bytes());
            Piece::Elements { rows: rows?, fields }
        }
        Piece::Objects { ids, fields } => {
            let ids = ids.into_iter().map(object).collect::<Result<_, _>>()?;
            Piece::Objects { ids, fields }
        }
        Piece::Groups { mut groups, fields } => {
            for id in groups.iter_mut().flat_map(|group| &mut group.members) {
                *id = object(*id)?;
            }
            Piece::Groups { groups, fields }
        }
    })
}

/// Returns the error for a shifted number that overflows.
fn number_overflow_error(what: &str) -> Error {
    let place = what;
    let expected = format!("fewer than {} over all inputs", i64::MAX);
    let bad = Spot::new("several inputs", place).error(Class::LimitExceeded, expected, "more");
    bad.with_hint("convert them one by one")
}

/// Describes what all inputs must have in common.
fn describe_columns(header: &Header) -> String {
    let fields = |fields: &[zvf_model::Field]| {
        let named = fields.iter().map(|field| {
            format!(" {}:{}x{}", field.name, field.column.dtype(), field.column.width())
        });
        named.collect::<String>()
    };
    format!(
        "{} of {} axes of {};{};{}",
        header.kind,
        header.axes.len(),
        header.positions.dtype(),
        fields(&header.fields),
        fields(&header.object_fields)
    )
}

#[cfg(test)]
mod tests {
    use zvf_model::flow::Piece;

    use super::*;

    fn ids(texts: [&'static str; 2]) -> Result<Vec<i64>> {
        let inputs = texts.map(|text| Input::reader(text.as_bytes()));
        let mut ids = Vec::new();
        for piece in open_all(inputs, Some(Format::Csv), &ReadOptions::default())? {
            if let Piece::Vertices(batch) = piece? {
                ids.extend(batch.vertex_objects().unwrap().iter().map(|id| id.unwrap().0));
            }
        }
        Ok(ids)
    }

    #[test]
    fn shifts_ids_and_refuses_an_overflow() {
        assert_eq!(ids(["x,y,object\n1,2,7\n", "x,y,object\n1,2,0\n1,2,3\n"]).unwrap(), [7, 8, 11]);
        let last = "x,y,object\n1,2,9223372036854775807\n";
        for texts in [[last, "x,y,object\n1,2,0\n"], ["x,y,object\n1,2,7\n", last]] {
            let error = ids(texts).unwrap_err().to_string();
            assert!(error.contains("ids of objects"), "{error}");
        }
    }

    #[test]
    fn a_negative_vertex_number_names_no_vertex_of_an_earlier_input() {
        assert_eq!([-1, 0].map(|n| count_on(n, 4).unwrap()), [-1, 4]);
        assert!(count_on(i64::MAX, 4).is_err());
    }
}

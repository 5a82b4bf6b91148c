//! New vertices in the types of the store, encoded where they are read: from a script, a file or another store.

use serde_json::Value as Json;
use zvf_metadata::path_segment;

use crate::error::{Result, missing_value_error, refuse_if};
use crate::fields::{Fields, need_list_of};
use crate::geometry::Geometry;
use crate::numbers::Vid;
use crate::transaction::Transaction;

/// New vertices of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRows {
    pub(crate) count: usize,
    /// The bytes of their positions, then of their values in each column.
    parts: Vec<Vec<u8>>,
}

impl NewRows {
    /// Appends the position of row `i` and its values to `out`.
    pub(crate) fn copy_row(&self, i: usize, out: &mut Vec<u8>) {
        for bytes in &self.parts {
            let size = bytes.len() / self.count;
            out.extend_from_slice(&bytes[i * size..(i + 1) * size]);
        }
    }

    /// Adds row `i` of others, which are of the same kind.
    pub(crate) fn push_row(&mut self, all: &Self, i: usize) {
        self.parts.resize(all.parts.len(), Vec::new());
        for (part, bytes) in self.parts.iter_mut().zip(&all.parts) {
            let size = bytes.len() / all.count;
            part.extend_from_slice(&bytes[i * size..(i + 1) * size]);
        }
        self.count += 1;
    }
}

impl Geometry {
    /// Adds vertices with their values, to an object or without one.
    pub(crate) fn add_rows(&mut self, owner: u32, rows: &NewRows) -> Result<Vec<Vid>> {
        let Some((positions, values)) = rows.parts.split_first() else { return Ok(Vec::new()) };
        self.number_points()?;
        self.load_all_values()?;
        let positions = positions.chunks_exact(self.position_size());
        let new = positions.map(|position| self.new_vertex(position, owner));
        let new = new.collect::<Result<Vec<Vid>>>()?;
        for (column, values) in self.columns.iter_mut().zip(values) {
            column.data.push(values);
        }
        Ok(new)
    }
}

impl Transaction {
    /// Encodes `count` new vertices of a kind at these positions. `value` returns the value of a vertex in one of the columns
    /// `names`; in the others it is absent.
    pub(crate) fn encode_rows(
        &mut self,
        kind: usize,
        count: usize,
        position: impl Fn(usize) -> Json,
        names: &[&str],
        value: impl Fn(usize, usize) -> Result<Json>,
    ) -> Result<NewRows> {
        let geometry = &mut self.kinds[kind];
        let mut parts = vec![Vec::new(); 1 + geometry.columns.len()];
        for (c, name) in names.iter().enumerate().filter(|_| count > 0) {
            let stored = path_segment(name);
            self.read_items.insert(format!("column:vertex:{stored}:{}", geometry.kind));
            let at = geometry.need_column(&stored)?;
            refuse_if(!parts[at + 1].is_empty(), "two columns have one name in the store")?;
            for i in 0..count {
                let row = geometry.columns[at].ty.encode_present(name, &value(i, c)?)?;
                parts[at + 1].extend(row);
            }
        }
        for (column, values) in geometry.columns.iter().zip(&mut parts[1..]) {
            if values.is_empty() && count > 0 {
                let scalar = column.ty.scalar;
                if !scalar.is_float() {
                    return Err(missing_value_error("attributes", &column.name, &scalar.name()));
                }
                *values = column.ty.sentinel().repeat(count);
            }
        }
        for i in 0..count {
            parts[0].extend(geometry.parse_position(&position(i), "positions")?);
        }
        Ok(NewRows { count, parts })
    }

    /// Encodes new vertices of a script.
    pub(crate) fn parse_rows(
        &mut self,
        kind: usize,
        positions: &[Json],
        attributes: Option<&Fields>,
    ) -> Result<NewRows> {
        let (mut names, mut lists) = (Vec::new(), Vec::new());
        for (name, list) in attributes.into_iter().flatten() {
            names.push(name.as_str());
            lists.push(need_list_of(list, positions.len(), name)?);
        }
        let position = |i: usize| positions[i].clone();
        self.encode_rows(kind, positions.len(), position, &names, |i, c| Ok(lists[c][i].clone()))
    }
}

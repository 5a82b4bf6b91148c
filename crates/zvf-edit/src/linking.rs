//! Operations on links of graphs and meshes.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value as Json;
use zvf_format::num::to_u64;
use zvf_model::Kind;

use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::links::{End, LinkFamily, Record};
use crate::numbers::Vid;
use crate::transaction::{OperationResult, Transaction};
use crate::vertices::need_list_of;

impl Transaction {
    /// Returns the kind and the ends of each link in the field `links`.
    fn link_ends(&mut self, fields: &Fields) -> Result<(usize, Vec<Vec<Vid>>)> {
        let links = fields::read_list(fields, "links")?
            .ok_or_else(|| EditError::invalid("the field \"links\" is missing"))?;
        let mut kind = match fields.get("kind") {
            Some(token) => Some(self.find_kind(Some(token))?),
            None => None,
        };
        let mut all = Vec::with_capacity(links.len());
        for link in links {
            let ends = link.as_array().ok_or_else(|| {
                EditError::invalid(format!("links: a link is a list of selectors, found {link}"))
            })?;
            let mut list = Vec::with_capacity(ends.len());
            for end in ends {
                let mut end = end.clone();
                if let (Some(kind), Some(selector)) = (kind, end.as_object_mut()) {
                    let free = !["kind", "object", "objects", "ref"]
                        .iter()
                        .any(|name| selector.contains_key(*name));
                    if free {
                        let token = self.kinds[kind].kind.token();
                        selector.insert("kind".to_owned(), Json::from(token));
                    }
                }
                let (end_kind, v) = self.select_one(&end)?;
                if *kind.get_or_insert(end_kind) != end_kind {
                    return Err(EditError::invalid("the ends of a link are of different kinds"));
                }
                list.push(v);
            }
            all.push(list);
        }
        let kind = kind.unwrap_or(0); // the first kind, where no vertex names one
        self.check_takes_links(kind)?;
        Ok((kind, all))
    }

    fn check_takes_links(&self, kind: usize) -> Result<()> {
        if self.kinds[kind].has_links() {
            return Ok(());
        }
        Err(EditError::invalid(format!(
            "links of a {} follow from the order of its vertices and are not edited",
            self.kinds[kind].kind
        )))
    }

    pub(crate) fn link_add(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["links", "attributes", "kind"])?;
        if let Some(token) = fields.get("kind") {
            let kind = self.find_kind(Some(token))?;
            self.check_takes_links(kind)?;
        } else if self.kinds.len() == 1 {
            self.check_takes_links(0)?;
        }
        let (kind, links) = self.link_ends(fields)?;
        let ends: Vec<Vid> = links.concat();
        self.mark_owners_written(kind, &ends)?;
        let count = to_u64(links.len());
        self.add_records(kind, links, fields::read_map(fields, "attributes")?)?;
        Ok(OperationResult { selected: to_u64(ends.len()), changed: count, ids: Vec::new() })
    }

    /// Finds the records that join exactly these vertices, in any order.
    fn records_between(&mut self, kind: usize, ends: &[Vid]) -> Result<Vec<u32>> {
        self.kinds[kind].load_links_of(ends)?;
        let mut sorted_ends = ends.to_vec();
        sorted_ends.sort_unstable();
        let Some(family) = &self.kinds[kind].links else { return Ok(Vec::new()) };
        // No link joins no vertices.
        let first = sorted_ends.first().map(|first| family.records_at(*first));
        let mut found = first.unwrap_or_default();
        found.retain(|number| {
            let mut record_ends: Vec<Vid> = family.records[*number as usize]
                .ends
                .iter()
                .filter_map(|end| if let End::Vertex(v) = end { Some(*v) } else { None })
                .collect();
            record_ends.sort_unstable();
            record_ends == sorted_ends
        });
        if found.is_empty() {
            return Err(EditError::invalid("no link joins these vertices"));
        }
        Ok(found)
    }

    fn mark_ends_written(&mut self, kind: usize, numbers: &[u32]) -> Result<()> {
        let Some(family) = &self.kinds[kind].links else { return Ok(()) };
        let ends: Vec<Vid> = numbers
            .iter()
            .flat_map(|number| {
                family.records[*number as usize]
                    .ends
                    .iter()
                    .filter_map(|end| if let End::Vertex(v) = end { Some(*v) } else { None })
            })
            .collect();
        self.mark_owners_written(kind, &ends)
    }

    pub(crate) fn link_remove(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["links", "touching", "kind"])?;
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        let kind = match fields.get("touching") {
            Some(_) if fields.contains_key("links") => {
                return Err(EditError::invalid("one of \"links\" and \"touching\" is wanted"));
            }
            Some(selector) => {
                let selection = self.select(selector)?;
                self.check_takes_links(selection.kind)?;
                self.kinds[selection.kind].load_links_of(&selection.vertices)?;
                if let Some(family) = &self.kinds[selection.kind].links {
                    let touched: HashSet<Vid> = selection.vertices.iter().copied().collect();
                    for v in touched {
                        numbers.extend(family.records_at(v));
                    }
                }
                selection.kind
            }
            None => {
                let (kind, links) = self.link_ends(fields)?;
                for ends in links {
                    numbers.extend(self.records_between(kind, &ends)?);
                }
                kind
            }
        };
        let numbers: Vec<u32> = numbers.into_iter().collect();
        self.mark_ends_written(kind, &numbers)?;
        if let Some(family) = &mut self.kinds[kind].links {
            for number in &numbers {
                family.records[*number as usize].alive = false;
            }
        }
        Ok(OperationResult {
            selected: to_u64(numbers.len()),
            changed: to_u64(numbers.len()),
            ids: Vec::new(),
        })
    }

    pub(crate) fn link_set(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["links", "all", "values", "each", "kind"])?;
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let kind = if fields::read_flag(fields, "all")? == Some(true) {
            let kind = self.find_kind(fields.get("kind"))?;
            self.check_takes_links(kind)?;
            self.kinds[kind].load_all()?;
            self.kinds[kind].load_all_links()?;
            if let Some(family) = &self.kinds[kind].links {
                groups.extend(
                    (0_u32..)
                        .zip(&family.records)
                        .filter(|(_, record)| record.alive)
                        .map(|(number, _)| vec![number]),
                );
            }
            kind
        } else {
            let (kind, links) = self.link_ends(fields)?;
            for ends in links {
                groups.push(self.records_between(kind, &ends)?);
            }
            kind
        };
        let (values, value_lists) =
            (fields::read_map(fields, "values")?, fields::read_map(fields, "each")?);
        if values.is_none() && value_lists.is_none() {
            return Err(EditError::invalid("\"values\" or \"each\" is missing"));
        }
        self.mark_ends_written(kind, &groups.concat())?;
        let kind_type = self.kinds[kind].kind;
        let mut changed: HashSet<u32> = HashSet::new();
        let Some(family) = &mut self.kinds[kind].links else {
            return Ok(OperationResult::default());
        };
        let mut set = |name: &str, value: &Json, numbers: &[u32]| -> Result<()> {
            let at = family.columns.iter().position(|column| column.name == name);
            let at = at.ok_or_else(|| {
                EditError::invalid(format!("links of {kind_type} have no column {name:?}"))
            })?;
            let row = link_value(&mut family.columns[at].ty, name, value)?;
            for number in numbers {
                let record = &mut family.records[*number as usize];
                if record.values[at] != row {
                    record.values[at] = row.clone();
                    record.changed = true;
                    changed.insert(*number);
                }
            }
            Ok(())
        };
        for (name, value) in values.into_iter().flatten() {
            self.read_items.insert(format!("column:link:{name}:{kind_type}"));
            for numbers in &groups {
                set(name, value, numbers)?;
            }
        }
        for (name, list) in value_lists.into_iter().flatten() {
            self.read_items.insert(format!("column:link:{name}:{kind_type}"));
            for (numbers, value) in groups.iter().zip(need_list_of(list, groups.len(), name)?) {
                set(name, value, numbers)?;
            }
        }
        Ok(OperationResult {
            selected: to_u64(groups.len()),
            changed: to_u64(changed.len()),
            ids: Vec::new(),
        })
    }

    /// Adds links between vertices.
    pub(crate) fn add_records(
        &mut self,
        kind: usize,
        records: Vec<Vec<Vid>>,
        attributes: Option<&Fields>,
    ) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        let ends: Vec<Vid> = records.concat();
        geometry.load_links_of(&ends)?;
        if geometry.links.is_none() {
            let width = if geometry.kind == Kind::Mesh { 3 } else { 2 };
            geometry.links = Some(LinkFamily::create(&geometry.path, width, geometry.axes)?);
        }
        let (is_mesh, kind_type) = (geometry.kind == Kind::Mesh, geometry.kind);
        let Some(family) = &mut geometry.links else { return Ok(()) };
        let width = family.policy.link_width();
        let mut columns: Vec<Option<Vec<Vec<u8>>>> = vec![None; family.columns.len()];
        for (name, list) in attributes.into_iter().flatten() {
            self.read_items.insert(format!("column:link:{name}:{kind_type}"));
            let at = family.columns.iter().position(|column| column.name == *name);
            let at = at.ok_or_else(|| {
                EditError::invalid(format!("links of {kind_type} have no column {name:?}"))
            })?;
            let mut rows = Vec::new();
            for value in need_list_of(list, records.len(), name)? {
                rows.push(link_value(&mut family.columns[at].ty, name, value)?);
            }
            columns[at] = Some(rows);
        }
        for (at, column) in family.columns.iter().enumerate() {
            if columns[at].is_none() && !column.ty.scalar.is_float() && !records.is_empty() {
                return Err(EditError::invalid(format!(
                    "attributes: column {:?} of type {} must be given",
                    column.name,
                    column.ty.scalar.name()
                )));
            }
        }
        for (n, ends) in records.into_iter().enumerate() {
            if ends.len() != width {
                return Err(EditError::invalid(format!(
                    "a link of this {kind_type} has {width} ends, found {}",
                    ends.len()
                )));
            }
            if is_mesh && ends.iter().collect::<HashSet<_>>().len() != width {
                return Err(EditError::invalid("a face needs different vertices"));
            }
            let values = columns
                .iter()
                .zip(&family.columns)
                .map(|(rows, column)| {
                    rows.as_ref().map_or_else(|| column.ty.sentinel(), |rows| rows[n].clone())
                })
                .collect();
            family.insert(Record {
                ends: ends.into_iter().map(End::Vertex).collect(),
                cell: None,
                values,
                alive: true,
                changed: true,
            });
        }
        Ok(())
    }
}

/// Encodes a value of a script for a column of links.
pub(crate) fn link_value(
    ty: &mut crate::scalar::ColumnType,
    name: &str,
    value: &Json,
) -> Result<Vec<u8>> {
    match ty.encode(value).map_err(|error| error.with_place(name))? {
        Some(row) => Ok(row),
        None if ty.scalar.is_float() => Ok(ty.sentinel()),
        None => {
            Err(EditError::invalid(format!("{name}: {} has no value for absent", ty.scalar.name())))
        }
    }
}

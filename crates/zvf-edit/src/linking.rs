//! Operations on links of graphs and meshes.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value as Json;
use zvf_model::Kind;

use crate::columns::position;
use crate::error::{OrFail, Result, missing_column_error, missing_value_error, refuse_if, refused};
use crate::fields::{Fields, assignments, need_list_of};
use crate::links::LinkFamily;
use crate::numbers::Vid;
use crate::transaction::{OperationResult, Transaction};

impl Transaction {
    /// Returns the kind and the ends of each link.
    fn link_ends(
        &mut self,
        links: &[Vec<Json>],
        token: Option<&str>,
    ) -> Result<(usize, Vec<Vec<Vid>>)> {
        let mut kind = token.map(|token| self.find_kind(Some(token))).transpose()?;
        let mut all = Vec::with_capacity(links.len());
        for ends in links {
            let mut list = Vec::with_capacity(ends.len());
            for end in ends {
                let mut end = end.clone();
                if let (Some(kind), Some(selector)) = (kind, end.as_object_mut()) {
                    let mut binding = ["kind", "object", "objects", "ref"].iter();
                    if !binding.any(|name| selector.contains_key(*name)) {
                        let token = self.kinds[kind].kind.token();
                        selector.insert("kind".to_owned(), Json::from(token));
                    }
                }
                let (end_kind, v) = self.select_one(&end)?;
                refuse_if(
                    *kind.get_or_insert(end_kind) != end_kind,
                    "the ends of a link are of different kinds",
                )?;
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
        refused(format!(
            "links of a {} follow from the order of its vertices and are not edited",
            self.kinds[kind].kind
        ))
    }

    pub(crate) fn add_links(
        &mut self,
        links: &[Vec<Json>],
        attributes: &Option<Fields>,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        if token.is_some() || self.kinds.len() == 1 {
            self.check_takes_links(self.find_kind(token)?)?;
        }
        let (kind, links) = self.link_ends(links, token)?;
        let (ends, count) = (links.concat(), links.len());
        self.mark_owners_written(kind, &ends)?;
        self.add_records(kind, links, attributes.as_ref())?;
        Ok(OperationResult::new(ends.len(), count))
    }

    /// Finds the records that join exactly these vertices, in any order.
    fn records_between(&mut self, kind: usize, ends: &[Vid]) -> Result<Vec<u32>> {
        self.kinds[kind].load_links_of(ends)?;
        let mut sorted_ends = ends.to_vec();
        sorted_ends.sort_unstable();
        let mut found = Vec::new();
        // No link joins no vertices.
        if let Some((family, first)) = self.kinds[kind].links.as_ref().zip(sorted_ends.first()) {
            found = family.records.at(*first);
            found.retain(|number| {
                let mut record_ends: Vec<Vid> = family.records.vertices(*number).collect();
                record_ends.sort_unstable();
                record_ends == sorted_ends
            });
        }
        refuse_if(found.is_empty(), "no link joins these vertices")?;
        Ok(found)
    }

    fn mark_ends_written(&mut self, kind: usize, numbers: &[u32]) -> Result<()> {
        let Some(family) = &self.kinds[kind].links else { return Ok(()) };
        let ends = numbers.iter().flat_map(|number| family.records.vertices(*number));
        let ends: Vec<Vid> = ends.collect();
        self.mark_owners_written(kind, &ends)
    }

    pub(crate) fn remove_links(
        &mut self,
        links: Option<Vec<Vec<Json>>>,
        touching: Option<Json>,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        let kind = match (links, touching) {
            (None, Some(selector)) => {
                let selection = self.select(&selector)?;
                self.check_takes_links(selection.kind)?;
                self.kinds[selection.kind].load_links_of(&selection.vertices)?;
                if let Some(family) = &self.kinds[selection.kind].links {
                    numbers.extend(selection.vertices.iter().flat_map(|v| family.records.at(*v)));
                }
                selection.kind
            }
            (Some(links), None) => {
                let (kind, links) = self.link_ends(&links, token)?;
                for ends in links {
                    numbers.extend(self.records_between(kind, &ends)?);
                }
                kind
            }
            _ => return refused("one of \"links\" and \"touching\" is wanted"),
        };
        let numbers: Vec<u32> = numbers.into_iter().collect();
        self.mark_ends_written(kind, &numbers)?;
        if let Some(family) = &mut self.kinds[kind].links {
            for number in &numbers {
                family.records[*number].alive = false;
            }
        }
        Ok(OperationResult::new(numbers.len(), numbers.len()))
    }

    pub(crate) fn set_links(
        &mut self,
        links: Option<Vec<Vec<Json>>>,
        all: Option<bool>,
        (values, each): (&Option<Fields>, &Option<Fields>),
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let kind = if all == Some(true) {
            let kind = self.find_kind(token)?;
            self.check_takes_links(kind)?;
            self.kinds[kind].load_all()?;
            self.kinds[kind].load_all_links()?;
            if let Some(family) = &self.kinds[kind].links {
                groups.extend(family.records.alive().map(|number| vec![number]));
            }
            kind
        } else {
            let links = links.or_refused(|| "missing field `links`".to_owned())?;
            let (kind, links) = self.link_ends(&links, token)?;
            for ends in links {
                groups.push(self.records_between(kind, &ends)?);
            }
            kind
        };
        let assigned = assignments(values, each, groups.len())?;
        self.mark_ends_written(kind, &groups.concat())?;
        let kind_type = self.kinds[kind].kind;
        let mut changed: HashSet<u32> = HashSet::new();
        let Some(family) = &mut self.kinds[kind].links else {
            return Ok(OperationResult::default());
        };
        for (name, value, items) in assigned {
            self.read_items.insert(format!("column:link:{name}:{kind_type}"));
            for numbers in &groups[items] {
                let at = family.column_index(kind_type, name)?;
                let row = family.columns[at].ty.encode_present(name, value)?;
                for number in numbers {
                    if family.records.value(*number, at) != row {
                        family.records.set_value(*number, at, &row);
                        family.records[*number].changed = true;
                        changed.insert(*number);
                    }
                }
            }
        }
        Ok(OperationResult::new(groups.len(), changed.len()))
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
        let (is_mesh, kind_type) = (geometry.kind == Kind::Mesh, geometry.kind);
        let family = geometry.links_or_new()?;
        let width = family.policy.link_width();
        let mut columns: Vec<Option<Vec<Vec<u8>>>> = vec![None; family.columns.len()];
        for (name, list) in attributes.into_iter().flatten() {
            self.read_items.insert(format!("column:link:{name}:{kind_type}"));
            let at = family.column_index(kind_type, name)?;
            let list = need_list_of(list, records.len(), name)?.iter();
            let rows = list.map(|value| family.columns[at].ty.encode_present(name, value));
            columns[at] = Some(rows.collect::<Result<_>>()?);
        }
        for (at, column) in family.columns.iter().enumerate() {
            if columns[at].is_none() && !column.ty.scalar.is_float() && !records.is_empty() {
                return Err(missing_value_error(
                    "attributes",
                    &column.name,
                    &column.ty.scalar.name(),
                ));
            }
        }
        for (n, ends) in records.into_iter().enumerate() {
            if ends.len() != width {
                return refused(format!(
                    "a link of this {kind_type} has {width} ends, found {}",
                    ends.len()
                ));
            }
            refuse_if(
                is_mesh && ends.iter().collect::<HashSet<_>>().len() != width,
                "a face needs different vertices",
            )?;
            let values = columns.iter().zip(&family.columns).map(|(rows, column)| {
                rows.as_ref().map_or_else(|| column.ty.sentinel(), |rows| rows[n].clone())
            });
            let values: Vec<Vec<u8>> = values.collect();
            family.insert(ends, &values);
        }
        Ok(())
    }
}

impl LinkFamily {
    fn column_index(&self, kind: Kind, name: &str) -> Result<usize> {
        position(&self.columns, name)
            .ok_or_else(|| missing_column_error(format!("links of {kind}"), name))
    }
}

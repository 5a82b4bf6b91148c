//! Links: the operations on those of graphs and meshes, and those that objects imply.
//!
//! Objects imply links between the runs of a chain, which a line is as well, and from a vertex of a
//! tree to its parent. An edit recreates those of the changed objects, and writes them with the rows
//! of the rebuilt chunks.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value as Json;
use zvf_format::num;
use zvf_model::Kind;

use crate::changes::Changes;
use crate::error::{
    OrFail, Result, missing_column_error, missing_value_error, refuse_if, refused, unsupported,
};
use crate::geometry::Geometry;
use crate::links::{LinkFamily, loose_end_error};
use crate::new_rows::{Fields, assignments, need_list_of};
use crate::numbers::{End, NONE, Vertex, Vid};
use crate::rebuild::{ObjectChanges, RebuildResult, Tally};
use crate::stored_column::position;
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
        let records = &self.kinds[kind].links.records;
        // No link joins no vertices.
        let mut found = sorted_ends.first().map_or_else(Vec::new, |first| records.at(*first));
        found.retain(|number| {
            let mut record_ends: Vec<Vid> = records.vertices(*number).collect();
            record_ends.sort_unstable();
            record_ends == sorted_ends
        });
        refuse_if(found.is_empty(), "no link joins these vertices")?;
        Ok(found)
    }

    fn mark_ends_written(&mut self, kind: usize, numbers: &[u32]) -> Result<()> {
        let records = &self.kinds[kind].links.records;
        let ends = numbers.iter().flat_map(|number| records.vertices(*number));
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
                let records = &self.kinds[selection.kind].links.records;
                numbers.extend(selection.vertices.iter().flat_map(|v| records.at(*v)));
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
        for number in &numbers {
            self.kinds[kind].links.records[*number].alive = false;
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
            groups.extend(self.kinds[kind].links.records.alive().map(|number| vec![number]));
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
        let family = &mut self.kinds[kind].links;
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
        let family = &mut geometry.links;
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
            family.insert(ends, &values)?;
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

impl Geometry {
    /// Updates the links that are implied by the order of vertices or by parents.
    pub(crate) fn update_implied_links(&mut self, changes: &ObjectChanges) -> Result<()> {
        match self.kind {
            Kind::Line | Kind::Polyline | Kind::Streamline => self.update_chain_links(changes),
            Kind::Skeleton => self.update_tree_links(changes),
            Kind::PointCloud | Kind::Graph | Kind::Mesh => Ok(()),
            _ => unsupported(format!("the kind {} is not edited", self.kind)),
        }
    }

    /// Updates the records that join two runs of a chain.
    fn update_chain_links(&mut self, changes: &ObjectChanges) -> Result<()> {
        // Vertices may have moved between objects, so the changed objects are processed together.
        let mut missing: HashSet<[Vid; 2]> = HashSet::new();
        let mut old: BTreeSet<u32> = BTreeSet::new();
        let pieces = || changes.pieces.iter();
        for ((a, before), (b, after)) in pieces().zip(pieces().skip(1)) {
            let [a, b] = [a, b].map(|number| &self.pieces[num::usize_from_u32(*number)]);
            if let (Some(last), Some(first)) = (before.last(), after.first())
                && a.object == b.object
                && !b.starts_line
            {
                missing.insert([*last, *first]);
            }
        }
        for object in &changes.changed {
            let state = &self.objects.known[object];
            for v in state.vertices_before.iter().chain(&state.vertices) {
                old.extend(self.links.records.at(*v));
            }
        }
        let family = &mut self.links;
        for number in old {
            let ends: Vec<Vid> = family.records.vertices(number).collect();
            let is_implied = <[Vid; 2]>::try_from(ends).is_ok_and(|pair| missing.remove(&pair));
            family.records[number].alive = is_implied;
        }
        let blank = family.blank_values();
        let mut missing: Vec<[Vid; 2]> = missing.into_iter().collect();
        missing.sort_unstable();
        for pair in missing {
            family.insert(pair, &blank)?;
        }
        Ok(())
    }

    /// Updates the edges of trees that are not implied by the order of rows.
    fn update_tree_links(&mut self, changes: &ObjectChanges) -> Result<()> {
        let family = &mut self.links;
        // Vertices may have moved between objects, so the changed objects are processed together.
        let mut by_child: HashMap<Vid, u32> = HashMap::new();
        for object in &changes.changed {
            let state = &self.objects.known[object];
            for v in state.vertices_before.iter().chain(&state.vertices) {
                for number in family.records.at(*v) {
                    if family.records.ends(number)[0] == End::Vertex(*v) {
                        by_child.insert(*v, number);
                    }
                }
            }
        }
        for list in changes.pieces.values() {
            for (i, v) in list.iter().enumerate() {
                let parent = self.vertex[*v].parent;
                let is_implied = !self.has_explicit_links && i > 0 && list[i - 1] == parent;
                let needs_none = family.columns.is_empty() || !by_child.contains_key(v);
                if parent == NONE || is_implied && needs_none {
                    continue;
                }
                let Some(number) = by_child.remove(v) else {
                    let values = family.blank_values();
                    family.insert([*v, parent], &values)?;
                    continue;
                };
                let end = &mut family.records.ends_mut(number)[1];
                let before = std::mem::replace(end, End::Vertex(parent));
                family.records[number].changed |= before != End::Vertex(parent);
            }
        }
        // The others are not needed any more.
        for number in by_child.into_values() {
            family.records[number].alive = false;
        }
        Ok(())
    }

    /// Removes the claim that links are grouped by fragment, in both spellings: rewritten cells
    /// have one group, and new fragments have none. Returns whether the document of an array
    /// changed.
    fn withdraw_link_groups(&mut self) -> bool {
        let level = self.doc.pointer_mut("/attributes/zarr_vectors_level");
        if let Some(level) = level.and_then(serde_json::Value::as_object_mut) {
            level.shift_remove("fragment_link_groups");
        }
        let arrays = self.links.arrays.values_mut();
        arrays.fold(false, |changed, array| array.remove_attribute(LINK_GROUPS) | changed)
    }

    /// Writes the records of links, with those of so many `added` pieces, and notes the chunks and
    /// objects of changed edges and faces.
    pub(crate) fn write_links(
        &mut self,
        result: &mut RebuildResult,
        added: usize,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        if !result.chunks.is_empty() {
            self.withdraw_link_groups();
        }
        let mut family = self.take_links();
        if added > 0 || !result.moves.is_empty() {
            self.write_moved_links(&mut family, added, result)?;
            let (before, after) = family.written;
            tally.links[1] += before.saturating_sub(after); // those of added pieces are not counted
        }
        for number in family.records.numbers() {
            let record = &family.records[number];
            if self.kind.has_links() && record.is_changed() {
                self.note_link(family.records.vertices(number), result);
            }
            if self.has_links() {
                match (record.cell.0 == NONE, record.alive) {
                    (true, true) => tally.links[0] += 1,
                    (false, false) => tally.links[1] += 1,
                    (false, true) if record.changed => tally.links[2] += 1,
                    _ => {}
                }
            }
        }
        let place = |v: Vid| {
            let place = self.place_after(v).map(|(chunk, row)| (chunk, u64::from(row)));
            let Vertex { existed, home, .. } = self.vertex[v];
            let is_loose = place.is_none() && !existed && home.0 != NONE;
            if is_loose { Err(loose_end_error(&self.path)) } else { Ok(place) }
        };
        let changed = family.flush(&self.vertices, &place, out)?;
        self.links = family;
        if changed && self.withdraw_link_groups() {
            self.links.arrays.values_mut().try_for_each(|array| array.flush(out))?;
        }
        Ok(())
    }

    /// Notes the chunks and the objects of the ends of a link.
    fn note_link(&self, vertices: impl Iterator<Item = Vid>, result: &mut RebuildResult) {
        for v in vertices {
            let (home, _) = self.vertex[v].home;
            let chunks = [home, self.vertex[v].chunk].into_iter();
            let chunks = chunks.filter(|chunk| *chunk != NONE);
            result.linked_chunks.extend(chunks.map(|chunk| self.chunk_keys[chunk].clone()));
            result.linked_objects.extend(self.object_id(self.vertex[v].owner));
        }
    }

    /// Writes new columns of fragments, and the values of fragments that were set.
    pub(crate) fn write_fragment_columns(&mut self, rebuilt: &BTreeSet<u32>) -> Result<()> {
        let mut columns = std::mem::take(&mut self.fragment_columns);
        for column in &mut columns {
            let mut chunks: BTreeSet<u32> = column.data.keys().map(|(chunk, _)| *chunk).collect();
            if column.is_new {
                chunks.extend(self.all_chunks());
            }
            for chunk in chunks.difference(rebuilt) {
                self.load_chunk(*chunk)?;
                let key = self.chunk_keys[*chunk].clone();
                let size = column.ty.size();
                let count = self.chunks[chunk].fragments.len();
                let mut bytes = match column.read_rows(&key, count)? {
                    Some(bytes) => bytes.to_vec(),
                    None => column.fill.repeat(count),
                };
                for ((_, fragment), row) in column.data.range((*chunk, 0)..=(*chunk, NONE)) {
                    let from = *fragment as usize * size;
                    if let Some(place) = bytes.get_mut(from..from + size) {
                        place.copy_from_slice(row);
                    }
                }
                column.array.put_chunk(&key, bytes);
            }
        }
        self.fragment_columns = columns;
        Ok(())
    }
}

/// The attribute of the array of links within chunks that tools read: its links are grouped by
/// fragment.
pub(crate) const LINK_GROUPS: &str = "link_groups";

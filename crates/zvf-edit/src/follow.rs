//! Links implied by objects: between the runs of a chain, between the ends of a line, from a vertex of a tree to its
//! parent. An edit recreates those of the changed objects, and writes them with the rows of the rebuilt chunks.

use std::collections::{BTreeSet, HashMap, HashSet};

use zvf_model::Kind;

use crate::arrays::Chunk;
use crate::changes::Changes;
use crate::error::{Result, unsupported};
use crate::geometry::Geometry;
use crate::links::loose_end_error;
use crate::numbers::{NONE, Vertex, Vid};
use crate::rebuild::{ChangedObject, RebuildResult, Tally};
use crate::records::End;

impl Geometry {
    /// Updates the links that are implied by the order of vertices or by parents.
    pub(crate) fn update_implied_links(
        &mut self,
        rebuilt: &BTreeSet<u32>,
        changed: &[ChangedObject],
    ) -> Result<()> {
        match self.kind {
            Kind::Polyline | Kind::Streamline => self.update_chain_links(changed),
            Kind::Line => self.update_line_links(rebuilt),
            Kind::Skeleton => self.update_tree_links(changed),
            Kind::PointCloud | Kind::Graph | Kind::Mesh => Ok(()),
            _ => unsupported(format!("the kind {} is not edited", self.kind)),
        }
    }

    /// Updates the records that join two runs of a chain.
    fn update_chain_links(&mut self, changed: &[ChangedObject]) -> Result<()> {
        let needs = changed.iter().any(|(_, pieces)| pieces.len() > 1);
        if needs {
            self.links_or_new()?;
        }
        let Some(mut family) = self.links.take() else { return Ok(()) };
        // Vertices may have moved between objects, so the changed objects are processed together.
        let mut missing: HashSet<[Vid; 2]> = HashSet::new();
        let mut old: BTreeSet<u32> = BTreeSet::new();
        for (object, pieces) in changed {
            let state = self.known_object(*object)?;
            let starts = self.starting_pieces(pieces).into_iter().skip(1);
            for (pair, _) in pieces.windows(2).zip(starts).filter(|(_, starts_line)| !starts_line) {
                if let (Some(a), Some(b)) = (pair[0].1.last(), pair[1].1.first()) {
                    missing.insert([*a, *b]);
                }
            }
            for v in state.vertices_before.iter().chain(&state.vertices) {
                old.extend(family.records.at(*v));
            }
        }
        for number in old {
            let ends: Vec<Vid> = family.records.vertices(number).collect();
            let is_implied = <[Vid; 2]>::try_from(ends).is_ok_and(|pair| missing.remove(&pair));
            family.records[number].alive = is_implied;
        }
        let blank = family.blank_values();
        let mut missing: Vec<[Vid; 2]> = missing.into_iter().collect();
        missing.sort_unstable();
        for pair in missing {
            family.insert(pair, &blank);
        }
        self.links = Some(family);
        Ok(())
    }

    /// Recreates the records of the rebuilt chunks: one for each line whose ends lie in two chunks.
    fn update_line_links(&mut self, rebuilt: &BTreeSet<u32>) -> Result<()> {
        if rebuilt.is_empty() {
            return Ok(());
        }
        let keys: BTreeSet<Chunk> =
            rebuilt.iter().map(|chunk| self.chunk_keys[*chunk].clone()).collect();
        let mut lines = self.line_objects.clone();
        let known = self.objects.iter().flat_map(|objects| &objects.known);
        lines.extend(known.filter(|(_, state)| state.touched).map(|(object, _)| *object));
        let mut pairs = Vec::new();
        for object in lines {
            self.load_object(object)?;
            let Some(state) = self.object(object).filter(|state| state.exists) else { continue };
            if let [a, b] = state.vertices[..] {
                let (from, to) = (self.vertex[a].chunk, self.vertex[b].chunk);
                if from != to && (rebuilt.contains(&from) || rebuilt.contains(&to)) {
                    pairs.push([a, b]);
                }
            }
        }
        if !pairs.is_empty() {
            self.links_or_new()?;
        }
        if let Some(family) = &mut self.links {
            // Only the counts of the cells are needed.
            family.load_cells_naming(&keys, &|_| true, &mut |_, _| Ok(End::Removed))?;
            family.clear_records();
            let blank = family.blank_values();
            for pair in pairs {
                family.insert(pair, &blank);
            }
        }
        Ok(())
    }

    /// Updates the edges of trees that are not implied by the order of rows.
    fn update_tree_links(&mut self, changed: &[ChangedObject]) -> Result<()> {
        let Some(mut family) = self.links.take() else { return Ok(()) };
        let explicit = self.convention == "explicit";
        // Vertices may have moved between objects, so the changed objects are processed together.
        let mut by_child: HashMap<Vid, u32> = HashMap::new();
        let mut used_records: HashSet<u32> = HashSet::new();
        for (object, _) in changed {
            let state = self.known_object(*object)?;
            for v in state.vertices_before.iter().chain(&state.vertices) {
                for number in family.records.at(*v) {
                    if family.records.ends(number)[0] == End::Vertex(*v) {
                        by_child.insert(*v, number);
                    }
                }
            }
        }
        for (_, pieces) in changed {
            for (_, list) in pieces {
                for (i, v) in list.iter().enumerate() {
                    let parent = self.vertex[*v].parent;
                    if parent == NONE {
                        continue;
                    }
                    let implied = !explicit && i > 0 && list[i - 1] == parent;
                    let record = by_child.get(v).copied();
                    if implied && (record.is_none() || family.columns.is_empty()) {
                        continue;
                    }
                    match record {
                        Some(number) => {
                            let end = &mut family.records.ends_mut(number)[1];
                            if std::mem::replace(end, End::Vertex(parent)) != End::Vertex(parent) {
                                family.records[number].changed = true;
                            }
                            used_records.insert(number);
                        }
                        None => {
                            let values = family.blank_values();
                            let number = family.insert([*v, parent], &values);
                            used_records.insert(number);
                        }
                    }
                }
            }
        }
        for number in by_child.into_values() {
            if !used_records.contains(&number) {
                family.records[number].alive = false;
            }
        }
        self.links = Some(family);
        Ok(())
    }

    /// Removes the claim that links are grouped by fragment, in both spellings: rewritten cells
    /// have one group, and new fragments have none. Returns whether the document of an array
    /// changed.
    pub(crate) fn withdraw_link_groups(&mut self) -> bool {
        let level = self.doc.pointer_mut("/attributes/zarr_vectors_level");
        if let Some(level) = level.and_then(serde_json::Value::as_object_mut) {
            level.shift_remove("fragment_link_groups");
        }
        let arrays = self.links.iter_mut().flat_map(|family| family.arrays.values_mut());
        arrays.fold(false, |changed, array| array.remove_attribute(LINK_GROUPS) | changed)
    }

    /// Writes the records of links, and notes the chunks and objects of changed edges and faces.
    pub(crate) fn write_links(
        &mut self,
        result: &mut RebuildResult,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        if !result.chunks.is_empty() {
            self.withdraw_link_groups();
        }
        if self.is_ordered() && self.pieces.windows(2).any(|pair| pair[0].object == pair[1].object)
        {
            self.links_or_new()?;
        }
        let Some(mut family) = self.links.take() else { return Ok(()) };
        if !self.pieces.is_empty() {
            self.write_added_links(&mut family, result)?;
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
        self.links = Some(family);
        if changed && self.withdraw_link_groups() {
            let mut arrays = self.links.iter_mut().flat_map(|family| family.arrays.values_mut());
            arrays.try_for_each(|array| array.flush(out))?;
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
                for ((at, fragment), row) in &column.data {
                    let from = *fragment as usize * size;
                    if at == chunk && from + size <= bytes.len() {
                        bytes[from..from + size].copy_from_slice(row);
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

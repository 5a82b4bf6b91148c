//! The plan of a commit: new bytes by key, and a report.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value as Json, json};
use zvf_format::Class;

use crate::changes::Changes;
use crate::error::{Result, fail, refused};
use crate::geometry::Geometry;
use crate::numbers::{NONE, Vid};
use crate::options::CommitOptions;
use crate::rebuild::{RebuildResult, Tally};
use crate::refresh::RefreshResult;
use crate::snapshot::read_doc;
use crate::transaction::{Named, NamedRow, Transaction};

/// The changes and the report of a commit.
pub(crate) struct Plan {
    pub(crate) changes: Changes,
    pub(crate) before: Changes,
    pub(crate) report: Json,
    pub(crate) written: BTreeSet<String>,
    pub(crate) named: Named<NamedRow>,
}

impl Transaction {
    /// Plans a commit of the operations.
    pub(crate) fn plan(&mut self, options: &CommitOptions) -> Result<Plan> {
        let mut changes = Changes::default();
        let mut tally = Tally::default();
        let mut rows = self.rebuilt_rows.take().into_iter().flatten();
        let kinds = self.kinds.iter_mut();
        let rebuilt = kinds.map(|kind| kind.rebuild(rows.next(), &mut changes, &mut tally));
        let rebuilt = rebuilt.collect::<Result<Vec<_>>>()?;
        self.groups.flush(&self.snap, &mut changes)?;
        self.update_kind_counts(&mut changes)?;
        let mut root = self.new_root.clone();
        let bounds = grow_bounds(&mut root, &tally, options.refuse_bounds)?;
        if root != self.root {
            changes.put_doc("", &root)?;
        }
        let mut before = Changes::default();
        self.drop_unchanged(&mut changes, &mut before)?;
        let mut stale = Vec::new();
        let mut refreshed = RefreshResult::default();
        if !changes.is_empty() {
            // An object that was added and removed leaves a row, unless nothing else changes: then no id was allocated.
            for kind in &mut self.kinds {
                kind.keep_rows(&mut changes, &mut tally)?;
            }
            stale = self.update_levels(&rebuilt, &tally, &mut changes)?;
        }
        if let Some(result) = self.refresh_levels(options.refresh, &mut changes, &mut root)? {
            stale.clear();
            before = Changes::default();
            self.drop_unchanged(&mut changes, &mut before)?;
            if !changes.is_empty() {
                refreshed = result;
            }
        }
        if !changes.is_empty() {
            self.snap.journal.mark(&mut root);
            root["attributes"]["zvf"]["next_id"] = json!(self.next_id);
            changes.put_doc("", &root)?;
            self.drop_unchanged(&mut changes, &mut before)?;
        }
        let mut written: BTreeSet<String> =
            self.written_items.iter().filter(|item| self.is_lasting(item)).cloned().collect();
        written.extend(tally.free_chunks.iter().cloned());
        let mut report = self.report(options, &tally, &written, &changes);
        report["levels_stale"] = json!(stale);
        report["levels_refreshed"] = json!(refreshed.levels);
        report["bounds"] = bounds;
        if !refreshed.rebuilt.is_empty() {
            report["levels_rebuilt"] = json!(refreshed.rebuilt);
        }
        if self.is_irreversible {
            report["irreversible"] = json!(true);
        }
        Ok(Plan { changes, before, report, written, named: self.locate_named(&rebuilt) })
    }

    /// Returns where the vertices of all names are after the commit.
    fn locate_named(&self, rebuilt: &[RebuildResult]) -> Named<NamedRow> {
        let is_current = self.earlier.head == self.snap.head;
        let mut all = Named::new();
        for (name, (kind, rows)) in &self.earlier.rows {
            let (geometry, rebuilt) = (&self.kinds[*kind], &rebuilt[*kind]);
            let after = rows.iter().filter_map(|named| {
                let (chunk, row, position) = named;
                let number = geometry.chunk_keys.find(chunk).filter(|_| is_current);
                let state = number.and_then(|number| geometry.chunks.get(&number));
                match state.and_then(|state| state.rows.clone().nth(*row as usize)) {
                    Some(v) => geometry.named_row(v),
                    None if is_current && !rebuilt.chunks.contains(chunk) => Some(named.clone()),
                    None => Some((chunk.clone(), NONE, position.clone())),
                }
            });
            all.insert(name.clone(), (*kind, after.collect()));
        }
        for (name, (kind, list)) in &self.named {
            let rows = list.iter().filter_map(|v| self.kinds[*kind].named_row(*v));
            all.insert(name.clone(), (*kind, rows.collect()));
        }
        all
    }

    /// Returns the report of a commit, without levels and bounds.
    fn report(
        &self,
        options: &CommitOptions,
        tally: &Tally,
        written: &BTreeSet<String>,
        changes: &Changes,
    ) -> Json {
        let bytes = changes.byte_len();
        let [added, removed, moved, changed] = tally.vertices;
        let groups: BTreeSet<u64> = ["group:", "member:"]
            .into_iter()
            .flat_map(|prefix| written.iter().filter_map(move |item| item.strip_prefix(prefix)))
            .filter_map(|rest| rest.split(':').next().and_then(|number| number.parse().ok()))
            .collect();
        let columns: Vec<&str> =
            written.iter().filter_map(|item| item.strip_prefix("column:")).collect();
        json!({
            "head": self.snap.head, "txid": Json::Null, "message": options.message, "operations": self.operations.len(),
            "vertices": {"added": added, "removed": removed, "moved": moved, "changed": changed},
            "links": {"added": tally.links[0], "removed": tally.links[1], "changed": tally.links[2]},
            "objects": {"added": tally.added, "removed": tally.removed, "changed": tally.changed},
            "groups": groups, "columns": columns, "chunks": tally.chunks, "keys": changes.keys.len(), "bytes": bytes,
        })
    }

    /// Updates the counts of the additional kinds in `geometry_index`.
    fn update_kind_counts(&self, changes: &mut Changes) -> Result<()> {
        let path = "0/geometry_index";
        let Some(old) = read_doc(&self.snap, path)? else { return Ok(()) };
        let mut doc = old.clone();
        for geometry in self.kinds.iter().filter(|geometry| geometry.path.contains('/')) {
            let kind_summary = &mut doc["attributes"][geometry.kind.token()];
            if !kind_summary.is_object() {
                continue;
            }
            kind_summary["vertex_count"] =
                geometry.doc["attributes"]["zarr_vectors_level"]["vertex_count"].clone();
            for name in ["edge_count", "face_count", "link_count"] {
                let has_count = kind_summary.get(name).is_some();
                if !has_count || !geometry.links.is_stored() {
                    continue;
                }
                match geometry.links.doc["attributes"].get("num_links") {
                    Some(count) => kind_summary[name] = count.clone(),
                    // Without a current count, drop the outdated one.
                    None => {
                        let counts = kind_summary.as_object_mut();
                        drop(counts.and_then(|counts| counts.shift_remove(name)));
                    }
                }
            }
        }
        if doc != old {
            changes.put_doc(path, &doc)?;
        }
        Ok(())
    }

    /// Drops the changes that change nothing, and stores the old bytes of the others in `before`.
    pub(crate) fn drop_unchanged(&self, changes: &mut Changes, before: &mut Changes) -> Result<()> {
        let mut same = HashSet::new();
        for (key, new) in &changes.keys {
            if !before.keys.contains_key(key) {
                let old = self.snap.get(key)?;
                let equal = match (&old, new) {
                    (Some(old), Some(new)) => {
                        let new = &new.read()?;
                        old == new
                            || key.ends_with("zarr.json")
                                && serde_json::from_slice::<Json>(old).ok()
                                    == serde_json::from_slice::<Json>(new).ok()
                    }
                    (None, None) => true,
                    _ => false,
                };
                if equal {
                    same.insert(key.clone());
                } else {
                    before.insert(key.clone(), old);
                }
            }
        }
        changes.keys.retain(|key, _| !same.contains(key));
        Ok(())
    }
}

impl Geometry {
    /// Returns a vertex as names keep it after the commit; `None` for one that is removed.
    fn named_row(&self, v: Vid) -> Option<NamedRow> {
        let (chunk, row) = self.place_after(v)?;
        Some((chunk, row, self.position_bytes(v).to_vec()))
    }
}

/// Extends the bounds of the root to the changed positions. Bounds never shrink.
fn grow_bounds(root: &mut Json, tally: &Tally, refuse: bool) -> Result<Json> {
    let bounds = &mut root["attributes"]["zarr_vectors"]["bounds"];
    let axes = tally.low.len();
    let is_corner = |corner: &Json| corner.as_array().is_some_and(|list| list.len() == axes);
    if axes > 0 && !(is_corner(&bounds[0]) && is_corner(&bounds[1])) {
        let text =
            format!("zarr.json, bounds: expected two corners of {axes} numbers, found {bounds}");
        return fail(Class::BadShape, text);
    }
    for (axis, (low, high)) in tally.low.iter().zip(&tally.high).enumerate() {
        let (old_low, old_high) = (bounds[0][axis].as_f64(), bounds[1][axis].as_f64());
        let outside =
            old_low.is_none_or(|old| *low < old) || old_high.is_none_or(|old| *high > old);
        if outside && refuse {
            let text = format!(
                "a vertex lies outside the bounds of the store on axis {axis}: {low} to {high}, expected {} to {}; commit with bounds \"grow\"",
                bounds[0][axis], bounds[1][axis]
            );
            return refused(text);
        }
        if old_low.is_none_or(|old| *low < old) {
            bounds[0][axis] = json!(low);
        }
        if old_high.is_none_or(|old| *high > old) {
            bounds[1][axis] = json!(high);
        }
    }
    Ok(bounds.clone())
}

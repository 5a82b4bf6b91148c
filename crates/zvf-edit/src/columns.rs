//! Columns of every scope: how they are found, dropped and renamed.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use zvf_format::num;

use crate::cell_column::rename_array;
use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{OrFail, Result, refused};
use crate::geometry::Geometry;
use crate::groups::GROUP_COLUMNS_PATH;
use crate::indexes::RowColumn;
use crate::kept_columns::{SEGMENT_ID, VERTEX_COUNT};
use crate::links::LinkColumn;
use crate::new_rows::{Fields, checked_index};
use crate::scalar::{find, find_mut, need_mut, position, take};
use crate::snapshot::doc_key;
use crate::transaction::{OperationResult, Transaction};

/// The things that a column has a row for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColumnScope {
    #[default]
    Vertex,
    Object,
    Link,
    Group,
    Fragment,
}

impl ColumnScope {
    /// Returns the word in scripts and documents.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Vertex => "vertex",
            Self::Object => "object",
            Self::Link => "link",
            Self::Group => "group",
            Self::Fragment => "fragment",
        }
    }
}

impl Transaction {
    /// Marks a column as written.
    pub(crate) fn mark_column(&mut self, scope: ColumnScope, kind: usize, name: &str) {
        let item = self.column_item(scope, kind, name);
        self.mark_written(item);
    }

    /// Returns the item by which transactions on a column conflict.
    pub(crate) fn column_item(&self, scope: ColumnScope, kind: usize, name: &str) -> String {
        if scope == ColumnScope::Group {
            return format!("column:group:{name}");
        }
        format!("column:{}:{name}:{}", scope.word(), self.kinds[kind].kind)
    }

    pub(crate) fn column_exists(&self, scope: ColumnScope, kind: usize, name: &str) -> bool {
        let geometry = &self.kinds[kind];
        match scope {
            ColumnScope::Vertex => find(&geometry.columns, name).is_some(),
            ColumnScope::Object => find(&geometry.object_columns, name).is_some(),
            ColumnScope::Link => geometry.link_columns().any(|column| column.name == name),
            ColumnScope::Fragment => find(&geometry.fragment_columns, name).is_some(),
            ColumnScope::Group => find(&self.groups.columns, name).is_some(),
        }
    }

    /// Begins to change a column as a whole. Returns its name as stored, and its kind.
    fn begin_change(
        &mut self,
        scope: ColumnScope,
        name: &str,
        token: Option<&str>,
    ) -> Result<(String, usize)> {
        let name = zvf_metadata::path_segment(name).into_owned();
        let kind = self.find_kind(token)?;
        self.mark_column(scope, kind, &name);
        match self.column_exists(scope, kind, &name) {
            true => Ok((name, kind)),
            false => {
                let text = format!("there is no column {name:?} of {}s", scope.word());
                refused(text)
            }
        }
    }

    pub(crate) fn refuse_taken_name(
        &self,
        scope: ColumnScope,
        kind: usize,
        name: &str,
    ) -> Result<()> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return refused(format!(
                "name: {name:?} has other characters than letters, digits and _"
            ));
        }
        if self.column_exists(scope, kind, name) {
            return refused(format!("there is a column {name:?} already"));
        }
        Ok(())
    }

    /// Returns the root document for a change.
    pub(crate) fn root_changes(&mut self) -> &mut Json {
        self.new_root.get_or_insert_with(|| self.root.clone())
    }

    /// Returns the declarations of the columns of a scope in the root, for a change.
    fn column_specs(&mut self, scope: ColumnScope) -> Option<&mut Map<String, Json>> {
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        specs.get_mut(scope.word())?.as_object_mut()
    }

    pub(crate) fn drop_column(
        &mut self,
        scope: ColumnScope,
        name: &str,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let (name, kind) = self.begin_change(scope, name, token)?;
        let geometry = &mut self.kinds[kind];
        let erased = &mut geometry.erased;
        match scope {
            ColumnScope::Vertex => {
                let column = take(&mut geometry.columns, &name);
                column.map_or(Ok(()), |column| column.array.push_removal(erased))?;
            }
            ColumnScope::Fragment => {
                let column = take(&mut geometry.fragment_columns, &name);
                column.map_or(Ok(()), |column| column.array.push_removal(erased))?;
            }
            ColumnScope::Object => {
                let column = take(&mut geometry.object_columns, &name).into_iter();
                column.for_each(|column| column.array.push_removal(erased));
                let known = geometry.objects.iter_mut().flat_map(|objects| &mut objects.known);
                known.for_each(|(_, object)| drop(object.values.remove(&name)));
            }
            ColumnScope::Link => {
                let columns = geometry.links.as_mut().map(|family| {
                    let at = position(&family.columns, &name);
                    at.map(|at| family.records.columns.remove(at));
                    take(&mut family.columns, &name)
                });
                let column = columns.flatten();
                column
                    .map_or(Ok(()), |column| column.push_removal(&geometry.path, &name, erased))?;
            }
            ColumnScope::Group => {
                let column = take(&mut self.groups.columns, &name).into_iter();
                column.for_each(|column| column.array.push_removal(&mut self.groups.erased));
            }
        }
        if let Some(specs) = self.column_specs(scope) {
            specs.shift_remove(&name);
        }
        Ok(OperationResult::new(1, 1))
    }

    pub(crate) fn rename_column(
        &mut self,
        scope: ColumnScope,
        name: &str,
        to: String,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let (name, kind) = self.begin_change(scope, name, token)?;
        self.refuse_taken_name(scope, kind, &to)?;
        let kept = [(ColumnScope::Object, VERTEX_COUNT), (ColumnScope::Fragment, SEGMENT_ID)];
        if kept.contains(&(scope, to.as_str())) {
            return refused(format!("{to} is kept by the store; make it with column.add"));
        }
        self.mark_column(scope, kind, &to);
        let geometry = &mut self.kinds[kind];
        let path = |folder: &str| format!("{}/{folder}/{to}", geometry.path);
        match scope {
            ColumnScope::Vertex => {
                let (at, path) = (geometry.need_column(&name)?, path("vertex_attributes"));
                geometry.load_values(at)?;
                geometry.columns[at].rename(&path, &to)?.push_removal(&mut geometry.erased)?;
            }
            ColumnScope::Fragment => {
                let path = path("fragment_attributes");
                if let Some(column) = find_mut(&mut geometry.fragment_columns, &name) {
                    column.rename(&path, &to)?.push_removal(&mut geometry.erased)?;
                }
            }
            ColumnScope::Object => {
                let path = path("object_attributes");
                if let Some(column) = find_mut(&mut geometry.object_columns, &name) {
                    column.rename(&path, &to).push_removal(&mut geometry.erased);
                }
                let known = geometry.objects.iter_mut().flat_map(|objects| &mut objects.known);
                for (_, object) in known {
                    let value = object.values.remove(&name);
                    object.values.extend(value.map(|value| (to.clone(), value)));
                }
            }
            ColumnScope::Link => geometry.rename_link_column(&name, &to)?,
            ColumnScope::Group => {
                if let Some(column) = find_mut(&mut self.groups.columns, &name) {
                    let old = column.rename(&format!("{GROUP_COLUMNS_PATH}/{to}"), &to);
                    old.push_removal(&mut self.groups.erased);
                }
            }
        }
        if let Some(specs) = self.column_specs(scope)
            && let Some(spec) = specs.shift_remove(&name)
        {
            specs.insert(to, spec);
        }
        Ok(OperationResult::new(1, 1))
    }

    /// Finds a fragment of an object by its index. Returns its kind, chunk and number.
    pub(crate) fn fragment_of_object(
        &mut self,
        id: i64,
        index: Option<i64>,
    ) -> Result<(usize, u32, u32)> {
        let (kind, object) = self.need_object(id)?;
        self.mark_object(id);
        let references = self.kinds[kind].references(object)?;
        let n = index.or_refused(|| "missing field `index`".to_owned())?;
        let found = checked_index(n, references.len()).map(|at| references[at]);
        let (chunk, fragment) =
            found.or_refused(|| format!("index {n} of {}", references.len()))?;
        Ok((kind, chunk, fragment))
    }

    /// Finds a fragment by its chunk and number. Returns its kind, chunk and number.
    pub(crate) fn fragment_of_chunk(
        &mut self,
        key: &[i64],
        fragment: Option<i64>,
        token: Option<&str>,
    ) -> Result<(usize, u32, u32)> {
        let kind = self.find_kind(token)?;
        let geometry = &mut self.kinds[kind];
        let number = geometry.chunk_number(key);
        geometry.load_chunk(number)?;
        let n = fragment.or_refused(|| "missing field `fragment`".to_owned())?;
        let count = geometry.chunks[&number].fragments.len();
        let fragment = u32::try_from(n).ok().filter(|n| num::usize_from_u32(*n) < count);
        let fragment = fragment.or_refused(|| format!("chunk {key:?} has no fragment {n}"))?;
        let item = geometry.chunk_item(key);
        self.mark_written(item);
        Ok((kind, number, fragment))
    }

    pub(crate) fn set_fragment(
        &mut self,
        (kind, chunk, fragment): (usize, u32, u32),
        values: &Fields,
    ) -> Result<OperationResult> {
        let geometry = &mut self.kinds[kind];
        geometry.load_chunk(chunk)?;
        for (name, value) in values {
            let column = need_mut(&mut geometry.fragment_columns, name, "fragments")?;
            if name == "object_id" || column.is_kept() {
                return refused(format!("{name} is kept by the store and never set"));
            }
            let row = column.ty.encode_present(name, value)?;
            column.data.insert((chunk, fragment), row);
        }
        Ok(OperationResult::new(1, 1))
    }
}

impl RowColumn {
    /// Moves the column to another name and array. Returns the old array.
    fn rename(&mut self, path: &str, to: &str) -> DenseArray {
        let mut array = self.array.copy_to(path);
        array.stored.doc["attributes"]["name"] = json!(to);
        to.clone_into(&mut self.name);
        std::mem::replace(&mut self.array, array)
    }
}

impl LinkColumn {
    /// Adds the removal of the column, which has this name at `level`, to `out`.
    fn push_removal(self, level: &str, name: &str, out: &mut Changes) -> Result<()> {
        self.arrays.values().try_for_each(|array| array.push_removal(out))?;
        let group = format!("{level}/link_attributes/{name}");
        out.insert(doc_key(&format!("{group}/0")), None);
        out.insert(doc_key(&group), None);
        Ok(())
    }
}

impl Geometry {
    /// Returns the columns of links.
    fn link_columns(&self) -> impl Iterator<Item = &LinkColumn> {
        self.links.iter().flat_map(|family| &family.columns)
    }

    fn rename_link_column(&mut self, name: &str, to: &str) -> Result<()> {
        self.load_all()?;
        self.load_all_links()?;
        let (level, erased) = (&self.path, &mut self.erased);
        let columns = self.links.iter_mut().flat_map(|family| &mut family.columns);
        for column in columns.filter(|column| column.name == name) {
            let old = column.clone();
            column.attrs["name"] = json!(to);
            to.clone_into(&mut column.name);
            column.is_new = true;
            for (offsets, array) in &mut column.arrays {
                rename_array(array, &format!("{level}/link_attributes/{to}/0/{offsets}"), to)?;
            }
            old.push_removal(level, name, erased)?;
        }
        Ok(())
    }
}

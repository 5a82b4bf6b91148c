//! Columns of every scope: how they are found, dropped and renamed.

use serde_json::{Map, Value as Json};
use zvf_format::num;
use zvf_query::predicate::Scope;

use crate::error::{OrFail, Result, refused};
use crate::geometry::Geometry;
use crate::kept_columns::{OBJECT_ID, SEGMENT_ID, VERTEX_COUNT};
use crate::new_rows::{Fields, checked_index};
use crate::scalar::ColumnType;
use crate::stored_column::{drop_from, find, need_mut, position, rename_in};
use crate::transaction::{OperationResult, Transaction};

impl Transaction {
    /// Marks a column as written.
    pub(crate) fn mark_column(&mut self, scope: Scope, kind: usize, name: &str) {
        let item = self.column_item(scope, kind, name);
        self.written_items.insert(item);
    }

    /// Returns the item by which transactions on a column conflict.
    pub(crate) fn column_item(&self, scope: Scope, kind: usize, name: &str) -> String {
        if scope == Scope::Group {
            return format!("column:group:{name}");
        }
        format!("column:{}:{name}:{}", scope.word(), self.kinds[kind].kind)
    }

    /// Returns the type of a column; `None` where there is no such column.
    pub(crate) fn find_column(&self, scope: Scope, kind: usize, name: &str) -> Option<&ColumnType> {
        let geometry = &self.kinds[kind];
        match scope {
            Scope::Vertex => find(&geometry.columns, name).map(|column| &column.ty),
            Scope::Object => find(&geometry.objects.columns, name).map(|column| &column.ty),
            Scope::Link => find(&geometry.links.columns, name).map(|column| &column.ty),
            Scope::Fragment => find(&geometry.fragment_columns, name).map(|column| &column.ty),
            Scope::Group => find(&self.groups.columns, name).map(|column| &column.ty),
        }
    }

    /// Begins to change a column as a whole. Returns its name as stored, and its kind.
    fn begin_change(
        &mut self,
        scope: Scope,
        name: &str,
        token: Option<&str>,
    ) -> Result<(String, usize)> {
        let name = zvf_metadata::path_segment(name).into_owned();
        let kind = self.find_kind(token)?;
        self.mark_column(scope, kind, &name);
        match self.find_column(scope, kind, &name) {
            Some(_) => Ok((name, kind)),
            None => {
                let text = format!("there is no column {name:?} of {}s", scope.word());
                refused(text)
            }
        }
    }

    pub(crate) fn refuse_taken_name(&self, scope: Scope, kind: usize, name: &str) -> Result<()> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return refused(format!(
                "name: {name:?} has other characters than letters, digits and _"
            ));
        }
        if self.find_column(scope, kind, name).is_some() {
            return refused(format!("there is a column {name:?} already"));
        }
        Ok(())
    }

    /// Returns the declarations of the columns of a scope in the root, for a change.
    fn column_specs(&mut self, scope: Scope) -> Option<&mut Map<String, Json>> {
        let specs = &mut self.new_root["attributes"]["zarr_vectors"]["attribute_specs"];
        specs.get_mut(scope.word())?.as_object_mut()
    }

    pub(crate) fn drop_column(
        &mut self,
        scope: Scope,
        name: &str,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let (name, kind) = self.begin_change(scope, name, token)?;
        let Geometry { columns, fragment_columns, objects, links, erased, .. } =
            &mut self.kinds[kind];
        match scope {
            Scope::Vertex => drop_from(columns, &name, erased),
            Scope::Fragment => drop_from(fragment_columns, &name, erased),
            Scope::Object => drop_from(&mut objects.columns, &name, erased),
            Scope::Link => {
                position(&links.columns, &name).map(|at| links.records.columns.remove(at));
                drop_from(&mut links.columns, &name, erased)
            }
            Scope::Group => drop_from(&mut self.groups.columns, &name, erased),
        }?;
        if let Some(specs) = self.column_specs(scope) {
            specs.shift_remove(&name);
        }
        Ok(OperationResult::new(1, 1))
    }

    pub(crate) fn rename_column(
        &mut self,
        scope: Scope,
        name: &str,
        to: String,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let (name, kind) = self.begin_change(scope, name, token)?;
        self.refuse_taken_name(scope, kind, &to)?;
        let kept = [(Scope::Object, VERTEX_COUNT), (Scope::Fragment, SEGMENT_ID)];
        if kept.contains(&(scope, to.as_str())) {
            return refused(format!("{to} is kept by the store; make it with column.add"));
        }
        self.mark_column(scope, kind, &to);
        let (geometry, names) = (&mut self.kinds[kind], (name.as_str(), to.as_str()));
        if scope == Scope::Vertex {
            geometry.load_values(geometry.need_column(&name)?)?;
        } else if scope == Scope::Link {
            geometry.load_all()?;
            geometry.load_all_links()?;
        }
        let Geometry { columns, fragment_columns, objects, links, erased, .. } = geometry;
        match scope {
            Scope::Vertex => rename_in(columns, names, erased),
            Scope::Fragment => rename_in(fragment_columns, names, erased),
            Scope::Object => rename_in(&mut objects.columns, names, erased),
            Scope::Link => rename_in(&mut links.columns, names, erased),
            Scope::Group => rename_in(&mut self.groups.columns, names, erased),
        }?;
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
        let number = geometry.chunk_keys.number(key);
        geometry.load_chunk(number)?;
        let n = fragment.or_refused(|| "missing field `fragment`".to_owned())?;
        let count = geometry.chunks[&number].fragments.len();
        let fragment = u32::try_from(n).ok().filter(|n| num::usize_from_u32(*n) < count);
        let fragment = fragment.or_refused(|| format!("chunk {key:?} has no fragment {n}"))?;
        let item = geometry.chunk_item(key);
        self.written_items.insert(item);
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
            if name == OBJECT_ID || column.is_kept() {
                return refused(format!("{name} is kept by the store and never set"));
            }
            let row = column.ty.encode_present(name, value)?;
            column.data.insert((chunk, fragment), row);
        }
        Ok(OperationResult::new(1, 1))
    }
}

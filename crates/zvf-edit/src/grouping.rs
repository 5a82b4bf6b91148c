//! Operations on groups: members, names and values of columns.

use std::collections::HashSet;

use serde_json::{Value as Json, json};
use zvf_metadata::DtypeKind;

use crate::error::{Result, missing_value_error, refused};
use crate::new_rows::Fields;
use crate::stored_column::need_mut;
use crate::transaction::{OperationResult, Transaction};

impl Transaction {
    /// Adds an object to a group.
    pub(crate) fn join_group(&mut self, group: usize, id: i64) -> bool {
        self.read_object(id);
        let joined = self.groups.set_member(group, id, true);
        // The number of a new group is final only after the commit.
        if joined && group < self.groups.count_before && !self.unrequested_ids.contains(&id) {
            self.written_items.insert(format!("member:{group}:{id}"));
        }
        joined
    }

    pub(crate) fn leave_group(&mut self, group: usize, id: i64) -> bool {
        let was_member = self.groups.set_member(group, id, false);
        if was_member && group < self.groups.count_before {
            self.written_items.insert(format!("member:{group}:{id}"));
        }
        was_member
    }

    fn set_group_values(&mut self, group: usize, values: &Fields) -> Result<bool> {
        let mut changed = false;
        for (name, value) in values {
            self.read_items.insert(format!("column:group:{name}"));
            let column = need_mut(&mut self.groups.columns, name, "groups")?;
            let absent = column.can_be_absent().then(|| column.ty.sentinel());
            let row = column.ty.encode_or(absent.as_deref(), name, value)?;
            column.array.resize(self.groups.list.len());
            if column.array.row(group) != row {
                column.array.set_row(group, &row);
                changed = true;
            }
        }
        Ok(changed)
    }

    pub(crate) fn add_group(
        &mut self,
        name: Option<String>,
        members: Option<Vec<i64>>,
        values: &Option<Fields>,
    ) -> Result<OperationResult> {
        if let Some(name) = &name {
            self.written_items.insert(format!("group_name:{name}"));
            if self.groups.find_group(&json!(name)).is_some() {
                return refused(format!("the group name {name:?} is taken"));
            }
        }
        let members = members.unwrap_or_default();
        for id in &members {
            self.need_object(*id)?;
        }
        let is_given = |name: &str| values.as_ref().is_some_and(|values| values.contains_key(name));
        let mut bools =
            self.groups.columns.iter().filter(|column| column.ty.scalar.kind() == DtypeKind::Bool);
        if let Some(column) = bools.find(|column| !is_given(&column.name)) {
            return Err(missing_value_error("values", &column.name, &column.ty.scalar.name()));
        }
        let group = self.groups.push_group(name);
        for id in members {
            self.join_group(group, id);
        }
        if let Some(values) = values {
            self.set_group_values(group, values)?;
        }
        Ok(OperationResult::new(1, 1))
    }

    pub(crate) fn change_members(
        &mut self,
        group: &Json,
        set: Option<Vec<i64>>,
        add: Option<Vec<i64>>,
        remove: Option<Vec<i64>>,
    ) -> Result<OperationResult> {
        let group = self.groups.need_group(group)?;
        let mut changed = 0;
        if let Some(set) = set {
            self.written_items.insert(format!("group:{group}"));
            for id in &set {
                self.need_object(*id)?;
            }
            let new_members: HashSet<i64> = set.iter().copied().collect();
            for id in Vec::from_iter(self.groups.list[group].members()) {
                if !new_members.contains(&id) {
                    changed += usize::from(self.leave_group(group, id));
                }
            }
            for id in set {
                changed += usize::from(self.join_group(group, id));
            }
        }
        for id in add.unwrap_or_default() {
            self.need_object(id)?;
            changed += usize::from(self.join_group(group, id));
        }
        for id in remove.unwrap_or_default() {
            if !self.is_known_id(id) {
                return refused(format!("object {id} is not there"));
            }
            changed += usize::from(self.leave_group(group, id));
        }
        Ok(OperationResult::new(1, changed))
    }

    pub(crate) fn rename_group(&mut self, group: &Json, name: String) -> Result<OperationResult> {
        let group = self.groups.need_group(group)?;
        if self.groups.find_group(&json!(name)).is_some_and(|found| found != group) {
            return refused(format!("the group name {name:?} is taken"));
        }
        self.written_items.insert(format!("group:{group}"));
        self.written_items.insert(format!("group_name:{name}"));
        let changed = self.groups.name(group) != name;
        if changed {
            self.groups.list[group].name = Some(name);
            self.groups.changed = true;
        }
        Ok(OperationResult::new(1, usize::from(changed)))
    }

    pub(crate) fn set_group(&mut self, group: &Json, values: &Fields) -> Result<OperationResult> {
        let group = self.groups.need_group(group)?;
        self.written_items.insert(format!("group:{group}"));
        let changed = self.set_group_values(group, values)?;
        Ok(OperationResult::new(1, usize::from(changed)))
    }

    pub(crate) fn remove_group(&mut self, group: &Json) -> Result<OperationResult> {
        let group = self.groups.need_group(group)?;
        self.written_items.insert(format!("group:{group}"));
        let before = std::mem::take(&mut self.groups.list[group]);
        let changed = before.name.is_some() || before.members().next().is_some();
        self.groups.changed |= changed;
        for column in &mut self.groups.columns {
            let row = column.ty.sentinel();
            if group < column.array.len() {
                column.array.set_row(group, &row);
            }
        }
        Ok(OperationResult::new(1, usize::from(changed)))
    }
}

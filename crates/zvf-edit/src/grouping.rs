//! Operations on groups: members, names and values of columns.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::groups::Group;
use crate::scalar::Scalar;
use crate::transaction::{OperationResult, Transaction};

impl Transaction {
    /// Adds an object to a group.
    pub(crate) fn join_group(&mut self, group: usize, id: i64) -> bool {
        self.read_items.insert(format!("object:{id}"));
        let joined = self.groups.add_member(group, id);
        // The number of a new group is final only after the commit.
        if joined && group < self.groups.count_before && !self.unrequested_ids.contains(&id) {
            self.mark_written(format!("member:{group}:{id}"));
        }
        joined
    }

    pub(crate) fn leave_group(&mut self, group: usize, id: i64) -> bool {
        let was_member = self.groups.remove_member(group, id);
        if was_member && group < self.groups.count_before {
            self.mark_written(format!("member:{group}:{id}"));
        }
        was_member
    }

    fn set_group_values(&mut self, group: usize, values: &Map<String, Json>) -> Result<bool> {
        let mut changed = false;
        for (name, value) in values {
            self.read_items.insert(format!("column:group:{name}"));
            let column = self.groups.columns.iter_mut().find(|column| column.name == *name);
            let column = column
                .ok_or_else(|| EditError::invalid(format!("groups have no column {name:?}")))?;
            let row = match column.ty.encode(value)? {
                Some(row) => row,
                None if column.ty.scalar == Scalar::Bool => {
                    return Err(EditError::invalid(format!(
                        "{name}: bool has no value for absent"
                    )));
                }
                None => column.ty.sentinel(),
            };
            column.array.resize(self.groups.list.len());
            if column.array.row(group) != row {
                column.array.set_row(group, &row);
                changed = true;
            }
        }
        Ok(changed)
    }

    pub(crate) fn group_add(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["name", "members", "values"])?;
        let name = fields::read_text(fields, "name")?;
        if let Some(name) = &name {
            self.mark_written(format!("group_name:{name}"));
            if self.groups.find_group(&json!(name)).is_some() {
                return Err(EditError::invalid(format!("the group name {name:?} is taken")));
            }
        }
        let members = fields::read_ids(fields, "members")?.unwrap_or_default();
        for id in &members {
            self.need_object(*id)?;
        }
        let values = fields::read_map(fields, "values")?;
        let is_given = |name: &str| values.is_some_and(|values| values.contains_key(name));
        let mut bools =
            self.groups.columns.iter().filter(|column| column.ty.scalar == Scalar::Bool);
        if let Some(column) = bools.find(|column| !is_given(&column.name)) {
            return Err(EditError::invalid(format!(
                "values: column {:?} of type bool must be given",
                column.name
            )));
        }
        let group = self.groups.push_group(name);
        for id in members {
            self.join_group(group, id);
        }
        if let Some(values) = values {
            self.set_group_values(group, values)?;
        }
        Ok(OperationResult { selected: 1, changed: 1, ids: Vec::new() })
    }

    pub(crate) fn group_members(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["group", "set", "add", "remove"])?;
        let group = self.groups.need_group(fields::need_field(fields, "group")?)?;
        let mut changed = 0;
        if let Some(set) = fields::read_ids(fields, "set")? {
            self.mark_written(format!("group:{group}"));
            for id in &set {
                self.need_object(*id)?;
            }
            let new_members: HashSet<i64> = set.iter().copied().collect();
            for id in self.groups.list[group].members.clone() {
                if !new_members.contains(&id) {
                    changed += u64::from(self.leave_group(group, id));
                }
            }
            for id in set {
                changed += u64::from(self.join_group(group, id));
            }
        }
        for id in fields::read_ids(fields, "add")?.unwrap_or_default() {
            self.need_object(id)?;
            changed += u64::from(self.join_group(group, id));
        }
        for id in fields::read_ids(fields, "remove")?.unwrap_or_default() {
            let exists = self
                .kinds
                .iter()
                .filter_map(|kind| kind.objects.as_ref())
                .any(|objects| objects.by_id.contains_key(&id));
            if !exists {
                return Err(EditError::invalid(format!("object {id} is not there")));
            }
            changed += u64::from(self.leave_group(group, id));
        }
        Ok(OperationResult { selected: 1, changed, ids: Vec::new() })
    }

    pub(crate) fn group_rename(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["group", "name"])?;
        let group = self.groups.need_group(fields::need_field(fields, "group")?)?;
        let name = fields::read_text(fields, "name")?
            .ok_or_else(|| EditError::invalid("the field \"name\" is missing"))?;
        if self.groups.find_group(&json!(name)).is_some_and(|found| found != group) {
            return Err(EditError::invalid(format!("the group name {name:?} is taken")));
        }
        self.mark_written(format!("group:{group}"));
        self.mark_written(format!("group_name:{name}"));
        let changed = self.groups.name(group) != name;
        if changed {
            self.groups.list[group].name = Some(name);
            self.groups.changed = true;
        }
        Ok(OperationResult { selected: 1, changed: u64::from(changed), ids: Vec::new() })
    }

    pub(crate) fn group_set(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["group", "values"])?;
        let group = self.groups.need_group(fields::need_field(fields, "group")?)?;
        self.mark_written(format!("group:{group}"));
        let values = fields::read_map(fields, "values")?
            .ok_or_else(|| EditError::invalid("the field \"values\" is missing"))?;
        let changed = self.set_group_values(group, values)?;
        Ok(OperationResult { selected: 1, changed: u64::from(changed), ids: Vec::new() })
    }

    pub(crate) fn group_remove(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["group"])?;
        let group = self.groups.need_group(fields::need_field(fields, "group")?)?;
        self.mark_written(format!("group:{group}"));
        let before = self.groups.list[group].clone();
        self.groups.list[group] = Group::default();
        let changed = before != Group::default();
        self.groups.changed |= changed;
        for column in &mut self.groups.columns {
            let row = column.ty.sentinel();
            if group < column.array.len() {
                column.array.set_row(group, &row);
            }
        }
        Ok(OperationResult { selected: 1, changed: u64::from(changed), ids: Vec::new() })
    }
}

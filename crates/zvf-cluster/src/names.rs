//! Names without dots for tables whose name is a path, such as `'cells.zarrvectors'`.
//!
//! Serialized plans hold names of columns as text, and the decoder parses `cells.zarrvectors.x` as a column of the table
//! `zarrvectors` of a schema. So plans use a name without a dot for such a table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{Field, Fields, Schema};
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor};

/// A planner that renames tables whose name has a dot, and remembers their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlainNames {
    /// Names by the names in plans.
    names: Arc<Mutex<BTreeMap<String, String>>>,
}

impl RelationPlanner for PlainNames {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, alias, args: None, .. } = &relation
            && let Some(plain) = self.plain_name(name)
        {
            let known = context.object_name_to_table_reference(name.clone())?;
            // The engine reports tables that do not exist.
            if let Ok(source) = context.context_provider().get_table_source(known) {
                let scan = LogicalPlanBuilder::scan(TableReference::bare(plain), source, None)?;
                let planned = PlannedRelation::new(scan.build()?, alias.clone());
                return Ok(RelationPlanning::Planned(Box::new(planned)));
            }
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

impl PlainNames {
    /// Returns the name in plans of a one-part name with a dot; `None` for other names.
    fn plain_name(&self, name: &ObjectName) -> Option<String> {
        let [part] = name.0.as_slice() else { return None };
        let name = &part.as_ident()?.value;
        if !name.contains('.') {
            return None;
        }
        let replace = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        let mut plain: String = name.chars().map(replace).collect();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        while names.get(&plain).is_some_and(|other| other != name) {
            plain.push('_');
        }
        names.insert(plain.clone(), name.clone());
        Some(plain)
    }

    /// Returns the schema of an answer with the names of the tables in those of its columns, such as `min(cells.zv.x)`.
    pub(crate) fn restore(&self, schema: &Schema) -> Schema {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let restore = |field: &Arc<Field>| {
            // Longer names first: one may begin with another.
            let restored =
                names.iter().rev().fold(field.name().clone(), |column, (plain, name)| {
                    column.replace(&format!("{plain}."), &format!("{name}."))
                });
            Field::clone(field).with_name(restored)
        };
        Schema::new_with_metadata(
            schema.fields().iter().map(restore).collect::<Fields>(),
            schema.metadata().clone(),
        )
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Ident;

    use super::*;

    #[test]
    fn replaces_dots_in_names() {
        let names = PlainNames::default();
        let clean =
            |name: &str| names.plain_name(&ObjectName::from(vec![Ident::with_quote('\'', name)]));
        assert_eq!(clean("s3://b/cells.zarrvectors").unwrap(), "s3___b_cells_zarrvectors");
        assert!(clean("cells").is_none());
        let qualified = ObjectName::from(vec![Ident::new("brain"), Ident::new("objects.old")]);
        assert!(names.plain_name(&qualified).is_none());
        // Two names that differ in their signs only.
        assert_eq!(clean("a-b.zv").unwrap(), "a_b_zv");
        assert_eq!(clean("a_b.zv").unwrap(), "a_b_zv_");
        let schema = Schema::new(vec![
            Field::new("min(a_b_zv_.x)", arrow_schema::DataType::Int8, true),
            Field::new("max(a_b_zv.x)", arrow_schema::DataType::Int8, true),
        ]);
        let restored = names.restore(&schema);
        assert_eq!(restored.field(0).name(), "min(a_b.zv.x)");
        assert_eq!(restored.field(1).name(), "max(a-b.zv.x)");
    }
}

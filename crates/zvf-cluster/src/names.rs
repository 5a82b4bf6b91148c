//! Names without dots for tables whose name is a path, such as `'cells.zarrvectors'`.
//!
//! Serialized plans hold names of columns as text, and the decoder parses `cells.zarrvectors.x` as a column of the table
//! `zarrvectors` of a schema. So plans use a name without a dot for such a table.

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor};

/// A planner that renames tables whose name has a dot.
#[derive(Debug)]
pub(crate) struct PlainNames;

impl RelationPlanner for PlainNames {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, alias, args: None, .. } = &relation
            && let Some(plain) = plain_name(name)
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

/// Replaces all but letters and digits by underscores in a one-part name with a dot; returns `None` for other names.
fn plain_name(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    let name = &part.as_ident()?.value;
    let replace = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    name.contains('.').then(|| name.chars().map(replace).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Ident;

    use super::*;

    #[test]
    fn replaces_dots_in_names() {
        let clean = |name: &str| plain_name(&ObjectName::from(vec![Ident::with_quote('\'', name)]));
        assert_eq!(clean("s3://b/cells.zarrvectors").unwrap(), "s3___b_cells_zarrvectors");
        assert!(clean("cells").is_none());
        let qualified = ObjectName::from(vec![Ident::new("brain"), Ident::new("objects.old")]);
        assert!(plain_name(&qualified).is_none());
    }
}

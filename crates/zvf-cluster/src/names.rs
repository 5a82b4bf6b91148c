//! Tables that are named by a path with a dot, such as `'cells.zarrvectors'`.
//!
//! Plans are sent with names of columns as text, and whoever reads `cells.zarrvectors.x` takes it for the table `zarrvectors`
//! of a schema. So such a table is called by a name without a dot in plans.

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor};

/// Gives tables whose own name has a dot one without.
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
            // Of a table that is not there the engine says so.
            if let Ok(source) = context.context_provider().get_table_source(known) {
                let scan = LogicalPlanBuilder::scan(TableReference::bare(plain), source, None)?;
                let planned = PlannedRelation::new(scan.build()?, alias.clone());
                return Ok(RelationPlanning::Planned(Box::new(planned)));
            }
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// The name with nothing but letters, digits and underscores, where it is one word with a dot.
fn plain_name(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    let name = &part.as_ident()?.value;
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    name.contains('.').then(|| name.chars().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Ident;

    use super::*;

    #[test]
    fn names_with_a_dot_have_one_without() {
        let plain = |name: &str| plain_name(&ObjectName::from(vec![Ident::with_quote('\'', name)]));
        assert_eq!(plain("s3://b/cells.zarrvectors").unwrap(), "s3___b_cells_zarrvectors");
        assert!(plain("cells").is_none());
        let two = ObjectName::from(vec![Ident::new("brain"), Ident::new("objects.old")]);
        assert!(plain_name(&two).is_none());
    }
}

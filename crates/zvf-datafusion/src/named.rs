//! `zvf('PATH', level => 1, kind => 'mesh')`: arguments of the table function by name.
//!
//! The engine does not support named arguments of table functions. This planner runs on each
//! relation before the engine, and makes a dictionary such as `{level: 1}` of a name and its value.

use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    DictionaryField, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableFactor,
};

/// A planner that turns named arguments of `zvf` into positional ones.
#[derive(Debug)]
pub(crate) struct NamedArguments;

impl RelationPlanner for NamedArguments {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match &mut relation {
            TableFactor::Table { name, args: Some(args), .. } if is_zvf(name) => {
                args.args.iter_mut().for_each(drop_name);
            }
            // After LATERAL, where the engine would drop the names.
            TableFactor::Function { name, args, .. } if is_zvf(name) => {
                args.iter_mut().for_each(drop_name);
            }
            _ => {}
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// Returns whether `name` is the table function `zvf`.
fn is_zvf(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(crate::function::NAME))
}

/// Makes a dictionary of an argument that has a name.
fn drop_name(argument: &mut FunctionArg) {
    let (name, value) = match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name, value),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(value),
            ..
        } => (name, value),
        _ => return,
    };
    let key = Ident::new(name.value.to_ascii_lowercase());
    let field = DictionaryField { key, value: Box::new(value.clone()) };
    *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Dictionary(vec![field])));
}

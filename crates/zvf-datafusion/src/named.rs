//! `zvf('PATH', level => 1, kind => 'mesh')`: arguments of the table function by name.
//!
//! The engine does not support named arguments of table functions. This planner runs on each
//! relation before the engine, and makes a text of each name and its value.

use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, TableFactor, Value, ValueWithSpan,
};

use crate::bad_request;
use crate::function::ARROW;

/// A planner that turns named arguments of `zvf` into positional ones.
#[derive(Debug)]
pub(crate) struct NamedArguments;

impl RelationPlanner for NamedArguments {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let arguments = match &mut relation {
            TableFactor::Table { name, args: Some(args), .. } if is_zvf(name) => {
                Some(&mut args.args)
            }
            // After LATERAL, where the engine would drop the names.
            TableFactor::Function { name, args, .. } if is_zvf(name) => Some(args),
            _ => None,
        };
        if let Some(arguments) = arguments {
            *arguments = drop_names(std::mem::take(arguments))?;
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// Returns whether `name` is the table function `zvf`.
fn is_zvf(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(crate::function::NAME))
}

/// Makes all arguments positional: the path first, then those without a name, then the others as
/// `'NAME => VALUE'`.
fn drop_names(arguments: Vec<FunctionArg>) -> Result<Vec<FunctionArg>> {
    let (mut path, mut plain, mut named) = (None, Vec::new(), Vec::new());
    for argument in arguments {
        let (name, value) = match argument {
            FunctionArg::Named { name, arg, .. } => (name.value, arg),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => (name.value, arg),
            other => {
                plain.push(other);
                continue;
            }
        };
        let name = name.to_ascii_lowercase();
        let text = match &value {
            FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
                value: Value::SingleQuotedString(text),
                ..
            })) => Some(text.clone()),
            _ => None,
        };
        match (name.as_str(), text) {
            ("path", Some(text)) if path.is_none() => path = Some(text),
            ("path", _) => {
                let what = "the argument path of zvf()";
                return Err(bad_request(what, "one text in single quotes", &value.to_string()));
            }
            (_, text) => {
                let value = text.unwrap_or_else(|| value.to_string());
                named.push([name.as_str(), ARROW, &value].concat());
            }
        }
    }
    let literal = |text| Expr::value(Value::SingleQuotedString(text));
    let literal = |text| FunctionArg::Unnamed(FunctionArgExpr::Expr(literal(text)));
    let path = path.map(literal);
    Ok(path.into_iter().chain(plain).chain(named.into_iter().map(literal)).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// Returns the arguments of a call after its names are dropped.
    fn rewrite(arguments: &str) -> Result<String> {
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(arguments).unwrap();
        let parsed = parser.parse_comma_separated(Parser::parse_function_args).unwrap();
        let texts: Vec<String> = drop_names(parsed)?.iter().map(ToString::to_string).collect();
        Ok(texts.join(", "))
    }

    #[test]
    fn makes_named_arguments_positional() {
        for (written, expected) in [
            ("'a.zv', level => 1, kind => 'mesh'", "'a.zv', 'level => 1', 'kind => mesh'"),
            ("level => -1, 'a.zv'", "'a.zv', 'level => -1'"),
            (
                "table => 'OBJECTS', Path => 'a.zv', GEOMETRY => true",
                "'a.zv', 'table => OBJECTS', 'geometry => true'",
            ),
            ("'a.zv', 'links', 2", "'a.zv', 'links', 2"),
        ] {
            assert_eq!(rewrite(written).unwrap(), expected, "{written}");
        }
        for written in ["path => 7", "path => 'a.zv', path => 'a.zv'"] {
            let error = rewrite(written).unwrap_err().to_string();
            let expected = "the argument path of zvf(): expected one text in single quotes, found ";
            assert!(error.contains(expected), "{written}: {error}");
        }
    }
}

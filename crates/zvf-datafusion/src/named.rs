//! `zvf('PATH', level => 1, kind => 'mesh')`: arguments of the table function by name.
//!
//! ```text
//! path                         the store, as the first argument
//! table, kind                  a word
//! level                        a number
//! geometry, fragment_attributes, group_attributes    true or false
//! ```
//!
//! The engine does not support named arguments of table functions. This planner runs on each relation before the engine,
//! checks the names, and puts the values in the positional order of the function.

use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, TableFactor, Value,
};
use zvf::Kind;

use crate::bad_request;
use crate::table::{TableName, TableOptions};

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

/// Makes all arguments positional: the path first, then those without a name, then the others.
fn drop_names(arguments: Vec<FunctionArg>) -> Result<Vec<FunctionArg>> {
    let (mut path, mut plain, mut named) = (None, Vec::new(), Vec::new());
    let mut names: Vec<String> = Vec::new();
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
        if names.contains(&name) {
            let what = format!("the argument {name} of zvf()");
            return Err(bad_request(&what, "one value", "several"));
        }
        match name.as_str() {
            "path" => path = Some(text(&name, &value)?),
            _ => named.extend(positional_value(&name, &value)?),
        }
        names.push(name);
    }
    let literal = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::value(value)));
    let path = path.map(|path| literal(Value::SingleQuotedString(path)));
    Ok(path.into_iter().chain(plain).chain(named.into_iter().map(literal)).collect())
}

/// Returns the positional value for a named argument; `None` for a column that is switched off.
fn positional_value(name: &str, value: &FunctionArgExpr) -> Result<Option<Value>> {
    Ok(match name {
        "table" => {
            Some(Value::SingleQuotedString(text(name, value)?.parse::<TableName>()?.to_string()))
        }
        "kind" => {
            let word = text(name, value)?;
            let kind: Result<Kind, _> = word.parse();
            let bad = |_unknown| bad_value(name, "a kind of geometry, such as 'mesh'", value);
            Some(Value::SingleQuotedString(kind.map_err(bad)?.to_string()))
        }
        "level" => match literal(value) {
            Some(Value::Number(level, long)) if level.parse::<u32>().is_ok() => {
                Some(Value::Number(level.clone(), *long))
            }
            _ => return Err(bad_value(name, "the number of a level", value)),
        },
        word if TableOptions::COLUMNS.contains(&word) => match literal(value) {
            Some(Value::Boolean(true)) => Some(Value::SingleQuotedString(word.to_owned())),
            Some(Value::Boolean(false)) => None,
            _ => return Err(bad_value(name, "true or false", value)),
        },
        _ => {
            let expected =
                format!("path, table, level, kind, {}", TableOptions::COLUMNS.join(", "));
            return Err(bad_request("the name of an argument of zvf()", &expected, name));
        }
    })
}

fn text(name: &str, value: &FunctionArgExpr) -> Result<String> {
    match literal(value) {
        Some(Value::SingleQuotedString(text)) => Ok(text.clone()),
        _ => Err(bad_value(name, "a text in single quotes", value)),
    }
}

const fn literal(value: &FunctionArgExpr) -> Option<&Value> {
    match value {
        FunctionArgExpr::Expr(Expr::Value(value)) => Some(&value.value),
        _ => None,
    }
}

fn bad_value(
    name: &str,
    expected: &str,
    found: &FunctionArgExpr,
) -> datafusion::error::DataFusionError {
    bad_request(&format!("the argument {name} of zvf()"), expected, &found.to_string())
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
            ("'a.zv', level => 1, kind => 'mesh'", "'a.zv', 1, 'mesh'"),
            ("level => 1, 'a.zv'", "'a.zv', 1"),
            (
                "table => 'OBJECTS', Path => 'a.zv', geometry => true",
                "'a.zv', 'objects', 'geometry'",
            ),
            ("'a.zv', group_attributes => false", "'a.zv'"),
            ("'a.zv', 'links', 2", "'a.zv', 'links', 2"),
        ] {
            assert_eq!(rewrite(written).unwrap(), expected, "{written}");
        }
    }

    #[test]
    fn refuses_unknown_names_and_values() {
        for (written, expected) in [
            (
                "'a.zv', levle => 1",
                "the name of an argument of zvf(): expected path, table, level, kind, geometry",
            ),
            (
                "'a.zv', level => 1, LEVEL => 1",
                "the argument level of zvf(): expected one value, found several",
            ),
            (
                "'a.zv', level => 'mesh'",
                "the argument level of zvf(): expected the number of a level, found 'mesh'",
            ),
            ("'a.zv', level => -1", "expected the number of a level, found -1"),
            ("'a.zv', level => 1.5", "expected the number of a level, found 1.5"),
            (
                "'a.zv', kind => 'objects'",
                "the argument kind of zvf(): expected a kind of geometry",
            ),
            ("'a.zv', table => 'mesh'", "expected one of vertices, objects"),
            (
                "'a.zv', geometry => 1",
                "the argument geometry of zvf(): expected true or false, found 1",
            ),
            ("path => 7", "the argument path of zvf(): expected a text in single quotes, found 7"),
        ] {
            let error = rewrite(written).unwrap_err().to_string();
            assert!(error.contains(expected), "{written}: {error}");
        }
    }
}

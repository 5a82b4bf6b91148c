//! The table function `zvf('path', 'objects', level => 1, kind => 'mesh')`.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use zvf::{Kind, OpenOptions};

use crate::bad_request;
use crate::handle::{StoreHandle, wait};
use crate::provider::ZvfTable;
use crate::table::TableOptions;

/// The table function `zvf`: the store, then optionally the table, the level and the kind.
///
/// A text selects a table, a kind of geometry, or more columns (`geometry`, `fragment_attributes`, `group_attributes`, see
/// [`TableOptions`]); a number selects the level. In a session that [`register`](crate::register) prepared, arguments can be
/// named: `path`, `table`, `level`, `kind`, and the words for more columns, with `true` or `false`.
///
/// Planning blocks its thread until the store is open.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// let context = datafusion::prelude::SessionContext::new();
/// zvf_datafusion::register(&context, zvf::OpenOptions::default());
/// let sql = format!("SELECT * FROM zvf('{path}', level => 0, kind => 'point_cloud')");
/// assert_eq!(context.sql(&sql).await?.count().await?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ZvfFunction {
    options: OpenOptions,
}

impl ZvfFunction {
    /// Creates a function that opens stores with `options`.
    #[must_use]
    pub const fn new(options: OpenOptions) -> Self {
        Self { options }
    }
}

impl TableFunctionImpl for ZvfFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let (address, table) = parse(args.exprs())?;
        let options = self.options.clone();
        let opened = wait(async move {
            let store = StoreHandle::open(&address, options).await?;
            ZvfTable::open(store, table).await
        })?;
        Ok(Arc::new(opened))
    }
}

/// Parses positional arguments; returns the address of the store and the table.
fn parse(args: &[Expr]) -> Result<(String, TableOptions)> {
    let bad = || bad_request("zvf()", "the path or URL of a store in quotes", "something else");
    let (first, rest) = args.split_first().ok_or_else(bad)?;
    let address = literal(first).and_then(ScalarValue::try_as_str).flatten().ok_or_else(bad)?;
    let (mut options, mut names) = (TableOptions::default(), Vec::new());
    for arg in rest {
        let (name, value) = parse_argument(arg)?;
        if names.contains(&name) {
            let what = format!("the argument {name} of zvf()");
            return Err(bad_request(&what, "one value", "several"));
        }
        if !options.set(&name, &value)? {
            let what = "the name of an argument of zvf()";
            return Err(TableOptions::unknown(what, "path, ", &name));
        }
        names.push(name);
    }
    Ok((address.to_owned(), options))
}

/// The name of the function in SQL.
pub(crate) const NAME: &str = "zvf";

/// Separates the name and the value of an argument in the texts of [`crate::named`].
pub(crate) const ARROW: &str = " => ";

const fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// Returns the name and the value of an argument: a number is a level, a text says what it is.
fn parse_argument(expr: &Expr) -> Result<(String, String)> {
    let bad = || bad_request("an argument of zvf()", "a text or a level", &expr.to_string());
    let value = literal(expr).ok_or_else(bad)?;
    if let ScalarValue::Int64(Some(level)) = value {
        return Ok(("level".to_owned(), level.to_string()));
    }
    let word = value.try_as_str().flatten().ok_or_else(bad)?;
    let column = word.to_ascii_lowercase();
    Ok(match word.split_once(ARROW) {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None if TableOptions::COLUMNS.contains(&column.as_str()) => (column, "true".to_owned()),
        None if word.parse::<Kind>().is_ok() => ("kind".to_owned(), word.to_owned()),
        None => ("table".to_owned(), word.to_owned()),
    })
}

//! The table function `zvf('path', 'objects', level => 1, kind => 'mesh')`.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::{DataFusionError, Result};
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

/// Parses arguments; returns the address of the store and the table.
fn parse(args: &[Expr]) -> Result<(String, TableOptions)> {
    // By their names; without one, the name is empty.
    let mut given = Vec::new();
    for arg in args {
        match arg {
            Expr::Literal(ScalarValue::Struct(named), _) => {
                for (name, values) in named.column_names().into_iter().zip(named.columns()) {
                    given.push((name.to_owned(), ScalarValue::try_from_array(values, 0)?));
                }
            }
            Expr::Literal(value, _) => given.push((String::new(), value.clone())),
            other => return Err(bad_argument(other)),
        }
    }
    let find = |name: &str| given.iter().position(|(known, _)| known == name);
    let place = find(PATH).or_else(|| find(""));
    let path = place.map(|place| given.remove(place).1);
    let address = path.as_ref().and_then(ScalarValue::try_as_str).flatten().ok_or_else(|| {
        bad_request("zvf()", "the path or URL of a store in quotes", "something else")
    })?;
    let (mut options, mut names) = (TableOptions::default(), vec![PATH.to_owned()]);
    for (name, value) in given {
        let (name, value) = match name.as_str() {
            "" => name_argument(&value)?,
            _ => (name, value.to_string()),
        };
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

/// Returns the name of an argument without one, and its value: a number is a level, a text says what it is.
fn name_argument(value: &ScalarValue) -> Result<(String, String)> {
    if let ScalarValue::Int64(Some(level)) = value {
        return Ok(("level".to_owned(), level.to_string()));
    }
    let word = value.try_as_str().flatten().ok_or_else(|| bad_argument(value))?;
    let column = word.to_ascii_lowercase();
    if TableOptions::COLUMNS.contains(&column.as_str()) {
        return Ok((column, "true".to_owned()));
    }
    let name = if word.parse::<Kind>().is_ok() { "kind" } else { "table" };
    Ok((name.to_owned(), word.to_owned()))
}

fn bad_argument(found: &dyn fmt::Display) -> DataFusionError {
    bad_request("an argument of zvf()", "a text or a level", &found.to_string())
}

/// The name of the function in SQL.
pub(crate) const NAME: &str = "zvf";

/// The argument that names the store.
const PATH: &str = "path";

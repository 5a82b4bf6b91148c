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
use crate::table::{TableName, TableOptions};

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
    let Argument::Word(address) = parse_argument(first)? else { return Err(bad()) };
    let (mut options, mut table, mut level) = (TableOptions::default(), None, None);
    for arg in rest {
        let before = options;
        let is_new = match parse_argument(arg)? {
            Argument::Level(number) => level.replace(number).is_none(),
            Argument::Word(word) if options.add_columns(&word) => options != before,
            Argument::Word(word) => match word.parse::<Kind>() {
                Ok(kind) => options.kind.replace(kind).is_none(),
                Err(_) => table.replace(word.parse::<TableName>()?).is_none(),
            },
        };
        if !is_new {
            let expected = "a table, a level, a kind and columns, each once";
            return Err(bad_request("the arguments of zvf()", expected, &format!("{arg} as well")));
        }
    }
    options.table = table.unwrap_or_default();
    options.level = level.unwrap_or_default();
    Ok((address, options))
}

/// The name of the function in SQL.
pub(crate) const NAME: &str = "zvf";

enum Argument {
    Word(String),
    Level(u32),
}

fn parse_argument(expr: &Expr) -> Result<Argument> {
    let bad = || bad_request("an argument of zvf()", "a text or a level", &expr.to_string());
    let Expr::Literal(value, _) = expr else { return Err(bad()) };
    match value {
        ScalarValue::Utf8(Some(word))
        | ScalarValue::Utf8View(Some(word))
        | ScalarValue::LargeUtf8(Some(word)) => Ok(Argument::Word(word.clone())),
        ScalarValue::Int64(Some(level)) => {
            u32::try_from(*level).map(Argument::Level).map_err(|_negative| bad())
        }
        _ => Err(bad()),
    }
}

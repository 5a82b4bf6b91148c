//! Registration of stores in a session: as table function, by path in quotes, as schemas, and as external tables.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{
    DynamicFileCatalog, SchemaProvider, Session, TableFunctionImpl, TableProvider,
    TableProviderFactory, UrlTableFactory,
};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::error::Result;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;
use zvf::OpenOptions;

use crate::bad_request;
use crate::function::{self, ZvfFunction};
use crate::handle::StoreHandle;
use crate::named::NamedArguments;
use crate::provider::ZvfTable;
use crate::sink::StoreFormatFactory;
use crate::spatial;
use crate::table::{TableName, TableOptions};

/// Adds to a session: the table function `zvf` with named arguments, functions of geometry, `STORED AS ZVF`, and stores as a
/// target of `COPY`. Stores are opened and written with `options`.
///
/// ```
/// let context = datafusion::prelude::SessionContext::new();
/// zvf_datafusion::register(&context, zvf::OpenOptions::default());
/// assert!(context.state().table_functions().contains_key("zvf"));
/// ```
pub fn register(context: &SessionContext, options: OpenOptions) {
    let function: Arc<dyn TableFunctionImpl> = Arc::new(ZvfFunction::new(options.clone()));
    context.register_udtf(function::NAME, function);
    for function in spatial::functions() {
        context.register_udf(function);
    }
    #[cfg(feature = "geo")]
    geodatafusion::register(context);
    let formats = ["zarrvectors", "zvf"];
    let formats = formats.map(|word| StoreFormatFactory { word, options: options.clone() });
    let factory: Arc<dyn TableProviderFactory> = Arc::new(ZvfTableFactory { options });
    let state = context.state_ref();
    let mut state = state.write();
    // Documented to never fail; without the planner, only named arguments are missing.
    drop(state.register_relation_planner(Arc::new(NamedArguments)));
    state.table_factories_mut().insert("ZVF".to_owned(), factory);
    for format in formats {
        // Fails only if the format exists and `overwrite` is false.
        drop(state.register_file_format(Arc::new(format), true));
    }
}

/// Returns the session with support for tables by path or URL in quotes: of stores and of Parquet, CSV, JSON and Arrow files.
/// Such statements open local files: do not run untrusted ones.
pub fn with_paths_as_tables(context: SessionContext, options: OpenOptions) -> SessionContext {
    let fallback = Arc::new(DynamicListTableFactory::default());
    let catalog_list = Arc::clone(context.state_ref().read().catalog_list());
    let tables = ZvfUrlTables { options, fallback: Arc::clone(&fallback) };
    let catalogs = Arc::new(DynamicFileCatalog::new(catalog_list, Arc::new(tables)));
    let id = context.session_id();
    let builder = context.into_state_builder().with_session_id(id).with_catalog_list(catalogs);
    let context = SessionContext::from(builder.build());
    fallback.session_store().with_state(context.state_weak_ref());
    context
}

/// Returns whether a name is that of a store: by its extension, because it is a folder with
/// `zarr.json` or one over HTTP, or because it is a version in a repository.
///
/// ```
/// assert!(zvf_datafusion::is_store_name("s3://bucket/cells.zarrvectors/"));
/// assert!(zvf_datafusion::is_store_name("icechunk+file:///data/brain?tag=v1"));
/// assert!(zvf_datafusion::is_store_name("http://127.0.0.1:8080/data/brain/"));
/// assert!(!zvf_datafusion::is_store_name("cells.parquet"));
/// ```
pub fn is_store_name(name: &str) -> bool {
    if name.starts_with(REPOSITORY_PREFIX) {
        return true;
    }
    let bare = name.trim_end_matches('/');
    let extension = Path::new(bare).extension().and_then(|extension| extension.to_str());
    let is_known = extension
        .is_some_and(|found| EXTENSIONS.iter().any(|listed| listed.eq_ignore_ascii_case(found)));
    // Nothing else that is read over HTTP lacks an extension.
    let is_address =
        extension.is_none() && (bare.starts_with("http:") || bare.starts_with("https:"));
    is_known || is_address || Path::new(bare).join("zarr.json").is_file()
}

/// Paths and URLs as tables: the vertices of stores, and files of other formats.
#[derive(Debug)]
struct ZvfUrlTables {
    options: OpenOptions,
    fallback: Arc<DynamicListTableFactory>,
}

#[async_trait]
impl UrlTableFactory for ZvfUrlTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !is_store_name(name) {
            return self.fallback.try_new(name).await;
        }
        let store = StoreHandle::open(name, self.options.clone()).await?;
        let table = ZvfTable::open(store, TableOptions::default()).await?;
        Ok(Some(Arc::new(table)))
    }
}

/// The tables of a store as a schema: `SELECT * FROM brain.objects`. Each statement opens the store anew and sees its current
/// state.
#[derive(Debug)]
pub struct StoreSchema {
    address: String,
    options: OpenOptions,
}

impl StoreSchema {
    /// Creates the schema of the store at `address`.
    pub fn new(address: &str, options: OpenOptions) -> Self {
        Self { address: address.to_owned(), options }
    }
}

#[async_trait]
impl SchemaProvider for StoreSchema {
    fn table_names(&self) -> Vec<String> {
        TableName::ALL.iter().map(ToString::to_string).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Ok(table) = name.parse() else { return Ok(None) };
        let store = StoreHandle::open(&self.address, self.options.clone()).await?;
        let options = TableOptions { table, ..TableOptions::default() };
        Ok(Some(Arc::new(ZvfTable::open(store, options).await?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        name.parse::<TableName>().is_ok()
    }
}

/// `CREATE EXTERNAL TABLE cells STORED AS ZVF LOCATION 'cells.zarrvectors' OPTIONS ('level' '1')`.
#[derive(Clone, Debug, Default)]
pub struct ZvfTableFactory {
    options: OpenOptions,
}

#[async_trait]
impl TableProviderFactory for ZvfTableFactory {
    async fn create(
        &self,
        _state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let [address] = command.locations.as_slice() else {
            let found = format!("{} of them", command.locations.len());
            return Err(bad_request("LOCATION", "one store", &found));
        };
        if !command.schema.fields().is_empty() {
            return Err(bad_request("a table of a store", "no list of columns", "one"));
        }
        let mut table = TableOptions::default();
        for (key, value) in &command.options {
            let key = key.strip_prefix("format.").unwrap_or(key);
            if !table.set(key, value)? {
                return Err(TableOptions::unknown("an option", "", key));
            }
        }
        let store = StoreHandle::open(address, self.options.clone()).await?;
        Ok(Arc::new(ZvfTable::open(store, table).await?))
    }
}

/// File name extensions of stores.
const EXTENSIONS: [&str; 3] = ["zarrvectors", "zv", "tet"];
/// Prefix of addresses of repositories.
const REPOSITORY_PREFIX: &str = "icechunk+";

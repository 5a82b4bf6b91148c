//! The engine with its tables.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::datasource::TableProvider;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use zvf_datafusion::{StoreHandle, StoreSchema, TableOptions, ZvfTable, is_store_name};

use crate::arguments::Arguments;
use crate::fault::Fault;

/// A session with the tables that the arguments name.
pub(crate) async fn open(arguments: &Arguments) -> Result<SessionContext, Fault> {
    let limit = arguments.memory_limit.map_or(DEFAULT_POOL, |limit| limit / 2);
    let pool = FairSpillPool::new(usize::try_from(limit).unwrap_or(usize::MAX));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()?;
    let config = SessionConfig::new().with_information_schema(true);
    let context = SessionContext::new_with_config_rt(config, runtime);
    let options = arguments.open_options();
    let context = zvf_datafusion::with_paths_as_tables(context, options.clone());
    zvf_datafusion::register(&context, options);
    for (name, path) in &arguments.tables {
        add_table(&context, name, path, arguments).await?;
    }
    Ok(context)
}

/// Adds a store as a table and a schema, or a file as a table.
async fn add_table(
    context: &SessionContext,
    name: &str,
    path: &str,
    arguments: &Arguments,
) -> Result<(), Fault> {
    if !is_store_name(path) {
        // The statement that opens any file by its name.
        let quoted = path.replace('\'', "''");
        let found = context.table(format!("\"{quoted}\"")).await;
        let found = found.map_err(|error| {
            let fault = Fault::from(error);
            tracing_name(name, path, fault)
        })?;
        let provider: Arc<dyn TableProvider> = found.into_view();
        context.register_table(name, provider)?;
        return Ok(());
    }
    let options = arguments.open_options();
    let store = StoreHandle::open(path, options.clone()).await?;
    let vertices = ZvfTable::open(store, TableOptions::default()).await?;
    context.register_table(name, Arc::new(vertices))?;
    let schema: Arc<dyn SchemaProvider> = Arc::new(StoreSchema::new(path, options));
    let catalog = context.catalog("datafusion");
    if let Some(catalog) = catalog {
        catalog.register_schema(name, schema)?;
    }
    Ok(())
}

/// The same fault with the name of the table that has it.
fn tracing_name(name: &str, path: &str, fault: Fault) -> Fault {
    drop(fault);
    Fault::usage(format!(
        "--table {name}: {path} is neither a store nor a Parquet, CSV, JSON or Arrow file"
    ))
}

/// What sorting, joining and grouping may hold, unless said.
const DEFAULT_POOL: u64 = 512 << 20;

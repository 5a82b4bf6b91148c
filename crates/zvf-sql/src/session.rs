//! The session: the engine with the tables of the arguments.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::datasource::TableProvider;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use zvf::format::Class;
use zvf::format::num::saturating_usize;
use zvf_datafusion::{StoreHandle, StoreSchema, TableOptions, ZvfTable, is_store_name};

use crate::arguments::Arguments;
use crate::fault::Fault;

/// Opens a session with the tables of the arguments.
pub(crate) async fn open(arguments: &Arguments) -> Result<SessionContext, Fault> {
    let context = match &arguments.cluster {
        Some(scheduler) => connect(scheduler).await?,
        None => open_local(arguments)?,
    };
    let options = arguments.open_options();
    let context = zvf_datafusion::with_paths_as_tables(context, options.clone());
    zvf_datafusion::register(&context, options);
    for (name, path) in &arguments.tables {
        add_table(&context, name, path, arguments).await?;
    }
    Ok(context)
}

/// Opens a session that runs statements in this process.
fn open_local(arguments: &Arguments) -> Result<SessionContext, Fault> {
    let limit = arguments.memory_limit.map_or(DEFAULT_POOL_BYTES, |limit| limit / 2);
    let pool = FairSpillPool::new(saturating_usize(limit)); // compared with bytes in memory
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).build_arc()?;
    let config = SessionConfig::new().with_information_schema(true);
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

#[cfg(feature = "cluster")]
async fn connect(scheduler: &str) -> Result<SessionContext, Fault> {
    Ok(zvf_cluster::connect(scheduler).await?)
}

#[cfg(not(feature = "cluster"))]
async fn connect(_scheduler: &str) -> Result<SessionContext, Fault> {
    let text = "this program was built without clusters: install it with cargo install --path crates/zvf-sql --features cluster";
    Err(Fault::usage(text))
}

/// Adds a store as a table and a schema, or a file as a table.
async fn add_table(
    context: &SessionContext,
    name: &str,
    path: &str,
    arguments: &Arguments,
) -> Result<(), Fault> {
    if !is_store_name(path) {
        if !path.contains("://") && !Path::new(path).exists() {
            return Err(Fault::new(Class::NotFound, format!("--table {name}: there is no {path}")));
        }
        // The engine finds the file as a table by its path.
        let Ok(found) = context.table(TableReference::bare(path)).await else {
            let expected = "a store or a Parquet, CSV, JSON or Arrow file";
            return Err(Fault::usage(format!("--table {name}: expected {expected}, found {path}")));
        };
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

/// Default memory limit of sorting, joining and grouping.
const DEFAULT_POOL_BYTES: u64 = 512 << 20;

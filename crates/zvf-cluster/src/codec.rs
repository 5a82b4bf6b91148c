//! Codecs that serialize tables and scans of zvf in plans.
//!
//! ```text
//! table   the address and the options of the table
//! scan    the address, what is asked, the schema as the engine sends it, and the tasks
//! ```
//!
//! Both are JSON. Before them stand `ZVF` and the version, which all processes of a cluster share. Messages without this
//! prefix are Ballista's own.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zvf_datafusion::{Scan, StoreAddress, TableOptions, Task, ZvfSource, ZvfTable, data_source};

use crate::statement::mark;

/// Ballista's codec of logical plans, extended by tables of zvf.
///
/// ```
/// use datafusion_proto::logical_plan::LogicalExtensionCodec;
///
/// fn is_codec(_codec: &dyn LogicalExtensionCodec) {}
/// is_codec(&zvf_cluster::LogicalCodec::default());
/// ```
#[derive(Debug, Default)]
pub struct LogicalCodec {
    ballista: BallistaLogicalExtensionCodec,
}

/// Ballista's codec of physical plans, extended by scans of zvf.
///
/// ```
/// use datafusion_proto::physical_plan::PhysicalExtensionCodec;
///
/// fn is_codec(_codec: &dyn PhysicalExtensionCodec) {}
/// is_codec(&zvf_cluster::PhysicalCodec::default());
/// ```
#[derive(Debug, Default)]
pub struct PhysicalCodec {
    ballista: BallistaPhysicalExtensionCodec,
}

/// The message of a table: all that another process needs to open it.
#[derive(Debug, Serialize, Deserialize)]
struct TableMessage {
    store: StoreAddress,
    options: TableOptions,
}

/// The message of a scan: its tasks, partition by partition.
#[derive(Debug, Serialize, Deserialize)]
struct ScanMessage {
    store: StoreAddress,
    scan: Scan,
    /// The schema, as the engine sends it.
    schema: Vec<u8>,
    groups: Vec<Vec<Task>>,
    limit: Option<usize>,
}

fn plan_error(what: &str, expected: &str, found: &str) -> DataFusionError {
    mark(&format!("a plan from another process: {what}: expected {expected}, found {found}"))
}

fn encode<T: Serialize>(message: &T, buf: &mut Vec<u8>) -> Result<()> {
    buf.extend_from_slice(PREFIX);
    serde_json::to_writer(buf, message).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Returns the message of this version; `None` for a message of Ballista.
fn decode<T: DeserializeOwned>(buf: &[u8], what: &str) -> Result<Option<T>> {
    if let Some(json) = buf.strip_prefix(PREFIX) {
        let message = serde_json::from_slice(json);
        let bad = |error: serde_json::Error| {
            plan_error(what, "the JSON of this version of zvf", &error.to_string())
        };
        return message.map(Some).map_err(bad);
    }
    let Some(other) = buf.strip_prefix(NAME) else { return Ok(None) };
    let found = String::from_utf8_lossy(other);
    let (found, _) = found.split_once('\n').unwrap_or((&found, ""));
    let expected = concat!("version ", env!("CARGO_PKG_VERSION"), " of zvf on all machines");
    Err(plan_error(what, expected, &format!("version {found}")))
}

/// Returns the address with an absolute path, which is valid in every process.
fn make_absolute(address: &StoreAddress) -> Result<StoreAddress> {
    if address.path().contains("://") {
        return Ok(address.clone());
    }
    let path = std::path::absolute(Path::new(address.path()))?;
    let path = path.to_str().ok_or_else(|| plan_error("a path", "text", "other bytes"))?;
    Ok(StoreAddress::new(path, address.storage_options().to_vec()))
}

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        context: &TaskContext,
    ) -> Result<Extension> {
        self.ballista.try_decode(buf, inputs, context)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.ballista.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(TableMessage { store, options }) = decode(buf, "a table")? else {
            return self.ballista.try_decode_table_provider(buf, table, schema, context);
        };
        let opened = ZvfTable::open_blocking(store, options)
            .map_err(|error| mark(&zvf_datafusion::error_text(&error)))?;
        if opened.schema() != schema {
            let found = "a store that was changed meanwhile: ask again";
            return Err(plan_error(&table.to_string(), "the columns of the statement", found));
        }
        Ok(Arc::new(opened))
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        provider: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        let any: &dyn Any = provider.as_ref();
        let Some(zvf_table) = any.downcast_ref::<ZvfTable>() else {
            return self.ballista.try_encode_table_provider(table, provider, buf);
        };
        let options = *zvf_table.options();
        let store = make_absolute(zvf_table.store().address())?;
        encode(&TableMessage { store, options }, buf)
    }

    fn try_decode_file_format(
        &self,
        buf: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.ballista.try_decode_file_format(buf, context)
    }

    fn try_encode_file_format(
        &self,
        buf: &mut Vec<u8>,
        format: Arc<dyn FileFormatFactory>,
    ) -> Result<()> {
        self.ballista.try_encode_file_format(buf, format)
    }
}

impl PhysicalExtensionCodec for PhysicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match decode(buf, "a scan")? {
            Some(message) => decode_scan(message, context),
            None => self.ballista.try_decode(buf, inputs, context, converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match downcast_scan(&node) {
            Some((config, source)) => encode_scan(config, source, buf),
            None => self.ballista.try_encode(node, buf, converter),
        }
    }
}

/// Returns the configuration and the source of a leaf that is a scan of zvf.
fn downcast_scan(node: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ZvfSource)> {
    let node: &dyn Any = node.as_ref();
    let config: &dyn Any = node.downcast_ref::<DataSourceExec>()?.data_source().as_ref();
    let config = config.downcast_ref::<FileScanConfig>()?;
    let source: &dyn Any = config.file_source().as_ref();
    Some((config, source.downcast_ref::<ZvfSource>()?))
}

fn encode_scan(config: &FileScanConfig, source: &ZvfSource, buf: &mut Vec<u8>) -> Result<()> {
    let mut groups = Vec::with_capacity(config.file_groups.len());
    for group in &config.file_groups {
        let tasks = group.files().iter().map(|file| file.extensions.get::<Task>().cloned());
        let tasks = tasks.collect::<Option<Vec<Task>>>();
        groups.push(tasks.ok_or_else(|| plan_error("a part of a scan", "a task", "a file"))?);
    }
    let schema = protobuf::Schema::try_from(source.schema().as_ref())?.encode_to_vec();
    let (store, scan) = (make_absolute(source.address())?, source.scan().clone());
    encode(&ScanMessage { store, scan, schema, groups, limit: config.limit }, buf)
}

fn decode_scan(message: ScanMessage, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    let ScanMessage { store, scan, schema, groups, limit } = message;
    let schema = protobuf::Schema::decode(schema.as_slice())
        .map_err(|error| plan_error("a scan", "a schema", &error.to_string()))?;
    let schema = Schema::try_from(&schema)?;
    let source = ZvfSource::from_address(store, scan, Arc::new(schema));
    let source = source.shared().with_pool(Arc::clone(context.memory_pool()));
    // Partitions of one plan may run in several processes, so work stealing is off.
    Ok(data_source(source, groups, None, limit, true))
}

/// The beginning of all messages of zvf.
const NAME: &[u8] = b"ZVF ";
/// The beginning of messages of this version.
const PREFIX: &[u8] = concat!("ZVF ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_another_version_are_refused() {
        assert_eq!(decode::<u8>(b"\n\x07", "a scan").unwrap(), None);
        assert_eq!(decode(&[PREFIX, b"7"].concat(), "a scan").unwrap(), Some(7));
        let error = decode::<u8>(b"ZVF 7.0.0\n7", "a scan").unwrap_err().to_string();
        assert!(error.contains("on all machines, found version 7.0.0"), "{error}");
    }
}

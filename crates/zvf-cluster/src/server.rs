//! The processes of a cluster: one scheduler, and an executor on each machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::error::BallistaError;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::error::{DataFusionError, Result};

use crate::client::{config, state};
use crate::codec::{LogicalCodec, PhysicalCodec};

/// Options of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// The address on which it listens.
    pub listen: SocketAddr,
    /// The host name under which other processes reach it; by default the address.
    pub external_host: Option<String>,
    /// How long an executor may send no heartbeat before its work is given to others.
    pub executor_timeout: Duration,
    /// Number of executors from which `GET /readyz` returns 200.
    pub min_executors: usize,
}

/// Options of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The host of the scheduler.
    pub scheduler_host: String,
    /// The port of the scheduler.
    pub scheduler_port: u16,
    /// The address on which it serves results.
    pub listen: SocketAddr,
    /// The port for the scheduler, at the same address.
    pub control_port: u16,
    /// The host name under which other processes reach it; by default the address.
    pub external_host: Option<String>,
    /// Number of partitions that run at once.
    pub cores: usize,
    /// Memory limit of all partitions together, in bytes.
    pub memory_limit: u64,
    /// The folder for results of stages; by default a temporary one.
    pub work_dir: Option<PathBuf>,
    /// The interval of heartbeats.
    pub heartbeat: Duration,
}

/// Runs a scheduler until it fails or the future is dropped.
///
/// # Errors
///
/// When it cannot listen.
pub async fn run_scheduler(options: &SchedulerOptions) -> Result<()> {
    let timeout = options.executor_timeout.as_secs().max(1);
    let bind_host = options.listen.ip().to_string();
    let scheduler_config = SchedulerConfig {
        external_host: options.external_host.clone().unwrap_or_else(|| bind_host.clone()),
        bind_host,
        bind_port: options.listen.port(),
        executor_timeout_seconds: timeout,
        expire_dead_executor_interval_seconds: (timeout / 4).max(1),
        no_executors_grace_period_seconds: timeout,
        min_ready_executors: options.min_executors,
        override_config_producer: Some(Arc::new(config)),
        override_session_builder: Some(Arc::new(state)),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&scheduler_config).await.map_err(wrap_error)?;
    start_server(cluster, options.listen, Arc::new(scheduler_config)).await.map_err(wrap_error)
}

/// Runs an executor until a signal or the scheduler stops it.
///
/// # Errors
///
/// When it cannot listen, or cannot reach the scheduler.
pub async fn run_executor(options: &ExecutorOptions) -> Result<()> {
    // The temporary folder must live as long as the executor.
    let temporary = tempfile::tempdir()?;
    let work_dir = options.work_dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let bind_host = options.listen.ip().to_string();
    let executor_config = ExecutorProcessConfig {
        external_host: Some(options.external_host.clone().unwrap_or_else(|| bind_host.clone())),
        bind_host,
        port: options.listen.port(),
        grpc_port: options.control_port,
        scheduler_host: options.scheduler_host.clone(),
        scheduler_port: options.scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        vcores: options.cores,
        memory_pool_size: Some(options.memory_limit),
        work_dir: Some(work_dir.display().to_string()),
        executor_heartbeat_interval_seconds: options.heartbeat.as_secs().max(1),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&state(
            config(),
        )?))),
        override_config_producer: Some(Arc::new(config)),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(executor_config)).await.map_err(wrap_error)
}

/// Wraps an error of Ballista in an error of DataFusion.
fn wrap_error(error: BallistaError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

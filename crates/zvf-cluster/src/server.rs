//! The two programs of a cluster: a scheduler, and an executor on each machine.

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

/// How a scheduler is run.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The name under which others reach it, where that is not the address.
    pub external_host: Option<String>,
    /// How long an executor may be silent before its work is given to others.
    pub executor_timeout: Duration,
    /// So many executors make `GET /readyz` say 200.
    pub min_executors: usize,
}

/// How an executor is run.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The host of the scheduler.
    pub scheduler_host: String,
    /// The port of the scheduler.
    pub scheduler_port: u16,
    /// Where it gives out results.
    pub listen: SocketAddr,
    /// The port for the scheduler, at the same address.
    pub control_port: u16,
    /// The name under which others reach it, where that is not the address.
    pub external_host: Option<String>,
    /// Partitions that run at once.
    pub cores: usize,
    /// Memory of all of them together.
    pub memory_limit: u64,
    /// A folder for results of stages; one of its own where none is given.
    pub work_dir: Option<PathBuf>,
    /// How often it says that it is there.
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
    let known = SchedulerConfig {
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
    let cluster = BallistaCluster::new_from_config(&known).await.map_err(ballista)?;
    start_server(cluster, options.listen, Arc::new(known)).await.map_err(ballista)
}

/// Runs an executor until a signal or the scheduler stops it.
///
/// # Errors
///
/// When it cannot listen, or the scheduler is not there.
pub async fn run_executor(options: &ExecutorOptions) -> Result<()> {
    // Lives as long as the executor.
    let own = tempfile::tempdir()?;
    let work_dir = options.work_dir.clone().unwrap_or_else(|| own.path().to_owned());
    let bind_host = options.listen.ip().to_string();
    let known = ExecutorProcessConfig {
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
    start_executor_process(Arc::new(known)).await.map_err(ballista)
}

fn ballista(error: BallistaError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

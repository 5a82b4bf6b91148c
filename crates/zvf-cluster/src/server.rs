//! The processes of a cluster: one scheduler, and an executor on each machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ballista::prelude::SessionConfigExt as _;
use ballista_core::error::BallistaError;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::BallistaCodec;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::{BallistaCluster, ClusterStateEvent};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_grpc_service;
use ballista_scheduler::scheduler_server::SchedulerServer;
use clap::Parser;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures_util::StreamExt as _;
use zvf_datafusion::to_u64;

use crate::client::{config, state};
use crate::codec::{LogicalCodec, PhysicalCodec};
use crate::cores::Cores;
use crate::metrics::{CORES, EXECUTORS, Statements};
use crate::stage::Engine;
use crate::statement::{LOST, mark};

type Scheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Options of a scheduler; the comments are the help of the program.
#[derive(Clone, Debug, Parser)]
pub struct SchedulerOptions {
    /// Where to listen.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50050")]
    pub listen: SocketAddr,
    /// The name under which others reach it [default: the address].
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Seconds after which an executor that says nothing is lost: more than their --heartbeat.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub executor_timeout: u64,
    /// So many executors make GET /readyz say 200.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub min_executors: usize,
}

/// Options of an executor; the comments are the help of the program.
#[derive(Clone, Debug, Parser)]
pub struct ExecutorOptions {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_and_port)]
    pub scheduler: (String, u16),
    /// Where to give out results.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50051")]
    pub listen: SocketAddr,
    /// The port for the scheduler [default: the one after that of --listen].
    #[arg(long, value_name = "PORT")]
    pub control_port: Option<u16>,
    /// The name under which others reach it [default: the address].
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Partitions that run at once [default: one for each core].
    #[arg(long, value_name = "N")]
    pub cores: Option<usize>,
    /// Memory in MiB for sorting, joining and grouping, of all partitions together.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory: u64,
    /// The folder for results of stages [default: one that is removed at the end].
    #[arg(long, value_name = "FOLDER")]
    pub work_dir: Option<PathBuf>,
    /// Seconds between two signs of life.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub heartbeat: u64,
}

fn host_and_port(text: &str) -> std::result::Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT")?;
    let port = port.parse().map_err(|error| format!("expected a port, found {port:?}: {error}"))?;
    Ok((host.to_owned(), port))
}

/// Returns the port after that of `--listen`; the last one has none.
fn port_after(port: u16) -> Result<u16> {
    port.checked_add(1).ok_or_else(|| {
        let text = "--listen: expected a port below 65535, found 65535; or give --control-port";
        DataFusionError::Plan(text.to_owned())
    })
}

/// Runs a scheduler. When it is told to stop, it first lets its statements end.
///
/// # Errors
///
/// When it cannot listen.
pub async fn run_scheduler(options: &SchedulerOptions) -> Result<()> {
    let timeout = options.executor_timeout.max(1);
    let bind_host = options.listen.ip().to_string();
    let scheduler_config = SchedulerConfig {
        external_host: options.external_host.clone().unwrap_or_else(|| bind_host.clone()),
        bind_host,
        bind_port: options.listen.port(),
        executor_timeout_seconds: timeout,
        expire_dead_executor_interval_seconds: 1,
        no_executors_grace_period_seconds: timeout,
        min_ready_executors: options.min_executors,
        override_config_producer: Some(Arc::new(config)),
        override_session_builder: Some(Arc::new(|config| state(fit_partitions(config)))),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&scheduler_config).await.map_err(wrap_error)?;
    let cores = Arc::new(Cores { state: cluster.cluster_state(), held: Mutex::default() });
    let cluster = BallistaCluster::new(Arc::<Cores>::clone(&cores), cluster.job_state());
    let codec = BallistaCodec::new(Arc::<LogicalCodec>::default(), Arc::<PhysicalCodec>::default());
    let endpoint = scheduler_config.scheduler_endpoint();
    let config = Arc::new(scheduler_config);
    let mut server = Scheduler::new(endpoint, cluster, codec, config, Arc::new(Statements));
    server.init().await.map_err(wrap_error)?;
    tokio::select! {
        result = start_grpc_service(options.listen, server.clone()) => result.map_err(wrap_error),
        result = end_lost_jobs(server.clone(), &cores, Duration::from_secs(timeout)) => result,
        () = drain(&server) => Ok(()),
    }
}

/// Ends the statements of executors that are lost, and all if there are no executors for half the
/// timeout. It stops executors of another version.
async fn end_lost_jobs(server: Scheduler, held: &Cores, timeout: Duration) -> Result<()> {
    let mut events = server.cluster_state_events().await.map_err(wrap_error)?;
    let mut was_alive = Instant::now();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(ClusterStateEvent::RemovedExecutor { executor_id }) => {
                    let reason = format!("executor {executor_id}{LOST}");
                    end_jobs(&server, held, &reason).await?;
                }
                Some(ClusterStateEvent::RegisteredExecutor { executor_id }) => {
                    log::info!("executor {executor_id} is there");
                    if !executor_id.ends_with(VERSION) {
                        let reason = format!(
                            "executor {executor_id}: expected version {VERSION}, that of the scheduler: \
                             install it on all machines"
                        );
                        log::warn!("{reason}");
                        server.state.executor_manager.stop_executor(&executor_id, reason).await;
                    }
                }
                None => return Ok(()),
            },
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        let executors = server.state.executor_manager.get_executors_state().await;
        let executors = executors.map_err(wrap_error)?;
        let cores = executors.iter().map(|(known, ..)| u64::from(known.specification.vcores));
        CORES.set(cores.sum());
        EXECUTORS.set(to_u64(executors.len()));
        if server.running_job_number() + server.pending_job_number() == 0 {
            held.free_all().await.map_err(wrap_error)?;
        }
        if !executors.is_empty() {
            was_alive = Instant::now();
        } else if was_alive.elapsed() > timeout / 2 {
            let reason = "no executor is there: start one with zvf-cluster executor";
            end_jobs(&server, held, reason).await?;
        }
    }
}

/// Sets the number of partitions to a multiple of that of cores, so that all of them have as much
/// to do, unless the statement sets it.
fn fit_partitions(config: SessionConfig) -> SessionConfig {
    let default = SessionConfig::new_with_ballista().target_partitions();
    let cores = usize::try_from(CORES.get()).unwrap_or(0);
    match config.target_partitions() == default && cores > 0 {
        true => config.with_target_partitions(cores * default.div_ceil(cores).max(2)),
        false => config,
    }
}

/// Ends all jobs with an error. Which of them have results of a lost executor is not known: Ballista
/// resets their stages at the same time.
async fn end_jobs(server: &Scheduler, held: &Cores, reason: &str) -> Result<()> {
    let tasks = &server.state.task_manager;
    for (job, cached) in tasks.get_running_job_cache().iter() {
        log::warn!("statement {job} ends: {reason}");
        // Its client hears the reason; then the scheduler forgets the job.
        let mut graph = cached.execution_graph.write().await;
        let running = graph.abort_running(mark(reason).strip_backtrace());
        drop(graph);
        let manager = server.state.executor_manager.clone();
        tokio::spawn(async move { drop(manager.cancel_running_tasks(running).await) });
        if let Err(error) = tasks.update_job(job).await {
            log::warn!("statement {job}: {error}");
        }
        server.cancel_job(job.clone()).await.map_err(wrap_error)?;
    }
    held.free_all().await.map_err(wrap_error)
}

/// Waits for a signal to stop, and then until no statement runs or for a second signal.
async fn drain(server: &Scheduler) {
    stop_signal().await;
    let is_busy = || server.running_job_number() + server.pending_job_number() > 0;
    let end = async {
        while is_busy() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = end => {}
        () = stop_signal() => {}
    }
}

/// Waits for Ctrl-C or a request to terminate.
async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Without a handler, the signal ends the process.
    drop(tokio::signal::ctrl_c().await);
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
    let host = options.external_host.clone().unwrap_or_else(|| bind_host.clone());
    let (scheduler_host, scheduler_port) = options.scheduler.clone();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    // Names the executor in errors, and is another one after a restart.
    let executor_id = format!("{host}:{}@{started}{VERSION}", options.listen.port());
    let executor_config = ExecutorProcessConfig {
        external_host: Some(host),
        bind_host,
        port: options.listen.port(),
        grpc_port: match options.control_port {
            Some(port) => port,
            None => port_after(options.listen.port())?,
        },
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        vcores: match options.cores {
            Some(cores) => cores.max(1),
            None => std::thread::available_parallelism()?.get(),
        },
        memory_pool_size: Some(options.memory.saturating_mul(1 << 20)), // more than there is means no limit
        work_dir: Some(work_dir.display().to_string()),
        executor_heartbeat_interval_seconds: options.heartbeat.max(1),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&state(
            config(),
        )?))),
        override_config_producer: Some(Arc::new(config)),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        override_execution_engine: Some(Arc::new(Engine::new(&executor_id))),
        executor_id,
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(executor_config)).await.map_err(wrap_error)
}

/// Wraps an error of Ballista in an error of DataFusion.
fn wrap_error(error: BallistaError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The end of the name of an executor.
const VERSION: &str = concat!("@", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_port_has_none_after_it() {
        assert_eq!(port_after(50051).unwrap(), 50052);
        let error = port_after(u16::MAX).unwrap_err().to_string();
        assert!(error.contains("or give --control-port"), "{error}");
    }
}

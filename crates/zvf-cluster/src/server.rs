//! The processes of a cluster: one scheduler, and an executor on each machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ballista_core::error::BallistaError;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::{BallistaCluster, ClusterStateEvent};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::error::{DataFusionError, Result};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures_util::StreamExt as _;

use crate::client::{config, state};
use crate::codec::{LogicalCodec, PhysicalCodec};
use crate::stage::Engine;
use crate::statement::{LOST, mark};

type Scheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

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

/// Runs a scheduler. When it is told to stop, it first lets its statements end.
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
        expire_dead_executor_interval_seconds: 1,
        no_executors_grace_period_seconds: timeout,
        min_ready_executors: options.min_executors,
        override_config_producer: Some(Arc::new(config)),
        override_session_builder: Some(Arc::new(state)),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&scheduler_config).await.map_err(wrap_error)?;
    let server = create_scheduler(cluster, Arc::new(scheduler_config)).await.map_err(wrap_error)?;
    tokio::select! {
        result = start_grpc_service(options.listen, server.clone()) => result.map_err(wrap_error),
        result = end_lost_jobs(server.clone(), options.executor_timeout) => result,
        () = drain(&server) => Ok(()),
    }
}

/// Ends the statements of executors that are lost, and all if there are no executors for half the timeout.
async fn end_lost_jobs(server: Scheduler, timeout: Duration) -> Result<()> {
    let mut events = server.cluster_state_events().await.map_err(wrap_error)?;
    let mut was_alive = Instant::now();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(ClusterStateEvent::RemovedExecutor { executor_id }) => {
                    let reason = format!("executor {executor_id}{LOST}");
                    end_jobs(&server, &reason).await?;
                }
                Some(ClusterStateEvent::RegisteredExecutor { executor_id }) => {
                    log::info!("executor {executor_id} is there");
                }
                None => return Ok(()),
            },
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        let executors = server.state.executor_manager.get_executors_state().await;
        if !executors.map_err(wrap_error)?.is_empty() {
            was_alive = Instant::now();
        } else if was_alive.elapsed() > timeout / 2 {
            end_jobs(&server, "no executor is there: start one with zvf-cluster executor").await?;
        }
    }
}

/// Ends all jobs with an error.
async fn end_jobs(server: &Scheduler, reason: &str) -> Result<()> {
    let tasks = &server.state.task_manager;
    for (job, cached) in tasks.get_running_job_cache().iter() {
        log::warn!("job {job} ends: {reason}");
        // Its client hears the reason; then the scheduler forgets the job.
        let mut graph = cached.execution_graph.write().await;
        let running = graph.abort_running(mark(reason).strip_backtrace());
        let freed = running.iter().filter_map(|task| {
            let cores = graph.task_vcores(task.stage_id, task.task_id)?;
            Some((task.executor_id.clone(), cores))
        });
        let freed: Vec<_> = freed.collect();
        drop(graph);
        let manager = server.state.executor_manager.clone();
        tokio::spawn(async move {
            drop(manager.cancel_running_tasks(running).await);
            drop(manager.unbind_tasks(freed).await);
        });
        if let Err(error) = tasks.update_job(job).await {
            log::warn!("job {job}: {error}");
        }
        server.cancel_job(job.clone()).await.map_err(wrap_error)?;
    }
    Ok(())
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
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let executor_config = ExecutorProcessConfig {
        external_host: Some(host.clone()),
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
        override_execution_engine: Some(Arc::new(Engine::default())),
        // Names the executor in errors, and is another one after a restart.
        executor_id: format!("{}:{}@{}", host, options.listen.port(), started.as_millis()),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(executor_config)).await.map_err(wrap_error)
}

/// Wraps an error of Ballista in an error of DataFusion.
fn wrap_error(error: BallistaError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

//! The cores that tasks hold on each executor.
//!
//! Ballista gives the cores of a task back when the task ends. It forgets those of a task whose stage was reset before, as it
//! does when an executor is lost: the executor that ran the task would never be given another one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::task_manager::JobInfoCache;

/// The state of a cluster, which counts the cores that are held.
pub(crate) struct Cores {
    state: Arc<dyn ClusterState>,
    held: Mutex<HashMap<String, u32>>,
}

impl Cores {
    pub(crate) fn new(state: Arc<dyn ClusterState>) -> Self {
        Self { state, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back all cores, once no task has an answer that somebody waits for.
    pub(crate) async fn free_all(&self) -> Result<()> {
        let held = std::mem::take(&mut *self.held());
        self.state.unbind_tasks(held.into_iter().collect()).await
    }
}

#[async_trait]
impl ClusterState for Cores {
    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let tasks = self.state.bind_schedulable_tasks(distribution, jobs, executors).await?;
        for (executor, task) in &tasks {
            *self.held().entry(executor.clone()).or_default() += task.vcores_consumed;
        }
        Ok(tasks)
    }

    /// Gives back cores that are held; those of a task that ended after [`Cores::free_all`] are not.
    async fn unbind_tasks(&self, slots: Vec<ExecutorSlot>) -> Result<()> {
        let free = |(executor, cores): ExecutorSlot| {
            let mut held = self.held();
            let held = held.entry(executor.clone()).or_default();
            let freed = cores.min(*held);
            *held -= freed;
            (executor, freed)
        };
        self.state.unbind_tasks(slots.into_iter().map(free).collect()).await
    }

    async fn register_executor(
        &self,
        metadata: ExecutorMetadata,
        data: ExecutorData,
    ) -> Result<()> {
        self.state.register_executor(metadata, data).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.state.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor: &str) -> Result<ExecutorMetadata> {
        self.state.get_executor_metadata(executor).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.state.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.state.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor: &str) -> Result<()> {
        self.held().remove(executor);
        self.state.remove_executor(executor).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.state.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor: &str) -> Option<ExecutorHeartbeat> {
        self.state.get_executor_heartbeat(executor)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.state.cluster_state_events().await
    }
}

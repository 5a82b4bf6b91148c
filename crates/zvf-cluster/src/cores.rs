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
    pub(crate) state: Arc<dyn ClusterState>,
    pub(crate) held: Mutex<HashMap<String, u32>>,
}

impl Cores {
    fn held(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back all cores, once nobody waits for the result of a task.
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
        for (id, task) in &tasks {
            *self.held().entry(id.clone()).or_default() += task.vcores_consumed;
        }
        Ok(tasks)
    }

    /// Gives back cores that are held; those of a task that ended after [`Cores::free_all`] are not.
    async fn unbind_tasks(&self, slots: Vec<ExecutorSlot>) -> Result<()> {
        let free = |(id, cores): ExecutorSlot| {
            let mut held = self.held();
            let held = held.entry(id.clone()).or_default();
            let freed = cores.min(*held);
            *held -= freed;
            (id, freed)
        };
        self.state.unbind_tasks(slots.into_iter().map(free).collect()).await
    }

    async fn register_executor(&self, of: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        self.state.register_executor(of, data).await
    }

    async fn save_executor_metadata(&self, of: ExecutorMetadata) -> Result<()> {
        self.state.save_executor_metadata(of).await
    }

    async fn get_executor_metadata(&self, id: &str) -> Result<ExecutorMetadata> {
        self.state.get_executor_metadata(id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.state.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.state.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, id: &str) -> Result<()> {
        self.held().remove(id);
        self.state.remove_executor(id).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.state.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, id: &str) -> Option<ExecutorHeartbeat> {
        self.state.get_executor_heartbeat(id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.state.cluster_state_events().await
    }
}

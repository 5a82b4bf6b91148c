//! The work of an executor: that of Ballista, except that its errors are sentences and end the
//! statement.
//!
//! Ballista repeats the stages whose results were lost. It may count some of them twice, so that a
//! lost result is an error here, after which the client runs the statement again.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;

use crate::statement::{LOST, find_loss, mark};

/// The engine of an executor.
#[derive(Default)]
pub(crate) struct Engine(DefaultExecutionEngine);

impl ExecutionEngine for Engine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        outputs: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let stage =
            self.0.create_query_stage_exec(job, stage, task, outputs, plan, work_dir, config)?;
        Ok(Arc::new(ReportingStage(stage)))
    }
}

#[derive(Debug)]
struct ReportingStage(Arc<dyn QueryStageExecutor>);

impl fmt::Display for ReportingStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for ReportingStage {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        self.0.execute_query_stage(task, context).await.map_err(|error| to_sentence(&error))
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.0.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.0.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.0.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.0.collect_column_stats()
    }
}

/// Returns an error that ends the statement with one sentence.
fn to_sentence(error: &DataFusionError) -> DataFusionError {
    match find_loss(&error.to_string()) {
        Some(executor) => mark(&format!("{executor}{LOST}, with its results")),
        None => mark(&zvf_datafusion::error_text(error)),
    }
}

//! The work of an executor: that of Ballista, except that its errors are sentences and end the
//! statement.
//!
//! Ballista repeats the stages whose results were lost. It may count some of them twice, so that a
//! lost result is an error here, after which the client runs the statement again.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

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
use zvf_datafusion::error_from_text;

use crate::metrics::{BYTES, TASKS};
use crate::statement::{LOST, find_loss, is_transport, mark, unwrapped};

/// The engine of an executor.
pub(crate) struct Engine {
    ballista: DefaultExecutionEngine,
    /// The name of the executor, for errors that may be those of its machine.
    executor: String,
}

impl Engine {
    pub(crate) fn new(executor: &str) -> Self {
        Self { ballista: DefaultExecutionEngine::default(), executor: executor.to_owned() }
    }
}

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
        let name = format!("statement {job}, stage {stage}, task {task}");
        let has_metrics = !has_union(&plan);
        let ballista = &self.ballista;
        let stage =
            ballista.create_query_stage_exec(job, stage, task, outputs, plan, work_dir, config)?;
        Ok(Arc::new(ReportingStage { stage, name, executor: self.executor.clone(), has_metrics }))
    }
}

#[derive(Debug)]
struct ReportingStage {
    stage: Arc<dyn QueryStageExecutor>,
    name: String,
    executor: String,
    /// Whether the scheduler hears the metrics.
    has_metrics: bool,
}

impl fmt::Display for ReportingStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for ReportingStage {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let begun = Instant::now();
        let written = self.stage.execute_query_stage(task, context).await;
        let metrics = self.stage.collect_plan_metrics();
        let sum = |name| -> usize {
            metrics.iter().filter_map(|set| set.sum_by_name(name)).map(|sum| sum.as_usize()).sum()
        };
        let (cells, bytes) = (sum("cells_read"), sum("bytes_read"));
        TASKS.add(1);
        BYTES.add(bytes);
        let took = begun.elapsed();
        log::info!("{}: {cells} chunks and {bytes} bytes of stores in {took:.1?}", self.name);
        written.map_err(|error| to_sentence(&error, &self.executor))
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        if self.has_metrics { self.stage.collect_plan_metrics() } else { Vec::new() }
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.stage.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.stage.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.stage.collect_column_stats()
    }
}

/// Returns whether a plan has a union. Then each task has a plan of its own, with the branches that
/// it runs, but the scheduler adds up metrics node by node, and would wait for good for a task with
/// another number of them.
fn has_union(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.name() == "UnionExec" || plan.children().into_iter().any(has_union)
}

/// Returns an error that ends the statement with one sentence. It names the executor where the
/// reason may be its machine.
fn to_sentence(error: &DataFusionError, executor: &str) -> DataFusionError {
    if let Some(lost) = find_loss(error) {
        return mark(&format!("{lost}{LOST}, with its results"));
    }
    let text = error.strip_backtrace();
    let text = unwrapped(&text);
    let is_of_store = matches!(error_from_text(text), DataFusionError::External(_));
    if is_of_store {
        mark(&format!("{text} (on executor {executor})"))
    } else if is_transport(text) {
        mark(&format!("executor with results for {executor}{LOST}"))
    } else if text.starts_with("Resources exhausted") {
        let advice = "give it more with --memory of zvf-cluster executor";
        mark(&format!("LimitExceeded, executor {executor}: {text}; {advice}"))
    } else if text.contains("(os error 28)") {
        let advice = "make room in the folder of its --work-dir";
        mark(&format!("NoSpace, executor {executor}: {text}; {advice}"))
    } else {
        mark(text)
    }
}

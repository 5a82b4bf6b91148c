//! Statements of the client: text as plain values between the processes, and again from the start
//! if a process is lost.
//!
//! Ballista sends sorted parts between executors without their dictionaries, so a plan for a
//! cluster has the plain values, and the answer gets its dictionaries and names back here. It is
//! held back up to [`HELD_BYTES`], so that a statement whose executor is lost can be run again
//! unnoticed. After that, the loss is an error.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, SchemaRef};
use async_trait::async_trait;
use ballista_core::planner::scans_only_information_schema;
use datafusion::catalog::Session;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{
    Cast, Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union, cast as cast_to,
};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zvf_datafusion::cast_batch;

/// Plans statements for a cluster, and what writes their answers for this process.
#[derive(Debug)]
pub(crate) struct StatementPlanner {
    /// The planner of Ballista.
    pub(crate) ballista: Arc<dyn QueryPlanner + Send + Sync>,
    /// The scheduler, for errors.
    pub(crate) scheduler: String,
}

#[async_trait]
impl QueryPlanner for StatementPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(statement) = self.statement(plan, session).await? {
            let schema = Arc::clone(&statement.schema);
            let plan = StreamingTableExec::try_new(schema, vec![statement], None, [], false, None)?;
            return Ok(Arc::new(plan));
        }
        let mut plan = plan.clone();
        if matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_)) {
            // The cluster answers, this process writes.
            let mut inputs = Vec::new();
            for input in plan.inputs() {
                inputs.push(match self.statement(input, session).await? {
                    Some(statement) => {
                        let schema = Arc::clone(&statement.schema);
                        let table = StreamingTable::try_new(schema, vec![statement])?;
                        let table = provider_as_source(Arc::new(table));
                        LogicalPlanBuilder::scan("answer", table, None)?.build()?
                    }
                    None => input.clone(),
                });
            }
            plan = plan.with_new_exprs(plan.expressions(), inputs)?;
        }
        DefaultPhysicalPlanner::default().create_physical_plan(&plan, session).await
    }
}

impl StatementPlanner {
    /// Returns the statement for a plan that a cluster runs; `None` for one that this process runs.
    async fn statement(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Option<Arc<Statement>>> {
        // Planned by Ballista, an empty relation would have no columns.
        let is_local = matches!(
            plan,
            LogicalPlan::EmptyRelation(_) | LogicalPlan::Copy(_) | LogicalPlan::Dml(_)
        );
        if is_local || scans_only_information_schema(plan)? {
            return Ok(None);
        }
        let plain = quote_tables(decode_dictionaries(plan.clone(), session)?)?;
        let job = self.ballista.create_physical_plan(&plain, session).await?;
        let schema = Arc::clone(plan.schema().inner());
        Ok(Some(Arc::new(Statement { job, schema, scheduler: self.scheduler.clone() })))
    }
}

/// Quotes the names of tables in columns: plans hold them as text, and the decoder would take
/// `cells.zarrvectors` for a table of the schema `cells`.
fn quote_tables(plan: LogicalPlan) -> Result<LogicalPlan> {
    let quote = |mut expr: Expr| {
        if let Expr::Column(Column { relation: Some(table), .. }) = &mut expr {
            *table = TableReference::bare(table.to_quoted_string());
        }
        Ok(Transformed::yes(expr))
    };
    let quoted = plan
        .transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(quote)));
    Ok(quoted?.data)
}

/// Puts the values of dictionaries in place of them, directly above the scans.
fn decode_dictionaries(plan: LogicalPlan, session: &dyn Session) -> Result<LogicalPlan> {
    let is_dictionary = |data_type: &DataType| matches!(data_type, DataType::Dictionary(..));
    let replaced = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else {
            let node = match node {
                // It keeps the types that its inputs had.
                LogicalPlan::Union(union) => {
                    LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)
                }
                node => node,
            };
            let node = node.map_expressions(|expr| expr.transform_up(decode_expression))?;
            return node.map_data(LogicalPlan::recompute_schema);
        };
        let schema = Arc::clone(&scan.projected_schema);
        if !schema.fields().iter().any(|field| is_dictionary(field.data_type())) {
            return Ok(Transformed::no(node));
        }
        let columns = schema.iter().map(|(table, field)| {
            let column = Expr::Column(Column::from((table, field)));
            match field.data_type() {
                DataType::Dictionary(_, values) => cast_to(column, values.as_ref().clone())
                    .alias_qualified(table.cloned(), field.name()),
                _ => column,
            }
        });
        let projection = Projection::try_new(columns.collect(), Arc::new(node))?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    })?;
    if !replaced.transformed {
        return Ok(replaced.data);
    }
    // Expressions above were made for dictionaries.
    let analyzer = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    analyzer.execute_and_check(replaced.data, session.config_options(), |_, _| {})
}

/// Puts plain values in place of a dictionary that a planner made, so as to compare it with others.
fn decode_expression(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Cast(cast) => match cast.field.data_type() {
            DataType::Dictionary(_, values) => {
                let values = values.as_ref().clone();
                Transformed::yes(Expr::Cast(Cast::new(cast.expr, values)))
            }
            _ => Transformed::no(Expr::Cast(cast)),
        },
        Expr::Literal(ScalarValue::Dictionary(_, value), metadata) => {
            Transformed::yes(Expr::Literal(*value, metadata))
        }
        other => Transformed::no(other),
    })
}

/// A statement that runs on the cluster, again if an executor is lost.
#[derive(Debug)]
struct Statement {
    job: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    scheduler: String,
}

impl PartitionStream for Statement {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = run(Arc::clone(&self.job), context, self.scheduler.clone());
        let rows = stream::once(rows).try_flatten().map(move |batch| cast_batch(&batch?, &schema));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

/// Runs a statement until it has an answer that is complete, or too large to be held back.
async fn run(
    job: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    scheduler: String,
) -> Result<SendableRecordBatchStream> {
    let mut losses = Vec::new();
    loop {
        match begin(&job, &context, &scheduler).await {
            Ok(rows) => return Ok(rows),
            Err(error) => {
                let loss = find_loss(&error).filter(|_| losses.len() + 1 < TRIES);
                let Some(loss) = loss else { return Err(explain(&error, &losses, &scheduler)) };
                losses.push(loss);
                // The scheduler may still give work to a process that is just ending.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Runs a statement once, and waits for the first [`HELD_BYTES`] of its answer.
async fn begin(
    job: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    scheduler: &str,
) -> Result<SendableRecordBatchStream> {
    let mut rows = job.execute(0, Arc::clone(context))?;
    let (mut held, mut bytes) = (Vec::new(), 0_usize);
    while bytes < HELD_BYTES {
        let Some(batch) = rows.try_next().await? else { break };
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        held.push(Ok(batch));
    }
    let (schema, scheduler) = (rows.schema(), scheduler.to_owned());
    let rest = rows.map_err(move |error| explain(&error, &[], &scheduler));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(held).chain(rest))))
}

/// Returns the executor that was lost, if that is what an error says.
pub(crate) fn find_loss(error: &DataFusionError) -> Option<String> {
    let text = error.to_string();
    if text.contains(BEGIN) {
        let message = innermost(&text);
        let (lost, _) = message.split_once(LOST)?;
        return lost.starts_with("executor ").then(|| lost.to_owned());
    }
    if let Some(rest) =
        unwrapped(&text).strip_prefix("Shuffle fetch partition error from Executor ")
    {
        return Some(format!("executor {}", rest.split(',').next()?));
    }
    // The client cannot connect to an executor that has a part of the answer.
    let (_, rest) = text.split_once("scheduler or executor at http://")?;
    Some(format!("executor {}", rest.split(": ").next()?))
}

/// Returns the message behind the words of those that passed it on: Ballista prints causes.
pub(crate) fn unwrapped(text: &str) -> &str {
    let words = ["Execution error: ", "External error: ", "DataFusion error: ", "Arrow error: "];
    let inner = words.iter().find_map(|word| text.strip_prefix(word));
    inner.map_or(text, unwrapped)
}

/// Returns whether an error says that a connection ended.
pub(crate) fn is_transport(text: &str) -> bool {
    let words = ["transport error", "Stream closed without", "h2 protocol", "ConnectError"];
    words.iter().any(|word| text.contains(word))
}

/// Returns the error of the last of several tries.
fn explain(error: &DataFusionError, losses: &[String], scheduler: &str) -> DataFusionError {
    let text = error.strip_backtrace();
    let lost_now = find_loss(error);
    let reason = match lost_now {
        Some(_) => String::new(),
        None => format!(": {}", innermost(&text)),
    };
    if let Some(lost) = lost_now.or_else(|| losses.last().cloned()) {
        let tries = losses.len() + 1;
        return unavailable(&format!(
            "{lost}{LOST} while the statement ran (try {tries} of {TRIES}){reason}; run it again"
        ));
    }
    if text.contains(BEGIN) {
        return zvf_datafusion::error_from_text(&innermost(&text));
    }
    if is_transport(&text) {
        let advice = "see whether zvf-cluster scheduler runs there, and run the statement again";
        return unavailable(&format!(
            "the scheduler {scheduler} is lost or cannot be reached: {advice}"
        ));
    }
    DataFusionError::Execution(text)
}

/// Returns the message of the executor or scheduler in an error that was printed several times.
fn innermost(text: &str) -> String {
    let message = text.rsplit_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let message = message.map_or(text, |(message, _)| message);
    message.replace("\\\"", "\"").replace("\\'", "'").replace("\\\\", "\\")
}

fn unavailable(text: &str) -> DataFusionError {
    zvf_datafusion::error_from_text(&format!("Unavailable, {text}"))
}

/// Puts an error that another process prints between marks, so that [`innermost`] finds it.
pub(crate) fn mark(text: &str) -> DataFusionError {
    DataFusionError::Execution(format!("{BEGIN}{text}{END}"))
}

/// Bytes of an answer that are held back while it can still be asked for again.
const HELD_BYTES: usize = 32 << 20;
/// How often a statement is run in all.
const TRIES: usize = 3;
/// The pause before another try.
const PAUSE: Duration = Duration::from_millis(500);
/// The words that follow the name of a lost executor in an error.
pub(crate) const LOST: &str = " was lost";
/// Marks around a message in an error that passes several processes.
const BEGIN: &str = "<<zvf:";
const END: &str = ":zvf>>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_of_a_process_says_what_was_lost() {
        let quoted = mark("InvalidArgument, cannot cast 'executor a:1 was lost' to Int32");
        assert_eq!(find_loss(&quoted), None);
        let lost = mark("executor a:1@2 was lost, with its results").context("Job x failed");
        assert_eq!(find_loss(&lost).unwrap(), "executor a:1@2");
        let text =
            "DataFusion error: Shuffle fetch partition error from Executor b:1@2, map_stage 1";
        let fetch = DataFusionError::Execution(text.to_owned());
        assert_eq!(find_loss(&fetch).unwrap(), "executor b:1@2");
    }
}

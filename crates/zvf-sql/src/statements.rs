//! A text as statements, one after the other, and their answers.

use std::io::{self, Write as _};

use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use tokio::runtime::Handle;

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::output;

/// Runs the statements of `text` until they are done or somebody interrupts them.
pub(crate) async fn interruptible(
    context: &SessionContext,
    arguments: &Arguments,
    text: &str,
) -> Result<(), Fault> {
    or_interrupt(answer(context, arguments, text)).await
}

/// Does `work` until it is done or somebody interrupts it.
pub(crate) async fn or_interrupt<T>(
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::select! {
        // In this order: an interrupt is listened for before anything is done.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Fault::interrupted()),
        done = work => done,
    }
}

/// Runs the statements of `text`. Only one of them may have an answer where that goes to a file.
async fn answer(context: &SessionContext, arguments: &Arguments, text: &str) -> Result<(), Fault> {
    let statements = parse(text)?;
    let asks = statements.iter().filter(|statement| is_question(statement)).count();
    if asks > 1 && arguments.file().is_some() {
        let text = format!("{asks} statements have answers: expected one for --output");
        return Err(Fault::usage(text));
    }
    for statement in statements {
        let is_question = is_question(&statement);
        let plan = plan(context, statement).await?;
        if arguments.cluster.is_some() && matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_))
        {
            let text = "a cluster answers questions: run statements that write without --cluster";
            return Err(Fault::usage(text));
        }
        let plan = if arguments.explain && is_question { explained(plan)? } else { plan };
        let frame = context.execute_logical_plan(plan).await?;
        give(frame, arguments).await?;
    }
    Ok(())
}

/// The plan of a statement, made on a thread of its own: a store that it names is opened meanwhile, however long that
/// takes, and an interrupt is seen.
async fn plan(context: &SessionContext, statement: Statement) -> Result<LogicalPlan, Fault> {
    let (state, runtime) = (context.state(), Handle::current());
    let work = move || runtime.block_on(state.statement_to_plan(statement));
    Ok(tokio::task::spawn_blocking(work).await.map_err(io::Error::other)??)
}

fn parse(text: &str) -> Result<Vec<Statement>, Fault> {
    let statements: Vec<Statement> = DFParserBuilder::new(text).build()?.parse_statements()?.into();
    if statements.is_empty() {
        return Err(Fault::usage("expected a statement, found none"));
    }
    Ok(statements)
}

/// Whether a statement has rows for an answer, and not only a number of rows that it wrote.
fn is_question(statement: &Statement) -> bool {
    use datafusion::sql::sqlparser::ast;
    match statement {
        Statement::Statement(statement) => matches!(
            **statement,
            ast::Statement::Query(_)
                | ast::Statement::ShowTables { .. }
                | ast::Statement::ShowColumns { .. }
                | ast::Statement::ShowVariable { .. }
                | ast::Statement::ExplainTable { .. }
        ),
        Statement::Explain(_) => true,
        _ => false,
    }
}

/// The plan that runs `plan` and says what that cost.
fn explained(plan: LogicalPlan) -> Result<LogicalPlan, Fault> {
    if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        return Ok(plan);
    }
    let builder = datafusion::logical_expr::LogicalPlanBuilder::from(plan);
    Ok(builder.explain(false, true)?.build()?)
}

async fn give(frame: DataFrame, arguments: &Arguments) -> Result<(), Fault> {
    if frame.schema().fields().is_empty() {
        // A statement without an answer, such as CREATE: running it is all.
        frame.collect().await?;
        return Ok(());
    }
    let more = output::write(frame, arguments).await?;
    if more && !arguments.quiet {
        let note = format!(
            "note: {} rows are shown, there are more: --limit 0 shows all",
            arguments.limit
        );
        drop(writeln!(io::stderr().lock(), "zvf-sql: {note}"));
    }
    Ok(())
}

//! Execution of statements: parses a text, runs its statements one after the other and writes their answers.

use std::io::{self, Write as _};

use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use tokio::runtime::Handle;

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::output;

/// Runs the statements of `text` until they are done or interrupted.
pub(crate) async fn run(
    context: &SessionContext,
    arguments: &Arguments,
    text: &str,
) -> Result<(), Fault> {
    run_until_interrupt(run_all(context, arguments, text)).await
}

/// Awaits `work` until it is done or interrupted by Ctrl-C.
pub(crate) async fn run_until_interrupt<T>(
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::select! {
        // Poll in this order, to install the signal handler before the work begins.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Fault::interrupted()),
        done = work => done,
    }
}

/// Runs the statements of `text`. With an output file, only one of them may have an answer.
async fn run_all(context: &SessionContext, arguments: &Arguments, text: &str) -> Result<(), Fault> {
    let statements = parse(text)?;
    let questions = statements.iter().filter(|statement| is_question(statement)).count();
    if questions > 1 && arguments.file().is_some() {
        let text = format!("{questions} statements have answers: expected one for --output");
        return Err(Fault::usage(text));
    }
    for statement in statements {
        let is_question = is_question(&statement);
        let plan = plan(context, statement).await?;
        let plan = if arguments.explain && is_question { explain(plan)? } else { plan };
        let frame = context.execute_logical_plan(plan).await?;
        write_answer(frame, arguments).await?;
    }
    Ok(())
}

/// Plans a statement on a separate thread, so that an interrupt is handled while planning opens stores.
async fn plan(context: &SessionContext, statement: Statement) -> Result<LogicalPlan, Fault> {
    let (state, runtime) = (context.state(), Handle::current());
    let work = move || runtime.block_on(state.statement_to_plan(statement));
    Ok(tokio::task::spawn_blocking(work).await.map_err(io::Error::other)??)
}

/// Parses a text of one or more statements.
fn parse(text: &str) -> Result<Vec<Statement>, Fault> {
    let statements: Vec<Statement> = DFParserBuilder::new(text).build()?.parse_statements()?.into();
    if statements.is_empty() {
        return Err(Fault::usage("expected a statement, found none"));
    }
    Ok(statements)
}

/// Returns whether a statement has rows as its answer, not only a number of written rows.
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

/// Wraps `plan` in EXPLAIN ANALYZE.
fn explain(plan: LogicalPlan) -> Result<LogicalPlan, Fault> {
    if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        return Ok(plan);
    }
    let builder = datafusion::logical_expr::LogicalPlanBuilder::from(plan);
    Ok(builder.explain(false, true)?.build()?)
}

/// Runs a plan and writes its answer; prints a note if rows are not shown.
async fn write_answer(frame: DataFrame, arguments: &Arguments) -> Result<(), Fault> {
    if frame.schema().fields().is_empty() {
        // A statement without an answer, such as CREATE, only runs.
        frame.collect().await?;
        return Ok(());
    }
    let is_cut = output::write(frame, arguments).await?;
    if is_cut && !arguments.quiet {
        let note = format!(
            "note: {} rows are shown, there are more: --limit 0 shows all",
            arguments.limit
        );
        drop(writeln!(io::stderr().lock(), "zvf-sql: {note}"));
    }
    Ok(())
}

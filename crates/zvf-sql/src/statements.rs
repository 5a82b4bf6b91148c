//! A text as statements, one after the other, and their answers.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::{output, prompt, session};

/// Does what the arguments ask.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Fault> {
    let arguments = &arguments;
    output::check(arguments)?;
    let context = session::open(arguments).await?;
    match &arguments.statement {
        Some(text) if text != "-" => answer(&context, arguments, text).await,
        None if io::stdin().is_terminal() => prompt::run(&context, arguments).await,
        _ => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            answer(&context, arguments, &text).await
        }
    }
}

/// Runs the statements of `text`. Only one of them may have an answer where that goes to a file.
pub(crate) async fn answer(
    context: &SessionContext,
    arguments: &Arguments,
    text: &str,
) -> Result<(), Fault> {
    let statements = parse(text)?;
    let asks = statements.iter().filter(|statement| is_question(statement)).count();
    if asks > 1 && arguments.file().is_some() {
        let text = format!("{asks} statements have answers: expected one for --output");
        return Err(Fault::usage(text));
    }
    for statement in statements {
        let is_question = is_question(&statement);
        let plan = context.state().statement_to_plan(statement).await?;
        let plan = if arguments.explain && is_question { explained(plan)? } else { plan };
        let frame = context.execute_logical_plan(plan).await?;
        give(frame, arguments).await?;
    }
    Ok(())
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

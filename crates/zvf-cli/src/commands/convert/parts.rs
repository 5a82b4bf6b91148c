//! `zvf convert` in parts, each written by a task: how work is divided, and how a part is written.

use std::io;
use std::path::PathBuf;

use zvf::Timeouts;
use zvf::tasks::{ConvertJob, ConvertTarget, Plan, TaskOutcome, Tasks};

use super::{Convert, StoreQueries, To, is_store};
use crate::commands::recorded::{self, Recorded};
use crate::commands::{join_kinds, make_absolute, refuse_given, text_of};
use crate::outcome::{Usage, refuse};
use crate::session::Session;

impl Recorded<Convert> {
    /// Divides the conversion into about `parts` parts of a store; with `by_objects` also where links may join them.
    pub(crate) async fn plan_parts(
        self,
        session: &Session,
        (shares, by_objects): (usize, bool),
    ) -> anyhow::Result<Plan> {
        let Self { args: convert, words } = self;
        let Some(to) = convert.to else {
            return refuse(
                "the name of a folder does not tell the format of its parts; choose the format of \
                 parts with --to",
            );
        };
        convert.check_divisible()?;
        let extension = match to {
            To::Store => "zarrvectors",
            To::Format(format) => format.extensions().first().copied().unwrap_or(format.token()),
        };
        let words = words.into_iter().map(with_absolute_path).collect::<anyhow::Result<_>>()?;
        let target = ConvertTarget {
            output: make_absolute(&convert.output)?,
            extension: extension.to_owned(),
            words,
        };
        let is_store = |path: &PathBuf| path.to_str().is_some_and(is_store);
        let open = session.options(Timeouts::BATCH);
        let store = match convert.inputs.as_slice() {
            [only] if is_store(only) => make_absolute(&only.to_string_lossy())?,
            files if files.iter().any(is_store) => {
                return refuse("a store cannot be divided together with other inputs");
            }
            files => {
                convert.check_whole()?;
                let files =
                    files.iter().map(std::path::absolute).collect::<io::Result<Vec<_>>>()?;
                return Ok(Plan::convert_files(&files, target, &open).await?);
            }
        };
        if let Some(option) = convert.options.first_reading_option() {
            return Err(super::needs_file(option));
        }
        if to == To::Store {
            return refuse(
                "a store cannot be written as a folder of stores; copy it with zvf convert",
            );
        }
        let queries = convert.plan_queries(session, &store, true).await?;
        let StoreQueries { reader, query, kinds, .. } = queries;
        let &[kind] = kinds.as_slice() else {
            let names = join_kinds(kinds);
            return refuse(format!("the store holds {names}; choose one with --kind"));
        };
        let from = (&reader, store.as_str(), &open);
        let shares = (shares, by_objects);
        Ok(Plan::convert_store(from, (&query, kind), target, shares).await?)
    }
}

impl Convert {
    /// Refuses options that cannot be applied to parts.
    fn check_divisible(&self) -> Result<(), Usage> {
        let of_whole = self.narrow.args.first_of_whole();
        let is_input = |is_it: fn(&str) -> bool| {
            self.inputs.iter().any(|input| is_it(&input.to_string_lossy()))
        };
        let has_lods = self.format_options.iter().any(|(name, _)| name == "precomputed.lods");
        let is_fetched = |input: &str| input.starts_with(super::PRECOMPUTED);
        let given = [
            (of_whole.unwrap_or_default(), of_whole.is_some(), "use --bbox, --where and the like"),
            ("--dry-run", self.dry_run, "zvf convert itself prints what would be lost"),
            ("--overwrite", self.options.overwrite, "remove the folder, or name another one"),
            ("standard output", self.output == "-", "name a folder or a URL"),
            ("standard input", is_input(|input| input == "-"), "name files: tasks read them again"),
            (
                "precomputed at a URL",
                is_input(is_fetched),
                "create a store from it with zvf create",
            ),
            ("--format-option precomputed.lods", has_lods, "use zvf convert"),
        ];
        refuse_given("a folder of parts", &given)
    }
}

/// Writes part `number` of a plan.
pub(crate) async fn run_part(
    session: &Session,
    (tasks, job): (&Tasks, &ConvertJob),
    number: usize,
) -> anyhow::Result<TaskOutcome> {
    let mut convert: Convert = recorded::parse(&job.target.words, &["input", "output"])?;
    let store = tasks.plan().store.as_deref();
    let open = session.options(Timeouts::BATCH);
    let scratch = convert.options.temp_dir.clone();
    let Some(run) = tasks.begin_part(number, scratch.as_deref()).await? else {
        return Ok(TaskOutcome::AlreadyDone);
    };
    let part = job.parts.get(number);
    let input = match (store, part.and_then(|part| part.path())) {
        (Some(store), _) => PathBuf::from(store),
        (None, Some(path)) => path.to_owned(),
        (None, None) => return refuse("the plan has no store and no files"),
    };
    convert.inputs = vec![input];
    convert.output = text_of(run.path())?.to_owned();
    convert.part = part.cloned();
    tasks.check_store_now(&open).await?;
    let silent = session.silenced();
    convert.run(&silent).await?;
    silent.check_maps()?;
    tasks.check_store_now(&open).await?;
    let is_first = tasks.finish_part(number, run).await?;
    Ok(if is_first { TaskOutcome::Done } else { TaskOutcome::AlreadyDone })
}

/// Makes the path of an option absolute, for processes that work in another folder.
fn with_absolute_path(word: String) -> anyhow::Result<String> {
    for option in ["--nodes=", "--scratch-dir=", "--reference="] {
        if let Some(path) = word.strip_prefix(option) {
            return Ok(format!("{option}{}", make_absolute(path)?));
        }
    }
    Ok(word)
}

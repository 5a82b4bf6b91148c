//! `conformance`: starts the program `proof`, which tests the library with corpora.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "conformance",
    help: "run corpora of good and hostile inputs against the library

usage: cargo xtask conformance [OPTIONS]
       cargo xtask conformance --sql [STORE OR FOLDER]...

Without an option: the hostile corpus, the golden stores, the dense arrays and the files of other formats
in testdata/, and a sample of the faults; this needs no network and takes seconds.
`cargo xtask conformance -- --help` lists the options: other corpora, more faults, and what installs other
programs and compares with them.

  --sql   build what brings an SQL engine (this takes long), run its lints and its tests, ask the
          demo stores and those named in SQL and otherwise, compare statements with
          DuckDB on exported Parquet, and run the pages of the book that ask in SQL

Prints one line per failure, why anything was skipped, and closes with
`N passed, M failed, K skipped`.",
    run,
};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    if args.flag("--sql") {
        return crate::sql::run(house, args);
    }
    args.flag("--"); // before `--help`, which is then that of the program
    house.program(house.build_programs(&["proof"])?.join("proof")).forward(args).run()
}

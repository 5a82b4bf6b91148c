//! `conformance`: starts the program `proof`, which tests the library with corpora.

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "conformance",
    help: "run corpora of good and hostile inputs against the library

usage: cargo xtask conformance [--hostile DIR]... [--golden DIR]... [--tet DIR]... [--caterva DIR]...
                               [--formats DIR]... [--faults] [--live] [--suites] [--live-arrays]
                               [--live-formats] [--remote] [--damage DIR]
       cargo xtask conformance --sql [STORE OR FOLDER]...

Without an option: the hostile corpus, the golden stores, the dense arrays and the files of other formats
in testdata/, and a sample of the faults; this needs no network and takes seconds.

  --hostile DIR, --golden DIR,
  --tet DIR, --caterva DIR,
  --formats DIR                 other corpora of the same form; may be repeated
  --faults                      sound stores on a backend that fails at each operation in each way
  --live                        install the reference library for Python, have it write random stores,
                                compare answers with brute force [--seed N] [--stores N] [--boxes N]
  --suites                      download the reference and its tools with their tests, run these, and compare
                                every store they write with what they read of it [--suite-stores N]
  --live-arrays                 install tetration, python-blosc2 and caterva, trade random dense arrays
                                with them, both ways [--seed N] [--arrays N] [--format blocks|tet]
  --live-formats                install nibabel, laspy, trx-python, trimesh, cloud-volume, pyarrow, vtk,
                                networkx and anndata, trade random files with them, both ways
                                [--seed N] [--files N]
  --damage DIR                  files of other formats with damage at random: each is read or refused, none panics
                                [--rounds N] [--seed N]
  --remote                      install and start servers on loopback (S3, Azure, Google Cloud Storage,
                                plain HTTP), compare the golden stores on them, count requests
                                [--server TEXT] [--with-garage]

  --sql                         build what brings an SQL engine (this takes long), run its lints and its tests, ask the
                                demo stores and those named in SQL and otherwise, compare statements with
                                DuckDB on exported Parquet, and run the pages of the book that ask in SQL

Prints one line per failure, why anything was skipped, and closes with
`N passed, M failed, K skipped`. All options: cargo xtask conformance -- --help",
    run,
};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    if args.flag("--sql") {
        return crate::sql::run(house, args);
    }
    let programs = house.build_programs(&["proof"])?;
    house.program(programs.join("proof")).forward(args).run()
}

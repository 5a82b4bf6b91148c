//! `conformance`: starts the program `proof`, which tests the library with corpora.

use crate::args::Args;
use crate::house::House;

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    if args.flag("--sql") {
        return crate::sql::run(house, args);
    }
    args.flag("--"); // before `--help`, which is then that of the program
    house.program(house.build_programs(&["proof"])?.join("proof")).forward(args).run()
}

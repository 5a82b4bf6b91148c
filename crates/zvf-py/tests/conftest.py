"""What is here and no test: the plugin for the tests of the reference, and the programs that pass random values."""

collect_ignore = ["fuzz", "reference"]

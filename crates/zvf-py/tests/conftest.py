"""What is here and no test: the plugin for the tests of the reference."""

collect_ignore = ["reference"]

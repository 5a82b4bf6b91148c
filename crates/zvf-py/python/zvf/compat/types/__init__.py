"""Writers and readers, one pair for each kind of geometry."""

"""The storage layer of the reference, as far as the facade hands it out."""

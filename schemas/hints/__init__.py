"""Help for whoever wrote a document that is not understood."""

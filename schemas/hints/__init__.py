"""Help for whoever wrote a document that is not understood.

- ``keys``: What to say of a key that a document may not have: a key with a like name, or where it belongs.
"""

"""Commands and screens of protocols.

- ``pooled``: A protocol of several sites on a terminal.
- ``series``: `causalveil series`: the released blocks of a dataset together, at no charge.
- ``show``: A protocol's table on a terminal.
"""

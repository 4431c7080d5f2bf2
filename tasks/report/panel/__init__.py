"""The panel that a run ends with: answer, limits and cost, in at most twelve short lines.

- ``direction``: The first line of every panel of a run, and the panel of a causal direction.
- ``parts``: Sentences that panels of every kind share.
- ``pooled``: The cost of pooling over sites or over blocks, and the first line of a panel of sites.
- ``tables``: Panels of answers: of one run, of several sites, and of a series of blocks.
- ``whole``: The panel of a release of any kind, and the same as plain text: what ``str`` of it says.
"""

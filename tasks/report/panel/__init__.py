"""The panel that a run ends with: answer, adjustment, limits, cost, in at most twelve short lines.

- ``effects``: Panels of one effect: of a difference of means, of times to an event, and of a causal direction.
- ``parts``: Sentences that panels of every kind share: limits, adjustment, cost, and an estimate with its interval.
- ``pooled``: Panels of what several sites say together, and of what pooling cost: nothing beside what each site spent.
- ``tables``: Panels of tables of answers: of a protocol, of one over several sites, and of a series of blocks.
- ``whole``: The panel of a release of any kind, and the same as plain text: what ``str`` of it says.
"""

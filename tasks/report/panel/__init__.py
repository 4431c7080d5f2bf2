"""The panel that a run ends with: answer, limits and cost, in at most twelve short lines.

- ``effects``: Panels of one effect.
- ``parts``: Sentences that panels of every kind share.
- ``pooled``: Panels of what several sites say together, and of what pooling cost.
- ``tables``: Panels of tables of answers.
- ``whole``: The panel of a release of any kind, and the same as plain text: what ``str`` of it says.
"""

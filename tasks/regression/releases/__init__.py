"""What of adjustment touches rows or noise: sums over rows, their sensitivities, and who pays for them.

- ``noisy_sums``: What a draw of noisy sums needs, whether one question asks for it or all questions of a protocol
  together.
- ``recipe``: What a study spends on each of its releases: decided before a row is read, from public facts alone.
- ``rehearsed``: Rehearsal of an adjustment: the study's own releases and steps on simulated people.
- ``rows``: Functions of one row alone, for many rows: encoded columns z, lines, curves, and features in the unit ball.
- ``stages``: The five releases of an adjustment, and what its last stage says; what is decided between them is of
  ``flow.py``.
- ``sums``: Exact sums over rows of the five releases, each with its sensitivity (``docs/proofs/regression.md``).
"""

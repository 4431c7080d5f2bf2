"""Protocols: many questions answered together; ``docs/proofs/questions.md``.

- ``calibration``: Calibration by negative controls.
- ``difference``: Differences of arm means where treatment is private, of a randomised trial or unadjusted.
- ``findings``: From answers with the law of their errors to what the release holds.
- ``gates``: Balance, overlap, and the gates that were declared on them.
- ``parts``: Answers with the parts of their error, and how they become intervals.
- ``people``: People of a protocol whom a plan makes of public facts.
- ``regression``: The table of a study by regression, and what is told where it has one row.
- ``times``: Adjusted questions of times to an event, whose outcomes are made of released cells.
- ``label/``: Tables at label level: everything but the outcomes is public.
"""

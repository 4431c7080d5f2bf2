"""A release as a page for people.

- ``burndown``: The burn-down of a dataset's accounts and the owner's desk, as pages and figures.
- ``details``: The table of details of a report, and its estimand, in the field's words.
- ``figures``: Positions in the figures of a report, in percent of their width.
- ``flow``: The flow of units through a study, after CONSORT.
- ``numbers``: Numbers and labels as the pages of reports write them.
- ``page``: A release, a plan or a series as a page for people.
- ``plots``: Write tables as CSV and figures as SVG in one house style.
- ``robustness``: Say how strong an unmeasured confounder would have to be, of a release's first answer.
- ``table``: Answers of one site or of several, for their page and as tables.
- ``times``: Curves and effects of a study of times, of one site or of several, as a page draws them.
- ``guidelines/``: Reporting guidelines, filled in as far as documents know; the rest is marked for people.
- ``panel/``: The panel that a run ends with: answer, limits and cost, in at most twelve short lines.
"""

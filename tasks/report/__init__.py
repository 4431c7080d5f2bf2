"""A release as a page for people.

- ``burndown``: The burn-down of a dataset's accounts and the owner's desk, as pages and figures.
- ``details``: Rows of a report's table of details, in the field's words.
- ``estimand``: The estimand in the five attributes of ICH E9(R1), from what the study declares.
- ``figures``: Positions in the figures of a report, in percent of their width.
- ``flow``: The flow of units through a study, after CONSORT.
- ``numbers``: Numbers and labels as the pages of reports write them.
- ``page``: A release as a page for people.
- ``plots``: Write tables as CSV and figures as SVG in one house style.
- ``pooled_times``: The context of the page of a study of times over several sites, beside the release itself.
- ``protocol``: The context of the page of a protocol, of one site or of several.
- ``series``: A series as a page: a forest plot over time for each question.
- ``times``: Curves of a study of times, as a page draws them.
- ``guidelines/``: Reporting guidelines, filled in as far as documents know; the rest is marked for people.
- ``panel/``: The panel that a run ends with: answer, limits and cost, in at most twelve short lines.
"""

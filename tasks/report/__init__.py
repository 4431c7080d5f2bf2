"""A release as a page for people.

- ``burndown``: The burn-down of a dataset's accounts as a page and as a figure.
- ``desk``: The owner's desk as pages: self-contained HTML that refer to nothing but each other.
- ``details``: Rows of a report's table of details, in the field's words.
- ``estimand``: The estimand in the five attributes of ICH E9(R1), from what the study declares.
- ``figures``: Positions in the figures of a report, in percent of their width.
- ``flow``: The flow of units through a study, after CONSORT.
- ``love``: Love plots: the arms' standardised differences by covariate, before and after.
- ``numbers``: Numbers and labels as the pages of reports write them.
- ``page``: A release as a page for people.
- ``plots``: Write tables as CSV and figures as SVG in one house style.
- ``pooled_protocol``: The context of the page of a protocol over several sites, beside the release itself.
- ``pooled_times``: The context of the page of a study of times over several sites, beside the release itself.
- ``protocol``: The context of the page of a protocol, beside the release itself.
- ``series``: A series as a page: a forest plot over time for each question.
- ``times``: Curves of a study of times, as a page draws them.
- ``guidelines/``: Reporting guidelines, filled in as far as documents know; the rest is marked for people.
- ``panel/``: The panel that a run ends with: answer, limits and cost, in at most twelve short lines.
"""

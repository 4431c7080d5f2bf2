"""A release as a page for people.

- ``burndown``: The burn-down of a dataset's accounts as a page and as a figure: what the ledger says, in the style of a
  report.
- ``desk``: The owner's desk as pages: self-contained HTML that refer to nothing but each other.
- ``details``: Rows of a report's table of details, in the field's words: what was released beside the answer.
- ``estimand``: The estimand in the five attributes of ICH E9(R1), from what the study declares.
- ``figures``: Positions in the figures of a report, in percent of the figure's width, so that text keeps its size.
- ``flow``: The flow of units through a study, after CONSORT: public numbers and released ones, never another count.
- ``love``: Love plots: the arms' standardised differences in each covariate before and after an adjustment.
- ``numbers``: Numbers and labels as the pages of reports write them.
- ``page``: A release as a page for people: self-contained HTML, no network, nothing that is not in the release.
- ``plots``: Write tables as CSV and figures as SVG in one house style.
- ``pooled_protocol``: The context of the page of a protocol over several sites, beside the release itself.
- ``pooled_times``: The context of the page of a study of times over several sites, beside the release itself.
- ``protocol``: The context of the page of a protocol, beside the release itself: forest plots, Love plots, gates.
- ``series``: A series as a page: a forest plot over time for each question.
- ``times``: Curves of a study of times, as a page draws them: steps with bands, areas of cumulative incidence, people
  at risk.
- ``guidelines/``: Reporting guidelines, filled in as far as study, contract and release know; the rest is marked for
  people.
- ``panel/``: The panel that a run ends with: answer, adjustment, limits, cost, in at most twelve short lines.
"""

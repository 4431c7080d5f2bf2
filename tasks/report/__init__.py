"""A release as a page for people.

- ``burndown``: The burn-down of a dataset's accounts and the owner's desk, as pages and figures.
- ``details``: Fill the table of details, the estimand's attributes, and reporting checklists.
- ``facts``: State facts of a study, its flow of units and its settings, for guidelines and details.
- ``figures``: Draw figures in one house style, and place them in reports.
- ``numbers``: Numbers and labels as the pages of reports write them.
- ``page``: A release, a plan or a series as a page for people.
- ``panel``: Write the panel of a release of any kind, for a terminal and as plain text.
- ``robustness``: Say how strong an unmeasured confounder would have to be, beside known covariates.
- ``table``: Answers of one site or of several, for their page and as tables.
- ``times``: Draw curves of times for a page: steps with bands, cumulative incidence, people at risk.
"""

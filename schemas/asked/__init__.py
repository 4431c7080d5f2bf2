"""Models of the study file that an analyst writes, which the owner's contract completes.

- ``asks_for``: Tell whether a study in full is what a study file asks for, by what the file itself says.
- ``auto``: The automatic estimator, and what it may choose from.
- ``columns``: Ask for columns by name: covariates, outcomes, times to an event, subgroups and arms.
- ``columns_in_full``: Complete one column of a study by the contract of its data.
- ``formula``: Read the terms of a study, in Wilkinson's notation, as facts.
- ``resolve``: A study file and the owner's contract -> one study in full, which is all that stages see.
- ``study_file``: study.yaml: what the analyst asks.
"""

"""Models of the study file that an analyst writes, which the owner's contract completes.

- ``asks_for``: Tell whether a study in full is what a study file asks for, by what the file itself says.
- ``columns``: Ask for columns by name: covariates, outcomes, times to an event, subgroups and arms.
- ``columns_in_full``: Complete one column of a study by the contract of its data.
- ``resolve``: A study file and the owner's contract -> one study in full, which is all that stages see.
- ``shorthands``: Complete shorthands of a study file: an automatic estimator, a protocol of one question.
- ``study_file``: study.yaml: what the analyst asks.
"""

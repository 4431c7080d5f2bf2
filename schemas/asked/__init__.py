"""Models of the study file that an analyst writes, which the owner's contract completes.

- ``columns``: Ask for columns by name: covariates, outcomes, times to an event, subgroups and arms.
- ``compare``: Tell whether a study in full is what a study file asks for, by what the file itself says.
- ``formula``: Read the terms of a study, in Wilkinson's notation, as facts.
- ``resolve``: Complete a study file by the owner's contract: one study, which is all that stages see.
- ``study_file``: study.yaml: what the analyst asks.
"""

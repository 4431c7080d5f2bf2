"""What the analyst asks: the study file, and how the owner's contract completes it to a study.

- ``auto``: ``estimator: {name: auto}``: a study file that leaves the estimator to public facts.
- ``eligible``: ``where:`` of a study file: comparisons of declared columns with values, and the same in full by the
  contract.
- ``numbers``: Which numbers a file may declare. One rule, so that no scale derived from them is infinite, NaN or
  denormal.
- ``one_question``: A plain study that asks what only a protocol answers becomes the protocol of one question.
- ``resolve``: A study file and the owner's contract -> one study in full, which is all that stages see.
- ``scale``: On which scale a number is read: as it is, or by its logarithm or square root, after clipping to the
  declared range.
- ``study_file``: study.yaml: what the analyst asks. Columns by name; what they hold is the owner's contract's to say.
"""

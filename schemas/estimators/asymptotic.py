"""What a release of guarantee ``asymptotic`` must say of itself (Schröder, Hartenstein and Feuerriegel 2025)."""

from __future__ import annotations

# The headline of such a release.
NO_GUARANTEE = (
    "No privacy guarantee: it holds in the limit of many units only, and exact numbers of the data are printed."
)
# Read after "Not protected: ".
CAVEATS = (
    "anybody, by a proof at this sample size: the guarantee is asymptotic, since it rests on Avella-Medina's bound on "
    "the smooth sensitivity and on the paper's Lemma 4.2, which hold for large n",
    "anybody beyond what an optimiser saw: the suprema that scale the noise were searched from 10 starts and are not "
    "certified",
    "what the width of the interval tells: it comes from suprema over nuisance models and an estimate that carry no "
    "noise",
)

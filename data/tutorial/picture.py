"""The picture of README's first screen: what the tutorial's run says beside the truth and the plain difference.

    causalveil init data/tutorial/clinic.csv --out clinic --data-class synthetic --unit "Patient no." \
        --treatment Coaching --outcome "Sick days"
    uv run python data/tutorial/picture.py clinic/study.yaml docs/figures/first-hour.svg
"""

from __future__ import annotations

import sys
import tempfile

import matplotlib as mpl
from prepare import TRUTH, rows

import causalveil as cv

mpl.use("svg")
mpl.rcParams |= {"svg.hashsalt": "first-hour", "font.size": 11}

import matplotlib.pyplot as plt  # noqa: E402

SEEDS = (1, 2, 3)
ALT = "The plain difference of means, three private answers with their intervals, and the truth"


def plain_difference() -> float:
    """The difference of the arms' means, without adjustment and without privacy."""
    days: dict[bool, list[float]] = {True: [], False: []}
    for row in rows():
        if row[9]:
            days[row[8].strip().lower() in ("yes", "y", "ja")].append(float(row[9].replace(",", ".")))
    return sum(days[True]) / len(days[True]) - sum(days[False]) / len(days[False])


def draw(study: str, target: str) -> None:
    """Three seeds of the private answer, the plain difference, and the truth."""
    figure, axes = plt.subplots(figsize=(7.5, 2.6))
    axes.axvline(TRUTH, color="#2a7f3f", linewidth=2)
    axes.text(TRUTH, 3.75, "true effect", color="#2a7f3f", ha="center", va="bottom")
    axes.plot(plain_difference(), 3, "X", color="#b03030", markersize=10)
    for place, seed in enumerate(SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            release = cv.run(study, engine="direct", simulate=seed, out=folder).release
        if not isinstance(release, cv.EffectRelease):
            raise SystemExit("the study asks for no effect")
        low, high = release.interval.lower, release.interval.upper
        axes.plot([low, high], [2 - place] * 2, color="#1f4e99", linewidth=3)
        axes.plot(release.estimate, 2 - place, "o", color="#1f4e99", markersize=8)
    labels = ["difference of means", *(f"causalveil, epsilon 1, seed {seed}" for seed in SEEDS)]
    axes.set_yticks([3, 2, 1, 0], labels)
    axes.set(ylim=(-0.6, 3.7), xlabel="effect of coaching on sick days, with 95% intervals")
    axes.axvline(0, color="#999999", linewidth=0.8, linestyle=":")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None, "Description": ALT})


if __name__ == "__main__":
    draw(sys.argv[1], sys.argv[2])

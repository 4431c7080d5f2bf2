"""The tutorial's file: 4,000 patients who never were, written down the way offices do.

    uv run python data/tutorial/prepare.py      # writes clinic.csv anew, the same bytes

Older patients, smokers and those with more sick days the year before are coached more often. Coaching saves TRUTH days.
"""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

PATIENTS = 4000
TRUTH = -4.0
HEADER = ["Patient no.", "Visit", "Age", "Sex", "Smoker", "District", "Income", "Sick days before", "Coaching", "Sick days", "Remarks"]  # fmt: skip # noqa: E501
HABITS = {
    True: ["yes", "Yes", "YES", "y", "ja"],
    False: ["no", "No", "NO", "n", "nein "],
}
DATES = ["%Y-%m-%d", "%d.%m.%Y", "%d %B %Y"]


def rows(seed: int = 7) -> list[list[str]]:
    """All lines of the file but the header."""
    draw = random.Random(seed)
    return [_patient(number, draw) for number in range(PATIENTS)]


def _patient(number: int, draw: random.Random) -> list[str]:
    from datetime import date, timedelta

    age, smoker, before = draw.randint(18, 79), draw.random() < 0.3, draw.uniform(0, 40)
    logit = -1.2 + 0.02 * (age - 48) + 0.5 * smoker + 0.05 * (before - 20)
    coached = draw.random() < 1 / (1 + math.exp(-logit))
    days = 14 + 0.1 * (age - 48) + 3 * smoker + 0.35 * (before - 20) + TRUTH * coached + draw.gauss(0, 4)
    seen = date(2025, 1, 2) + timedelta(days=draw.randrange(360))
    income = draw.uniform(18_000, 95_000)
    return [
        f"K-{number:05d}",
        seen.strftime(draw.choice(DATES)),
        "unknown" if draw.random() < 0.02 else str(age),
        draw.choice(["F", "female", "Female"] if draw.random() < 0.5 else ["M", "male", "Male "]),
        draw.choice(HABITS[smoker]),
        draw.choice(["Nord", "nord", "Süd", "SÜD", "Ost", "West"]),
        "n/a" if draw.random() < 0.05 else f"€ {income:,.2f}".translate(str.maketrans(",.", ".,")),
        _comma(before),
        draw.choice(HABITS[coached]),
        "" if draw.random() < 0.01 else _comma(min(max(days, 0), 60)),
        draw.choice(["", "", "came; late", 'says "fine"', f"see file {number}"]),
    ]


def _comma(value: float) -> str:
    return f"{value:.1f}".replace(".", ",")


if __name__ == "__main__":
    path = Path(__file__).with_name("clinic.csv")
    with path.open("w", encoding="cp1252", newline="") as file:
        file.write("Clinic register;;;;;;;;;;\r\nexported 2026-01-05;;;;;;;;;;\r\n\r\n")
        writer = csv.writer(file, delimiter=";")
        writer.writerow(HEADER)
        writer.writerows(rows())
    print(f"wrote {path}")

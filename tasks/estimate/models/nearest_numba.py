"""The inner loops of matching, compiled by numba at first use and kept on disk.

Import it inside functions only.

Candidates stand by ascending score. From a query's score one walks up and down; ``up_next`` and ``down_next`` are
union-find forests over places, in which the root of a place is the next candidate that is not exhausted. Places of
``down_next`` are shifted by one: 0 is its end. Equal scores go by the unit's place in the traversal in both
directions, so ``mirror`` reads a run of them backwards for the walk down.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from causalveil.tasks.machine.arrays import BoolArray, FloatArray, Int32Array


def _root(forest: Int32Array, place: int) -> int:
    """Return the next place, from ``place`` on, that is not exhausted, and halve the path to it."""
    while forest[place] != place:
        forest[place] = forest[forest[place]]
        place = forest[place]
    return place


def _starts(queries: Int32Array, candidates: Int32Array, scores: FloatArray, starts: Int32Array) -> None:
    """Count for each query the candidates below its score; both by ascending score."""
    place = 0
    for query in queries:
        while place < len(candidates) and scores[candidates[place]] < scores[query]:
            place += 1
        starts[query] = place


def _mirrored(sorted_scores: FloatArray) -> Int32Array:
    """Return each candidate's place after runs of equal scores are reversed; its own inverse."""
    count = len(sorted_scores)
    mirror = np.empty(count, dtype=np.int32)
    first = 0
    while first < count:
        last = first
        while last + 1 < count and sorted_scores[last + 1] == sorted_scores[first]:
            last += 1
        for place in range(first, last + 1):
            mirror[place] = first + last - place
        first = last + 1
    return mirror


def _match(
    queries: Int32Array,
    starts: Int32Array,
    scores: FloatArray,
    candidates: Int32Array,
    ratio: int,
    cap: int,
    caliper: float,
    uses: Int32Array,
    matched: BoolArray,
    neighbours: Int32Array,
) -> bool:
    """Give each query in turn its ``ratio`` nearest candidates that are not exhausted.

    Return False if a query lacks them.

    Args:
        queries: shape (queries,), in the order of traversal.
        starts: shape (n,), from ``_starts``.
        scores: shape (n,).
        candidates: shape (candidates,), by ascending score, equal scores by place in the traversal.
        ratio: N.
        cap: uses after which a candidate is exhausted.
        caliper: a query whose N-th neighbour would be further away is passed over; infinite: none.
        uses: shape (n,), counted up.
        matched: shape (n,), set.
        neighbours: shape (n, N) or (0, N): then they are not kept.
    """
    count = len(candidates)
    sorted_scores = scores[candidates]
    mirror = _mirrored_compiled(sorted_scores)
    # Counted by place, so that the counters of one query are near each other in memory.
    used = np.zeros(count, dtype=np.int32)
    up_next = np.arange(count + 1).astype(np.int32)
    down_next = up_next.copy()
    taken = np.empty(ratio, dtype=np.int32)
    complete = True
    for query in queries:
        score = scores[query]
        up = _root_compiled(up_next, starts[query])
        down = _root_compiled(down_next, starts[query])
        filled = 0
        while filled < ratio and (up < count or down > 0):
            if up == count:
                choose_up = False
            elif down == 0:
                choose_up = True
            else:
                above, below = sorted_scores[up] - score, score - sorted_scores[down - 1]
                choose_up = above < below or (above == below and candidates[up] < candidates[mirror[down - 1]])
            if choose_up:
                taken[filled] = up
                up = _root_compiled(up_next, up + 1)
            else:
                taken[filled] = mirror[down - 1]
                down = _root_compiled(down_next, down - 1)
            filled += 1
        if filled < ratio and caliper == np.inf:
            complete = False
            break
        # Nearest first, so the last is the furthest.
        if filled < ratio or abs(sorted_scores[taken[ratio - 1]] - score) > caliper:
            continue
        matched[query] = True
        for rank in range(ratio):
            place = taken[rank]
            used[place] += 1
            if used[place] == cap:
                up_next[place] = place + 1
                down_next[mirror[place] + 1] = mirror[place]
            if len(neighbours) > 0:
                neighbours[query, rank] = candidates[place]
    for place in range(count):
        uses[candidates[place]] = used[place]
    return complete


_root_compiled = njit(cache=True)(_root)
_mirrored_compiled = njit(cache=True)(_mirrored)
starts = njit(cache=True)(_starts)
match = njit(cache=True)(_match)

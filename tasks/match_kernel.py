"""The inner loops of matching, compiled by numba at first use and kept on disk. Import it inside functions only.

Candidates stand in two orders: by ascending and by descending score, equal scores by the unit's place in the
traversal in both. From a query's score one walks up the first and up the second; ``*_next`` are union-find forests
over the places of each: the root of a place is the next candidate there that is not exhausted.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tasks.arrays import BoolArray, FloatArray, Int32Array


def _root(forest: Int32Array, place: int) -> int:
    """The next place that is not exhausted, ``place`` itself perhaps; halves the path on the way."""
    while forest[place] != place:
        forest[place] = forest[forest[place]]
        place = forest[place]
    return place


def _starts(queries: Int32Array, candidates: Int32Array, scores: FloatArray, starts: Int32Array) -> None:
    """For each query the number of candidates below its score; both given by ascending score."""
    place = 0
    for query in queries:
        while place < len(candidates) and scores[candidates[place]] < scores[query]:
            place += 1
        starts[query] = place


def _other_order(candidates: Int32Array, scores: FloatArray) -> Int32Array:
    """Where the candidate at each place of the ascending order stands in the descending one."""
    count = len(candidates)
    other = np.empty(count, dtype=np.int32)
    first = 0
    while first < count:
        last = first
        while last + 1 < count and scores[candidates[last + 1]] == scores[candidates[first]]:
            last += 1
        for place in range(first, last + 1):
            other[place] = count - 1 - last + (place - first)
        first = last + 1
    return other


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
    """Give each query in turn its ``ratio`` nearest candidates that are not exhausted; False if one lacks them.

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
    other = _other_order_compiled(candidates, scores)
    # In the descending order, back to the ascending one: the map is its own kind of inverse.
    back = np.empty(count, dtype=np.int32)
    sorted_scores = np.empty(count)
    for place in range(count):
        back[other[place]] = place
        sorted_scores[place] = scores[candidates[place]]
    up_next = np.arange(count + 1).astype(np.int32)
    down_next = up_next.copy()
    taken = np.empty(ratio, dtype=np.int32)
    for query in queries:
        score = scores[query]
        up = _root_compiled(up_next, starts[query])
        down = _root_compiled(down_next, count - starts[query])
        for rank in range(ratio):
            if up >= count and down >= count:
                if caliper < np.inf:
                    taken[ratio - 1] = -1
                    break
                return False
            if up >= count:
                choose_up = False
            elif down >= count:
                choose_up = True
            else:
                above = sorted_scores[up] - score
                below = score - sorted_scores[back[down]]
                choose_up = above < below or (above == below and candidates[up] < candidates[back[down]])
            if choose_up:
                taken[rank] = up
                up = _root_compiled(up_next, up + 1)
            else:
                taken[rank] = back[down]
                down = _root_compiled(down_next, down + 1)
        # Nearest first, so the last is the furthest.
        last = taken[ratio - 1]
        if last < 0 or abs(sorted_scores[last] - score) > caliper:
            continue
        matched[query] = True
        for rank in range(ratio):
            place = taken[rank]
            candidate = candidates[place]
            uses[candidate] += 1
            if uses[candidate] >= cap:
                up_next[place] = place + 1
                down_next[other[place]] = other[place] + 1
            if len(neighbours) > 0:
                neighbours[query, rank] = candidate
    return True


_root_compiled = njit(cache=True)(_root)
_other_order_compiled = njit(cache=True)(_other_order)
starts = njit(cache=True)(_starts)
match = njit(cache=True)(_match)

"""What to say of a key that a document may not have: a key with a like name, or where it belongs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Tag

# A model, and the tag by which a union knows it.
Branch = tuple[type[BaseModel], str | None]


def hint(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """The end of the sentence "unknown key '...'".

    Args:
        model: of the whole document.
        location: pydantic's, which names branches of unions too; the unknown key is the last.
    """
    name = str(location[-1])
    here = sorted({key for one in _at(model, location[:-1]) for key in one.model_fields} - {name})
    close = difflib.get_close_matches(name, here, n=1, cutoff=0.6)
    # It is no help to be sent where one is: below a mapping, or in another branch of a union.
    above = {parts for parts in _parents(model).get(name, set()) if not parts or tuple(location[: len(parts)]) != parts}
    above -= {tuple(location[:-1])}
    if above and (not close or difflib.SequenceMatcher(None, name, close[0]).ratio() < 0.8):
        # Of several places the one that is nearest to the top is meant most often.
        place = ".".join(min((len(parts), parts) for parts in above)[1])
        return f"; it belongs below '{place}'" if place else "; it belongs at the top of the document"
    if close:
        return f", did you mean '{close[0]}'?"
    known = _parents(model)
    every = [] if name in known else difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f", did you mean '{every[0]}'?" if every else f" (known keys: {', '.join(here)})"


def _at(model: type[BaseModel], location: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that may stand at a place."""
    found: list[Branch] = [(model, None)]
    for part in location:
        fields = [one.model_fields[part] for one, _ in found if isinstance(part, str) and part in one.model_fields]
        if fields:
            found = [branch for field in fields for branch in _branches(field.annotation)]
        else:
            # A branch of a union, by its name; else the key of a mapping, below which the same models stand.
            found = [branch for branch in found if _is_named(branch, part)] or found
    return [one for one, _ in found]


def _is_named(branch: Branch, name: str | int) -> bool:
    model, tag = branch
    return name == tag or any(
        get_origin(field.annotation) is Literal and name in get_args(field.annotation)
        for field in model.model_fields.values()
    )


def _parents(
    model: type[BaseModel], place: tuple[str, ...] = (), seen: frozenset[type] = frozenset()
) -> dict[str, set[tuple[str, ...]]]:
    """Every key of a model and of those below it, with the places above it."""
    found: dict[str, set[tuple[str, ...]]] = {}
    if model in seen:
        return found
    for key, field in model.model_fields.items():
        found.setdefault(key, set()).add(place)
        for nested, _ in _branches(field.annotation):
            for name, places in _parents(nested, (*place, key), seen | {model}).items():
                found.setdefault(name, set()).update(places)
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation is made of, such as those of a union's branches."""
    return [model for model, _ in _branches(annotation)]


def _branches(annotation: Any, tag: str | None = None) -> list[Branch]:
    """Return the models of an annotation, with the tags of a union's branches."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, tag)]
    tag = next((one.tag for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Tag)), tag)
    return [branch for part in getattr(annotation, "__args__", ()) for branch in _branches(part, tag)]

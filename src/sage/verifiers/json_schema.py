"""An answer that must be JSON of a given shape. A part of JSON Schema; what is not known of it is refused, not ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sage.verifiers.verifier import Answer, Opinion, VerifierError

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
LIMITS = {
    "minimum": (lambda value, limit: value >= limit, (int, float)),
    "maximum": (lambda value, limit: value <= limit, (int, float)),
    "exclusiveMinimum": (lambda value, limit: value > limit, (int, float)),
    "exclusiveMaximum": (lambda value, limit: value < limit, (int, float)),
    "minLength": (lambda value, limit: len(value) >= limit, (str,)),
    "maxLength": (lambda value, limit: len(value) <= limit, (str,)),
    "minItems": (lambda value, limit: len(value) >= limit, (list,)),
    "maxItems": (lambda value, limit: len(value) <= limit, (list,)),
}
NESTED = ("properties", "items", "additionalProperties", "anyOf")
KNOWN = ("type", "enum", "const", "required", *NESTED, *LIMITS, "title", "description", "$schema")


class JsonSchema:
    """Passes an answer that is JSON and fits the schema."""

    def __init__(self, schema: object = None) -> None:
        check_schema(schema, "json_schema.schema")
        self.schema = schema

    def verify(self, answer: Answer) -> Opinion:
        try:
            value = json.loads(answer.text)
        except (ValueError, RecursionError):
            return Opinion("failed", "not JSON")
        problem = next(problems(value, self.schema, "the answer"), None)
        return Opinion("passed", "fits the schema") if problem is None else Opinion("failed", problem)


def check_schema(schema: object, place: str) -> None:
    if isinstance(schema, bool) and place.endswith("additionalProperties"):
        return
    if not isinstance(schema, dict):
        raise VerifierError(f"{place}={schema!r} must be a mapping, such as {{type: object, required: [name]}}")
    for key, value in schema.items():
        if key not in KNOWN:
            raise VerifierError(f"{place}: {key!r} is not understood: known are {', '.join(KNOWN)}")
        inside = f"{place}.{key}"
        if key == "type" and (not isinstance(value, str) or value not in TYPES):
            raise VerifierError(f"{inside}={value!r} must be one of {', '.join(TYPES)}")
        if key in LIMITS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise VerifierError(f"{inside}={value!r} must be a number")
        if key in ("required", "enum", "anyOf") and (not isinstance(value, list) or not value):
            raise VerifierError(f"{inside}={value!r} must be a list with at least one entry")
        if key == "properties" and not isinstance(value, dict):
            raise VerifierError(f"{inside}={value!r} must be a mapping of names to schemas")
        for name, part in parts(key, value):
            check_schema(part, f"{inside}{name}")


def parts(key: str, value: object) -> Iterator[tuple[str, object]]:
    """The schemas within a keyword's value, each with its place in it."""
    if key == "properties" and isinstance(value, dict):
        yield from ((f".{name}", part) for name, part in value.items())
    elif key == "anyOf" and isinstance(value, list):
        yield from ((f"[{number}]", part) for number, part in enumerate(value))
    elif key in NESTED:
        yield "", value


def problems(value: object, schema: object, place: str) -> Iterator[str]:
    """What does not fit; names of keys and places, never the values themselves."""
    if not isinstance(schema, dict):
        return
    wanted = schema.get("type")
    if wanted is not None and not is_of(value, wanted):
        yield f"{place} is no {wanted}"
        return
    if ("enum" in schema and not any(same(value, one) for one in schema["enum"])) or (
        "const" in schema and not same(value, schema["const"])
    ):
        yield f"{place} is none of the allowed values"
    for key, (fits, types) in LIMITS.items():
        if key in schema and isinstance(value, types) and not isinstance(value, bool) and not fits(value, schema[key]):
            yield f"{place} breaks {key}"
    if "anyOf" in schema and all(next(problems(value, one, place), None) for one in schema["anyOf"]):
        yield f"{place} fits nothing of anyOf"
    if isinstance(value, dict):
        yield from problems_of_object(value, schema, place)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from problems(item, schema["items"], f"{place}[{number}]")


def problems_of_object(value: dict, schema: dict, place: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{place} has no {name!r}" for name in schema.get("required", []) if name not in value)
    for name, item in value.items():
        if name in properties:
            yield from problems(item, properties[name], f"{place}.{name}")
        elif others is False:
            yield f"{place} has a key that is not allowed"
        else:
            yield from problems(item, others, f"{place}.*")


def is_of(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[wanted])


def same(value: object, other: object) -> bool:
    """Equal as JSON: 1 is 1.0 but not true, at any depth."""
    return value == other and json.dumps(value).count("true") == json.dumps(other).count("true")

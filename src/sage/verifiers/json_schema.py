"""The verifier of answers that must be JSON of a given shape: JSON Schema 2020-12, checked by the package jsonschema.

A keyword that would not be checked is an error when the schema is read: unknown ones, `format`, references to other
files, and regular expressions, which can take for ever on a text that a model wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from sage.verifiers.verifier import Answer, Opinion, VerifierError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Schemas of schemas: `$dynamicAnchor` makes the dialect ask this one about every schema inside another.
STRICT = {"$schema": DIALECT, "$id": "urn:sage:strict", "$dynamicAnchor": "meta", "$ref": DIALECT} | {
    "unevaluatedProperties": False
}
REFUSED = {
    "pattern": "a regular expression can take for ever on a text that a model wrote",
    "patternProperties": "a regular expression can take for ever on a text that a model wrote",
    "format": "formats are not checked",
    "$dynamicRef": "use $ref",
}


class JsonSchema:
    """A verifier that passes answers which are JSON and fit a schema."""

    def __init__(self, schema: object = None) -> None:
        self.validator = compile_schema(schema, "json_schema.schema")

    def verify(self, answer: Answer) -> Opinion:
        try:
            value = json.loads(answer.text, parse_constant=refuse_constant)
            problem = first_problem(self.validator, value, "the answer")
        except (ValueError, RecursionError):
            return Opinion("failed", "not JSON, or too deep")
        return Opinion("passed", "fits the schema") if problem is None else Opinion("failed", problem)


def refuse_constant(name: str) -> object:
    """Raises a ValueError for NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def compile_schema(schema: object, place: str) -> Draft202012Validator:
    """Returns a validator; raises VerifierError, which names the place, for a schema that is wrong or not checked in full."""
    if not isinstance(schema, dict):
        raise VerifierError(f"{place}={schema!r} must be a mapping, such as {{type: object, required: [name]}}")
    try:
        from jsonschema import Draft202012Validator
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012
    except ModuleNotFoundError as error:
        raise VerifierError(f"{place}: the package {error.name} is not installed: pip install jsonschema") from error
    for inside, key, value in keywords(schema, place):
        if key in REFUSED:
            raise VerifierError(f"{inside}: {key!r} is not understood: {REFUSED[key]}")
        if key == "$ref" and not str(value).startswith("#"):
            raise VerifierError(f"{inside}.$ref={value!r} must begin with '#': no other file is read")
    errors = list(strict_validator().iter_errors(schema))
    if errors:  # the innermost is the cause: schemas around it are wrong because of it
        cause = max(errors, key=lambda error: (len(error.absolute_path), error.validator != "unevaluatedProperties"))
        raise VerifierError(sentence_on_schema(cause, place))
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for inside, key, value in keywords(schema, place):
        if key == "$ref":
            try:
                resolver.lookup(str(value))
            except Unresolvable as error:
                raise VerifierError(
                    f"{inside}.$ref={value!r} leads nowhere: define it, for example under $defs"
                ) from error
    return Draft202012Validator(schema, registry=Registry())  # which retrieves nothing


@lru_cache(maxsize=1)
def strict_validator() -> Draft202012Validator:
    """Returns a validator of schemas, which refuses keywords that JSON Schema does not have."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(STRICT)


def keywords(schema: object, place: str) -> Iterator[tuple[str, str, object]]:
    """Yields (place, key, value) for every key of a schema and of the mappings and lists in it, but not of constants."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from keywords(part, f"{place}[{number}]")
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield place, str(key), value
            if key in ("properties", "$defs", "dependentSchemas") and isinstance(value, dict):
                for name, part in value.items():  # whose keys are names, not keywords
                    yield from keywords(part, f"{place}.{key}.{name}")
            elif key not in ("enum", "const", "default", "examples"):
                yield from keywords(value, f"{place}.{key}")


def sentence_on_schema(error: ValidationError, place: str) -> str:
    """Returns a sentence that names the place in a schema, the value there and the values that are allowed."""
    where = place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    if error.validator == "unevaluatedProperties":
        return f"{where}: {error.message.partition('(')[2].partition(' was')[0] or error.message} is not understood"
    if where.endswith(".type") or error.validator in ("enum", "anyOf"):
        return f"{where}={error.instance!r} must be one of array, boolean, integer, null, number, object, string"
    return f"{where}={error.instance!r} is wrong: {error.message}"


def first_problem(validator: Draft202012Validator, value: object, place: str) -> str | None:
    """Returns a sentence on the first part of a value that does not fit, or None; raises RecursionError for deep values.

    It names keywords, and keys that the schema names: never values, nor other keys, which a model wrote.
    """
    error = next(validator.iter_errors(value), None)
    if error is None:
        return None
    known = {
        name for _, key, part in keywords(validator.schema, "") if key == "properties" for name in as_mapping(part)
    }
    where = place
    for part in error.absolute_path:
        where += f"[{part}]" if isinstance(part, int) else f".{part if part in known else '*'}"
    wanted = error.validator_value
    match error.validator:
        case "type":
            return f"{where} is no {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
        case "enum" | "const":
            return f"{where} is none of the allowed values"
        case "required":
            missing = next(name for name in wanted if name not in error.instance)
            return f"{where} has no {missing!r}"
        case "additionalProperties" | "unevaluatedProperties":
            return f"{where} has a key that is not allowed"
        case "anyOf" | "oneOf" | "allOf" | "not":
            return f"{where} fits nothing of {error.validator}"
        case _:
            return f"{where} breaks {error.validator}"


def as_mapping(value: object) -> dict:
    return value if isinstance(value, dict) else {}

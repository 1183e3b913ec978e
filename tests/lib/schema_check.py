"""A small JSON Schema check: the keywords our tools use, and an error for any other."""

import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"type", "properties", "required", "additionalProperties", "items", "enum", "description",
         "minimum", "maximum", "minLength", "maxLength", "maxItems"}


def _is(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def validate(value, schema, at="$"):
    unknown = set(schema) - KNOWN
    if unknown:
        raise AssertionError(f"{at}: keywords {sorted(unknown)}")
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(_is(value, n) for n in names):
        raise AssertionError(f"{at}: {value!r} is not {names}")
    if "enum" in schema and value not in schema["enum"]:
        raise AssertionError(f"{at}: {value!r} is not one of {schema['enum']}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        missing = set(schema.get("required", [])) - set(value)
        if missing:
            raise AssertionError(f"{at}: {sorted(missing)} missing")
        for key, item in value.items():
            if key in properties:
                validate(item, properties[key], f"{at}.{key}")
            elif schema.get("additionalProperties") is False:
                raise AssertionError(f"{at}: {key} is not allowed")
    if isinstance(value, list):
        for i, item in enumerate(value):
            validate(item, schema["items"], f"{at}[{i}]")


def strict(schema, at="$"):
    """What the strictest clients want of a schema: items on arrays, a description on everything
    below the root, no keyword beyond the plain ones, names that are plain words."""
    unknown = set(schema) - KNOWN
    if unknown:
        raise AssertionError(f"{at}: keywords {sorted(unknown)}")
    names = schema.get("type")
    if names is None:
        raise AssertionError(f"{at}: no type")
    names = [names] if isinstance(names, str) else names
    if "array" in names:
        if "items" not in schema:
            raise AssertionError(f"{at}: array without items")
        if "object" in (schema["items"].get("type") or ""):
            strict(schema["items"], at + "[]")
    if not set(schema.get("required", [])) <= set(schema.get("properties", {})):
        raise AssertionError(f"{at}: required names no property")
    for name, item in schema.get("properties", {}).items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise AssertionError(f"{at}: property {name!r}")
        if not item.get("description"):
            raise AssertionError(f"{at}.{name}: no description")
        strict(item, f"{at}.{name}")

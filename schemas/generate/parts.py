"""Building blocks of the schemas. Each field has a description; null means absent."""

from typing import Any

Schema = dict[str, Any]

INT32 = 2**31 - 1
INT64 = 2**63 - 1


def text(description: str, **rules: Any) -> Schema:
    return {"description": description, "type": ["string", "null"], **rules}


def whole(description: str, **rules: Any) -> Schema:
    return {"description": description, "type": ["integer", "null"], **rules}


def flag(description: str) -> Schema:
    return {"description": description, "type": ["boolean", "null"], "default": False}


def choice(description: str, *values: str, default: str) -> Schema:
    return text(description, enum=[*values, None], default=default)


def thing(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    schema = {"description": description, "type": ["object", "null"], "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def listing(description: str, item: Schema) -> Schema:
    return {"description": description, "type": ["array", "null"], "items": mandatory(item)}


def mandatory(schema: Schema) -> Schema:
    """The schema without null."""
    kinds = [kind for kind in kinds_of(schema) if kind != "null"]
    return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds} if kinds else schema


def kinds_of(schema: Schema) -> list[str]:
    """The types that a value may have."""
    kinds = schema.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]

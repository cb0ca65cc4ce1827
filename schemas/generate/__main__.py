"""Write the JSON schemas: ``python -m schemas.generate``."""

from schemas.generate import core_schema, framework_schema

framework_schema.SCHEMA_FILE.write_text(framework_schema.schema_text())
core_schema.SCHEMA_FILE.write_text(core_schema.schema_text())

"""Reads a dashboard into the types that Grafana generates from its schema, and says what they do not have or have otherwise."""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def differences(ours, theirs, path):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name in theirs:
                yield from differences(value, theirs[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}: the schema has no such field"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs)):
            yield from differences(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} was read as {theirs!r}"


register_default_plugins()
with open(sys.argv[1], encoding="utf-8") as file:
    dashboard = json.load(file)
read = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
found = list(differences(dashboard, read, "dashboard"))
print("\n".join(found) or f"{len(dashboard['panels'])} panels are as the schema has them")
sys.exit(1 if found else 0)

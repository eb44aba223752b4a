"""Manifests (`reprise.manifest/1`, data/programs/README.md) from what an exporter knows. Standard library only."""

import json


def build(name, program, ranks, parameters, outputs, dataset):
    """The manifest as a dictionary.

    `parameters`: in order, {name, role} and of state {per_rank}, of batch {steps or None}; `outputs`: {role} and of state
    {parameter}, of others {name}; `dataset`: {"file", "steps"} or None."""
    listed, fields = [], []
    for index, parameter in enumerate(parameters):
        entry = {"index": index, "name": parameter["name"], "role": parameter["role"]}
        if parameter["role"] == "state":
            entry["init"] = {"kind": "tensor", "file": "state.safetensors", "name": parameter["name"]}
            if parameter.get("per_rank"):
                entry["init"]["per_rank"] = True
        else:
            entry["field"] = parameter["name"]
            field = {"name": parameter["name"], "tensor": parameter["name"]}
            if parameter.get("steps"):
                field["steps"] = parameter["steps"]
            fields.append(field)
        listed.append(entry)
    manifest = {"schema": "reprise.manifest/1", "name": name, "program": program, "ranks": ranks,
                "parameters": listed, "outputs": [{"index": i, **output} for i, output in enumerate(outputs)]}
    if fields:
        manifest["dataset"] = {"kind": "tensors", **dataset, "fields": fields}
    return manifest


def dumps(manifest):
    """JSON with one parameter, output or field a line."""
    lines = []
    for key, value in manifest.items():
        if isinstance(value, list):
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f"{json.dumps(key)}: [\n  {items}]" if value else f"{json.dumps(key)}: []")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n ".join(lines) + "}\n"

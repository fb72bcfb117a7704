"""The JSON Schemas of what programs read; run as a program, it writes them into the docs.

The log's follows from the types that the log is read with. The reports' are written down here,
because reports are plain values on purpose; the tests hold them against reports.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from bisectorch import model
from bisectorch.report import jsonreport, record, versus

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
MAYBE: Schema = {"type": ["number", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
SHARE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
COMMIT: Schema = {"type": "string", "pattern": "^[0-9a-f]{40}([0-9a-f]{24})?$"}
INSTANT: Schema = {"type": ["string", "null"], "format": "date-time"}
INTERVAL: Schema = {"type": "array", "items": MAYBE, "minItems": 2, "maxItems": 2}


def record_of(**fields: Schema) -> Schema:
    """An object that has all of these fields; later versions may add others."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def list_of(items: Schema, **limits: int) -> Schema:
    """An array of these."""
    return {"type": "array", "items": items, **limits}


def maybe(schema: Schema) -> Schema:
    """This or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*names: str) -> Schema:
    """One of these texts."""
    return {"enum": list(names)}


def const(value: object) -> Schema:
    """This value and no other."""
    return {"const": value}


TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
LEVEL = record_of(level=MAYBE, runs=list_of(MAYBE))
SIDE = record_of(commit=COMMIT, level=MAYBE, runs=list_of(MAYBE))
COST = record_of(builds=COUNT, runs=COUNT, seconds=MAYBE)
BROKEN = one_of(*(o.value for o in model.Outcome if o is not model.Outcome.MEASURED))
SESSION: Schema = {
    "session": TEXT,
    "created": INSTANT,
    "finished": FLAG,
    "smallest_step": NUMBER,
    "confidence": SHARE,
    "machine": TEXTS,
    "environment": TEXT,
    "cost": COST,
}
COMMIT_TOLD = record_of(commit=COMMIT, subject=TEXT, author=TEXT, date=INSTANT)
WORKLOAD: Schema = {"benchmark": TEXT, "unit": TEXT, "kind": TEXT, "benchmark_version": TEXT}


def report() -> Schema:
    """What ``jsonreport.report`` makes."""
    defined = _of_types(model.Explanation)
    explanation = defined["Explanation"]
    for name in ("step_seconds", "explained_seconds", "unexplained_seconds", "explained"):
        explanation["properties"][name] = NUMBER
        explanation["required"].append(name)
    culprit = record_of(
        kind=one_of("regression", "improvement"),
        commit=COMMIT,
        subject=TEXT,
        author=TEXT,
        date=INSTANT,
        merge=maybe(COMMIT),
        ratio=MAYBE,
        ratio_interval=INTERVAL,
        delta=MAYBE,
        delta_interval=INTERVAL,
        unit=TEXT,
        probability=SHARE,
        credible_set=list_of(COMMIT, minItems=1),
        parent=SIDE,
        child=SIDE,
        command=TEXT,
        instructions=maybe(record_of(parent=MAYBE, child=MAYBE, ratio=MAYBE)),
        explanation=maybe({"$ref": "#/$defs/Explanation"}),
    )
    workload = record_of(
        **WORKLOAD,
        verdict=one_of(*(verdict.value for verdict in model.Verdict)),
        summary=TEXT,
        limit=MAYBE,
        needed=TEXT,
        noise=maybe(record_of(within=MAYBE, between=MAYBE, build=MAYBE)),
        culprits=list_of(culprit),
        table=list_of(record_of(label=TEXT, commit=COMMIT, value=MAYBE)),
        measured=list_of(
            record_of(
                commit=COMMIT,
                position=COUNT,
                level=MAYBE,
                level_interval=INTERVAL,
                runs=list_of(MAYBE, minItems=1),
            )
        ),
        broken=list_of(record_of(commit=COMMIT, outcome=BROKEN, reason=TEXT)),
    )
    state = record_of(
        block=TEXT,
        at=INSTANT,
        load=MAYBE,
        mhz=MAYBE,
        celsius=MAYBE,
    )
    whole = record_of(
        version=const(jsonreport.VERSION),
        range=record_of(spec=TEXT, **{"from": COMMIT_TOLD, "to": COMMIT_TOLD}, commits=COUNT),
        conditions=TEXTS,
        states=list_of(state),
        workloads=list_of(workload),
        **SESSION,
    )
    title = "The report of a bisection: bisectorch bisect --format json"
    return {"$schema": DIALECT, "title": title, **whole, "$defs": defined}


def comparison() -> Schema:
    """What ``versus.as_values`` makes."""
    side = record_of(commit=COMMIT, name=TEXT, subject=TEXT)
    workload = record_of(
        **WORKLOAD,
        verdict=one_of("different", "same", "unknown"),
        relevant=FLAG,
        worse=FLAG,
        ratio=MAYBE,
        ratio_interval=maybe(INTERVAL),
        p_value=SHARE,
        old=LEVEL,
        new=LEVEL,
        reason=TEXT,
    )
    whole = record_of(
        version=const(versus.VERSION),
        kind=const("versus"),
        old=side,
        new=side,
        false_rate=SHARE,
        summary=TEXT,
        got_worse=FLAG,
        geometric_mean=MAYBE,
        geometric_mean_interval=maybe(INTERVAL),
        workloads=list_of(workload),
        **SESSION,
    )
    title = "The comparison of two commits: bisectorch versus --format json"
    return {"$schema": DIALECT, "title": title, **whole}


def log() -> Schema:
    """One line of a session log."""
    defined = _of_types(record._Head, record._Line)
    defined["FirstLine"] = defined.pop("_Head") | {"title": "FirstLine"}
    kinds = defined.pop("_Line")["properties"]
    line = {
        "title": "EventLine",
        "description": "Any other line: exactly one event, under its kind.",
        "type": "object",
        "properties": {name: kind["anyOf"][0] for name, kind in kinds.items()},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    return {
        "$schema": DIALECT,
        "title": "A line of a session log: <sessions_dir>/<session>.jsonl",
        "anyOf": [{"$ref": "#/$defs/FirstLine"}, {"$ref": "#/$defs/EventLine"}],
        "$defs": {**defined, "EventLine": line},
    }


def _of_types(*types: type) -> dict[str, Schema]:
    """The schemas of these types and all they are made of, by name."""
    _, defined = msgspec.json.schema_components(types)
    for schema in defined.values():
        # The docstrings are for readers of the code; the page beside the schemas says it in full.
        if "description" in schema:
            schema["description"] = schema["description"].split("\n\n")[0].replace("``", "")
    return defined


ALL = {"report.json": report, "versus.json": comparison, "session-log.json": log}


def text(name: str) -> str:
    """A schema as its file holds it."""
    return json.dumps(ALL[name](), indent=1) + "\n"


if __name__ == "__main__":
    for each in ALL:
        (SCHEMAS / each).write_text(text(each), encoding="utf-8")

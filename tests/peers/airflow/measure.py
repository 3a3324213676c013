"""Imports DAGs as Airflow does, and prints how many calls that takes and what comes of it."""

import json
import runpy
import sys
import warnings

import airflow.sdk
import airflow.sdk.exceptions
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

warnings.simplefilter("ignore")


def counted(function, argument):
    """Calls a function; its result, and the number of calls below it."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        result = function(argument)
    finally:
        sys.setprofile(None)
    return result, calls


measured = []
# The first import loads modules of Airflow, too, which are no part of the count.
for path in [sys.argv[1], *sys.argv[1:]]:
    names, imported = counted(runpy.run_path, path)
    dag = names["dag"]
    written, serialized = counted(DagSerialization.to_dict, dag)
    bag, bagged = counted(DagBag, path)
    measured.append(
        {
            "tasks": len(dag.tasks),
            "import": imported,
            "serialize": serialized,
            "bag": bagged,
            "bytes": len(json.dumps(written)),
            "errors": list(bag.import_errors.values()),
            "dags": list(bag.dags),
            "id": dag.dag_id,
            "roots": [task.task_id for task in dag.roots],
            "leaves": [task.task_id for task in dag.leaves],
            "groups": sorted(dag.task_group_dict),
            "rules": sorted({task.trigger_rule.value for task in dag.tasks}),
            "active": dag.max_active_tasks,
            "order": {
                task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks
            },
        }
    )
print("MEASURED " + json.dumps(measured[1:]))

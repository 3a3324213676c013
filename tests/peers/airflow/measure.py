"""Imports DAGs as Airflow does, and prints how long that takes and what comes of it."""

import json
import runpy
import sys
import time
import warnings

import airflow.sdk
import airflow.sdk.exceptions
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

warnings.simplefilter("ignore")
measured = []
for path in sys.argv[1:]:
    began = time.perf_counter()
    dag = runpy.run_path(path)["dag"]
    imported = time.perf_counter()
    written = DagSerialization.to_dict(dag)
    serialized = time.perf_counter()
    bag = DagBag(path)
    measured.append(
        {
            "tasks": len(dag.tasks),
            "import": imported - began,
            "serialize": serialized - imported,
            "bag": time.perf_counter() - serialized,
            "bytes": len(json.dumps(written)),
            "errors": list(bag.import_errors.values()),
            "dags": list(bag.dags),
            "id": dag.dag_id,
            "roots": [task.task_id for task in dag.roots],
            "leaves": [task.task_id for task in dag.leaves],
            "groups": sorted(dag.task_group_dict),
            "rules": sorted({str(task.trigger_rule) for task in dag.tasks}),
            "active": dag.max_active_tasks,
            "order": {
                task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks
            },
        }
    )
print("MEASURED " + json.dumps(measured))

"""A plan of trueup, carried out by many workers.

Written by `trueup export airflow`; a new plan is a new file. The edges give the order only: whether a step is carried
out is decided by trueup, from what the other workers have published.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, BaseOperator, TaskGroup, Variable
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)

# The plan.

# An error such as a remote that does not answer, another worker that has the part, interrupted, not published: what was
# begun is observed by the next try.
RETRIED = (1, 6, 8, 9)
SKIPPED = 99
# What the begin of the run hands on to its parts.
DIGEST = "plan_digest"
CODE = "code"
NOTHING = "nothing to do"
RETRIES = 5
RETRY_DELAY = timedelta(seconds=int(os.environ.get("TRUEUP_RETRY_DELAY", "120")))
LONGEST_DELAY = timedelta(minutes=15)

# The worker.


def run_of(dag_run: str) -> str:
    """Returns the id of trueup's run: that of Airflow, with no character that a ref of git must not have."""
    digest = hashlib.sha256(f"{DAG_ID}/{dag_run}".encode()).hexdigest()
    return (
        re.sub(r"[^A-Za-z0-9_-]+", "-", f"airflow-{dag_run}")[:80] + "-" + digest[:12]
    )


class Trueup(InCheckout):
    """One call of trueup."""

    def __init__(self, *, words: list[str], **arguments) -> None:
        super().__init__(**arguments)
        self.words = words

    def execute(self, context) -> None:
        run = run_of(context["run_id"])
        words = [run if word == RUN else word for word in self.words]
        if self.task_id != "begin":
            begun = context["ti"].xcom_pull(task_ids="begin", key=DIGEST)
            if begun is None and self.task_id == "end":
                code = context["ti"].xcom_pull(task_ids="begin", key=CODE)
                raise AirflowFailException(f"`trueup run begin` ended with code {code}")
            if begun is None:
                raise AirflowSkipException("the run has not begun")
            if begun == NOTHING:
                return
            words += ["--plan-digest", begun] if words[1] == "part" else []
        with self.checkout() as (folder, lock):
            self.fetch(folder)
            self.forward(folder)
            code = self.call([f"--site={SITE}", *words], folder, lock)
        if self.task_id == "begin":
            context["ti"].xcom_push(key=CODE, value=code)
        said = f"`trueup {' '.join(words)}` ended with code {code}"
        if code == 0:
            if self.task_id == "begin":
                answers = [line for line in self.said if line.startswith("{")]
                begun = json.loads(answers[-1] if answers else "{}").get(DIGEST)
                context["ti"].xcom_push(key=DIGEST, value=begun or NOTHING)
            return
        if code == SKIPPED:
            raise AirflowSkipException(said)
        if code < 0 or code in RETRIED:
            raise AirflowException(said)
        raise AirflowFailException(said)


with DAG(
    DAG_ID,
    description=DESCRIPTION,
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    max_active_tasks=WORKERS,
    tags=["trueup"],
    default_args={
        "retries": RETRIES,
        "retry_delay": RETRY_DELAY,
        "retry_exponential_backoff": True,
        "max_retry_delay": LONGEST_DELAY,
        "trigger_rule": "all_done",
        "do_xcom_push": False,
    },
) as dag:
    begin = Trueup(
        task_id="begin",
        words=[
            "run",
            "begin",
            PLAN,
            "--run",
            RUN,
            "--nodes-per-part",
            str(NODES_PER_PART),
            "--effect",
            EFFECT,
            *BEGIN_WORDS,
            "--format",
            "json",
        ],
        **PLACES.get("begin", {}),
    )
    groups = {
        group: TaskGroup(group, prefix_group_id=False, group_display_name=name)
        for group, name in GROUPS.items()
    }
    tasks: dict[str, Trueup] = {}
    for part, group, place, doc, after in PARTS:
        tasks[part] = Trueup(
            task_id=part,
            task_group=groups.get(group),
            words=["run", "part", RUN, part],
            doc=doc,
            **PLACES.get(place, {}),
        )
        tasks[part].set_upstream([tasks[name] for name in after] or [begin])
    end = Trueup(task_id="end", words=["run", "end", RUN], **PLACES.get("end", {}))
    end.set_upstream([tasks[name] for name in LAST] or [begin])

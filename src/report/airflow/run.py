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
# Seconds that a fetch may take, and between two looks for a free checkout.
FETCH_TIMEOUT = 600
FREE_CHECKOUT_INTERVAL = 2


def setting(name: str, default: str) -> str:
    """Returns a variable of Airflow, else of the environment."""
    return Variable.get(name.lower(), default=None) or os.environ.get(name) or default


def run_of(dag_run: str) -> str:
    """Returns the id of trueup's run: that of Airflow, with no character that a ref of git must not have."""
    digest = hashlib.sha256(f"{DAG_ID}/{dag_run}".encode()).hexdigest()
    return (
        re.sub(r"[^A-Za-z0-9_-]+", "-", f"airflow-{dag_run}")[:80] + "-" + digest[:12]
    )


class Trueup(BaseOperator):
    """One call of trueup, in a checkout that no other task of this machine uses."""

    process: subprocess.Popen[bytes] | None = None
    stopping = False
    answer: str | None = None

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
            code = self.call(words, folder, lock)
        if self.task_id == "begin":
            context["ti"].xcom_push(key=CODE, value=code)
        said = f"`trueup {' '.join(words)}` ended with code {code}"
        if code == 0:
            if self.task_id == "begin":
                begun = json.loads(self.answer or "{}").get(DIGEST)
                context["ti"].xcom_push(key=DIGEST, value=begun or NOTHING)
            return
        if code == SKIPPED:
            raise AirflowSkipException(said)
        if code < 0 or code in RETRIED:
            raise AirflowException(said)
        raise AirflowFailException(said)

    @contextmanager
    def checkout(self) -> Iterator[tuple[str, int]]:
        """Takes the first checkout that is free. Its lock is handed on to trueup, which may outlive this task."""
        folders = setting("TRUEUP_CHECKOUT", DEFAULT_CHECKOUT).split(os.pathsep)
        while not self.stopping:
            for folder in folders:
                lock = os.open(
                    Path(self.git_folder(folder), "trueup-airflow.lock"),
                    os.O_RDWR | os.O_CREAT,
                    0o600,
                )
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                    continue
                try:
                    yield folder, lock
                finally:
                    os.close(lock)
                return
            self.log.info("no checkout is free")
            time.sleep(FREE_CHECKOUT_INTERVAL)
        raise AirflowException("stopped before it was begun")

    def git_folder(self, folder: str) -> str:
        asked = ["git", "-C", folder, "rev-parse", "--absolute-git-dir"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        if found.returncode:
            raise AirflowFailException(
                f"TRUEUP_CHECKOUT: `{folder}` is no checkout: {found.stderr.strip()}"
            )
        return found.stdout.rstrip("\n")

    def fetch(self, folder: str) -> None:
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        asked = ["git", "-C", folder, "fetch", "--quiet"]
        fetched = subprocess.run(
            asked, env=environment, timeout=FETCH_TIMEOUT, check=False
        )
        if fetched.returncode:
            raise AirflowException(
                f"`git fetch` in `{folder}` ended with code {fetched.returncode}"
            )

    def forward(self, folder: str) -> None:
        """Moves the checkout to the tip of its branch: there the site is found, and the begin compares the plan with it."""
        asked = ["git", "-C", folder, "-c", "core.hooksPath=/dev/null"]
        moved = subprocess.run(
            [*asked, "merge", "--ff-only", "--quiet"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if moved.returncode:
            self.log.warning(
                "`git merge --ff-only` in `%s`: %s", folder, moved.stderr.strip()
            )

    def call(self, words: list[str], folder: str, lock: int) -> int:
        program = setting("TRUEUP_PROGRAM", "trueup")
        # In a session of its own, trueup has time to stop when Airflow kills the process group of the task.
        with subprocess.Popen(
            [program, "--color=never", f"--site={SITE}", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
        ) as self.process:
            if self.stopping:
                self.on_kill()
            for line in self.process.stdout or ():
                text = line.decode(errors="replace").rstrip("\n")
                self.answer = text if text.startswith("{") else self.answer
                self.log.info("%s", text)
        return self.process.returncode

    def on_kill(self) -> None:
        """Airflow stops the task: trueup writes down what it has begun, and ends."""
        self.stopping = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)


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

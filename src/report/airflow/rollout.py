"""A revision on its way through the sites of a repository.

Written by `trueup export airflow --rollout`. A run of this DAG begins the rollout at the revision of its first task, or
continues the one that is under way at it, and calls `trueup rollout next` until all sites are proven.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, Variable
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# The plan.

# The worker.


# A stop condition of the rollout holds.
STOPPED = 7
RETRY_DELAY = timedelta(seconds=int(os.environ.get("TRUEUP_RETRY_DELAY", "120")))
# Seconds between two calls of `rollout next`, and those after which the rollout counts as stuck.
INTERVAL = int(os.environ.get("TRUEUP_ROLLOUT_INTERVAL", "300"))
LONGEST = timedelta(days=30)


class Revision(InCheckout):
    """The commit that the sites get."""

    def execute(self, context) -> str:
        with self.checkout() as (folder, _):
            self.fetch(folder)
            return self.revision(folder)


class Next(InCheckout, BaseSensorOperator):
    """Does what may be done now, until nothing is left to do."""

    def poke(self, context) -> bool:
        revision = context["ti"].xcom_pull(task_ids="revision")
        with self.checkout() as (folder, lock):
            self.fetch(folder)
            with self.worktree(folder, revision) as tree:
                return self.next(tree, lock, revision)

    def next(self, tree: str, lock: int, revision: str) -> bool:
        words = ["rollout", "next", ROLLOUT]
        state = self.state(tree, lock)
        if state is not None and state["revision"] != revision:
            if state["next"] not in ("done", "aborted"):
                raise AirflowFailException(
                    f"the rollout is under way at {state['revision']}: its own run continues it"
                )
            words += ["--rev", revision]
        elif state is not None and state["next"] == "done":
            return True
        elif state is not None and state["next"] == "aborted":
            raise AirflowFailException(state["message"])
        code = self.call(words, tree, lock)
        if self.stopping:
            raise AirflowException("stopped")
        if code == STOPPED:
            raise AirflowFailException(self.said[-1] if self.said else "stopped")
        if code < 0:
            raise AirflowException(f"ended by signal {-code}")
        state = self.state(tree, lock)
        if state is None:
            raise AirflowException(f"the rollout was not begun: code {code}")
        return state["next"] == "done"

    def state(self, tree: str, lock: int) -> dict | None:
        """Returns how far the rollout is; nothing where it was not begun."""
        self.is_quiet = True
        code = self.call(["rollout", "status", ROLLOUT, "--format=json"], tree, lock)
        self.is_quiet = False
        text = "\n".join(self.said)
        if code and f"rollout `{ROLLOUT}` was not begun" in text:
            return None
        if code:
            raise AirflowException(text)
        return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]

    @contextmanager
    def worktree(self, folder: str, revision: str) -> Iterator[str]:
        """A worktree of the revision beside the checkout, which stays at the tip of its branch."""
        git = ["git", "-C", folder, "-c", "core.hooksPath=/dev/null", "worktree"]
        with TemporaryDirectory() as parent:
            tree = str(Path(parent, "tree"))
            subprocess.run([*git, "prune"], check=False)
            added = subprocess.run(
                [*git, "add", "--quiet", "--detach", tree, revision],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if added.returncode:
                raise AirflowException(f"`git worktree add`: {added.stderr.strip()}")
            try:
                yield tree
            finally:
                subprocess.run([*git, "remove", "--force", tree], check=False)


with DAG(
    DAG_ID,
    description=DESCRIPTION,
    doc_md=__doc__,
    schedule=SCHEDULE,
    catchup=False,
    max_active_runs=1,
    tags=["trueup"],
    default_args={"retries": 5, "retry_delay": RETRY_DELAY},
) as dag:
    revision = Revision(task_id="revision", **QUEUE)
    following = Next(
        task_id="next",
        mode="reschedule",
        poke_interval=INTERVAL,
        timeout=LONGEST.total_seconds(),
        **POOL,
        **QUEUE,
    )
    revision >> following

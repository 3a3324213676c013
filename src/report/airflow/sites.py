"""The plans of all sites of a repository, and what differs.

Written by `trueup export airflow --all-sites`. Each run lists the sites anew, at one commit; nothing is applied.
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

from airflow.sdk import DAG, BaseOperator, Variable
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# The plan.

# The worker.


# A plan without changes, one with changes, and one with destructive ones.
PLANNED = (0, 2, 3)
RESULTS = "results"
# What lets a run fail beside a site that could not be planned, from the least to the most.
DIFFERENCES = ("drift", "changes")
RETRY_DELAY = timedelta(seconds=int(os.environ.get("TRUEUP_RETRY_DELAY", "120")))
# Seconds that the plan of one site may take.
SITE_TIMEOUT = "1800"
LONGEST_MESSAGE = 500
MOST_NAMED = 50


class ListSites(InCheckout):
    """The sites at one commit, in as many shares as there may be tasks."""

    is_quiet = True

    def execute(self, context) -> list[dict]:
        with self.checkout() as (folder, lock):
            self.fetch(folder)
            self.forward(folder)
            revision = self.revision(folder)
            code = self.call(
                ["sites", "--rev", revision, "--format", "json"], folder, lock
            )
        if code != 0:
            raise AirflowFailException("\n".join(self.said))
        text = "\n".join(self.said)
        listed, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
        names = list(dict.fromkeys(site["site"] for site in listed["sites"]))
        size = -(-len(names) // MOST_SHARES)
        self.log.info(
            "%d sites at %s, %d a task: %s", len(names), revision, size, brief(names)
        )
        return [
            {"revision": revision, "sites": names[at : at + size]}
            for at in range(0, len(names), size)
        ]


class PlanSites(InCheckout):
    """The plans of a share of the sites, one after the other: one that fails keeps none of the others back."""

    def __init__(self, *, share: dict, **arguments) -> None:
        super().__init__(**arguments)
        self.share = share

    @property
    def shown(self) -> str:
        return brief(self.share["sites"])

    def execute(self, context) -> None:
        sites, revision = self.share["sites"], self.share["revision"]
        results: list[dict] = []
        with self.checkout() as (folder, lock):
            self.fetch(folder)
            self.forward(folder)
            for site in sites:
                if self.stopping:
                    raise AirflowException("stopped")
                results.append(self.plan(site, revision, folder, lock))
        context["ti"].xcom_push(key=RESULTS, value=results)
        failed = [result["site"] for result in results if "message" in result]
        if failed:
            raise AirflowFailException(f"no plan of: {', '.join(failed)}")

    def plan(self, site: str, revision: str, folder: str, lock: int) -> dict:
        timeout = float(setting("TRUEUP_SITE_TIMEOUT", SITE_TIMEOUT))
        with TemporaryDirectory() as out:
            file = Path(out, "site.plan")
            words = [f"--site={site}", "plan", "--rev", revision, "--out", str(file)]
            code = self.call([*words, "--detailed-exitcode"], folder, lock, timeout)
            if code in PLANNED:
                summary = json.loads(file.read_text())["summary"]
                kinds = {kind: count for kind, count in summary["changes"].items()}
                return {
                    "site": site,
                    "code": code,
                    "drift": kinds.pop("drift", 0),
                    "changes": sum(kinds.values()),
                    "blocked": sum(summary["blocked"].values()),
                }
        errors = [line for line in self.said if line.startswith("error")]
        message = (errors or self.said or [f"code {code}"])[0]
        if code < 0:
            message = f"ended by signal {-code}, after {timeout:.0f} s at most"
        return {"site": site, "code": code, "message": message[:LONGEST_MESSAGE]}


class Report(BaseOperator):
    """What differs, of all sites; fails where a site has no plan, or differs as `TRUEUP_FAIL_ON` names it."""

    def execute(self, context) -> dict:
        ti = context["ti"]
        shares = ti.xcom_pull(task_ids="sites")
        if shares is None:
            raise AirflowFailException("the sites could not be listed")
        pulled = ti.xcom_pull(task_ids=["plans"], key=RESULTS)
        results = {
            result["site"]: result for share in pulled if share for result in share
        }
        listed = [site for share in shares for site in share["sites"]]
        for site in listed:
            results.setdefault(site, {"site": site, "message": "no result"})
        found = {
            "failed": [site for site in listed if "message" in results[site]],
            "drift": [site for site in listed if results[site].get("drift")],
            "changes": [
                site
                for site in listed
                if results[site].get("changes") or results[site].get("blocked")
            ],
        }
        self.log.info("%d sites\n%s", len(listed), "\n".join(table(listed, results)))
        ti.xcom_push(key="report", value=found)
        on = setting("TRUEUP_FAIL_ON", "")
        if on and on not in DIFFERENCES:
            raise AirflowFailException(f"TRUEUP_FAIL_ON: `{on}` is no difference")
        fails = DIFFERENCES[: DIFFERENCES.index(on) + 1] if on else ()
        said = [
            f"{len(found[what])} {text}: {brief(found[what])}"
            for what, text in (
                ("failed", "without a plan"),
                ("drift", "with drift"),
                ("changes", "with changes"),
            )
            if found[what] and (what == "failed" or what in fails)
        ]
        if said:
            raise AirflowFailException("; ".join(said))
        return found


def brief(names: list[str]) -> str:
    """Returns the first names."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def table(listed: list[str], results: dict[str, dict]) -> Iterator[str]:
    """Yields a line for each site that differs or has no plan, and the number of those that are left."""
    as_designed = 0
    for site in listed:
        result = results[site]
        if "message" in result:
            yield f"{site}: no plan: {result['message']}"
            continue
        counts = [
            f"{result[what]} {text}"
            for what, text in (
                ("drift", "with drift"),
                ("changes", "to change"),
                ("blocked", "blocked"),
            )
            if result[what]
        ]
        if counts:
            yield f"{site}: {', '.join(counts)}"
        else:
            as_designed += 1
    yield f"{as_designed} as designed"


with DAG(
    DAG_ID,
    description="The plans of all sites, and what differs",
    doc_md=__doc__,
    schedule=SCHEDULE,
    catchup=False,
    max_active_runs=1,
    max_active_tasks=WORKERS,
    tags=["trueup"],
    default_args={"retries": 2, "retry_delay": RETRY_DELAY},
) as dag:
    sites = ListSites(task_id="sites", **QUEUE)
    plans = PlanSites.partial(
        task_id="plans",
        map_index_template="{{ task.shown }}",
        do_xcom_push=False,
        **POOL,
        **QUEUE,
    ).expand(share=sites.output)
    report = Report(task_id="report", trigger_rule="all_done", do_xcom_push=False)
    sites >> plans >> report

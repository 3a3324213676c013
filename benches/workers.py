#!/usr/bin/env python3
"""Measures a plan that eight workers carry out on simulated machines with real delays, beside the ideal schedule.

    benches/workers.py DIR [--machines N] [--workers N] [--parallelism N] [--prepare S] [--deploy S]
                           [--nodes-per-part N] [--pushes-per-minute N]

The ideal schedule has all workers busy with as many machines as they may have, and no time between. DIR is made, and
holds the clones afterwards. TRUEUP names the program where it is not target/release/trueup. Needs git.
"""

import argparse
import json
import os
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TRUEUP = os.environ.get("TRUEUP", str(HERE / "target/release/trueup"))
RUN = "measured"
IDENTITY = ["-c", "user.name=measure", "-c", "user.email=measure@example.org"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name, value in [
        ("machines", 2000),
        ("workers", 8),
        ("parallelism", 32),
        ("prepare", 10),
        ("deploy", 20),
        ("nodes-per-part", 250),
        ("pushes-per-minute", 0),
    ]:
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *IDENTITY, "-C", str(folder), *words], check=True)


def trueup(folder: Path, *words: str, codes=(0,)) -> str:
    environment = {
        **os.environ,
        "GIT_AUTHOR_NAME": "measure",
        "GIT_AUTHOR_EMAIL": "measure@example.org",
        "GIT_COMMITTER_NAME": "measure",
        "GIT_COMMITTER_EMAIL": "measure@example.org",
    }
    ended = subprocess.run(
        [TRUEUP, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if ended.returncode not in codes:
        raise SystemExit(f"{words} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def machine(number: int) -> str:
    address = f"{number // 200}.{11 + number % 200}"
    return (
        "---\nschema: drydock/BaremetalNode/v1\n"
        f"metadata: {{name: edge-{number}}}\n"
        "data:\n  host_profile: worker\n  metadata: {rack: closet, tags: [worker]}\n"
        "  addressing:\n"
        f"    - {{network: pxe, address: 10.40.{address}}}\n"
        f"    - {{network: oam, address: 10.41.{address}}}\n"
    )


def site(folder: Path, options: argparse.Namespace) -> None:
    """Writes the site, and publishes it; the hook of the remote counts pushes."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "origin.git")
    hook = folder / "origin.git/hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\ndate +%s.%N >> '{folder.resolve()}/pushes'\n")
    hook.chmod(0o755)
    trueup(folder, "init", "edge")
    edge = folder / "edge"
    git(edge, "branch", "--move", "main")
    networks = (edge / "networks.yaml").read_text()
    networks = networks.replace("10.40.1.", "10.41.0.").replace("/24", "/16")
    networks = networks.replace("10.40.0.100, end: 10.40.0.199", "10.40.250.1, end: 10.40.250.200")
    networks = networks.replace("10.40.0.99", "10.40.249.250").replace("10.41.0.99", "10.41.249.250")
    (edge / "networks.yaml").write_text(networks)
    (edge / "nodes.yaml").write_text(
        "".join(machine(number) for number in range(1, options.machines + 1))
    )
    durations = f"{{prepare: {options.prepare}, deploy: {options.deploy}}}"
    backends = (edge / "backends.yaml").read_text()
    backends = backends.replace(
        "clock: virtual", f"clock: real\n      durations: {durations}"
    )
    (edge / "backends.yaml").write_text(backends)
    git(edge, "add", "--all")
    git(edge, "commit", "--quiet", "--message", "The site")
    git(edge, "remote", "add", "origin", "../origin.git")
    git(edge, "push", "--quiet", "--set-upstream", "origin", "main")


def clone(folder: Path, name: str, machines: Path) -> Path:
    git(folder, "clone", "--quiet", "origin.git", name)
    git(folder / name, "config", "trueup.simulatedSites", str(machines.resolve()))
    return folder / name


def workers(folder: Path, plan: Path, options: argparse.Namespace) -> float:
    """Carries the plan out by workers; the seconds that it takes."""
    machines = folder / "machines"
    clones = [clone(folder, f"worker-{at}", machines) for at in range(options.workers)]
    size = ["--nodes-per-part", str(options.nodes_per_part)]
    listed = trueup(clones[0], "run", "parts", str(plan), *size, "--format", "json")
    waiting = {part["id"]: set(part["after"]) for part in json.loads(listed)["parts"]}
    print(f"{len(waiting)} parts of at most {options.nodes_per_part} nodes")
    begun = time.monotonic()
    pushes = ["--pushes-per-minute", str(options.pushes_per_minute)]
    words = ["run", "begin", str(plan), "--run", RUN, *size, *pushes]
    answer = trueup(clones[0], *words, "--format", "json")
    digest = json.loads(answer.splitlines()[-1])["plan_digest"]
    changed, failures = threading.Condition(), []
    done: set[str] = set()

    def work(checkout: Path) -> None:
        while True:
            with changed:
                ready = [part for part, after in waiting.items() if after <= done]
                while not ready and waiting and not failures:
                    changed.wait()
                    ready = [part for part, after in waiting.items() if after <= done]
                if not waiting or failures:
                    return
                part = ready[0]
                del waiting[part]
            words = ["run", "part", RUN, part, "--plan-digest", digest]
            try:
                trueup(checkout, *words)
            except SystemExit as failure:
                failures.append(failure)
            with changed:
                done.add(part)
                changed.notify_all()

    threads = [threading.Thread(target=work, args=(checkout,)) for checkout in clones]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    trueup(clones[0], "run", "end", RUN)
    return time.monotonic() - begun


def most_in_a_minute(times: list[float]) -> int:
    """The most pushes that the remote got in any minute."""
    return max(
        (sum(1 for other in times if 0 <= other - time < 60) for time in times), default=0
    )


def main() -> None:
    options = arguments()
    folder = options.folder.resolve()
    site(folder, options)
    at_once = options.workers * options.parallelism
    rounds = -(-options.machines // at_once)
    ideal = rounds * (options.prepare + options.deploy)
    planner = clone(folder, "planner", folder / "machines")
    plan = folder / "site.plan"
    trueup(planner, "plan", "--parallelism", str(options.parallelism), "-o", str(plan))
    (folder / "pushes").write_text("")
    took = workers(folder, plan, options)
    pushes = [float(line) for line in (folder / "pushes").read_text().splitlines()]
    print(f"ideal: {ideal} s")
    print(
        f"{options.workers} workers of {options.parallelism}: {took:.0f} s, "
        f"{took / ideal:.2f} of the ideal, {len(pushes)} pushes, at most {most_in_a_minute(pushes)} a minute"
    )
    git(folder, "clone", "--quiet", "--mirror", "edge", "alone.git")
    git(folder, "clone", "--quiet", "alone.git", "alone")
    words = ["--parallelism", str(at_once)]
    trueup(folder / "alone", "plan", *words, "-o", str(plan))
    begun = time.monotonic()
    trueup(folder / "alone", "apply", str(plan), "--yes")
    took = time.monotonic() - begun
    print(f"one apply of {at_once}: {took:.0f} s, {took / ideal:.2f} of the ideal")


if __name__ == "__main__":
    main()

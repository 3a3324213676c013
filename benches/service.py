#!/usr/bin/env python3
"""Measures a running service of trueup: how fast it tells the status of its site, and how much memory open streams of
events take. Standard library alone.

  service.py ADDRESS PID status [REQUESTS A SECOND] [SECONDS]
  service.py ADDRESS PID streams [STREAMS] [SECONDS]

ADDRESS is HOST:PORT of a service on loopback, PID its process. The streams are of its newest run, which is to be running.
"""

import http.client
import json
import resource
import selectors
import socket
import sys
import threading
import time


def memory(process):
    """The memory of a process now, and the most that it ever had, in MiB."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return [int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


def ask(address, path):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {body[:200]!r}")
    connection.close()
    return body


def status(address, process, rate=20, seconds=30):
    size = len(ask(address, "/api/v1/status"))
    times, threads = [], []

    def one():
        began = time.monotonic()
        ask(address, "/api/v1/status")
        times.append(time.monotonic() - began)

    began = time.monotonic()
    for number in range(rate * seconds):
        time.sleep(max(0, began + number / rate - time.monotonic()))
        threads.append(threading.Thread(target=one))
        threads[-1].start()
    for thread in threads:
        thread.join()
    times.sort()
    share = lambda percent: 1000 * times[min(len(times) - 1, len(times) * percent // 100)]
    print(
        f"{len(times)} answers of {size} bytes at {rate} a second: median {share(50):.1f} ms, 99 % {share(99):.1f} ms, "
        f"the slowest {1000 * times[-1]:.1f} ms; memory {memory(process)[0]:.0f} MiB"
    )


def streams(address, process, number=1000, seconds=30):
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    run = json.loads(ask(address, "/api/v1/runs?limit=1"))[0]
    host, port = address.rsplit(":", 1)
    request = f"GET /api/v1/runs/{run['id']}/events HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    before, watched, heard = memory(process)[0], selectors.DefaultSelector(), {}
    for _ in range(number):
        stream = socket.create_connection((host, int(port)))
        stream.sendall(request)
        stream.setblocking(False)
        watched.register(stream, selectors.EVENT_READ)
        heard[stream] = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until and watched.get_map():
        for key, _ in watched.select(timeout=1):
            piece = key.fileobj.recv(1 << 16)
            heard[key.fileobj] += piece
            if not piece or b"event: end" in heard[key.fileobj]:
                watched.unregister(key.fileobj)
    now, most = memory(process)
    served = [text for text in heard.values() if text.startswith(b"HTTP/1.1 200")]
    events = min(text.count(b"data: ") for text in served) if served else 0
    print(
        f"{len(served)} of {number} streams are open, {len(watched.get_map())} still, each with at least {events} events: "
        f"memory {before:.0f} MiB before, {now:.0f} MiB with them, {most:.0f} MiB at most"
    )


if __name__ == "__main__":
    address, process, what, *numbers = sys.argv[1:]
    {"status": status, "streams": streams}[what](address, process, *map(int, numbers))

"""A program for the workers of a cluster: it builds by writing a file, or misbehaves as told."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from bisectorch.build import parcel
from bisectorch.build.store import Store


def key_of(sha: str) -> str:
    """The key of a commit's build."""
    return hashlib.sha256(sha.encode()).hexdigest()


def main() -> None:
    """Do one job."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_our_input, daemon=True).start()
    folder = Path(job["notes"])
    (folder / f"{job['id']}-{os.getpid()}").write_text(str(os.getppid()))
    answer: dict[str, object]
    if job["do"] == "pack":
        with (folder / f"{job['key']}.parcel").open("wb") as file:
            parcel.pack(Store(job["store"]), job["key"], file)
            answer = {"path": file.name, "bytes": file.tell()}
    elif job["do"] == "kill the worker":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
        answer = {}
    elif job["do"] == "wait":
        subprocess.run(["sleep", "3600"], check=True)
        answer = {}
    elif job["do"] == "refuse":
        answer = {"unbuildable": "gcc failed"}
    elif job["do"] == "crash":
        raise SystemExit("no such thing")
    else:
        time.sleep(job.get("seconds", 0.0))
        if job.get("lose once") and len(list(folder.glob(f"{job['id']}-*"))) == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        key = key_of(job["commit"])
        store = Store(job["store"])
        store.make(key, lambda tree: _fill(tree, job["commit"]), {"kind": "source"})
        pack = {"program": "chores", "do": "pack", "store": job["store"], "notes": job["notes"]}
        answer = {"keys": [key], "route": "source", "seconds": 1.5, "pack": pack}
    print(json.dumps(answer))


def _fill(tree: Path, sha: str) -> None:
    (tree / "a.py").write_text(f"sha = {sha!r}\n")
    (tree / "big.bin").write_bytes(os.urandom(1 << 16) * 300)
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("a.py")


def _end_with_our_input() -> None:
    while os.read(0, 1 << 16):
        pass
    os.killpg(0, signal.SIGTERM)


if __name__ == "__main__":
    main()

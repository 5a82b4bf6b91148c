"""No value from Python crashes the interpreter, and no store: each entry point gets a thousand random values, in child processes.

``fuzz/python/every.py`` finds the entry points by looking, so that none is left out; ``fuzz/python/deep.py`` calls those that do most with
values that get further. ``fuzz/python/broken.py`` reads every broken store of the archives.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "fuzz" / "python"
SHARES = 4


def run(*words):
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=3000, check=False, env=environment)


def test_no_value_crashes_the_interpreter():
    programs = [(FOLDER / "every.py", share, SHARES, 17) for share in range(SHARES)] + [(FOLDER / "deep.py", 17)]
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        ended = list(pool.map(lambda words: run(*words), programs))
    for program, done in zip(programs, ended):
        assert done.returncode == 0, (program, done.stdout[-500:], done.stderr[-3000:])
    told = [done.stdout.splitlines()[-1].split() for done in ended[:SHARES]]
    assert {words[0] for words in told} == {"survived"} and ended[-1].stdout.startswith("survived")
    every = {int(words[3]) for words in told}
    assert len(every) == 1 and sum(int(words[1]) for words in told) == every.pop(), "each entry point, or a reason"


def test_no_store_crashes_the_interpreter():
    archives = Path(__file__).parents[3] / "testdata/zvf/broken"
    done = run(FOLDER / "broken.py", archives)
    assert done.returncode == 0, (done.stdout[-200:], done.stderr[-3000:])
    word, stores, calls = done.stdout.splitlines()[-1].split()
    assert word == "survived" and int(stores) == len(list(archives.glob("*.tar.zst"))) > 100 and int(calls) > 20 * int(stores)

"""What the other contenders have in common: one request a line, one answer a line, as with the reference."""

import json
import sys
import time

ENOUGH = 0.02  # seconds; shorter work is repeated, as on the other side


def serve(works):
    for line in sys.stdin:
        try:
            ask = json.loads(line)
            work = works[ask["work"]]
            began, times = time.perf_counter(), 0
            while times == 0 or time.perf_counter() - began < ENOUGH:
                count = work(ask)
                times += 1
                if isinstance(count, tuple):
                    break
            if isinstance(count, tuple):  # it had the clock itself
                seconds, count = count
                print(json.dumps({"seconds": seconds, "count": int(count)}), flush=True)
                continue
            answer = {"seconds": (time.perf_counter() - began) / times, "count": int(count), "times": times}
        except Exception as error:  # the asking side decides what an error means
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)

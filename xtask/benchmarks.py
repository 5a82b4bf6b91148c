"""Makes tables, plots and a page of what `bench` measured: benchmarks.py RUN.json PAGE.md

Prints the tables of the run; of a complete run also writes the page, its plots or pictures in the folder of the same name.
What is wanted of zvf is FIGURES and GROWTHS; work for which none is written down should be ten times as fast as the reference
(where that is not there: as the fastest of the others), or within twice the limit."""

import json, math, os, pathlib, platform, re, shutil, sys

import benchmark_plots

# By part and a piece of the name of the work: at most N seconds; one of ours, whose name ends so, at most N times as long as
# somebody with this in the name, or at most N seconds longer; or N times as fast as the reference.
FIGURES = [
    ("points", "intensity > ", "times", "", 1.0, "DuckDB prepared"), ("lines", "one streamline", "times", "", 3.0, "TRX"),
    ("lines", "2000 streamlines", "times", "", 1.0, "TRX"), ("lines", "all streamlines", "times", "in shards", 4.0, "TRX"),
    ("lines", "all streamlines", "times", "packed and mapped", 3.0, "TRX"), ("open", "97336 chunks", "seconds", 0.3e-3),
    # Rounds of 20 ms, and what the machine needs beside them.
    ("remote", "a new handle", "times", "file per cell", 3.3, "one request per cell"),
    ("remote", "a new handle", "times", "in shards", 4.3, "one request per cell"),
    ("remote", "a new handle", "times", "packed", 2.3, "one request per cell"),
    ("files", "of CSV", "times", "", 3.0, "polars"), ("files", "of OBJ", "seconds", 0.35),
    ("pyramid", "a mesh of", "times", "", 3.0, "meshoptimizer"), ("edit", "move one of 1000000 ", "seconds", 10e-3),
    ("edit", "100000 random edits", "seconds", 0.5), ("tensor", "b2nd: plane across axis 2", "ahead", 1.5),
    ("tensor", "b2nd: box", "ahead", 2.5), ("cores", "", "cores", 1.7),
    ("python", "a small box", "longer", "Python", 60e-6, "zvf"), ("python", "from an array", "times", "Python", 1.3, "zvf"),
    ("python", "512 boxes", "times", "two threads", 1 / 1.7, "zvf, Python"),
    ("billion", "SQL, all rows to Arrow", "times", "zvf-sql", 1.3, "zvf query"),
    ("billion", "SQL, rows of a box to Arrow", "times", "zvf-sql", 2.0, "zvf query")]
# By which power of the amount of data time may grow: 1.1 where nothing else is written down.
GROWTHS = [("open", "", 0.3), ("grow", "new levels beside more files", 0.3), ("grow", "a box of a thousand points", 0.3),
           ("grow", "one streamline", 0.3), ("grow", "100 streamlines", 0.3), ("grow", "a box of a ", 0.3), ("grow", "all ", 1.05)]
OURS = ("Zvf", "Variant")


def time(seconds):
    if seconds is None or math.isnan(seconds): return ""
    unit, name = next(((u, n) for u, n in [(1, "s"), (1e-3, "ms"), (1e-6, "µs")] if seconds >= u), (1e-9, "ns"))
    value = seconds / unit
    return f"{value:.{2 if value < 10 else int(value < 100)}f} {name}"

def size(count):
    if count is None: return ""
    unit, name = next(((u, n) for u, n in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] if count >= u), (0, ""))
    return f"{count / unit:.1f} {name}" if unit else f"{count} B"

def number(x): return f"{round(x * 100) / 100:g}"
def cell(text): return re.sub(r"[|\n]", " ", text or "")
def turn(side): return side["result"].get("Ok")
def table(heads): return "| " + " | ".join(h.strip("<") for h in heads) + " |\n| " + " | ".join(
    "---:" if h[0] == "<" else "---" for h in heads) + " |\n"

def seconds(row, role):
    return next((turn(s)["seconds"] for s in row["sides"] if s["role"] == role and turn(s)), None)

def find(row, who, matches):
    side = next((s for s in row["sides"] if matches(s)), None)
    if side is None: raise LookupError(f"{who} is not in the row")
    if not turn(side): raise LookupError(f"{side['name']} was not measured: {side['result']['Err']}")
    return side, turn(side)["seconds"]

def rival(row):
    peers = [turn(s)["seconds"] for s in row["sides"] if s["role"] == "Peer" and turn(s)]
    found = seconds(row, "Reference") or min(peers, default=None)
    if found is not None: return found
    absent = next((s for s in row["sides"] if s["role"] in ("Reference", "Peer")), None)
    raise LookupError(f"{absent['name']} was not measured: {absent['result']['Err']}" if absent else "no competitor")

def bars(part, row):
    ahead = [("ahead", row["ahead"])] if row.get("ahead") else []
    return ahead + [f[2:] for f in FIGURES if f[0] == part and f[1] in row["work"]]

def words(bar):
    return {"ahead": lambda n: f"{number(n)} times as fast", "seconds": lambda n: f"at most {time(n)}",
            "cores": lambda n: f"{number(n)} times as fast as on one processor",
            "times": lambda _, n, who: f"at most {number(n)} times {who}",
            "longer": lambda _, n, who: f"at most {time(n)} longer than {who}"}[bar[0]](*bar[1:])

def judge_bar(row, bar):
    """Whether a bar is met, and the side of ours that it is of; a LookupError says why that is not known."""
    form = bar[1] if bar[0] in ("times", "longer") else None
    mine = lambda s: s["role"] in OURS and s["name"].endswith(form) if form is not None else s["role"] == "Zvf"
    side, ours = find(row, form or "zvf", mine)
    if bar[0] == "ahead": return rival(row) >= bar[1] * ours, side
    if bar[0] == "seconds": return ours <= bar[1], side
    if bar[0] == "cores": return find(row, "one processor", lambda s: s["name"].endswith("one processor"))[1] >= bar[1] * ours, side
    other = find(row, bar[3], lambda s: s is not side and bar[3] in s["name"])[1]
    return (ours <= bar[2] * other if bar[0] == "times" else ours - other <= bar[2]), side

def judge(part, row):
    """"" where all that is wanted is met, the side that misses it, or why that cannot be said."""
    wanted, whys = bars(part, row), []
    if not wanted:
        try: side, ours = find(row, "zvf", lambda s: s["role"] == "Zvf")
        except LookupError as why: return str(why)
        limit = seconds(row, "Limit")
        if limit is not None and ours <= 2 * limit: return ""
        try: return "" if rival(row) >= 10 * ours else side
        except LookupError as why: return side if limit is not None else f"no target; {why}"
    for bar in wanted:
        try:
            met, side = judge_bar(row, bar)
            if not met: return side
        except LookupError as why: whys.append(str(why))
    return "; ".join(whys)

def series(rows):
    """Steps of work on more and more data, by the work and who does it: limits grow by themselves."""
    found = {}
    for row in rows:
        for side in row["sides"]:
            if row.get("growth") and side["role"] != "Limit" and turn(side):
                found.setdefault((row["growth"]["work"], side["name"]), []).append((row["growth"]["amount"], turn(side), side))
    return found

def exponent(steps):
    """By which power of the amount the time grows: the slope of the straight line through the logarithms."""
    logs = [(math.log(a["elements"]), math.log(t["seconds"])) for a, t, _ in steps]
    x, y = (sum(p[i] for p in logs) / len(logs) for i in (0, 1))
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)

def line(row):
    ours, theirs, limit = (seconds(row, role) for role in ("Zvf", "Reference", "Limit"))
    return row["work"] + ": " + time(ours) + (f", {theirs / ours:.1f} times faster" if ours and theirs else "") + (
        f", {ours / limit:.2f} times the limit" if ours and limit else "")

def row_lines(part, row):
    ours = seconds(row, "Zvf") or math.nan
    wanted = next((b[1] for b in bars(part, row)[:1] if b[0] == "ahead"), None)
    for at, side in enumerate(row["sides"]):
        mark = {"Zvf": "**", "Variant": "**", "Limit": "*"}.get(side["role"], "")
        first = [row["work"], "" if row["count"] is None else str(row["count"])] if at == 0 else ["", ""]
        if not turn(side):
            yield f"| {first[0]} | {first[1]} | {mark}{side['name']}{mark} | not measured: {cell(side['result']['Err'])} | | | | | |  |\n"
            continue
        t, cost = turn(side), turn(side)["cost"]
        ratio = "" if side["role"] == "Zvf" else f"{t['seconds'] / ours:.2f}"
        if wanted and side["role"] in ("Reference", "Peer"): ratio += f" of {number(wanted)} wanted"
        figures = [time(t["seconds"]), ratio, time(cost["processor"]), "" if cost["requests"] is None else str(cost["requests"]),
                   size(cost["bytes"]), size(cost["memory"]), size(side["stored"])]
        yield "| " + " | ".join(first + [mark + side["name"] + mark] + figures) + " |\n"

def tables(part, parts):
    rows, notes = ([x for p in parts for x in p[key]] for key in ("rows", "notes"))
    growing = {key: steps for key, steps in series(rows).items() if len(steps) > 1}
    if not rows: return ""
    text = f"## {parts[0]['title']}\n\n"
    text += table(["work", "<counted", "who", "<median", "<times zvf", "<processors", "<requests", "<bytes read", "<memory", "<on disk"])
    text += "".join(entry for row in rows for entry in row_lines(part, row)) + "\n"
    if notes: text += "".join(f"* {note}\n" for note in notes) + "\n"
    if growing: text += table(["work", "who", "<elements", "<time", "<for each", "<memory", "<files", "<bytes", "<grows as"])
    for (work, who), steps in growing.items():
        for at, (amount, t, _) in enumerate(steps):
            files = "" if amount["files"] is None else str(amount["files"])
            grows = f"n^{exponent(steps):.2f}" if at + 1 == len(steps) else ""
            text += "| " + " | ".join(([work, who] if at == 0 else ["", ""]) + [
                str(amount["elements"]), time(t["seconds"]), time(t["seconds"] / amount["elements"]), size(t["cost"]["memory"]),
                files, size(amount["bytes"]), grows]) + " |\n"
    return text + ("\n" if growing else "")

def missed(parts, judged_only=False):
    """The rows and the growth that are not where they are wanted; then what is not judged."""
    text, unknown = "## Where zvf is not far ahead\n\n" + TEXTS["behind"] + table(["part", "work", "wanted"]), ""
    for name, group in parts.items():
        rows = [row for p in group for row in p["rows"]]
        for row in rows:
            wanted = "; ".join(map(words, bars(name, row)))
            verdict = judge(name, row) if wanted or not judged_only else ""
            if isinstance(verdict, dict): text += f"| {name} | {line(row)} | {wanted} |\n"
            elif verdict: unknown += f"| {name} | {line(row)} | {wanted} | {cell(verdict)} |\n"
        for (work, who), steps in series(rows).items():
            if steps[-1][2]["role"] not in OURS: continue
            most = next((n for p, w, n in GROWTHS if p == name and w in work), 1.1)
            if len(steps) < 2: unknown += f"| {name} | growth of {work} ({who}) | at most n^{most} | one amount only |\n"
            elif exponent(steps) > most:
                text += f"| {name} | {work} ({who}): n^{exponent(steps):.2f} | at most n^{most} |\n"
    return text + ("\n### Not judged\n\n" + TEXTS["unknown"] + table(["part", "work", "wanted", "why"]) + unknown if unknown else "")

def describe(run):
    """The settings of a run and the machine, as far as they can be known."""
    def known(file, key):
        try: return next(l.split(":", 1)[1].strip() for l in pathlib.Path(file).read_text().split("\n") if l.startswith(key))
        except (OSError, StopIteration): return "unknown"
    load, took = run["about"].get("load"), f"{run['seconds'] / 60:.0f} minutes in all"
    earlier = ", ".join(f"{p['name']} of {p['commit']}" for p in run["parts"] if p["commit"] != run["commit"])
    return "".join(f"* {entry}\n" for entry in [
        f"seed: {run['about']['seed']}\n* {took}" if "seed" in run["about"] else
        f"data: scale {run['scale']:g}; at most {run['turns']} turns each, none begun after {run['patience']} s; {took}",
        load is not None and f"load of the machine when it began: {load:.1f}" + (", so other work ran beside it" if load > 0.5 else ""),
        earlier and f"measured in an earlier run: {earlier}", f"commit: {run['commit']}",
        f"machine: {os.cpu_count()} cores of {known('/proc/cpuinfo', 'model name')}, {known('/proc/meminfo', 'MemTotal')} of "
        f"memory, {platform.system().lower()} {platform.machine()}"] if entry) + "\n"

def main(run_file, page):
    run, parts, folder = json.loads(pathlib.Path(run_file).read_text()), {}, os.path.splitext(page)[0]
    for part in run["parts"]: parts.setdefault(part["part"], []).append(part)
    print("".join(tables(name, group) for name, group in parts.items()))
    if not run["complete"]: return
    os.makedirs(folder, exist_ok=True)
    def keep(name, title, make):
        make(os.path.join(folder, name))
        return f"![{title}]({os.path.basename(folder)}/{name})\n"
    about = run["about"]
    text = TEXTS["billion" if "seed" in about else "title"] + describe(run)
    for name, group in parts.items():
        text += tables(name, group)
        rows = [row for p in group for row in p["rows"]]
        growing = {key: steps for key, steps in series(rows).items() if len(steps) > 1}
        plots = [] if "seed" in about else [("", benchmark_plots.bars(rows, seconds)), ("-growth", benchmark_plots.lines(growing, exponent, time))]
        for end, svg in plots:
            if svg: text += keep(f"{name}{end}.svg", group[0]["title"], lambda to: pathlib.Path(to).write_text(svg)) + "\n"
    for data in ("points", "streamlines") if "seed" in about else ():
        for work, name in about["drawn"]:
            kept = os.path.join(about["pictures"], f"{data}-{name}-{about['vertices']}.png")
            text += keep(f"{data}-{name}.png", f"{data}: {work}", lambda to: shutil.copy(kept, to))
        text += "\n"
    pathlib.Path(page).write_text((text + missed(parts, "seed" in about)).rstrip() + "\n")

TEXTS = dict(re.findall(r"^<!-- (\w+) -->\n(.*?)(?=^<!-- |\Z)", pathlib.Path(__file__).with_suffix(".md").read_text(), re.M | re.S))
if __name__ == "__main__": main(*sys.argv[1:])

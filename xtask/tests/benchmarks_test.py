"""Tests of the pages that `benchmarks.py` makes."""

import contextlib, io, json, os, pathlib, sys, tempfile, unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import benchmark_plots
import benchmarks as page

COST = {"requests": None, "bytes": None, "memory": None, "processor": None}


def side(name, role, took, **more):
    result = {"Err": took} if isinstance(took, str) else {"Ok": {"seconds": took, "count": None, "cost": {**COST, **more.pop("cost", {})}}}
    return {"name": name, "role": role, "result": result, "stored": None, **more}

def row(work, sides, count=None, ahead=None, growth=None):
    return {"work": work, "count": count, "ahead": ahead, "growth": growth, "sides": sides}

def part(rows, name="ask", **more):
    return {"part": name, "name": name, "title": "T", "commit": "abc", "rows": rows, "notes": [], "sizes": [], **more}

def growing(work, elements, seconds, more=()):
    amount = {"elements": elements, "files": 7, "bytes": 2048}
    sides = [side("zvf", "Zvf", seconds, cost={"memory": 3 << 20}), side("zvf", "Limit", seconds), *more]
    return row(f"{work}, of {elements}", sides, growth={"work": work, "amount": amount})


class Pages(unittest.TestCase):
    def test_times_and_sizes_in_their_units(self):
        for seconds, text in [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (0.5, "500 ms"), (4.2e-5, "42.0 µs"), (5e-9, "5.00 ns")]:
            self.assertEqual(page.time(seconds), text)
        self.assertEqual([page.size(12), page.size(2048), page.size(3 << 20)], ["12 B", "2.0 KiB", "3.0 MiB"])

    def test_the_exponent_is_that_of_a_power(self):
        rows = [growing("a box", n, 3e-3 * n**1.5) for n in (1, 10, 100)]
        steps = page.series(rows)["a box", "zvf"]
        self.assertAlmostEqual(page.exponent(steps), 1.5)
        self.assertEqual(page.tables("ask", [part(rows)]).split("\n")[-5:], [
            "| a box | zvf | 1 | 3.00 ms | 3.00 ms | 3.0 MiB | 7 | 2.0 KiB |  |",
            "|  |  | 10 | 94.9 ms | 9.49 ms | 3.0 MiB | 7 | 2.0 KiB |  |",
            "|  |  | 100 | 3.00 s | 30.0 ms | 3.0 MiB | 7 | 2.0 KiB | n^1.50 |", "", ""])

    def test_without_a_figure_far_ahead_or_near_the_limit_is_enough(self):
        for sides, met in [([("Reference", 10.0)], True), ([("Reference", 9.9)], False), ([("Limit", 0.5)], True),
                           ([("Limit", 0.4)], False), ([("Reference", 9.9), ("Limit", 0.5)], True),
                           ([("Reference", 10.0), ("Limit", 0.1)], True), ([("Peer", 11.0), ("Peer", 9.0)], False),
                           ([("Peer", 11.0), ("Reference", 9.0)], False)]:
            found = page.judge("ask", row("2000 objects", [side("zvf", "Zvf", 1.0)] + [side("other", r, t) for r, t in sides]))
            self.assertEqual(found == "", met, sides)

    def test_a_figure_is_of_one_of_ours_and_of_one_of_theirs(self):
        entry = row("a", [side("zvf", "Zvf", 4.0), side("zvf, in shards", "Variant", 2.0), side("TRX, trx-python", "Peer", 1.0),
                          side("GDAL", "Peer", 9.0), side("zvf query", "Variant", 8.0), side("zvf, one processor", "Variant", 6.0)])
        for bar, met in [(("times", "zvf", 4.0, "TRX"), True), (("times", "zvf", 3.9, "TRX"), False),
                         (("times", "in shards", 2.0, "TRX"), True), (("times", "in shards", 1.9, "TRX"), False),
                         (("times", "in shards", 0.25, "zvf query"), True), (("times", "in shards", 0.24, "zvf query"), False),
                         (("seconds", 4.0), True), (("seconds", 3.9), False), (("ahead", 0.25), True), (("ahead", 0.26), False),
                         (("cores", 1.5), True), (("cores", 1.7), False),
                         (("longer", "zvf", 3.0, "TRX"), True), (("longer", "zvf", 2.9, "TRX"), False)]:
            self.assertEqual(page.judge_bar(entry, bar)[0], met, bar)

    def test_what_cannot_be_compared_is_not_judged(self):
        alone = row("2000 objects", [side("zvf", "Zvf", 1.0)])
        self.assertEqual(page.judge("ask", alone), "no target; no competitor")
        alone["sides"].append(side("TRX, trx-python", "Peer", "no wheel"))
        self.assertEqual(page.judge("ask", alone), "no target; TRX, trx-python was not measured: no wheel")
        for work, text in [("2000 streamlines, of 5", "TRX, trx-python was not measured: no wheel"),
                           ("all streamlines", "in shards is not in the row; packed and mapped is not in the row")]:
            self.assertEqual(page.judge("lines", {**alone, "work": work}), text)
        self.assertEqual(page.judge("cores", alone), "one processor is not in the row")
        # What is missed for certain is missed, and the one of ours that misses is named.
        alone["ahead"] = 2.0
        self.assertEqual(page.judge("edit", {**alone, "work": "100000 random edits"})["name"], "zvf")
        shards = {**alone, "work": "all streamlines", "ahead": None, "sides": [
            side("zvf", "Zvf", 1.0), side("zvf, in shards", "Variant", 9.0), side("TRX", "Peer", 2.0)]}
        self.assertEqual(page.judge("lines", shards)["name"], "zvf, in shards")

    def test_a_row_is_a_line_for_each_contender(self):
        entry = row("a box", [side("zvf", "Zvf", 0.001, stored=3 << 20), side("theirs", "Reference", 0.05),
                              side("other", "Peer", "no wheel | here"), side("plain", "Limit", 0.0005)], 5, 40.0)
        self.assertEqual(page.line(entry), "a box: 1.00 ms, 50.0 times faster, 2.00 times the limit")
        self.assertEqual(page.tables("ask", [part([entry])]).split("\n")[4:8], [
            "| a box | 5 | **zvf** | 1.00 ms |  |  |  |  |  | 3.0 MiB |",
            "|  |  | theirs | 50.0 ms | 50.00 of 40 wanted |  |  |  |  |  |",
            "|  |  | other | not measured: no wheel   here | | | | | |  |",
            "|  |  | *plain* | 500 µs | 0.50 |  |  |  |  |  |"])

    def test_missed_figures_growth_and_what_is_not_judged_are_listed(self):
        rows = [growing("all points", n, 1e-3 * n**1.5, [side("TRX", "Peer", "no | wheel")]) for n in (1, 10)]
        for entry in rows: entry["sides"] = [s for s in entry["sides"] if s["role"] != "Limit"]
        slow = row("2000 objects", [side("zvf", "Zvf", 1.0), side("plain", "Limit", 0.1)], ahead=25.0)
        slow["sides"].append(side("theirs", "Reference", 2.0))
        text = page.missed({"grow": [part(rows, "grow")], "ask": [part([slow])]})
        self.assertEqual([entry for entry in text.split("\n") if entry.startswith(("| grow", "| ask"))], [
            "| grow | all points (zvf): n^1.50 | at most n^1.05 |",
            "| ask | 2000 objects: 1.00 s, 2.0 times faster, 10.00 times the limit | 25 times as fast |",
            "| grow | all points, of 1: 1.00 ms |  | no target; TRX was not measured: no   wheel |",
            "| grow | all points, of 10: 31.6 ms |  | no target; TRX was not measured: no   wheel |"])
        self.assertIn("### Not judged", text)

    def test_results_of_one_amount_after_the_other_are_one_series(self):
        parts = [part([growing("a box", n, 1e-3 * n)], name="ask", commit="an earlier commit") for n in (1, 10, 100)]
        self.assertEqual(len(page.series([r for p in parts for r in p["rows"]])["a box", "zvf"]), 3)
        run = {"commit": "abc", "parts": parts, "about": {"load": 1.0}, "seconds": 60, "scale": 1.0, "turns": 7, "patience": 10,
               "complete": True}
        self.assertIn("ask of an earlier commit", page.describe(run))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "run.json").write_text(json.dumps(run))
            with contextlib.redirect_stdout(io.StringIO()): page.main(f"{folder}/run.json", f"{folder}/page.md")
            text = pathlib.Path(folder, "page.md").read_text()
            self.assertIn("* load of the machine when it began: 1.0, so other work ran beside it\n", text)
            self.assertIn("![T](page/ask-growth.svg)", text)
            self.assertTrue(os.path.exists(f"{folder}/page/ask.svg"))

    def test_bars_are_as_long_as_the_ratio_says(self):
        entry = row("a & b", [side("zvf", "Zvf", 0.001), side("<theirs>", "Reference", 0.1), side("plain", "Limit", 0.0001)])
        svg = benchmark_plots.bars([entry], page.seconds)
        # 10^-1 to 10^2 over 610 pixels: one power is 203.3.
        for text in ['<rect x="433.3" y="47" width="406.7"', '<rect x="230.0" y="62" width="203.3"', "a &amp; b", "&lt;theirs&gt;", ">100.00<"]:
            self.assertIn(text, svg)
        self.assertIsNone(benchmark_plots.bars([], page.seconds))

    def test_lines_go_through_their_points(self):
        rows = [growing("all", n, 1e-4 * n) for n in (10, 100)]
        svg = benchmark_plots.lines(page.series(rows), page.exponent, page.time)
        self.assertIn('<polyline points="70.0,270.0 670.0,20.0"', svg)
        self.assertIn("all (zvf): n^1.00", svg)
        self.assertIsNone(benchmark_plots.lines({}, page.exponent, page.time))


if __name__ == "__main__": unittest.main()

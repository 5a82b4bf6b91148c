"""Plots as SVG, without a library: bars of ratios, and lines of growth, both on logarithmic scales.

Colours are told apart by dark and light as well; every bar has its number beside it."""

import math

WIDTH, LEFT, RIGHT = 900, 230, 60
COLOURS = {"Variant": "#1f5fa8", "Reference": "#b3261e", "Peer": "#e0902f", "Limit": "#9a9a9a"}
HUES = ["#1f5fa8", "#b3261e", "#2e7d32", "#e0902f", "#6a3fa0", "#00838f", "#8d6e63", "#555"]


def xml(text): return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

def svg(height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>\n{body}</svg>\n')

def bars(rows, seconds):
    """For each row, how many times as long as zvf each contender takes: longer bars are slower."""
    measured = []
    for row in rows:
        ours, others = seconds(row, "Zvf"), [s for s in row["sides"] if s["role"] != "Zvf" and s["result"].get("Ok")]
        ratios = [(s["name"], s["role"], s["result"]["Ok"]["seconds"] / ours) for s in others] if ours else []
        if ratios := [r for r in ratios if r[2] > 0]: measured.append((row["work"], ratios))
    if not measured: return None
    every = [r[2] for _, ratios in measured for r in ratios]
    low, high = math.floor(math.log10(min(every + [0.5]))), math.ceil(math.log10(max(every + [2.0])))
    x = lambda ratio: LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(ratio) - low) / (high - low)
    body, y = "", 30
    for work, ratios in measured:
        body += f'<text x="4" y="{y + 11}" font-weight="bold">{xml(work)}</text>\n'
        y += 17
        for name, role, ratio in ratios:
            start, end = sorted([x(1), x(ratio)])
            body += (f'<text x="{LEFT - 6}" y="{y + 10}" text-anchor="end">{xml(name)}</text><rect x="{start:.1f}" y="{y}" '
                     f'width="{max(end - start, 1):.1f}" height="12" fill="{COLOURS[role]}"/>'
                     f'<text x="{end + 4:.1f}" y="{y + 10}">{ratio:.2f}</text>\n')
            y += 15
        y += 6
    grid = "".join(
        f'<line x1="{x(10.0 ** p):.1f}" y1="22" x2="{x(10.0 ** p):.1f}" y2="{y}" stroke="{"#ccc" if p else "#333"}"/>'
        f'<text x="{x(10.0 ** p):.1f}" y="16" text-anchor="middle">{f"{10.0 ** p:g}x" if p else "as zvf"}</text>\n'
        for p in range(low, high + 1))
    return svg(y + 8, grid + body)

def lines(series, exponent, time):
    """Time by amount, a line for each series."""
    points = {key: [(a["elements"], t["seconds"]) for a, t, _ in steps] for key, steps in series.items()}
    if not points: return None
    def span(at):
        every = [math.log10(p[at]) for line in points.values() for p in line]
        return math.floor(min(every)), max(math.ceil(max(every)), math.floor(min(every)) + 1)
    (left, right), (bottom, top) = span(0), span(1)
    x = lambda n: 70 + (WIDTH - 300) * (math.log10(n) - left) / (right - left)
    y = lambda t: 270 - 250 * (math.log10(t) - bottom) / (top - bottom)
    body = "".join(f'<line x1="{x(10 ** p):.1f}" y1="20" x2="{x(10 ** p):.1f}" y2="270" stroke="#ccc"/>'
                   f'<text x="{x(10 ** p):.1f}" y="286" text-anchor="middle">10^{p}</text>\n' for p in range(left, right + 1))
    body += "".join(f'<line x1="70" y1="{y(10.0 ** p):.1f}" x2="{x(10 ** right):.1f}" y2="{y(10.0 ** p):.1f}" stroke="#ccc"/>'
                    f'<text x="64" y="{y(10.0 ** p) + 4:.1f}" text-anchor="end">{time(10.0 ** p)}</text>\n' for p in range(bottom, top + 1))
    for number, ((work, who), line) in enumerate(points.items()):
        colour, dash = HUES[number % len(HUES)], "" if who == "zvf" else ' stroke-dasharray="5 3"'
        path = " ".join(f"{x(n):.1f},{y(t):.1f}" for n, t in line)
        body += (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/><text x="{WIDTH - 220}" '
                 f'y="{28 + number * 15}" fill="{colour}">{xml(work)} ({xml(who)}): n^{exponent(series[work, who]):.2f}</text>\n')
    return svg(max(300, 40 + 15 * len(points)), body)

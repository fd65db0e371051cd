#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots the entropy of the router's load, a line for each layer, from a run's metrics.jsonl.

    tools/entropy_svg.py runs/tiny/metrics.jsonl > docs/figures/balancing.svg
    tools/entropy_svg.py runs/tiny/metrics.jsonl --check 300:0.97 1000:0.99

The upper panel is every step as it was; the lower one is a mean over the last --window steps, near 1, with the bounds
of --mark. With --check it prints, for each STEP:BOUND, the mean over the window that ends there, by layer, and exits
with 1 where one is below the bound.
"""
import argparse
import json
import sys

WIDTH, LEFT, RIGHT = 760, 52, 74
COLOURS = ["#b4491f", "#2364a8", "#2f7d4f", "#8a4fa3", "#9a7a10", "#0f7f8a", "#c0241f", "#555b66"]


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [(r["step"], r["entropy"]) for r in rows if r.get("entropy")]


def bound_of(item):
    step, bound = item.split(":")
    return int(step), float(bound)


def trailing_means(rows, window):
    out = []
    for i, (step, _) in enumerate(rows):
        last = [entropy for _, entropy in rows[max(0, i - window + 1):i + 1]]
        out.append((step, [sum(layer) / len(last) for layer in zip(*last)]))
    return out


class Panel:
    def __init__(self, top, height, low, steps):
        self.top, self.height, self.low, self.steps = top, height, low, steps

    def x(self, step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, value):
        share = (max(value, self.low) - self.low) / (1 - self.low)
        return self.top + self.height * (1 - share)

    def text(self, x, y, words, anchor="start"):
        return f'<text x="{x:.0f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'

    def axes(self, title, ticks, marks):
        out = [self.text(LEFT, self.top - 8, title)]
        for tick in ticks:
            out.append(f'<path class="g" d="M{LEFT} {self.y(tick):.1f}H{WIDTH - RIGHT}"/>')
            out.append(self.text(LEFT - 6, self.y(tick) + 4, f"{tick:g}", "end"))
        for step, bound in marks:
            out.append(f'<path class="m" d="M{self.x(step) - 26:.1f} {self.y(bound):.1f}h52"/>')
            out.append(self.text(self.x(step), self.y(bound) + 14, f"{bound:g} by step {step}", "middle"))
        for step in range(0, self.steps + 1, 100 * max(1, self.steps // 1000)):
            out.append(self.text(self.x(step), self.top + self.height + 16, f"{step}", "middle"))
        return out

    def lines(self, rows):
        out = []
        for layer in range(len(rows[0][1])):
            points = " ".join(f"{self.x(s):.0f},{self.y(e[layer]):.1f}" for s, e in rows)
            out.append(f'<polyline stroke="{COLOURS[layer % len(COLOURS)]}" points="{points}"/>')
        return out


def svg(rows, window, marks):
    steps = max([rows[-1][0]] + [step for step, _ in marks])
    upper, lower = Panel(30, 190, 0, steps), Panel(282, 190, 0.95, steps)
    body = upper.axes("entropy of the load / ln(experts), every step", [0, 0.25, 0.5, 0.75, 1], [])
    body += upper.lines(rows)
    body += lower.axes(f"mean of the last {window} steps", [0.95, 0.96, 0.97, 0.98, 0.99, 1], marks)
    body += lower.lines(trailing_means(rows, window))
    for layer in range(len(rows[0][1])):
        y = 38 + 16 * layer
        body.append(f'<path d="M{WIDTH - RIGHT + 10} {y - 4}h12" stroke="{COLOURS[layer % len(COLOURS)]}"/>')
        body.append(upper.text(WIDTH - RIGHT + 26, y, f"layer {layer}"))
    body.append(upper.text(WIDTH / 2, 508, "step", "middle"))
    style = ("text{font:12px sans-serif;fill:#555}.g{stroke:#ddd}.m{stroke:#222;stroke-dasharray:4 3}"
             "polyline,path{fill:none;stroke-width:1.3}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 516">'
            f'<rect width="{WIDTH}" height="516" fill="#fff"/><style>{style}</style>' + "\n".join(body) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics")
    parser.add_argument("--window", type=int, default=20, help="steps of the mean (default 20)")
    parser.add_argument("--mark", nargs="+", metavar="STEP:BOUND", default=["300:0.97", "1000:0.99"],
                        help="bounds to draw (default 300:0.97 1000:0.99)")
    parser.add_argument("--check", nargs="+", metavar="STEP:BOUND", help="check in place of plotting")
    options = parser.parse_args()
    rows = rows_of(options.metrics)
    if not rows:
        sys.exit(f"{options.metrics}: no line has an entropy")
    if not options.check:
        sys.stdout.write(svg(rows, options.window, [bound_of(item) for item in options.mark]))
        return 0
    failed = 0
    means = dict(trailing_means(rows, options.window))
    for item in options.check:
        step, bound = bound_of(item)
        if step not in means:
            sys.exit(f"{options.metrics}: has no step {step}")
        good = min(means[step]) >= bound
        failed += not good
        print(f"step {step}: {' '.join(f'{m:.4f}' for m in means[step])}; at least {bound}: {'yes' if good else 'NO'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

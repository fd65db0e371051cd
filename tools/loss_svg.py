#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots a run's training loss, every step, and its held-out loss, from its metrics.jsonl.

    tools/loss_svg.py runs/100m-active/metrics.jsonl > docs/figures/loss-100m-active.svg
    tools/loss_svg.py runs/a/metrics.jsonl --mark 177 "epoch 2" --mark 353 "epoch 3" > a.svg
"""
import argparse
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 330, 44, 16, 30, 44


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def svg(rows, marks):
    steps = rows[-1]["step"]
    highest = math.ceil(max(row["loss"] for row in rows))
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / steps
    y = lambda loss: TOP + (HEIGHT - TOP - BOTTOM) * (1 - loss / highest)
    text = lambda at_x, at_y, words, anchor: f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}">{words}</text>'
    body = [text(LEFT, TOP - 10, "loss: training, every step (line); held out (dots)", "start")]
    for tick in range(highest + 1):
        body += [f'<path class="g" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>', text(LEFT - 6, y(tick) + 4, tick, "end")]
    apart = max(1, round(steps / 6, -int(math.log10(steps)) + 1))
    for step in range(0, steps + 1, int(apart)):
        body.append(text(x(step), HEIGHT - BOTTOM + 16, step, "middle"))
    for step, words in marks:
        body += [f'<path class="m" d="M{x(int(step)):.1f} {TOP}V{HEIGHT - BOTTOM}"/>',
                 text(x(int(step)) + 4, TOP + 12, words, "start")]
    line = " ".join(f"{x(row['step']):.1f},{y(row['loss']):.1f}" for row in rows)
    body.append(f'<polyline points="{line}"/>')
    body += [f'<circle cx="{x(row["step"]):.1f}" cy="{y(row["val_loss"]):.1f}" r="4"/>' for row in rows if "val_loss" in row]
    body.append(text(WIDTH / 2, HEIGHT - 8, "step", "middle"))
    style = ("text{font:12px sans-serif;fill:#555}.g{stroke:#ddd}.m{stroke:#888;stroke-dasharray:4 3}circle{fill:#2364a8}"
             "polyline{stroke:#b4491f}polyline,path{fill:none;stroke-width:1.3}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/><style>{style}</style>' + "\n".join(body) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics")
    parser.add_argument("--mark", nargs=2, action="append", default=[], metavar=("STEP", "WORDS"),
                        help="a vertical line with words at a step")
    options = parser.parse_args()
    rows = rows_of(options.metrics)
    if not rows:
        sys.exit(f"{options.metrics}: has no steps")
    sys.stdout.write(svg(rows, options.mark))


if __name__ == "__main__":
    main()

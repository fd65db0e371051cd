#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does aggregation have to be learnt? Trains a small model from nothing ("plain"), then goes on from it twice with
equal numbers of tokens: with the same tasks ("more"), and with a share of them in the aggregation form
("aggregation"). Compares them on held-out tasks: a single trace, voting, Delethink and Markovian RSA, each with the
tokens it took. Writes OUT/results.json, OUT/results.md and the trees of RSA as pages.

  tools/rsa_experiment.py build/release/tephra OUT [--smoke] [--device gpu] [--steps N] [--samples N]

A run that was stopped goes on where it was: models that are trained and results that are there stay."""
import argparse
import json
import pathlib
import subprocess
import time

CONFIG = """# Made by tools/rsa_experiment.py.
name = "{name}"
seed = {seed}

[model]
hidden_size = {width}
num_hidden_layers = {layers}
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 32
num_experts = 4
moe_intermediate_size = {width}
router_hidden_size = 64
max_position_embeddings = 1024
rope_theta = 10000.0

[data]
tokenizer = "bytes"

[[data.sources]]
name = "tasks"
kind = "environments"
environments = [{kinds}]
min_level = {low}
max_level = {high}
aggregation = {share}
aggregation_candidates = {candidates}
aggregation_tail = {tail}

[[phases]]
name = "pretrain"
steps = {steps}
context = 768
batch_tokens = {batch}
lr = {lr}
warmup_steps = {warmup}
schedule = "wsd"
decay_steps = {decay}

[balancing]
lr = 1e-2

[step]
micro_tokens = {batch}

[checkpoints]
every_steps = {every}

[validation]
every_steps = {every}
samples = 8
"""


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tephra", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--smoke", action="store_true", help="a few steps and tasks: does it run?")
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--more-steps", type=int, default=400, help="of the second stage")
    p.add_argument("--models", default="plain,more,aggregation", help="which of them, plain first")
    p.add_argument("--batch", type=int, default=6144, help="tokens of a step")
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--kinds", default="addition,subtraction,reversing,sorting")
    p.add_argument("--levels", default="1-3", help="of training and of the questions")
    p.add_argument("--share", type=float, default=0.5, help="of tasks in the aggregation form")
    p.add_argument("--samples", type=int, default=40, help="held-out tasks of each kind and level")
    p.add_argument("--n", type=int, default=16)
    p.add_argument("--c", type=int, default=4)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--beta", type=int, default=160, help="tokens (bytes) of a trace")
    p.add_argument("--tau", type=int, default=64)
    p.add_argument("--temperature", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cpu", help="of the training")
    p.add_argument("--threads", default=None)
    o = p.parse_args()
    if o.smoke:
        o.more_steps = 2
        o.steps, o.batch, o.samples, o.kinds, o.levels, o.n, o.beta = 2, 768, 2, "addition,reversing", "1-1", 4, 48
        o.tau = 24
    return o


def run(o, *words, json_out=False):
    words = [str(word) for word in (o.tephra, *words)]
    if o.threads:
        words += ["--threads", o.threads]
    print("$", " ".join(words), flush=True)
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE if json_out else None, text=True)
    return json.loads(done.stdout) if json_out else None


def train(o, name):
    model = o.out / name / "model"
    if (model / "model.safetensors").exists():
        return model, None
    first = name == "plain"
    share = o.share if name == "aggregation" else 0
    steps = o.steps if first else o.more_steps
    low, high = o.levels.split("-")
    config = o.out / f"{name}.toml"
    config.write_text(CONFIG.format(
        name=name, seed=o.seed, width=o.width, layers=o.layers, low=low, high=high, share=share,
        kinds=", ".join(f'"{kind}"' for kind in o.kinds.split(",")), candidates=o.c, tail=o.tau, steps=steps,
        lr=8e-3 if first else 4e-3, batch=o.batch, warmup=max(1, steps // 25), decay=max(1, steps * 2 // 5),
        every=max(1, steps // 4)))
    begin = time.monotonic()
    start = [] if first else ["--init-from", o.out / "plain/model"]
    run(o, "train", config, "--out", o.out / name / "run", "--device", o.device, *start)
    seconds = time.monotonic() - begin
    run(o, "checkpoint", "export", "--from", o.out / name / "run", "--to", model)
    return model, seconds


def measure(o, model, name):
    """One command, its JSON kept in a file."""
    file = o.out / name / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}

    def once(key, *words):
        if key not in results:
            results[key] = run(o, *words, "--json", json_out=True)
            results[key].pop("questions", None)  # the score is enough
            file.write_text(json.dumps(results, indent=1))
        return results[key]

    tasks = ",".join(f"{kind}:{o.levels}" for kind in o.kinds.split(","))
    common = ["--model", model, "--environments", tasks, "--samples", o.samples, "--seed", o.seed]
    rsa = ["rsa", *common, "--beta", o.beta, "--tau", o.tau, "--temperature", o.temperature]
    traces = o.n * (o.rounds + 1)
    once("greedy", "eval", *common)
    once("aggregation", "eval", *common, "--aggregate", o.c, "--tail", o.tau)
    once("rsa", *rsa, "--n", o.n, "--c", o.c, "--rounds", o.rounds, "--out", o.out / name / "rsa")
    once("voting", *rsa, "--n", traces, "--rounds", 0)
    once("delethink", *rsa, "--n", o.n, "--c", 1, "--rounds", o.rounds)
    return results


def percent(share):
    return f"{100 * share:.1f} %"


def per_question(score, rounds):
    return sum(r["tokens"]["generated"] for r in score["rounds"][:rounds]) / score["questions"]


def rows(o, results):
    voting, rsa, chain = (results[key]["score"] for key in ("voting", "rsa", "delethink"))
    last = o.rounds + 1
    prompts = sum(r["tokens"]["prompt"] for r in rsa["rounds"]) / rsa["questions"]
    return [
        ("greedy, one trace", percent(results["greedy"]["environments"]["overall"]["accuracy"]), ""),
        ("a single trace", percent(voting["single"]), f"{per_question(voting, 1) / (o.n * last):.0f}"),
        (f"majority of {o.n}", percent(rsa["rounds"][0]["majority"]), f"{per_question(rsa, 1):.0f}"),
        (f"majority of {o.n * last}", percent(voting["majority"]), f"{per_question(voting, 1):.0f}"),
        (f"RSA, mean of round {o.rounds}", percent(rsa["mean"]), f"{per_question(rsa, last):.0f}"),
        (f"RSA, majority of round {o.rounds}", percent(rsa["majority"]),
         f"{per_question(rsa, last):.0f} (and prompts of {prompts:.0f})"),
        (f"Delethink, majority of round {o.rounds}", percent(chain["majority"]), f"{per_question(chain, last):.0f}"),
        ("tasks with attempts in the prompt, greedy",
         percent(results["aggregation"]["environments"]["overall"]["accuracy"]), ""),
    ]


def main():
    o = arguments()
    o.out.mkdir(parents=True, exist_ok=True)
    names = o.models.split(",")
    columns, seconds, questions = {}, {}, {}
    for name in names:
        (o.out / name).mkdir(exist_ok=True)
        model, seconds[name] = train(o, name)
        results = measure(o, model, name)
        columns[name] = rows(o, results)
        questions[name] = results["rsa"]["score"]["questions"]
    text = (f"{o.kinds} at levels {o.levels}; {o.steps} steps of {o.batch} tokens, then {o.more_steps} more, "
            f"{o.share:g} of the tasks in the aggregation form; N {o.n}, C {o.c}, T {o.rounds}, beta {o.beta}, "
            f"tau {o.tau}, temperature {o.temperature}. Accuracy, and tokens generated for a question.\n\n| answer by |")
    text += "".join(f" {name} ({questions[name]} tasks) | tokens |" for name in names)
    text += "\n|---|" + "---:|---:|" * len(names) + "\n"
    for row in zip(*columns.values()):
        text += f"| {row[0][0]} |" + "".join(f" {cell[1]} | {cell[2]} |" for cell in row) + "\n"
    (o.out / "results.md").write_text(text)
    (o.out / "results.json").write_text(json.dumps(
        {"settings": {k: str(v) for k, v in vars(o).items()}, "train_seconds": seconds, "rows": columns}, indent=1))
    print(text)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does aggregation have to be learnt? Trains small models from nothing ("plain"), one for each seed, then goes on from
each with equal numbers of tokens: with the same tasks ("more"), with half of them in the aggregation form
("aggregation"), and with attempts of the plain model itself in the prompts ("own"). Compares them on held-out tasks, of
kinds and levels that the first plain model solves sometimes: one trace, voting, and Markovian RSA by round, each with
the tokens it took. Writes OUT/results.md, OUT/results.json and every tree.

  tools/rsa_experiment.py build/release/tephra --smoke
  tools/rsa_experiment.py build/release/tephra OUT --device gpu --dtype bf16 --seconds 12 --until 100
  tools/rsa_experiment.py build/release/tephra OUT --report     # from what is there

A run that was stopped goes on where it was: models and trees that are there stay.

Models of all seeds are trained side by side (on a GPU: through MPS). With --seconds a plain model is trained at its full
rate for so long, and OUT/steps.json says how many steps that were: --steps with this number trains the same one."""
import argparse
import json
import math
import pathlib
import random
import signal
import subprocess
import tempfile
import time

ARMS = ("plain", "more", "aggregation", "own")

CONFIG = """# Made by tools/rsa_experiment.py.
name = "{name}"
seed = {seed}

[model]
hidden_size = {width}
num_hidden_layers = {layers}
num_attention_heads = 2
num_key_value_heads = 1
head_dim = 128
num_experts = 4
moe_intermediate_size = {width}
router_hidden_size = 256
max_position_embeddings = 1024
rope_theta = 10000.0
dtype = "{dtype}"

[data]
tokenizer = "bytes"
{sources}
[[phases]]
name = "{name}"
steps = {steps}
context = 1024
batch_tokens = {batch}
lr = {lr}
warmup_steps = {warmup}
schedule = "wsd"
decay_steps = {decay}
{mixture}
[optimizer]
newton_schulz_dtype = "{dtype}"

[balancing]
lr = 1e-2

[step]
micro_tokens = {batch}

[checkpoints]
every_steps = 0

[validation]
samples = 8

[log]
every_steps = 10
tensorboard = false
"""

TASKS = """
[[data.sources]]
name = "tasks"
kind = "environments"
environments = [{kinds}]
min_level = {low}
max_level = {high}
aggregation = {share}
aggregation_candidates = {c}
aggregation_tail = {tau}
"""

CHATS = """chat_template = "{template}"

[[data.sources]]
name = "own"
kind = "conversations"
paths = ["{chats}"]
"""

# A prompt and its solution as the tasks have them: a newline between, and the end of the text.
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content + '\\n' }}{% else %}"
    "{% generation %}{{ m.content }}<eos>{% endgeneration %}{% endif %}{% endfor %}"
)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tephra", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path, nargs="?")
    p.add_argument("--smoke", action="store_true", help="a few steps and tasks, in a folder of its own: does it run?")
    p.add_argument("--report", action="store_true", help="train and measure nothing")
    p.add_argument("--device", default="cpu")
    p.add_argument("--dtype", default="f32", help="of training and of traces; bf16 is a GPU's fast way")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--arms", default=",".join(ARMS), help="which models, plain first")
    p.add_argument("--steps", type=int, default=1200, help="of a plain model")
    p.add_argument("--seconds", type=float, default=0, help="of training a plain model, instead of --steps")
    p.add_argument("--more", type=float, default=0.4, help="steps of the second stage, as a share of the first's")
    p.add_argument("--until", type=float, default=0, help="begin no further tasks after so many seconds; 0: --blocks")
    p.add_argument("--blocks", type=int, default=4, help="of --samples tasks of each kind and level")
    p.add_argument("--samples", type=int, default=6)
    p.add_argument("--kinds", default="division,sorting,walk")
    p.add_argument("--levels", default="1-5", help="of training")
    p.add_argument("--ask", default="", help="kinds and levels of the questions; none: as the first plain model can")
    p.add_argument("--batch", type=int, default=16384, help="tokens of a step")
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--share", type=float, default=0.5, help="of tasks in the aggregation form")
    p.add_argument("--own", type=int, default=32, help="tasks of each kind and level with attempts of the model")
    p.add_argument("--n", type=int, default=16)
    p.add_argument("--c", type=int, default=4)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--beta", type=int, default=256, help="tokens (bytes) of a trace")
    p.add_argument("--tau", type=int, default=128)
    p.add_argument("--jobs", type=int, default=12, help="processes side by side that draw traces")
    p.add_argument("--threads", type=int, default=2, help="of each process")
    o = p.parse_args()
    if o.out is None and not o.smoke:
        p.error("where to write is missing: OUT")
    if o.smoke:
        o.seeds, o.steps, o.batch, o.samples, o.own, o.blocks = 1, 4, 1024, 1, 2, 1
        o.kinds, o.levels, o.n, o.beta, o.tau, o.layers = "sorting", "1-2", 4, 32, 16, 2
    return o


class Experiment:
    def __init__(self, options):
        self.o = options
        self.begin = time.monotonic()
        options.out.mkdir(parents=True, exist_ok=True)
        low, high = (int(level) for level in options.levels.split("-"))
        self.cells = [f"{kind}:{level}" for kind in options.kinds.split(",") for level in range(low, high + 1)]

    def at(self, *words):
        print(f"[{time.monotonic() - self.begin:6.1f} s]", *words, flush=True)

    def spent(self):
        return self.o.until and time.monotonic() - self.begin > self.o.until

    def folder(self, arm, seed):
        return self.o.out / f"{arm}-{seed}"

    def trained(self, arm, seed):
        return (self.folder(arm, seed) / "model" / "model.safetensors").exists()

    def start(self, log, *words):
        """A process; what it prints goes to a file."""
        words = [str(word) for word in (self.o.tephra, *words, "--threads", self.o.threads)]
        return subprocess.Popen(words, stdout=open(log, "w"), stderr=subprocess.STDOUT)

    def finish(self, processes, what):
        for key, (process, log) in processes.items():
            status = process.wait()
            if status != 0:
                self.at(what, *key, "ended with", status, "\n" + log.read_text()[-600:])
        self.at(what)

    # --- training ---

    def config(self, arm, seed, steps, decay):
        o = self.o
        low, high = o.levels.split("-")
        sources = TASKS.format(kinds=", ".join(f'"{kind}"' for kind in o.kinds.split(",")), low=low, high=high,
                               share=o.share if arm == "aggregation" else 0, c=o.c, tau=o.tau)
        mixture = ""
        if arm == "own":
            template = o.out / "plain.jinja"
            template.write_text(TEMPLATE)
            sources = CHATS.format(template=template.resolve(), chats=self.chats(seed).resolve()) + sources
            # As many tokens with attempts as half of the tasks have.
            mixture = 'mixture = [{ source = "own", weight = 0.8 }, { source = "tasks", weight = 0.2 }]\n'
        file = o.out / f"{arm}-{seed}.toml"
        first = arm == "plain"
        file.write_text(CONFIG.format(
            name=arm, seed=seed, width=o.width, layers=o.layers, dtype=o.dtype, sources=sources, mixture=mixture,
            steps=steps, batch=o.batch, lr=o.lr if first else o.lr / 2, warmup=50 if steps >= 200 else max(1, steps // 20),
            decay=decay))
        return file

    def train(self, arm, seed, steps, decay):
        folder = self.folder(arm, seed)
        folder.mkdir(exist_ok=True)
        log = folder / "train.log"
        start = [] if arm == "plain" else ["--init-from", self.folder("plain", seed) / "model"]
        return self.start(log, "train", self.config(arm, seed, steps, decay), "--out", folder / "run", "--device",
                          self.o.device, *start), log

    def export(self, keys):
        self.finish({key: (self.start(log := self.folder(*key) / "export.log", "checkpoint", "export", "--from",
                                      self.folder(*key) / "run", "--to", self.folder(*key) / "model"), log)
                     for key in keys}, "exported")

    def train_plain(self):
        keys = [("plain", seed) for seed in range(1, self.o.seeds + 1)]
        file = self.o.out / "steps.json"
        if file.exists() and all(self.trained(*key) for key in keys):
            return {int(seed): count for seed, count in json.loads(file.read_text()).items()}
        steps = {seed: self.o.steps for _, seed in keys}
        if self.o.seconds:
            # At the full rate for four fifths of the time; then it falls over a fourth of the steps so far.
            running = {key: self.train(*key, 10**6, 1) for key in keys}
            time.sleep(0.8 * self.o.seconds)
            for process, _ in running.values():
                process.send_signal(signal.SIGINT)
            for process, _ in running.values():
                process.wait()
            for key in keys:
                lines = (self.folder(*key) / "run" / "metrics.jsonl").read_text().splitlines()
                steps[key[1]] = json.loads(lines[-1])["step"] * 5 // 4
            self.at("at the full rate", steps)
        self.finish({key: self.train(*key, steps[key[1]], max(1, steps[key[1]] // 5)) for key in keys}, "plain")
        file.write_text(json.dumps(steps))
        self.export(keys)
        return steps

    # --- traces ---

    def rsa(self, model, log, out, *words):
        o = self.o
        return self.start(log, "rsa", "--model", model, "--device", o.device, "--dtype", o.dtype, "--beta", o.beta,
                          "--tau", o.tau, "--out", out, "--overwrite", "--sequences", 256, "--kv-memory", "1GiB", *words), log

    def survey(self):
        """The kinds and levels of which one trace in four to three in four is right, by the first plain model."""
        folder = self.folder("plain", 1)
        known = self.o.out / "survey.json"
        if known.exists():
            return ",".join(json.loads(known.read_text())["chosen"])
        self.finish({("survey",): self.rsa(folder / "model", folder / "survey.log", folder / "survey",
                                           "--environments", ",".join(self.cells), "--samples", 2 if self.o.smoke else 8,
                                           "--seed", 1000, "--n", 8, "--rounds", 0)}, "survey")
        shares = {}
        for question in tree_of(folder / "survey")["questions"]:
            shares.setdefault(question["id"].split("/")[0], []).append(question["rounds"][0]["mean"])
        shares = {cell: sum(each) / len(each) for cell, each in shares.items()}
        self.at({cell: round(share, 2) for cell, share in shares.items()})
        chosen = [cell for cell, share in shares.items() if 0.25 <= share <= 0.75]
        if len(chosen) < 3:
            chosen = sorted(shares, key=lambda cell: abs(shares[cell] - 0.5))[:3]
        known.write_text(json.dumps({"shares": shares, "chosen": chosen}))
        return ",".join(chosen)

    def chats(self, seed):
        return self.o.out / f"own-{seed}.jsonl"

    def solutions(self):
        """Training tasks as a file of questions, and their worked solutions by question."""
        solved = {}
        for cell in self.cells:
            kind, level = cell.split(":")
            shown = subprocess.run([self.o.tephra, "data", "environments", "show", kind, "--level", level, "--seed",
                                    "5000", "--count", str(self.o.own), "--json"], check=True, capture_output=True)
            for task in json.loads(shown.stdout):
                solved[task["prompt"]] = (f"{task['reasoning']}\nAnswer: {task['answer']}", task["answer"])
        file = self.o.out / "own-questions.jsonl"
        file.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, (_, a) in solved.items()))
        return file, solved

    def attempts(self, file, seeds):
        return {("own attempts", seed): self.rsa(
            self.folder("plain", seed) / "model", self.o.out / f"own-{seed}.log", self.o.out / f"own-{seed}",
            "--questions", file, "--match", "exact", "--seed", 2000 + seed, "--n", 8, "--rounds", 0) for seed in seeds}

    def write_chats(self, seed, solved):
        """Each task several times, with some of the model's attempts in the prompt."""
        draw = random.Random(seed)
        lines = []
        for question in tree_of(self.o.out / f"own-{seed}")["questions"]:
            tails = [trace["tail"] for trace in question["rounds"][0]["traces"]]
            for _ in range(6):
                prompt = aggregation_text(question["question"], draw.sample(tails, self.o.c))
                lines.append(json.dumps({"messages": [{"role": "user", "content": prompt}, {
                    "role": "assistant", "content": solved[question["question"]][0]}]}))
        draw.shuffle(lines)
        self.chats(seed).write_text("\n".join(lines) + "\n")

    # --- the whole of it ---

    def second_stage(self, steps, arms):
        seeds = range(1, self.o.seeds + 1)
        more = {seed: max(2, int(self.o.more * steps[seed])) for seed in seeds}
        missing = [(arm, seed) for arm in arms for seed in seeds if not self.trained(arm, seed)]
        sampling = {}
        if any(arm == "own" for arm, _ in missing):
            file, solved = self.solutions()
            sampling = self.attempts(file, [seed for arm, seed in missing if arm == "own"])
        running = {(arm, seed): self.train(arm, seed, more[seed], more[seed] // 2)
                   for arm, seed in missing if arm != "own"}
        ask = self.o.ask or self.survey()
        if sampling:
            self.finish(sampling, "attempts of the plain models")
            for _, seed in sampling:
                self.write_chats(seed, solved)
                running["own", seed] = self.train("own", seed, more[seed], more[seed] // 2)
        self.finish(running, "second stage")
        self.export(running)
        return ask

    def measure(self, ask, arms):
        o = self.o
        keys = [(arm, seed) for arm in arms for seed in range(1, o.seeds + 1)]
        took = 0
        words = {"rsa": ["--n", o.n, "--c", o.c, "--rounds", o.rounds],
                 "voting": ["--n", o.n * (o.rounds + 1), "--rounds", 0],
                 "greedy": ["--n", 1, "--rounds", 0, "--temperature", 0]}
        for block in range(10**6 if o.until else o.blocks):
            begin = time.monotonic()
            if o.until and begin + 1.1 * took - self.begin > o.until:
                break
            jobs = [(key, f"{name}-{block}", words[name]) for name in words for key in keys
                    if not is_whole(self.folder(*key) / f"{name}-{block}")]
            for some in range(0, len(jobs), o.jobs):
                self.finish({(*key, name): self.rsa(
                    self.folder(*key) / "model", self.folder(*key) / f"{name}.log", self.folder(*key) / name,
                    "--environments", ask, "--samples", o.samples, "--seed", block + 1, *more)
                    for key, name, more in jobs[some:some + o.jobs]}, f"block {block}, {some} of {len(jobs)}")
            took = time.monotonic() - begin if jobs else 0

    def run(self):
        check_wording(self.o)
        arms = self.o.arms.split(",")
        steps = self.train_plain()
        self.measure(self.second_stage(steps, arms), arms)


def tree_of(folder):
    return json.loads((folder / "tree.json").read_text())


def is_whole(folder):
    """Whether all is answered: a command that was stopped leaves a tree of what was finished, to be made again."""
    if not (folder / "tree.json").exists():
        return False
    tree = tree_of(folder)
    rounds = tree["options"]["rounds"] + 1
    whole = [question for question in tree["questions"] if len(question["rounds"]) == rounds]
    return len(whole) == tree.get("asked", len(tree["questions"]))


def check_wholeness(folder):
    """That of a tree of which a question, or a round of one, is missing, it is known."""
    tree, part = tree_of(folder), folder.parent / "part"
    part.mkdir()
    assert is_whole(folder) and not is_whole(part)
    for less in (dict(tree, questions=tree["questions"][1:]),
                 dict(tree, questions=[dict(q, rounds=q["rounds"][1:]) for q in tree["questions"]])):
        (part / "tree.json").write_text(json.dumps(less))
        assert not is_whole(part), "a tree that was cut counts as whole"


def aggregation_text(problem, tails):
    """As tephra/text/aggregation.cpp words it."""
    text = f"{problem}\nEnds of {len(tails)} attempts at this, of which some may be wrong or cut off:\n"
    text += "".join(f"[{i + 1}]\n{tail.strip()}\n" for i, tail in enumerate(tails))
    return text + "Weigh them and write one correct solution."


def check_wording(o):
    words = [o.tephra, "data", "environments", "show", "counting", "--json", "--seed", "3"]
    plain, posed = (json.loads(subprocess.run(words + more, check=True, capture_output=True).stdout)[0]["prompt"]
                    for more in ([], ["--aggregate", "1"]))
    attempt = posed.split("[1]\n")[1].rsplit("\n", 1)[0]
    assert posed == aggregation_text(plain, [attempt]), "the wording of aggregation prompts has changed"


# --- results ---


def wilson(share, count, z=1.96):
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0, middle - half), min(1, middle + half)


def questions_of(folder, name):
    """By block and id; of a command that was stopped, those that were finished."""
    found = {}
    for place in sorted(folder.glob(f"{name}-*/tree.json")):
        block = place.parent.name.split("-")[1]
        for question in json.loads(place.read_text())["questions"]:
            found[f"{block}/{question['id']}"] = question
    return found


def rows_of(rsa, voting, greedy, shared):
    """(what, share right, tokens generated) over these questions, which all arms of a seed have answered."""
    def row(what, right, tokens):
        return what, [right(key) for key in shared], [tokens(key) for key in shared]

    def generated(tree, rounds):
        return sum(r["tokens"]["generated"] for r in tree["rounds"][:rounds])

    first = len(next(iter(rsa.values()))["rounds"][0]["traces"]) if rsa else 0
    many = len(next(iter(voting.values()))["rounds"][0]["traces"]) if voting else 0
    rows = [
        row("greedy, one trace", lambda k: greedy[k]["rounds"][0]["mean"], lambda k: generated(greedy[k], 1)),
        row("a single trace", lambda k: voting[k]["rounds"][0]["mean"], lambda k: generated(voting[k], 1) / many),
        row(f"majority of {first}", lambda k: rsa[k]["rounds"][0]["majority_right"], lambda k: generated(rsa[k], 1)),
        row(f"majority of {many}", lambda k: voting[k]["rounds"][0]["majority_right"],
            lambda k: generated(voting[k], 1)),
        row(f"any of {many}", lambda k: voting[k]["rounds"][0]["mean"] > 0, lambda k: generated(voting[k], 1)),
    ]
    for r in range(1, len(next(iter(rsa.values()))["rounds"]) if rsa else 0):
        rows.append(row(f"RSA, mean of round {r}", lambda k, r=r: rsa[k]["rounds"][r]["mean"],
                        lambda k, r=r: generated(rsa[k], r + 1)))
        rows.append(row(f"RSA, majority of round {r}", lambda k, r=r: rsa[k]["rounds"][r]["majority_right"],
                        lambda k, r=r: generated(rsa[k], r + 1)))
    return rows


def by_right_attempts(trees):
    """Of the traces that saw so many right attempts: how many are right, and how many there are."""
    counts = {}
    for tree in trees:
        for before, after in zip(tree["rounds"], tree["rounds"][1:]):
            for trace in after["traces"]:
                seen = sum(before["traces"][parent]["right"] for parent in trace["parents"])
                right, all_of_them = counts.get(seen, (0, 0))
                counts[seen] = right + trace["right"], all_of_them + 1
    return dict(sorted(counts.items()))


def reading_table(o, arms):
    """Whether a model can use what it is shown; over every tree that there is."""
    text = "\n| right attempts in the prompt |" + "".join(f" {i} |" for i in range(o.c + 1))
    text += "\n|---|" + "---:|" * (o.c + 1) + "\n"
    for arm in arms:
        trees = [tree for folder in sorted(o.out.glob(f"{arm}-?")) for tree in questions_of(folder, "rsa").values()]
        counts = by_right_attempts(trees)
        if counts:
            cells = (counts.get(i) for i in range(o.c + 1))
            text += f"| {arm} |" + "".join(
                f" {100 * each[0] / each[1]:.0f} % of {each[1]:,} |" if each else " |" for each in cells) + "\n"
    return text


def collect(o, arms):
    """By arm: rows over all seeds; and how each seed did by itself."""
    pooled, by_seed = {}, {}
    for seed in range(1, o.seeds + 1):
        answered = {arm: [questions_of(o.out / f"{arm}-{seed}", name) for name in ("rsa", "voting", "greedy")]
                    for arm in arms}
        shared = set.intersection(*(set(tree) for trees in answered.values() for tree in trees))
        for arm in arms if shared else ():
            rows = rows_of(*answered[arm], sorted(shared))
            by_seed.setdefault(arm, {})[seed] = {what: sum(right) / len(right) for what, right, _ in rows}
            for what, right, tokens in rows:
                into = pooled.setdefault(arm, {}).setdefault(what, ([], []))
                into[0].extend(right)
                into[1].extend(tokens)
    return pooled, by_seed


def report(o):
    arms = [arm for arm in o.arms.split(",") if (o.out / f"{arm}-1").exists()]
    pooled, by_seed = collect(o, arms)
    reading = reading_table(o, arms)
    if not pooled:
        print("no questions were answered by all models\n" + reading)
        return
    steps = json.loads((o.out / "steps.json").read_text())
    text = f"Steps of the plain models by seed: {steps}; {o.more:g} of that in the second stage.\n\n| answer by |"
    text += "".join(f" {arm} | tokens |" for arm in arms) + "\n|---|" + "---:|---:|" * len(arms) + "\n"
    for what, (right, _) in pooled[arms[0]].items():
        text += f"| {what} |"
        for arm in arms:
            right, tokens = pooled[arm][what]
            share = sum(right) / len(right)
            low, high = wilson(share, len(right))
            text += (f" {100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f}) |"
                     f" {sum(tokens) / len(tokens):.0f} |")
        text += "\n"
    text += f"\n{len(right)} tasks of each arm, over all seeds. By seed:\n\n| arm | seed |"
    rows = list(pooled[arms[0]])
    text += "".join(f" {what} |" for what in rows) + "\n|---|---:|" + "---:|" * len(rows) + "\n"
    for arm in arms:
        for seed, each in by_seed[arm].items():
            text += f"| {arm} | {seed} |" + "".join(f" {100 * each[what]:.1f} |" for what in rows) + "\n"
    text += reading
    (o.out / "results.md").write_text(text)
    (o.out / "results.json").write_text(json.dumps(
        {"settings": {k: str(v) for k, v in vars(o).items()}, "steps": steps, "by_seed": by_seed}, indent=1))
    print(text)


def main():
    o = arguments()
    if o.smoke:
        with tempfile.TemporaryDirectory() as folder:
            o.out = pathlib.Path(folder)
            Experiment(o).run()
            report(o)
            tasks = len(questions_of(o.out / "own-1", "rsa"))
            assert tasks == 2, f"2 tasks were to be answered, not {tasks}"
            check_wholeness(o.out / "own-1" / "rsa-0")
        return
    try:
        if not o.report:
            Experiment(o).run()
    except KeyboardInterrupt:
        time.sleep(2)  # what was running writes what it has
        print("stopped; the report is of what was finished", flush=True)
    report(o)


main()

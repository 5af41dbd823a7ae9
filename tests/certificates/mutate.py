#!/usr/bin/env python3
"""Checks certificates of plans and of refusals, and damaged ones.

    tests/certificates/mutate.py STOWAGE [--plans N] [--mutations N] [--also CHECKER]

Writes certificates of N plans and N refusals of random graphs and of models with the built
command, and requires that tools/check_certificate.py accepts them, and CHECKER, a program
that takes files, too. Then damages them. Two kinds of mutations:

- one that makes a claim false by construction: a smaller arena, a slot moved onto one that
  is live with it, a claimed sum that is another, a budget that is not refused, an edge
  against the order, a line left out;
- any number replaced by another. The claim is then computed here anew, by walking through
  the order and comparing all pairs of live values, and from sets of nodes that are searched
  one edge at a time: no code and no algorithm of the checkers. They must accept exactly
  those that are true of the graph that the certificate now has.

Prints counts, "N passed, M failed", and exits 1 if any failed.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import check_certificate  # noqa: E402

LARGEST = 2**62 - 1


def parse(text):
    """The lines of a certificate as lists of words, without comments."""
    return [line.split("#")[0].split() for line in text.splitlines()]


def text_of(lines):
    """The reverse of parse."""
    return "".join(" ".join(map(str, words)) + "\n" for words in lines)


class Facts:
    """The numbers of well-formed lines, by kind."""

    def __init__(self, lines):
        self.of = {}
        for words in lines:
            if words[0] not in ("stowage-certificate", "claim"):
                self.of.setdefault(words[0], []).append([int(word) for word in words[1:]])
        self.refusal = lines[1][1] == "refusal"

    def all(self, kind):
        return self.of.get(kind, [])


def is_true(lines):
    """Whether the claims of well-formed lines are true, by definition."""
    facts = Facts(lines)
    if any(abs(number) > LARGEST for rows in facts.of.values() for row in rows
           for number in row):
        return False
    (alignment,), (nodes,) = facts.all("alignment")[0], facts.all("nodes")[0]
    values, slots = facts.all("value"), facts.all("slot")
    if alignment < 1 or nodes < 0:
        return False
    for maker, size, kept, *uses in values:
        if size < 0 or kept not in (0, 1) or not -1 <= maker < nodes:
            return False
        if any(use >= nodes or use <= maker for use in uses):
            return False
    for first, second in facts.all("after"):
        if not 0 <= first < second < nodes:
            return False
    may = {}
    for node, result, *operands in facts.all("overwrite"):
        if node in may or not 0 <= result < len(values) or values[result][0] != node or node < 0:
            return False
        for operand in operands:
            if not 0 <= operand < len(values) or node not in values[operand][3:] or \
                    values[operand][1] != values[result][1]:
                return False
        may[node] = (result, operands)

    def pad(size):
        return size if size % alignment == 0 else size + alignment - size % alignment

    if facts.all("order-bound"):
        node, claimed = facts.all("order-bound")[0]
        if not 0 <= node < nodes or claimed != order_bound(facts, node, may, pad):
            return False
        if facts.refusal:
            return 0 <= facts.all("budget")[0][0] < claimed
    return len(slots) == len(values) and is_plan_true(facts, nodes, alignment, may, pad)


def order_bound(facts, node, may, pad):
    """The bytes that are live while the node runs, whatever the order."""
    values = facts.all("value")

    def reach(start, index):
        seen, todo = set(), [start]
        while todo:
            at = todo.pop()
            found = {pair[1 - index] for pair in facts.all("after") if pair[index] == at}
            for maker, _, _, *uses in values:
                if index == 0 and maker == at:
                    found.update(uses)
                elif index == 1 and at in uses and maker >= 0:
                    found.add(maker)
            todo += found - seen
            seen |= found
        return seen

    before, after = reach(node, 1), reach(node, 0)
    counted, spared = 0, 0
    for i, (maker, size, kept, *uses) in enumerate(values):
        later = bool(kept) or any(use in after for use in uses)
        if maker == node:
            counted += pad(size)
        elif (maker == -1 or maker in before) and (later or node in uses):
            counted += pad(size)
        if node in may and i in may[node][1] and not later:
            spared = max(spared, pad(size))
    return counted - spared


def is_plan_true(facts, nodes, alignment, may, pad):
    """Whether the slots hold in every step of the order, and the sum at a time is right."""
    values, slots = facts.all("value"), facts.all("slot")
    (arena,), (time, claimed) = facts.all("arena")[0], facts.all("lower-bound")[0]
    if arena < 0 or arena % alignment or not 0 <= time <= nodes:
        return False
    gone = {}  # value: the time at which a result is written over it
    for i, (offset, size, hold, over) in enumerate(slots):
        if offset < 0 or offset % alignment or offset + size > arena or \
                size < values[i][1] or not -1 <= hold <= nodes or \
                not -1 <= over < len(slots):
            return False
        if over == -1:
            continue
        node = values[i][0]
        if node not in may or may[node][0] != i or over not in may[node][1] or \
                slots[over][:2] != [offset, size]:
            return False
        gone[over] = node
    for t in range(nodes + 1):
        live = []
        for i, (maker, _, kept, *uses) in enumerate(values):
            made = maker <= t
            needed = kept or max([maker, 0, slots[i][2], *uses]) >= t
            if i in gone and t >= gone[i]:
                if t > gone[i] and made and needed:
                    return False  # it is needed, and its bytes are another's
            elif made and needed:
                live.append(i)
        places = sorted((slots[i][0], slots[i][0] + slots[i][1]) for i in live if slots[i][1])
        if any(a[1] > b[0] for a, b in zip(places, places[1:])):
            return False
        if t == time and sum(pad(values[i][1]) for i in live) != claimed:
            return False
    return True


class Mutator:
    """Damages certificates, given as lines of words."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def of_kind(self, lines, kind):
        return [i for i, words in enumerate(lines) if words[0] == kind]

    def falsify(self, lines):
        """Makes a claim false; returns None where this way does not apply."""
        lines = [list(words) for words in lines]
        pick = self.random.choice
        way = pick([self.arena, self.overlap, self.sum, self.budget, self.edge, self.drop,
                    self.misalign, self.order, self.garble, self.late, self.maker])
        return way(lines)

    def garble(self, lines):
        """A word that is no number."""
        at = self.random.choice([i for i, words in enumerate(lines)
                                 if len(words) > 1 and i > 1])
        lines[at][self.random.randrange(1, len(lines[at]))] = self.random.choice(
            ["x7", "1.5", "--1", "9" * 30, "0x10"])
        return lines

    def arena(self, lines):
        slots = [lines[i] for i in self.of_kind(lines, "slot")]
        used = max((int(s[1]) + int(s[2]) for s in slots), default=0)
        if used == 0:
            return None
        lines[self.of_kind(lines, "arena")[0]][1] = self.random.randrange(used)
        return lines

    def overlap(self, lines):
        slots = self.of_kind(lines, "slot")
        values = [list(map(int, lines[i][1:])) for i in self.of_kind(lines, "value")]
        kept = [i for i, s in enumerate(slots) if int(lines[s][2]) > 0 and values[i][2] and
                values[i][0] == -1]
        big = [i for i, s in enumerate(slots) if int(lines[s][2]) > 0]
        if not kept or len(big) < 2:
            return None
        stays = self.random.choice(kept)  # live throughout
        moves = self.random.choice([i for i in big if i != stays])
        if any(int(lines[s][4]) == moves for s in slots) or int(lines[slots[moves]][4]) >= 0:
            return None
        lines[slots[moves]][1] = lines[slots[stays]][1]
        return lines

    def sum(self, lines):
        kind = self.random.choice(["lower-bound", "order-bound"])
        at = self.of_kind(lines, kind)
        if not at:
            return None
        delta = self.random.choice([-256, -1, 1, 256, 4096, -4096])
        lines[at[0]][2] = int(lines[at[0]][2]) + delta
        return lines

    def budget(self, lines):
        at = self.of_kind(lines, "budget")
        if not at:
            return None
        bound = int(lines[self.of_kind(lines, "order-bound")[0]][2])
        lines[at[0]][1] = bound + self.random.randrange(1 << 20)
        return lines

    def edge(self, lines):
        """A use before the value is made, or at the node that makes it."""
        made = [i for i in self.of_kind(lines, "value") if int(lines[i][1]) >= 0]
        if not made:
            return None
        at = self.random.choice(made)
        lines[at].append(self.random.randrange(int(lines[at][1]) + 1))
        return lines

    def drop(self, lines):
        kinds = ["value", "slot", "alignment", "nodes", "end", "arena", "lower-bound",
                 "budget", "claim", "stowage-certificate"]
        if lines[1][1] == "refusal":
            kinds = [kind for kind in kinds if kind != "value"] + ["order-bound"]
        at = self.of_kind(lines, self.random.choice(kinds))
        if not at:
            return None
        del lines[self.random.choice(at)]
        return lines

    def misalign(self, lines):
        slots = self.of_kind(lines, "slot")
        alignment = int(lines[self.of_kind(lines, "alignment")[0]][1])
        if not slots or alignment == 1:
            return None
        at = self.random.choice(slots)
        lines[at][1] = int(lines[at][1]) + self.random.randrange(1, alignment)
        return lines

    def order(self, lines):
        """An edge against the order."""
        nodes = int(lines[self.of_kind(lines, "nodes")[0]][1])
        after = self.of_kind(lines, "after")
        if not after:
            return None
        at = self.random.choice(after)
        lines[at][1:] = [lines[at][2], self.random.randrange(int(lines[at][2]) + 1)]
        return lines if nodes else None

    def late(self, lines):
        """A use of a value after a result has been written over it."""
        nodes = int(lines[self.of_kind(lines, "nodes")[0]][1])
        values, slots = self.of_kind(lines, "value"), self.of_kind(lines, "slot")
        over = [(int(lines[slot][4]), int(lines[value][1]))
                for value, slot in zip(values, slots)
                if int(lines[slot][4]) >= 0 and int(lines[value][1]) < nodes - 1]
        if not over:
            return None
        operand, node = self.random.choice(over)
        lines[values[operand]].append(self.random.randrange(node + 1, nodes))
        return lines

    def maker(self, lines):
        """A maker that is no node, of a value that nothing uses."""
        unused = [i for i in self.of_kind(lines, "value") if len(lines[i]) == 4]
        if not unused:
            return None
        nodes = int(lines[self.of_kind(lines, "nodes")[0]][1])
        lines[self.random.choice(unused)][1] = self.random.choice([-2, nodes, nodes + 7])
        return lines

    def change(self, lines):
        """Another number for any."""
        lines = [list(words) for words in lines]
        at = self.random.choice([i for i, words in enumerate(lines)
                                 if len(words) > 1 and i > 1])
        field = self.random.randrange(1, len(lines[at]))
        old = int(lines[at][field])
        new = old
        while new == old:
            new = self.random.choice([
                old + self.random.choice([-1, 1, -256, 256]), 0, -1, old * 2,
                self.random.randrange(64), int(self.random.choice(
                    self.random.choice([w for w in lines if len(w) > 1 and w[0] == lines[at][0]])
                    [1:]))])
        lines[at][field] = new
        return lines


def random_graph(rng):
    """The text form of a graph of small ops on vectors, with dead ends and joins."""
    sizes = rng.sample([16, 64, 100, 1000, 5000], rng.randint(1, 3))
    lines, names = [], []  # (name, size)
    for i, size in enumerate(sizes):
        lines.append(f"x{i}: f32({size}) = {rng.choice(['input', 'param'])}")
        names.append((f"x{i}", size))
    for i in range(rng.randint(2, 24)):
        name, size = rng.choice(names)
        others = [other for other, same in names if same == size]
        op = rng.choice([f"exp({name})", f"relu({name})",
                         f"add({name}, {rng.choice(others)})",
                         f"mul({name}, {rng.choice(others)})"])
        lines.append(f"h{i}: f32({size}) = {op}")
        names.append((f"h{i}", size))
    for i in rng.sample(range(len(sizes), len(names)), min(2, len(names) - len(sizes))):
        lines.append(f'output "out{i}" = {names[i][0]}')
    return 'stowage-ir 1\ngraph "random" {\n  ' + "\n  ".join(lines) + "\n}\n"


def accepted_by_python(text):
    """Whether tools/check_certificate.py accepts the text."""
    try:
        check_certificate.check(text)
        return True
    except check_certificate.Rejected:
        return False


def accepted_by(checker, texts):
    """The verdicts of a program on texts: files in one folder, a line each."""
    if not checker or not texts:
        return [None] * len(texts)
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(texts), 500):
            paths = []
            for i, text in enumerate(texts[begin:begin + 500]):
                paths.append(os.path.join(folder, str(i)))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(text)
            out = subprocess.run([checker, *paths], capture_output=True, text=True,
                                 check=False).stdout.splitlines()
            verdicts += [line.startswith("accepted") for line in out]
    return verdicts


MODELS = [
    ["--model", "mlp"], ["--model", "cnn-small"], ["--model", "gpt-nano"],
    ["--model", "gpt-nano", "--micro-batches", "4"], ["--model", "lstm-char"],
    ["--model", "gpt-nano", "--budget", "16MiB"], ["--model", "resnet18", "--batch", "2"],
    ["--model", "gpt-nano", "--order", "memory", "--budget", "40MiB", "--recompute", "none"],
]


class Run:
    """Certificates that the command writes, and counts of what was found."""

    def __init__(self, stowage, checker, folder):
        self.stowage = stowage
        self.checker = checker
        self.folder = folder
        self.passed = self.failed = self.still_true = 0

    def expect(self, condition, text):
        """Counts one check."""
        if condition:
            self.passed += 1
            return
        self.failed += 1
        if self.failed <= 10:
            print("FAILED:", text)

    def certificate(self, words, exit_code):
        """What `stowage plan` writes, or None."""
        path = os.path.join(self.folder, "certificate")
        if os.path.exists(path):
            os.remove(path)
        done = subprocess.run(
            [self.stowage, "plan", *words, "--certificate", path, "--no-plan-cache",
             "--threads", "1"], capture_output=True, text=True, check=False)
        if done.returncode != exit_code:
            self.expect(False, f"{words}: exit {done.returncode}: {done.stderr}")
            return None
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()

    def subjects(self, count, rng):
        """Words of the command: a few models, and random graphs."""
        for i in range(count):
            if i % 8 == 0 and i // 8 < len(MODELS):
                yield MODELS[i // 8]
                continue
            path = os.path.join(self.folder, f"{i}.ir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(random_graph(rng))
            yield ["--graph", path]

    def write(self, count, rng):
        """As many certificates of plans and of refusals."""
        plans, refusals = [], []
        for words in self.subjects(3 * count, rng):
            if len(refusals) == count:
                break
            text = self.certificate(words, 0)
            self.expect(text is not None, f"no certificate of {words}")
            if text is None:
                continue
            if len(plans) < count:
                plans.append(text)
            if "--budget" in words or "order-bound" not in text:
                continue
            # No order fits a budget below the order bound.
            bound = int(text.split("order-bound ")[1].split()[1])
            budget = str(rng.randrange(1, max(bound, 2)))
            text = self.certificate([*words, "--fit", "none", "--budget", budget], 1)
            self.expect(text is not None, f"no certificate of {words} in {budget}")
            if text is not None:
                refusals.append(text)
        self.expect(len(refusals) == count, f"{len(refusals)} refusals")
        return plans + refusals

    def check(self, cases):
        """Of texts and whether they are true: whether both checkers say so."""
        for (text, expected, what), other in zip(
                cases, accepted_by(self.checker, [case[0] for case in cases])):
            python = accepted_by_python(text)
            self.expect(python == expected, f"python says {python} of {what}\n{text[-2000:]}")
            if other is not None:
                self.expect(other == expected, f"{self.checker} says {other} of {what}\n"
                            f"{text[-2000:]}")

    def mutate(self, texts, count, mutator):
        """As many damaged certificates, with the truth about each."""
        small = [parse(text) for text in texts if text.count("\n") < 200]
        large = [parse(text) for text in texts]
        cases = []
        while len(cases) < count:
            if len(cases) % 2:
                lines = mutator.falsify(mutator.random.choice(large if len(cases) % 20 == 1
                                                              else small))
                truth, what = False, "a claim that is false by construction"
            else:
                lines = mutator.change(mutator.random.choice(small))
                truth, what = is_true(lines), "a changed number"
            if lines is None:
                continue
            self.still_true += truth
            cases.append((text_of(lines), truth, what))
        return cases


def main():
    """Runs it all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stowage")
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--mutations", type=int, default=10000)
    parser.add_argument("--also")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(arguments.stowage, arguments.also, folder)
        texts = run.write(arguments.plans, random.Random(arguments.seed))
        run.check([(text, True, "a certificate") for text in texts])
        cases = run.mutate(texts, arguments.mutations, Mutator(arguments.seed))
        run.check(cases)
    refusals = sum("claim refusal" in text for text in texts)
    print(f"certificates of {len(texts) - refusals} plans and {refusals} refusals, and "
          f"{len(cases)} mutations, of which {run.still_true} left the claim true")
    print(f"{run.passed} passed, {run.failed} failed")
    return 1 if run.failed or not run.passed else 0


if __name__ == "__main__":
    sys.exit(main())

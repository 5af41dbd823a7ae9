#!/usr/bin/env python3
"""Writes the fewest extra operations that tests/planner/fit/recompute/milp_test.cc
compares with.

For each of the steps in tests/planner/fit/recompute/milp_steps.cc the smallest budget
in which it can run, and at that and four larger budgets the fewest operations
that recomputation has to add, by Checkmate's integer program (Jain et al., MLSys
2020, arXiv 1910.02653), solved by HiGHS. A step of which one of these is not
proven within the time limit has no rows.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install highspy numpy
    bazel build //tests/planner/fit:milp_problems
    bazel-bin/tests/planner/fit/milp_problems > /tmp/problems.tsv
    /tmp/venv/bin/python tests/goldens/make_recompute_goldens.py /tmp/problems.tsv \\
        > tests/goldens/recompute_milp.csv

The program, with a stage t for each node t, in which any node k <= t may run once,
in order, and node t does:

    R[t,k]   node k runs in stage t; R[t,t] = 1
    S[t,v]   value v is there when stage t begins
             R[t,k] <= R[t,maker(v)] + S[t,v]        for each v that k reads
             S[t+1,v] <= S[t,v] + R[t,maker(v)]
    H[t,v,k] value v is held while node k runs in stage t: it is made there, or
             somebody reads it then or later, or it is there in the next stage
    for each t and k: the bytes of what is held, and of k's scratch, <= budget
    least sum over k < t of R[t,k] operations(k)

Checkmate counts the bytes by U[t,k] and FREE[t,i,k], the product of the negations
of what H is the maximum of. As a maximum it needs no products, and so no integers;
the whole solutions are the same (--literal solves the original program too, and
compares). Values rather than nodes are held, since nodes may have several results.
A node does not run again once a param that it reads has been updated, and an
update never does. An output stays once it is made. Nothing is written in place. A reader of a view holds what the
view looks into. Params, states and inputs lie outside the budget.

Rows are step,digest,nodes,values,budget,extra_flops,least_flops: the bytes of
the budget, the operations that the best schedule found adds, and the most that
the solver has proven none can be below. The schedule is played through in whole
numbers before it is written.
"""

import argparse
import json
import math
import sys
import time

import highspy
import numpy as np

BUDGETS = 5
GAP = 1e-4  # relative, between what is found and what is proven


class Program:
    """Columns and rows of an integer program, for HiGHS."""

    def __init__(self):
        self.cost, self.upper, self.integer = [], [], []
        self.row_low, self.row_high = [], []
        self.starts, self.index, self.value = [0], [], []

    def column(self, cost=0.0, integer=True, upper=1.0):
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def at_most(self, terms, high):
        """sum of factor * column <= high; a column that is a number counts."""
        sums = {}
        for factor, column in terms:
            if column is None:
                continue
            if isinstance(column, Fixed):
                high -= factor * column.value
            else:
                sums[column] = sums.get(column, 0) + factor
        if sum(max(factor * self.upper[c], 0) for c, factor in sums.items()) <= high:
            return
        self.index.extend(sums)
        self.value.extend(sums.values())
        self.starts.append(len(self.index))
        self.row_low.append(-math.inf)
        self.row_high.append(high)

    def solve(self, seconds, threads):
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.row_high)
        lp.col_cost_ = np.array(self.cost, dtype=float)
        lp.col_lower_ = np.zeros(lp.num_col_)
        lp.col_upper_ = np.array(self.upper, dtype=float)
        lp.row_lower_ = np.array(self.row_low)
        lp.row_upper_ = np.array(self.row_high, dtype=float)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self.starts)
        lp.a_matrix_.index_ = np.array(self.index)
        lp.a_matrix_.value_ = np.array(self.value, dtype=float)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[i] for i in self.integer]
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("time_limit", float(seconds))
        solver.setOptionValue("threads", threads)
        solver.setOptionValue("mip_rel_gap", GAP / 2)
        solver.passModel(lp)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return "infeasible", None, math.inf
        if status != highspy.HighsModelStatus.kOptimal:
            return "unknown", None, 0.0
        info = solver.getInfo()
        return "optimal", np.array(solver.getSolution().col_value), info.mip_dual_bound


class Fixed:
    """A number where a column could be."""

    def __init__(self, value):
        self.value = value


ONE = Fixed(1)


class Step:
    def __init__(self, problem):
        self.name = problem["name"]
        self.nodes = problem["nodes"]
        self.bytes = problem["bytes"]
        self.outputs = problem["outputs"]
        self.maker = [0] * len(self.bytes)
        self.readers = [[] for _ in self.bytes]
        for k, node in enumerate(self.nodes):
            for v in node["makes"]:
                self.maker[v] = k
            for v in node["reads"]:
                self.readers[v].append(k)
        self.find_uses()

    def may_run(self, t, k):
        node = self.nodes[k]
        return t == k or (k < t <= node["last"] and len(node["makes"]) > 0)

    def ends(self, v):
        """The last node during which v is there when nothing runs again."""
        return len(self.nodes) if v in self.outputs else max(
            [self.maker[v]] + self.readers[v])

    def find_uses(self):
        """Until which stage a value can be of use, if only for what is."""
        count = len(self.nodes)
        self.use = [-1] * len(self.bytes)
        for k in reversed(range(count)):
            node = self.nodes[k]
            # The last stage in which it pays to run this node.
            last = max([k] + [min(self.use[v], node["last"]) for v in node["makes"]
                              if v not in self.outputs])
            node["pays"] = last
            for v in node["reads"]:
                self.use[v] = max(self.use[v], last)
        for v in self.outputs:
            self.use[v] = count

    def runs(self, t, k):
        return self.may_run(t, k) and t <= self.nodes[k]["pays"]

    def given_peak(self):
        """Live bytes at the fullest time when nothing runs again."""
        peak = 0
        for k, node in enumerate(self.nodes):
            live = node["scratch"]
            for v, size in enumerate(self.bytes):
                live += size * (self.maker[v] <= k <= self.ends(v))
            peak = max(peak, live)
        return peak


def state(step, budget, literal):
    """The program; the budget is its objective when there is none."""
    p = Program()
    nodes, sizes = step.nodes, step.bytes
    count = len(nodes)
    flops_unit = max(node["flops"] for node in nodes) / 1000
    bytes_unit = max(sizes) / 1000
    room = None
    if budget is None:
        room = p.column(cost=1.0, integer=False, upper=math.inf)
    R = [{} for _ in range(count)]
    S = [{} for _ in range(count + 1)]
    for t in range(count):
        for k in range(t + 1):
            if not step.runs(t, k):
                continue
            cost = nodes[k]["flops"] / flops_unit if budget is not None else 0.0
            R[t][k] = ONE if k == t else p.column(cost=cost)
        for v, use in enumerate(step.use):
            if step.maker[v] < t <= use:
                S[t][v] = ONE if v in step.outputs else p.column()
    for v in step.outputs:
        S[count][v] = ONE
    for t in range(count):
        for k, runs in R[t].items():
            for v in nodes[k]["reads"]:
                p.at_most([(1, runs), (-1, R[t].get(step.maker[v])), (-1, S[t].get(v))], 0)
        for v, there in S[t + 1].items():
            p.at_most([(1, there), (-1, S[t].get(v)), (-1, R[t].get(step.maker[v]))], 0)
        for v, there in S[t].items():
            if step.maker[v] in R[t] and v not in step.outputs:
                # Else what is there would be there twice.
                p.at_most([(1, there), (1, R[t][step.maker[v]])], 1)
        count_bytes = literal_bytes if literal else held_bytes
        for k, terms in count_bytes(step, p, t, R[t], S[t], S[t + 1]):
            terms = [(size / bytes_unit, column) for size, column in terms]
            if room is None:
                p.at_most(terms, budget / bytes_unit)
            else:
                p.at_most(terms + [(-1, room)], 0)
    return p, R, S, flops_unit, bytes_unit


def held_bytes(step, p, t, R, S, S_next):
    """For each node that may run in stage t: what is held, as bytes and columns."""
    held = {k: [(step.nodes[k]["scratch"], R[k])] for k in R}
    ran = sorted(R)
    for v, size in enumerate(step.bytes):
        maker = step.maker[v]
        if maker > t or (v not in S and maker not in R):
            continue
        if v in S and v in step.outputs:  # a further copy dies at once
            for k in ran:
                held[k] += [(size, ONE)] + [(size, R[k])] * (k == maker)
            continue
        moments = [k for k in ran if k == maker or k in step.readers[v]]
        later = S_next.get(v)  # held from the moment that comes next, or the end
        at = {}
        for k in reversed(moments):
            column = R[k]
            if not isinstance(column, Fixed) and later is not None:
                column = ONE if isinstance(later, Fixed) else p.column(integer=False)
                if column is not ONE:
                    p.at_most([(1, R[k]), (-1, column)], 0)
                    p.at_most([(1, later), (-1, column)], 0)
            at[k] = later = column
        for k in ran:
            if k < maker:
                held[k].append((size, S.get(v)))
                continue
            upcoming = [m for m in moments if m >= k]
            column = at[upcoming[0]] if upcoming else S_next.get(v)
            held[k].append((size, column))
    return held.items()


def literal_bytes(step, p, t, R, S, S_next):
    """The same by Checkmate's U and FREE."""
    ran = sorted(R)
    sums = [(step.bytes[v], there) for v, there in S.items()]
    out = []
    for n, k in enumerate(ran):
        sums = sums + [(step.bytes[v], R[k]) for v in step.nodes[k]["makes"]]
        out.append((k, sums + [(step.nodes[k]["scratch"], R[k])]))
        for v in step.nodes[k]["reads"] + step.nodes[k]["makes"]:
            # FREE = R[k] (1 - S_next) prod over later readers of (1 - R[j]).
            if v in step.outputs:
                sums = sums + [(-step.bytes[v], R[k])] * (k == step.maker[v] < t)
                continue
            hazards = [R[j] for j in ran[n + 1 :] if j in step.readers[v]]
            if v in S_next:
                hazards.append(S_next[v])
            if any(isinstance(h, Fixed) for h in hazards):
                continue
            free = p.column()
            p.at_most([(1, free), (-1, R[k])], 0)
            for hazard in hazards:
                p.at_most([(1, free), (1, hazard)], 1)
            sums = sums + [(-step.bytes[v], free)]
    return out


def play(step, R, S, values):
    """Peak bytes and extra operations of a solution, in whole numbers."""
    def is_set(column):
        return column is not None and (
            isinstance(column, Fixed) or values[column] > 0.5)

    count = len(step.nodes)
    there, peak, extra = set(), 0, 0.0
    for t in range(count):
        ran = [k for k in sorted(R[t]) if is_set(R[t][k])]
        kept = {v for v in S[t + 1] if is_set(S[t + 1][v])}
        for n, k in enumerate(ran):
            there &= kept.union(*(step.nodes[j]["reads"] for j in ran[n:]))
            node = step.nodes[k]
            assert there.issuperset(node["reads"]), (step.name, t, k)
            twice = [v for v in node["makes"] if v in there]
            there.update(node["makes"])
            peak = max(peak, node["scratch"] + sum(step.bytes[v] for v in twice)
                       + sum(step.bytes[v] for v in there))
            if k < t:
                assert t <= node["last"]
                extra += node["flops"]
        there &= kept
        assert there == kept
    assert there >= set(step.outputs)
    return peak, extra


def solve(step, budget, arguments, literal=False):
    """Peak, extra operations and what is proven; None unless both are."""
    program, R, S, flops_unit, bytes_unit = state(step, budget, literal)
    begin = time.time()
    status, values, bound = program.solve(arguments.seconds, arguments.threads)
    took = time.time() - begin
    print(f"{step.name} {budget} {status} {took:.1f} s, {len(program.cost)} columns",
          file=sys.stderr, flush=True)
    if status != "optimal":
        return None
    peak, extra = play(step, R, S, values)
    if budget is None:
        return peak, extra, bound * bytes_unit
    assert peak <= budget, (step.name, peak, budget)
    return peak, extra, min(bound * flops_unit, extra)


def rows_of(step, digest, arguments):
    given = step.given_peak()
    found = solve(step, None, arguments)
    if found is None:
        return None
    least, _, bound = found
    assert bound > least - 128, (step.name, least, bound)  # sizes are whole 256
    if least == given:
        return None
    rows = []
    for part in range(BUDGETS):
        budget = least + (given - least) * part // BUDGETS
        found = solve(step, budget, arguments)
        if found is None:
            return None
        _, extra, bound = found
        if extra - bound > GAP * extra + 1:
            return None
        if arguments.literal:
            again = solve(step, budget, arguments, literal=True)
            if again is not None:
                assert abs(again[1] - extra) <= 2 * GAP * extra, (again, extra)
        rows.append(f"{step.name},{digest},{len(step.nodes)},{len(step.bytes)},"
                    f"{budget},{extra:.0f},{math.floor(bound + 0.01)}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", help="what milp_problems prints")
    parser.add_argument("--seconds", type=float, default=120, help="per program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="steps whose names hold this")
    parser.add_argument("--literal", action="store_true",
                        help="also solve with U and FREE, and compare")
    arguments = parser.parse_args()
    print("step,digest,nodes,values,budget,extra_flops,least_flops")
    for line in open(arguments.problems):
        digest, problem = line.rstrip("\n").split("\t")
        step = Step(json.loads(problem))
        if arguments.only not in step.name:
            continue
        rows = rows_of(step, digest, arguments)
        if rows is None:
            print(f"{step.name}: left out", file=sys.stderr)
            continue
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()

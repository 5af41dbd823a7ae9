#!/usr/bin/env python3
"""Judges a plan file by itself: no code of Stowage, no knowledge of its ops.

    tools/judge_plan.py step.plan

It reads what `stowage plan -o` wrote (report/plan_json.h says what each field is),
runs the schedule over imaginary memory in which every byte remembers who wrote it
last, and prints a line for each thing that is wrong:

- a slot outside its region, misaligned, too small, or of the wrong region;
- a view that reaches outside its root;
- a node that reads a byte that somebody else has written since, or nobody has;
- a result written over an operand that the node may not overwrite, over another
  result or over scratch;
- an output, a param or a state that does not survive the step;
- a use outside the lifetime that is stated for a slot;
- an arena that is not what its regions sum to, or above the budget.

Plans of loops and branches are not judged here.

Exit 0: the plan is sound. 1: it is not. 2: this is no plan file, or of loops.
"""

import bisect
import json
import sys

# In the order in which they lie; the last two are in the host's memory.
REGIONS = ["weights", "state", "io", "activations", "workspace", "host_state",
           "host_stash"]
NOBODY, BACKEND = -1, -2


class Owners:
    """Who wrote each byte last: intervals that cover all of the memory."""

    def __init__(self, size):
        self.starts = [0]  # of each interval, which ends where the next starts
        self.owners = [NOBODY]
        self.size = size

    def _split(self, at):
        i = bisect.bisect_right(self.starts, at) - 1
        if self.starts[i] == at or at >= self.size:
            return i if self.starts[i] == at else len(self.starts)
        self.starts.insert(i + 1, at)
        self.owners.insert(i + 1, self.owners[i])
        return i + 1

    def write(self, begin, end, owner):
        if begin == end:
            return
        first = self._split(begin)
        last = self._split(end)
        self.starts[first:last] = [begin]
        self.owners[first:last] = [owner]

    def intruder(self, begin, end, owner):
        """Somebody else who wrote a byte of [begin, end) last, or None."""
        i = bisect.bisect_right(self.starts, begin) - 1
        while i < len(self.starts) and self.starts[i] < end:
            if self.owners[i] != owner:
                return self.owners[i]
            i += 1
        return None


class Judge:
    def __init__(self, plan):
        self.plan = plan
        self.values = plan["values"]
        self.nodes = plan["nodes"]
        self.buffers = plan["buffers"]
        self.regions = plan["regions"]
        self.complaints = []
        made = {v for node in self.nodes for v in node["results"]}
        self.leaves = [v for v in range(len(self.values)) if v not in made]
        self.is_leaf = [v not in made for v in range(len(self.values))]

    def complain(self, text):
        self.complaints.append(text)

    # --- Where things lie -------------------------------------------------------

    def region_range(self, name):
        """First byte and end. Activations and workspace are one span."""
        at = REGIONS.index(name)
        if name == "workspace":
            at -= 1
        begin = sum(self.regions[r] for r in REGIONS[:at])
        size = self.regions[REGIONS[at]]
        if name in ("activations", "workspace"):
            size = self.regions["activations"] + self.regions["workspace"]
        return begin, begin + size

    def slot_range(self, slot):
        begin = self.region_range(slot["region"])[0] + slot["offset"]
        return begin, begin + slot["size"]

    def slot_of(self, value):
        return self.buffers[self.plan["buffer_of"][value]]

    def extent(self, value):
        """From the first byte of the first element to the last of the last."""
        info = self.values[value]
        count = 1
        for dim in info["shape"]:
            count *= dim
        element = info["bytes"] // count
        last = sum((dim - 1) * stride
                   for dim, stride in zip(info["shape"], info["strides"]))
        begin = self.slot_range(self.slot_of(info["root"]))[0] + info["offset"]
        return begin, begin + (last + 1) * element

    def is_contiguous(self, value):
        info = self.values[value]
        expected = 1
        for dim, stride in zip(reversed(info["shape"]), reversed(info["strides"])):
            if dim != 1 and stride != expected:
                return False
            expected *= dim
        return True

    # --- What must hold -----------------------------------------------------------

    def check_sums(self):
        arena = sum(self.regions[r] for r in REGIONS[:5])
        if self.plan["arena_bytes"] != arena:
            self.complain(f"the arena is {self.plan['arena_bytes']} bytes, its "
                          f"regions sum to {arena}")
        budget = self.plan["budget_bytes"]
        if budget is not None and arena > budget:
            self.complain(f"the arena of {arena} bytes is above the budget of "
                          f"{budget}")

    def check_slots(self):
        host = self.region_range("host_state")[0]
        for slot in self.buffers:
            begin, end = self.region_range(slot["region"])
            first, last = self.slot_range(slot)
            base = begin - (host if slot["region"].startswith("host") else 0)
            if slot["offset"] < 0 or slot["size"] < 0 or last > end:
                self.complain(f"slot {slot['name']!r} [{first}, {last}) is outside "
                              f"region {slot['region']} [{begin}, {end})")
            elif (slot["offset"] % self.plan["alignment"] or
                  base % self.plan["alignment"]):
                self.complain(f"slot {slot['name']!r} at {slot['offset']} of "
                              f"{slot['region']} is not aligned to "
                              f"{self.plan['alignment']}")
        for value, info in enumerate(self.values):
            slot = self.plan["buffer_of"][value]
            if slot != self.plan["buffer_of"][info["root"]]:
                self.complain(f"view {info['name']!r} is in another slot than its "
                              f"root")
            elif info["root"] == value:
                self.check_owner(value, info)
        reserve = self.plan["reserve"]
        if reserve >= 0 and self.buffers[reserve]["region"] != "io":
            self.complain("the backend's reserve is no io slot")
        for time, slot in enumerate(self.plan["workspace_of"]):
            if slot >= 0 and self.buffers[slot]["region"] != "workspace":
                self.complain(f"the scratch of node {time} is no workspace slot")

    def check_owner(self, value, info):
        leaf = self.is_leaf[value]
        expected = "activations"
        if info["on_host"]:
            expected = "host_state" if leaf else "host_stash"
        elif leaf:
            expected = {"param": "weights", "state": "state",
                        "input": "io", "cache": "io"}.get(info["role"], "activations")
        slot = self.slot_of(value)
        if slot["region"] != expected:
            self.complain(f"{info['name']!r} is in region {slot['region']}, it "
                          f"belongs in {expected}")
        if slot["size"] < info["bytes"]:
            self.complain(f"{info['name']!r} needs {info['bytes']} bytes, its slot "
                          f"has {slot['size']}")

    def check_views(self):
        for value, info in enumerate(self.values):
            root = self.slot_range(self.slot_of(info["root"]))[0]
            begin, end = self.extent(value)
            if begin < root or end > root + self.values[info["root"]]["bytes"]:
                self.complain(f"view {info['name']!r} reaches outside its root")

    def check_read(self, owners, value, when):
        info = self.values[value]
        begin, end = self.extent(value)
        intruder = owners.intruder(begin, end, info["root"])
        if intruder is None:
            return
        whose = ("nothing has been written" if intruder == NOBODY else
                 "the backend keeps its own" if intruder == BACKEND else
                 f"{self.values[intruder]['name']!r} was written since")
        self.complain(f"{info['name']!r} is read at {when} where {whose}")

    def run(self):
        owners = Owners(self.region_range("host_stash")[1])
        reserve = self.plan["reserve"]
        if reserve >= 0:
            owners.write(*self.slot_range(self.buffers[reserve]), BACKEND)
        for value in self.leaves:
            owners.write(*self.extent(value), value)
        for time, node in enumerate(self.nodes):
            if not node["view"]:
                self.run_node(owners, time, node)
        for value in self.plan["outputs"]:
            self.check_read(owners, value, "the end")
        for value in self.leaves:
            if self.values[value]["role"] != "saved":
                self.check_read(owners, value, "the end")
        if reserve >= 0 and owners.intruder(
                *self.slot_range(self.buffers[reserve]), BACKEND) is not None:
            self.complain("the backend's reserve is overwritten")

    def run_node(self, owners, time, node):
        for value in node["inputs"]:
            self.check_read(owners, value, f"time {time}")
        written = [self.extent(value) for value in node["results"]]
        scratch = self.plan["workspace_of"][time]
        if scratch >= 0:
            written.append(self.slot_range(self.buffers[scratch]))
        for w, here in enumerate(written):
            for other in written[:w]:
                if overlap(here, other):
                    self.complain(f"results or scratch of node {time} share bytes")
            for i, value in enumerate(node["inputs"]):
                if (overlap(here, self.extent(value)) and
                        not self.may_share(node, w, i)):
                    self.complain(f"operand {self.values[value]['name']!r} is "
                                  f"overwritten at time {time} while it is read")
        for w, (begin, end) in enumerate(written):
            is_result = w < len(node["results"])
            owner = self.values[node["results"][w]]["root"] if is_result else NOBODY
            owners.write(begin, end, owner)

    def may_share(self, node, w, i):
        """Whether what is written w-th may lie on operand i."""
        if w >= len(node["results"]):
            return False
        if w < node["updates"]:
            return w == i
        return (w == 0 and i in node["may_overwrite"] and
                self.extent(node["results"][0]) == self.extent(node["inputs"][i])
                and self.is_contiguous(node["inputs"][i]))

    def check_lifetimes(self):
        end = len(self.nodes)

        def covers(value, time):
            slot = self.slot_of(self.values[value]["root"])
            if not slot["lower"] <= time < slot["upper"]:
                self.complain(f"{self.values[value]['name']!r} is used at time "
                              f"{time}, its slot is stated to live in "
                              f"[{slot['lower']}, {slot['upper']})")

        for time, node in enumerate(self.nodes):
            for value in node["inputs"] + node["results"]:
                covers(value, time)
        for value in self.plan["outputs"]:
            covers(value, end)
        for value in self.leaves:
            covers(value, 0)
            if self.values[value]["role"] != "saved":
                covers(value, end)
        reserve = self.plan["reserve"]
        if reserve >= 0:
            slot = self.buffers[reserve]
            if slot["lower"] > 0 or slot["upper"] <= end:
                self.complain("the backend's reserve must be there throughout")

    def judge(self):
        # Each asks for addresses that the one before has found sound.
        for check in (self.check_sums, self.check_slots, self.check_views, self.run,
                      self.check_lifetimes):
            if not self.complaints:
                check()
        return self.complaints


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


def main(arguments):
    if len(arguments) != 2 or arguments[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(arguments) == 2 else 2
    try:
        with open(arguments[1], encoding="utf-8") as file:
            plan = json.load(file)
        if plan["format"] != "stowage-plan" or plan["version"] != 3:
            raise ValueError(f"format {plan['format']!r}, version "
                             f"{plan['version']!r}; expected 'stowage-plan', 3")
        if plan.get("bodies"):
            raise ValueError("it holds loops or branches, which only `stowage "
                             "check` judges")
        complaints = Judge(plan).judge()
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        print(f"judge_plan: {arguments[1]} is no plan file: {error!r}",
              file=sys.stderr)
        return 2
    for complaint in complaints:
        print(complaint)
    if not complaints:
        print(f"sound: {len(plan['buffers'])} buffers in {plan['arena_bytes']} "
              f"bytes")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

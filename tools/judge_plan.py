#!/usr/bin/env python3
"""Verifies a plan file without code of Stowage and without knowledge of its ops.

    tools/judge_plan.py step.plan

Reads the output of `stowage plan -o` (report/plan_json.h documents the fields), runs the
schedule over simulated memory in which every byte remembers its last writer, and prints a
line for each error:

- a slot outside its region, misaligned, too small, or of the wrong region;
- a view that reaches outside its root;
- a node that reads a byte that another value has overwritten, or that was never written;
- a result written over an operand that the node may not overwrite, another result or
  workspace;
- an output, a param or a state that does not survive the step;
- a use outside the stated lifetime of a slot;
- an arena that is not the sum of its regions, or above the budget;
- a figure that does not follow from the slots: the lower bound, which is the largest sum of
  live bytes, and its time; whether the arena reaches it; the bytes of a caching allocator; the
  number of results in place; for a step that was not fitted to a budget, the bytes without
  reuse;
- an unknown packer, or an order of nodes that no optimization can have made.

Loops and branches are run with their bodies in the workspace of their nodes, in the arena and
on the host, at the addresses of each iteration: all iterations of short loops, the first ones
and the last two of long ones. Further errors are

- a body without a plan, or with more arena or host bytes than the workspace of its node;
- an operand or result of a body at another address than outside, or sharing bytes;
- a carry without the addresses it needs;
- an operand that dies in some branches of a cond only, or is used after it;
- a value in the bytes of a live operand or result.

Exit codes: 0 for a valid plan, 1 for an invalid one, 2 for a file that is no plan.
"""

import bisect
import json
import sys

# In the order of their addresses; the last two are in host memory.
REGIONS = ["weights", "state", "io", "activations", "workspace", "host_state",
           "host_offload"]
OUTSIDE = "outside"  # of a body's plan: where its node's operands and results are
NOBODY, BACKEND = 0, 1  # these two of the owners that Memory names
MANY_ITERATIONS = 8


class Memory:
    """The last writer of each byte, as intervals."""

    def __init__(self, size):
        self.starts = [0]  # of each interval, which ends where the next starts
        self.owners = [NOBODY]
        self.size = size
        self.names = ["nobody", "the backend"]

    def copy(self):
        """A copy, which may diverge."""
        other = Memory(self.size)
        other.starts = list(self.starts)
        other.owners = list(self.owners)
        other.names = self.names
        return other

    def new_owner(self, name):
        self.names.append(name)
        return len(self.names) - 1

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
        """Another writer that wrote a byte of [begin, end) last, or None."""
        i = bisect.bisect_right(self.starts, begin) - 1
        while i < len(self.starts) and self.starts[i] < end:
            if self.owners[i] != owner:
                return self.owners[i]
            i += 1
        return None


class Judge:
    """Verifies a plan, or the plan of a body in the workspace of its node."""

    def __init__(self, plan, base=0, within=None, on_host=None, is_branch=False):
        self.plan = plan
        self.base = base
        self.within = within  # bytes of scratch; None: this is no body
        # The range of its host memory, whose addresses follow the arena.
        self.on_host = on_host
        self.is_branch = is_branch  # of a cond
        self.values = plan["values"]
        self.nodes = plan["nodes"]
        self.buffers = plan["buffers"]
        self.regions = plan["regions"]
        self.host_workspace_of = plan.get("host_workspace_of", [-1] * len(self.nodes))
        self.complaints = []
        made = {v for node in self.nodes for v in node["results"]}
        self.leaves = [v for v in range(len(self.values)) if v not in made]
        self.is_leaf = [v not in made for v in range(len(self.values))]
        self.outside = {}  # by root, at the iteration at hand: its first byte
        self.slots_outside = {}  # by buffer, likewise
        self.owner_of = {}  # by root, likewise
        self.bodies = {}  # by node: a judge for each body, and its second places

    def complain(self, text):
        self.complaints.append(text)

    # Addresses.

    def region_range(self, name):
        """The first byte and the end of a region; activations and workspace are one."""
        if name == OUTSIDE:
            return 0, 0
        at = REGIONS.index(name)
        if name == "workspace":
            at -= 1
        first, base = 0, self.base
        if name.startswith("host") and self.on_host is not None:
            first, base = REGIONS.index("host_state"), self.on_host[0]
        begin = base + sum(self.regions[r] for r in REGIONS[first:at])
        size = self.regions[REGIONS[at]]
        if name in ("activations", "workspace"):
            size = self.regions["activations"] + self.regions["workspace"]
        return begin, begin + size

    def slot_range(self, slot):
        if slot["region"] == OUTSIDE:
            begin = self.slots_outside[slot["within"]]
        else:
            begin = self.region_range(slot["region"])[0]
        begin += slot["offset"]
        return begin, begin + slot["size"]

    def slot_of(self, value):
        return self.buffers[self.plan["buffer_of"][value]]

    def begin_of(self, root):
        slot = self.slot_of(root)
        if slot["region"] == OUTSIDE and "within" not in slot:
            return self.outside[root]
        return self.slot_range(slot)[0]

    def extent(self, value):
        """The bytes from the first element of a view to its last."""
        begin = self.begin_of(self.values[value]["root"])
        first, last = self.reach(value)
        return begin + first, begin + last

    def reach(self, value):
        """The same, relative to the root."""
        info = self.values[value]
        count = 1
        for dim in info["shape"]:
            count *= dim
        element = info["bytes"] // count
        last = sum((dim - 1) * stride
                   for dim, stride in zip(info["shape"], info["strides"]))
        return info["offset"], info["offset"] + (last + 1) * element

    def distance_of_slices(self, value):
        """In bytes; None if a view repeats one slice."""
        info = self.values[value]
        count = 1
        for dim in info["shape"]:
            count *= dim
        return info["strides"][0] * info["bytes"] // count

    def is_contiguous(self, value):
        info = self.values[value]
        expected = 1
        for dim, stride in zip(reversed(info["shape"]), reversed(info["strides"])):
            if dim != 1 and stride != expected:
                return False
            expected *= dim
        return True

    # Laws.

    def check_sums(self):
        arena = sum(self.regions[r] for r in REGIONS[:5])
        if self.plan["arena_bytes"] != arena:
            self.complain(f"the arena is {self.plan['arena_bytes']} bytes, its "
                          f"regions sum to {arena}")
        host = self.regions["host_state"] + self.regions["host_offload"]
        if self.plan["host_bytes"] != host:
            self.complain(f"{self.plan['host_bytes']} bytes are on the host, its "
                          f"regions sum to {host}")
        budget = self.plan.get("budget_bytes")
        if budget is not None and arena > budget:
            self.complain(f"the arena of {arena} bytes is above the budget of "
                          f"{budget}")
        if self.within is None:
            return
        host_scratch = self.on_host[1] - self.on_host[0]
        if arena > self.within or host > host_scratch:
            self.complain(f"it takes {arena} bytes, and {host} on the host; its node "
                          f"has {self.within} of scratch, and {host_scratch} there")

    def check_slots(self):
        host = self.region_range("host_state")[0]
        for slot in self.buffers:
            if "within" in slot:
                self.check_within(slot)
                continue
            if slot["region"] == OUTSIDE and self.within is not None:
                if slot["offset"] != 0 or slot["size"] < 0:
                    self.complain(f"slot {slot['name']!r} outside begins elsewhere "
                                  f"than at 0")
                continue
            if slot["region"] == OUTSIDE:
                self.complain(f"slot {slot['name']!r} is outside of no body")
                continue
            begin, end = self.region_range(slot["region"])
            first, last = self.slot_range(slot)
            base = begin - (host if slot["region"].startswith("host") else self.base)
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
        for region, scratch_of in (("workspace", self.plan["workspace_of"]),
                                   ("host_offload", self.host_workspace_of)):
            for time, slot in enumerate(scratch_of):
                if slot >= 0 and self.buffers[slot]["region"] != region:
                    self.complain(f"the scratch of node {time} is no {region} slot")

    def check_within(self, slot):
        around = self.buffers[slot["within"]]
        if (not self.is_branch or slot["region"] != OUTSIDE or
                around["region"] != OUTSIDE or "within" in around):
            self.complain(f"slot {slot['name']!r} is within {around['name']!r}, "
                          f"which is no operand or result of a cond")
        elif (slot["offset"] < 0 or slot["size"] < 0 or
              slot["offset"] + slot["size"] > around["size"] or
              slot["offset"] % self.plan["alignment"]):
            self.complain(f"slot {slot['name']!r} at {slot['offset']}, of "
                          f"{slot['size']} bytes, is not within "
                          f"{around['name']!r} of {around['size']}")
        elif slot["lower"] < around["upper"] and around["lower"] < slot["upper"]:
            self.complain(f"slot {slot['name']!r} is stated to live while "
                          f"{around['name']!r} does, around it")

    def check_owner(self, value, info):
        leaf = self.is_leaf[value]
        expected = "activations"
        slot = self.slot_of(value)
        if info["on_host"]:
            expected = "host_state" if leaf else "host_offload"
        elif slot["region"] == OUTSIDE:
            expected = OUTSIDE  # check_handed knows what may be there
        elif leaf:
            expected = {"param": "weights", "state": "state",
                        "input": "io", "cache": "io"}.get(info["role"], "activations")
        if slot["region"] != expected:
            self.complain(f"{info['name']!r} is in region {slot['region']}, it "
                          f"belongs in {expected}")
        if slot["size"] < info["bytes"]:
            self.complain(f"{info['name']!r} needs {info['bytes']} bytes, its slot "
                          f"has {slot['size']}")

    def check_views(self):
        for value, info in enumerate(self.values):
            begin, end = self.reach(value)
            if begin < 0 or end > self.values[info["root"]]["bytes"]:
                self.complain(f"view {info['name']!r} reaches outside its root")

    # Bodies.

    def check_bodies(self):
        """Matches every body with its plan, and verifies it as a plan."""
        plans = iter(self.plan.get("bodies", []))
        for time, node in enumerate(self.nodes):
            (base, end), on_host = (
                self.slot_range(self.buffers[scratch]) if scratch >= 0 else (0, 0)
                for scratch in (self.plan["workspace_of"][time],
                                self.host_workspace_of[time]))
            for _ in range(node.get("bodies", 0)):
                entry = next(plans, None)
                if entry is None or entry["node"] != time:
                    self.complain(f"a body of node {time} has no plan in its place")
                    return
                judge = Judge(entry["plan"], base, end - base, on_host,
                              "loop" not in node)
                if entry["plan"]["alignment"] != self.plan["alignment"]:
                    judge.complain("it is for another alignment")
                judge.look(lambda judge=judge, node=node, entry=entry:
                           judge.check_handed(node.get("loop"), entry["second_of"]))
                for text in judge.complaints:
                    self.complain(f"in a body of node {time}: {text}")
                self.bodies.setdefault(time, []).append((judge, entry["second_of"]))
            if time in self.bodies and "loop" not in node and not self.complaints:
                self.check_dying(time, node)
        if next(plans, None) is not None:
            self.complain("there are plans of more bodies than there are")

    def is_dying(self, leaf):
        """Whether an operand of a branch is marked to die in it."""
        slot = self.slot_of(leaf)
        return slot["region"] == OUTSIDE and slot["upper"] <= len(self.nodes)

    def check_dying(self, time, node):
        """An operand that dies in a branch dies in all branches, and is alone in its slot,
        which dies at the node."""
        slots = [self.plan["buffer_of"][v] for v in node["inputs"][1:]]
        for k, value in enumerate(node["inputs"][1:]):
            dying = [body.is_dying(body.leaves[k]) for body, _ in self.bodies[time]]
            slot = self.buffers[slots[k]]
            if any(dying) and not (
                    all(dying) and slots.count(slots[k]) == 1 and
                    slot["upper"] == time + 1 and
                    slot["size"] == self.values[value]["bytes"]):
                self.complain(f"{self.values[value]['name']!r} is stated to die in "
                              f"the bodies of node {time}: {dying}; its slot lives "
                              f"until {slot['upper']}")

    def handed_on(self, loop):
        """The leaf and the output of each carry."""
        carried, summed = loop["carried"], loop["summed"]
        leaves = self.leaves[:carried] + self.leaves[len(self.leaves) - summed:]
        return list(zip(leaves, self.plan["outputs"]))

    def has_one_place(self, leaf, output):
        return self.plan["buffer_of"][leaf] == self.plan["buffer_of"][output]

    def check_handed(self, loop, second_of):
        """Each slot outside has the size of the operand or result, and belongs to one value,
        except for carries in place."""
        holds = [0] * len(self.buffers)
        outputs = self.plan["outputs"]
        for value in self.leaves + outputs:
            slot, info = self.slot_of(value), self.values[value]
            holds[self.plan["buffer_of"][value]] += 1
            if (slot["region"] != OUTSIDE or "within" in slot or
                    slot["size"] != info["bytes"]):
                self.complain(f"{info['name']!r} is handed in or out, and is not in "
                              f"{info['bytes']} bytes outside")
        handed = self.handed_on(loop) if loop else []
        if len(second_of) != len(handed):
            self.complain(f"there are second places for {len(second_of)} values; "
                          f"{len(handed)} are handed on")
            return
        places = []
        for k, ((leaf, output), second) in enumerate(zip(handed, second_of)):
            name = self.values[leaf]["name"]
            if self.has_one_place(leaf, output):
                holds[self.plan["buffer_of"][leaf]] -= 1
                if second != -1:
                    self.complain(f"{name!r} has one place, and a second one")
            elif second == -1 and loop["iterations"] == 1 and k < loop["carried"]:
                pass  # read from the operand, written to the result
            elif (second == -1 or self.buffers[second]["region"] != "io" or
                  self.buffers[second]["size"] < self.values[leaf]["bytes"]):
                self.complain(f"{name!r} has no second place")
            else:
                place = self.slot_range(self.buffers[second])
                if any(overlap(place, other) for other in places):
                    self.complain(f"the second place of {name!r} overlaps another")
                places.append(place)
        for value in self.leaves + outputs:
            if holds[self.plan["buffer_of"][value]] > 1:
                self.complain(f"{self.values[value]['name']!r} lies where another "
                              f"operand or result is")
        # In a branch, an operand may have died by then, which the run detects.
        may_hold = {self.plan["buffer_of"][v]
                    for v in outputs + (self.leaves if self.is_branch else [])}
        for value, info in enumerate(self.values):
            slot = self.slot_of(value)
            if (slot["region"] == OUTSIDE and not self.is_leaf[info["root"]] and
                    slot.get("within", self.plan["buffer_of"][value])
                    not in may_hold):
                self.complain(f"{info['name']!r} lies where an operand of the node "
                              f"does")
        for leaf in self.leaves:
            if self.is_dying(leaf) and (not self.is_branch or
                                        self.slot_of(leaf)["lower"] != 0):
                self.complain(f"{self.values[leaf]['name']!r} is handed in, and not "
                              f"stated to be there")

    def place_outside(self, leaves, outputs):
        """The addresses of operands and results."""
        self.outside = {}
        self.slots_outside = {
            self.plan["buffer_of"][v]: at
            for v, at in zip(self.leaves + self.plan["outputs"], leaves + outputs)}
        for value, info in enumerate(self.values):
            slot = self.slot_of(value)
            if (info["root"] == value and slot["region"] == OUTSIDE and
                    "within" not in slot):
                self.outside[value] = self.slots_outside[
                    self.plan["buffer_of"][value]]
        self.outside.update(zip(self.leaves, leaves))

    def run_body(self, memory, operands, results):
        """Runs a body once: leaves are at `operands`, by address and owner, outputs go to
        `results`. Returns the owner of each output."""
        self.place_outside([place for place, _ in operands], results)
        self.owner_of = {leaf: owner
                         for leaf, (_, owner) in zip(self.leaves, operands)}
        self.run_nodes(memory)
        handed_back = self.plan["outputs"] + [
            leaf for leaf in self.leaves if self.is_branch and not self.is_dying(leaf)]
        for value in handed_back:
            self.check_read(memory, value, "the end of its body")
        return [self.owner_of[value] for value in self.plan["outputs"]]

    def run_loop(self, memory, time, node):
        loop = node["loop"]
        iterations = loop["iterations"]
        body, second_of = self.bodies[time][0]
        handed = body.handed_on(loop)
        operands = [(self.extent(v)[0], self.owner_of[self.values[v]["root"]])
                    for v in node["inputs"]]
        results = [self.extent(v)[0] for v in node["results"]]
        carried, sliced = loop["carried"], loop["sliced"]

        def left(k, iteration):
            """The address of a carry after an iteration, such that the last one leaves it in the
            result."""
            leaf, output = handed[k]
            if body.has_one_place(leaf, output) or (iterations - 1 - iteration) % 2 == 0:
                return results[k]
            return body.slot_range(body.buffers[second_of[k]])[0]

        owners = [owner for _, owner in operands[:carried]]
        for k in range(carried, len(handed)):  # a sum begins as nothing
            owners.append(memory.new_owner(f"the first sum {k}"))
            memory.write(left(k, -1),
                         left(k, -1) + body.values[handed[k][0]]["bytes"], owners[k])
        for iteration in iterations_to_run(iterations):
            # A single iteration treats carries in place like several do.
            found = [operands[k][0] if k < carried and iteration == 0 and not (
                         iterations == 1 and body.has_one_place(*handed[k]))
                     else left(k, iteration - 1) for k in range(len(handed))]
            for k in range(carried):
                if iteration == 0 and found[k] != operands[k][0]:
                    memory.write(found[k], found[k] +
                                 body.values[handed[k][0]]["bytes"], owners[k])
            number = iterations - 1 - iteration if loop["reverse"] else iteration
            leaves = list(zip(found[:carried], owners[:carried]))
            for k in range(carried, len(operands)):
                place, owner = operands[k]
                if k < carried + sliced:
                    place += number * self.distance_of_slices(node["inputs"][k])
                leaves.append((place, owner))
            leaves += list(zip(found[carried:], owners[carried:]))
            outputs = [left(k, iteration) for k in range(len(handed))]
            stacked = body.plan["outputs"][len(handed):]
            for k, value in enumerate(stacked, len(handed)):
                outputs.append(results[k] + number * body.values[value]["bytes"])
            owners = body.run_body(memory, leaves, outputs)
            for k, value in enumerate(stacked, len(handed)):
                end = outputs[k] + body.values[value]["bytes"]
                memory.write(outputs[k], end,
                             self.owner_of[self.values[node["results"][k]]["root"]])

    def run_bodies(self, memory, time, node):
        if "loop" in node:
            self.run_loop(memory, time, node)
        else:
            operands = [(self.extent(v)[0], self.owner_of[self.values[v]["root"]])
                        for v in node["inputs"][1:]]
            for body, _ in self.bodies[time]:
                way = memory.copy()  # one of them runs
                body.run_body(way, operands,
                              [self.extent(v)[0] for v in node["results"]])
            for k, value in enumerate(node["inputs"][1:]):
                body, _ = self.bodies[time][0]
                if body.is_dying(body.leaves[k]):
                    memory.write(*self.extent(value), NOBODY)
        for body, _ in self.bodies[time]:
            for text in body.complaints:
                self.complain(f"in a body of node {time}: {text}")
            body.complaints = []

    # Running.

    def check_read(self, memory, value, when):
        info = self.values[value]
        begin, end = self.extent(value)
        intruder = memory.intruder(begin, end, self.owner_of.get(info["root"]))
        if intruder is None:
            return
        whose = ("nothing has been written" if intruder == NOBODY else
                 "the backend keeps its own" if intruder == BACKEND else
                 f"{memory.names[intruder]!r} was written since")
        self.complain(f"{info['name']!r} is read at {when} where {whose}")

    def run(self):
        memory = Memory(self.region_range("host_offload")[1])
        reserve = self.plan["reserve"]
        if reserve >= 0:
            memory.write(*self.slot_range(self.buffers[reserve]), BACKEND)
        for value in self.leaves:
            self.owner_of[value] = memory.new_owner(self.values[value]["name"])
            memory.write(*self.extent(value), self.owner_of[value])
        self.run_nodes(memory)
        for value in self.plan["outputs"]:
            self.check_read(memory, value, "the end")
        for value in self.leaves:
            if self.values[value]["role"] != "saved":
                self.check_read(memory, value, "the end")
        if reserve >= 0 and memory.intruder(
                *self.slot_range(self.buffers[reserve]), BACKEND) is not None:
            self.complain("the backend's reserve is overwritten")

    def run_nodes(self, memory):
        for time, node in enumerate(self.nodes):
            if not node["view"]:
                self.run_node(memory, time, node)

    def run_node(self, memory, time, node):
        for value in node["inputs"]:
            self.check_read(memory, value, f"time {time}")
        written = [self.extent(value) for value in node["results"]]
        for scratch in (self.plan["workspace_of"][time], self.host_workspace_of[time]):
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
        owners = []
        for w, (begin, end) in enumerate(written):
            owner = NOBODY
            if w < len(node["results"]):
                root = self.values[node["results"][w]]["root"]
                if w >= node["updates"] or root not in self.owner_of:
                    self.owner_of[root] = memory.new_owner(self.values[root]["name"])
                owner = self.owner_of[root]
            owners.append(owner)
            memory.write(begin, end, owner)
        if time in self.bodies:
            self.run_bodies(memory, time, node)
            for (begin, end), owner in zip(written, owners):
                memory.write(begin, end, owner)

    def may_share(self, node, w, i):
        """Whether result w may overwrite operand i."""
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
            for scratch in (self.plan["workspace_of"][time],
                            self.host_workspace_of[time]):
                slot = self.buffers[scratch]
                if scratch >= 0 and not slot["lower"] <= time < slot["upper"]:
                    self.complain(f"the scratch of node {time} is stated to live in "
                                  f"[{slot['lower']}, {slot['upper']})")
        for value in self.plan["outputs"]:
            covers(value, end)
        for value in self.leaves:
            if self.is_dying(value):
                continue
            covers(value, 0)
            if self.values[value]["role"] != "saved":
                covers(value, end)
        reserve = self.plan["reserve"]
        if reserve >= 0:
            slot = self.buffers[reserve]
            if slot["lower"] > 0 or slot["upper"] <= end:
                self.complain("the backend's reserve must be there throughout")

    def look(self, *more):
        """Every check relies on the addresses that earlier ones have verified."""
        for check in (self.check_sums, self.check_slots, self.check_bodies,
                      self.check_views, *more, self.check_lifetimes):
            if not self.complaints:
                check()

    def judge(self):
        self.look(self.run)
        return self.complaints


class Figures:
    """Figures to compare a plan with, from its slots."""

    def __init__(self, plan):
        self.plan = plan
        self.alignment = plan["alignment"]
        self.reserved = sum(plan["regions"][r] for r in REGIONS[:3])

    def aligned(self, size):
        return -(-size // self.alignment) * self.alignment

    def lower_bound(self):
        """The peak of live bytes, and its first time. The workspace of a body counts with the
        body's lower bound."""
        sizes = {i: slot["size"] for i, slot in enumerate(self.plan["buffers"])
                 if slot["region"] in ("activations", "workspace")}
        least = {}
        for body in self.plan.get("bodies", []):
            scratch = self.plan["workspace_of"][body["node"]]
            least[scratch] = max(least.get(scratch, 0),
                                 body["plan"]["lower_bound_bytes"])
        sizes.update((i, size) for i, size in least.items() if i in sizes)
        changes = {}  # by time
        for i, size in sizes.items():
            slot = self.plan["buffers"][i]
            for time, sign in ((slot["lower"], 1), (slot["upper"], -1)):
                changes[time] = changes.get(time, 0) + sign * self.aligned(size)
        most, live = 0, 0
        peak = min((self.plan["buffers"][i]["lower"] for i in sizes), default=0)
        for time in sorted(changes):
            live += changes[time]
            if live > most:
                most, peak = live, time
        return self.reserved + most, peak

    def no_reuse(self):
        made = {v for node in self.plan["nodes"] for v in node["results"]}
        total = self.reserved
        for value, info in enumerate(self.plan["values"]):
            slot = self.plan["buffers"][self.plan["buffer_of"][value]]
            reserved = value not in made and info["role"] != "saved"
            if (info["root"] == value and not reserved and not info["on_host"] and
                    slot["region"] != OUTSIDE):
                total += self.aligned(info["bytes"])
        return total + max((self.aligned(slot["size"])
                            for slot in self.plan["buffers"]
                            if slot["region"] == "workspace"), default=0)

    def caching_allocator(self):
        """PyTorch's rules (c10/cuda/CUDACachingAllocator.cpp): blocks of 512 bytes; up to
        1 MiB from segments of 2 MiB, all else from segments of 20 MiB, or of its own size
        in steps of 2 MiB from 10 MiB on; the smallest free block that is large enough,
        split if the rest is large enough; adjacent free blocks are merged."""
        mib = 1 << 20
        slots = [slot for slot in self.plan["buffers"] if slot["region"] not in
                 ("host_state", "host_offload", OUTSIDE)]
        begin = min((slot["lower"] for slot in slots), default=0)
        end = max((slot["upper"] for slot in slots), default=0)
        events = []
        for i, slot in enumerate(slots):
            if slot["size"] == 0 or slot["lower"] >= slot["upper"]:
                continue
            early = slot["lower"] == begin and slot["upper"] == end
            events.append((slot["lower"], 1 if early else 2, i))
            events.append((slot["upper"], 0, i))
        free = {True: [], False: []}  # by whether small: [size, segment, offset]
        taken, total, segments = {}, 0, 0
        for _, rank, i in sorted(events):
            size = -(-slots[i]["size"] // 512) * 512
            small = size <= mib
            blocks = free[small]
            if rank == 0:
                size, segment, offset = taken.pop(i)
                for block in [b for b in blocks if b[1] == segment and
                              (b[2] + b[0] == offset or offset + size == b[2])]:
                    blocks.remove(block)
                    size, offset = size + block[0], min(offset, block[2])
                blocks.append([size, segment, offset])
                continue
            if not any(block[0] >= size for block in blocks):
                segment = (2 * mib if small else 20 * mib if size < 10 * mib else
                           -(-size // (2 * mib)) * 2 * mib)
                blocks.append([segment, segments, 0])
                segments += 1
                total += segment
            block = min(block for block in blocks if block[0] >= size)
            blocks.remove(block)
            rest = block[0] - size
            if rest >= 512 if small else rest > mib:
                blocks.append([rest, block[1], block[2] + size])
                block = [size, block[1], block[2]]
            taken[i] = block
        return total

    def in_place(self):
        """The number of results that overwrite an operand of their node."""
        buffer_of = self.plan["buffer_of"]
        return sum(any(buffer_of[value] == buffer_of[node["results"][0]]
                       for value in node["inputs"])
                   for node in self.plan["nodes"]
                   if self.plan["values"][node["results"][0]]["root"] ==
                   node["results"][0])

    def views(self):
        return sum(self.plan["values"][value]["root"] != value
                   for node in self.plan["nodes"] if node["view"]
                   for value in node["results"])

    def of_bodies(self, plan):
        """The errors of the bounds of bodies, at any depth."""
        wrong = []
        for body in plan.get("bodies", []):
            inner = body["plan"]
            if inner["lower_bound_bytes"] > inner["arena_bytes"]:
                wrong.append(f"lower_bound_bytes of a body of node {body['node']} is "
                             f"{inner['lower_bound_bytes']}, above its arena of "
                             f"{inner['arena_bytes']}")
            wrong += self.of_bodies(inner)
        return wrong

    def is_as_written(self):
        """Whether no optimization, one per line with its choice, may change the step."""
        lines = self.plan.get("optimizations", "").splitlines()
        return all(line.partition(" ")[2] in ("", "none", "given", "1")
                   for line in lines)

    def complaints(self):
        bound, peak = self.lower_bound()
        wrong = self.of_bodies(self.plan)
        found = {"lower_bound_bytes": bound, "peak_time": peak,
                 "caching_allocator_bytes": self.caching_allocator(),
                 "in_place": self.in_place(), "views": self.views()}
        if self.plan["arena_bytes"] == bound or not self.plan.get("bodies"):
            found["optimal"] = self.plan["arena_bytes"] == bound
        if self.is_as_written():
            found["no_reuse_bytes"] = self.no_reuse()
        elif self.plan["no_reuse_bytes"] < self.plan["arena_bytes"]:
            wrong.append(f"no_reuse_bytes is {self.plan['no_reuse_bytes']}, below the "
                         f"arena of {self.plan['arena_bytes']}")
        if self.plan["packer"].split(": ")[0] not in ("linear", "greedy", "best"):
            wrong.append(f"there is no packer {self.plan['packer']!r}")
        if self.plan["order"] != "given" and self.is_as_written():
            wrong.append(f"the order is {self.plan['order']!r} of a step that no "
                         "optimization changed")
        return wrong + [f"{name} is {self.plan[name]}; the slots give {value}"
                        for name, value in found.items() if self.plan[name] != value]


def iterations_to_run(iterations):
    """All iterations, or enough to order each place before and after the others."""
    if iterations <= MANY_ITERATIONS:
        return list(range(iterations))
    first = 2 + iterations % 2
    return list(range(first)) + [iterations - 2, iterations - 1]


def without_repeats(pairs):
    """An object without duplicate keys."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a key comes twice among {[key for key, _ in pairs]}")
    return found


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


def main(arguments):
    if len(arguments) != 2 or arguments[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(arguments) == 2 else 2
    try:
        with open(arguments[1], encoding="utf-8-sig") as file:
            plan = json.load(file, object_pairs_hook=without_repeats)
        if plan["format"] != "stowage-plan" or plan["version"] != 4:
            raise ValueError(f"format {plan['format']!r}, version "
                             f"{plan['version']!r}; expected 'stowage-plan', 4")
        complaints = Judge(plan).judge() or Figures(plan).complaints()
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

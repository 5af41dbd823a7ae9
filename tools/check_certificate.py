#!/usr/bin/env python3
"""Checks certificates of plans and of refusals, without code of Stowage.

    tools/check_certificate.py step.certificate

It reads what `stowage plan --certificate` wrote; docs/guides/certificates.md defines the format
and the claims. Nothing derived is trusted: lifetimes are computed from the order and the
uses, sums from the sizes, and what must run before or after a node from the edges.

Exit 0: the claims hold. 1: a claim does not hold, or this is no certificate. O(n log n)
comparisons in the lines of the file.
"""

import bisect
import sys

FACTS = {  # per kind, the least number of fields and whether more may follow
    "value": (3, True), "after": (2, False), "overwrite": (3, True),
    "slot": (4, False), "alignment": (1, False), "nodes": (1, False),
    "arena": (1, False), "lower-bound": (2, False), "order-bound": (2, False),
    "budget": (1, False), "end": (0, False),
}
ORDERS = {  # of the kinds of lines; those with a star may be there any number of times
    "plan": ["alignment", "nodes", "value*", "after*", "overwrite*", "slot*", "arena",
             "lower-bound", "order-bound?", "end"],
    "refusal": ["alignment", "nodes", "value*", "after*", "overwrite*", "order-bound",
                "budget", "end"],
}
LARGEST = 2**62 - 1  # of a number in a certificate


class Rejected(Exception):
    """The certificate is invalid, with the reason."""


def require(condition, *why):
    """Rejects the certificate unless `condition` holds."""
    if not condition:
        raise Rejected(" ".join(str(word) for word in why))


class Value:
    """A tensor that owns bytes, or scratch."""

    def __init__(self, maker, size, kept, uses):
        self.maker = maker  # the node; -1: there before the first node
        self.size = size
        self.kept = kept  # to the end
        self.uses = uses  # nodes


class Slot:
    """The place of a value in a plan."""

    def __init__(self, offset, size, hold, over):
        self.offset = offset
        self.size = size
        self.hold = hold  # live at least until this time; -1: as long as it is used
        self.over = over  # the operand it is written over; -1: none


def parse_number(word, line):
    """A decimal number of a certificate."""
    digits = word[1:] if word.startswith("-") else word
    require(digits.isascii() and digits.isdigit(), f"line {line}: {word!r} is no number")
    require(len(digits) <= 19 and int(digits) <= LARGEST, f"line {line}: {word} is too large")
    return int(word)


class Certificate:
    """The lines of a file, of which only the syntax is checked."""

    def __init__(self, text):
        lines = []
        for number, line in enumerate(text.split("\n"), 1):
            words = line.split("#")[0].split()
            if words:
                lines.append((number, words))
        require(len(lines) >= 2 and lines[0][1] == ["stowage-certificate", "1"],
                "the first line is not \"stowage-certificate 1\"")
        require(len(lines[1][1]) == 2 and lines[1][1][0] == "claim" and
                lines[1][1][1] in ORDERS, "the second line is not a known claim")
        self.claim = lines[1][1][1]
        facts = {kind: [] for kind in FACTS}
        order = ORDERS[self.claim]
        at = 0
        for number, (kind, *words) in lines[2:]:
            while at < len(order) and order[at].rstrip("*?") != kind:
                require(order[at][-1] in "*?" or facts[order[at]],
                        f"line {number}: {kind} where {order[at]} is expected")
                at += 1
            require(at < len(order), f"line {number}: {kind} is out of place")
            require(order[at].endswith("*") or not facts[kind],
                    f"line {number}: another {kind}")
            least, more = FACTS[kind]
            require(len(words) == least or (more and len(words) > least),
                    f"line {number}: {kind} with {len(words)} fields")
            facts[kind].append([parse_number(word, number) for word in words])
        require(facts["end"], "the end is missing")

        def one(kind):
            return facts[kind][0] if facts[kind] else None

        self.alignment = one("alignment")[0]
        self.nodes = one("nodes")[0]
        self.values = [Value(*f[:3], f[3:]) for f in facts["value"]]
        self.after = facts["after"]
        self.overwrites = [(f[0], f[1], f[2:]) for f in facts["overwrite"]]
        self.slots = [Slot(*f) for f in facts["slot"]]
        self.arena = one("arena")
        self.lower_bound = one("lower-bound")
        self.order_bound = one("order-bound")
        self.budget = one("budget")

    def padded(self, size):
        """The size rounded up to the alignment."""
        return -(-size // self.alignment) * self.alignment


def check_graph(c):
    """Every index is in range, and the nodes are in an order that respects all edges."""
    require(c.alignment >= 1, "alignment", c.alignment)
    require(c.nodes >= 0, c.nodes, "nodes")
    for i, value in enumerate(c.values):
        require(-1 <= value.maker < c.nodes, f"value {i} is made by node", value.maker)
        require(value.size >= 0, f"value {i} has", value.size, "bytes")
        require(value.kept in (0, 1), f"value {i} is kept", value.kept)
        for use in value.uses:
            require(value.maker < use < c.nodes,
                    f"value {i} of node {value.maker} is used by node {use}")
    for first, second in c.after:
        require(0 <= first < second < c.nodes, f"node {second} is to run after {first}")
    named = set()
    for node, result, operands in c.overwrites:
        require(0 <= node < c.nodes and node not in named, "overwrite of node", node)
        named.add(node)
        require(0 <= result < len(c.values) and c.values[result].maker == node,
                f"node {node} does not make value {result}")
        for operand in operands:
            require(0 <= operand < len(c.values) and node in c.values[operand].uses,
                    f"node {node} does not use value {operand}")
            require(c.values[operand].size == c.values[result].size,
                    f"values {operand} and {result} differ in size")


def lifetimes(c):
    """The lifetime of each value, [first, end), by order and uses."""
    times = []
    for value, slot in zip(c.values, c.slots):
        born = max(value.maker, 0)
        last = c.nodes if value.kept else max([born, slot.hold, *value.uses])
        times.append([born, last + 1])
    may = {node: (result, set(operands)) for node, result, operands in c.overwrites}
    for i, slot in enumerate(c.slots):
        if slot.over == -1:
            continue
        node = c.values[i].maker
        require(node in may and may[node][0] == i and slot.over in may[node][1],
                f"value {i} may not overwrite value {slot.over}")
        over = c.slots[slot.over]
        require((over.offset, over.size) == (slot.offset, slot.size),
                f"value {i} is not placed exactly on value {slot.over}")
        require(times[slot.over][1] == node + 1,
                f"value {slot.over} is needed after value {i} overwrites it")
    for slot in c.slots:
        if slot.over != -1:
            times[slot.over][1] -= 1
    return times


def check_slots(c, times):
    """Every slot is in the arena, and no two share a byte at a time."""
    require(c.arena[0] >= 0 and c.arena[0] % c.alignment == 0, "an arena of", c.arena[0])
    for i, (value, slot) in enumerate(zip(c.values, c.slots)):
        require(slot.offset >= 0 and slot.offset % c.alignment == 0,
                f"slot {i} is at offset", slot.offset)
        require(slot.size >= value.size and slot.offset + slot.size <= c.arena[0],
                f"slot {i} has {slot.size} bytes at {slot.offset} for a value of "
                f"{value.size}, in an arena of {c.arena[0]}")
        require(-1 <= slot.hold <= c.nodes, f"slot {i} is held until", slot.hold)
    events = []
    for i, (first, end) in enumerate(times):
        if first < end and c.slots[i].size > 0:
            events += [(first, 1, i), (end, 0, i)]
    live = []  # (offset, slot), sorted by offset
    for time, is_birth, i in sorted(events):
        entry = (c.slots[i].offset, i)
        at = bisect.bisect_left(live, entry)
        if not is_birth:
            del live[at]
            continue
        for offset, other in live[max(at - 1, 0):at + 1]:
            require(offset >= entry[0] + c.slots[i].size or
                    offset + c.slots[other].size <= entry[0],
                    f"slots {other} and {i} share bytes at time {time}")
        live.insert(at, entry)


def check_lower_bound(c, times):
    """The values live at one time sum to the claim."""
    time, claimed = c.lower_bound
    require(0 <= time <= c.nodes, "there is no time", time)
    live = sum(c.padded(value.size) for value, (first, end) in zip(c.values, times)
               if first <= time < end)
    require(live == claimed, f"{live} bytes are live at time {time}, not {claimed}")


def closure(start, edges):
    """The nodes that `edges` lead to from `start`, without it; sorted by where they begin."""
    reached = {start}
    for begin, end in edges:
        if begin in reached:
            reached.add(end)
    return reached - {start}


def check_order_bound(c):
    """The values that are live while one node runs, in any order, sum to the claim."""
    node, claimed = c.order_bound
    require(0 <= node < c.nodes, "there is no node", node)
    edges = [(value.maker, use) for value in c.values if value.maker >= 0
             for use in value.uses] + [(first, second) for first, second in c.after]
    after = closure(node, sorted(edges))
    before = closure(node, sorted(((end, begin) for begin, end in edges), reverse=True))

    def outlives(value):
        return value.kept or not after.isdisjoint(value.uses)

    total = sum(c.padded(value.size) for value in c.values
                if (value.maker in (-1, node) or value.maker in before) and
                (value.maker == node or node in value.uses or outlives(value)))
    overwritten = [c.padded(c.values[operand].size)
                   for at, _, operands in c.overwrites if at == node
                   for operand in operands if not outlives(c.values[operand])]
    total -= max(overwritten, default=0)
    require(total == claimed,
            f"{total} bytes are live while node {node} runs, in any order, not {claimed}")


def check(text):
    """The claim of the certificate in `text`, as text; raises Rejected unless it holds."""
    c = Certificate(text)
    check_graph(c)
    if c.order_bound is not None:
        check_order_bound(c)
    if c.claim == "refusal":
        bound = c.order_bound[1]
        require(0 <= c.budget[0] < bound, f"a budget of {c.budget[0]} is not refused by {bound}")
        return (f"refusal: no order of {c.nodes} nodes and no packing of their "
                f"{len(c.values)} values fits {c.budget[0]} bytes; node "
                f"{c.order_bound[0]} needs {bound}")
    require(len(c.slots) == len(c.values),
            f"{len(c.slots)} slots for {len(c.values)} values")
    for i, slot in enumerate(c.slots):
        require(-1 <= slot.over < len(c.slots), f"slot {i} is over value", slot.over)
    times = lifetimes(c)
    check_slots(c, times)
    check_lower_bound(c, times)
    claims = (f"plan: {len(c.values)} values of {c.nodes} nodes fit {c.arena[0]} bytes; "
              f"no packing of these lifetimes takes less than {c.lower_bound[1]}")
    if c.order_bound is not None:
        claims += f", no order less than {c.order_bound[1]}"
    return claims


def main(arguments):
    """Checks one file."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(arguments[1], encoding="utf-8") as file:
            print("accepted:", check(file.read()))
        return 0
    except (Rejected, OSError, UnicodeDecodeError) as error:
        print("rejected:", error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))

#!/usr/bin/env python3
"""Writes unicode_tables.inc, which unicode.cc includes.

The data are read off PyPI's `tokenizers` (0.23.3), code point by code point, since its
parts are of several versions of Unicode: what `\\w` matches and lower case are of 16 and
later, punctuation, control characters and nonspacing marks of Unicode 8, compatibility
decompositions of 9.

    python3 text/make_unicode_tables.py > text/unicode_tables.inc
"""

import struct
import unicodedata

from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def print_rows(name, row_type, rows):
    print(f"constexpr {row_type} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " " + ("{" + ", ".join(map(str, row)) + "}" if isinstance(row, (list, tuple))
                      else str(row)) + ","
        if len(line) + len(text) > 100:
            print(line)
            line = "   "
        line += text
    print(line + "\n};")


def print_class(comment, name, holds):
    ranges = []
    for c in map(ord, filter(holds, CHARACTERS)):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    print(f"// {comment}: first, last.")
    print_rows(name, "Range", ranges)


def print_lower():
    """Runs of characters `step` apart whose lower case is `delta` further on."""
    lower = normalizers.Lowercase()
    runs = []
    for c in CHARACTERS:
        to = lower.normalize_str(c)
        if to == c:
            continue
        if len(to) != 1:
            assert (c, to) == ("\u0130", "i\u0307")  # which unicode.cc knows
            continue
        c, delta = ord(c), ord(to) - ord(c)
        if runs and runs[-1][3] == delta:
            first, last, step, _ = runs[-1]
            if first == last and c - last <= 2:
                runs[-1] = [first, c, c - last, delta]
                continue
            if first != last and c - last == step:
                runs[-1][1] = c
                continue
        runs.append([c, c, 1, delta])
    print("// Lower case: first, last, step, and how much further on it is.")
    print_rows("kLower", "LowerRun", runs)


def print_compatible():
    forms = normalizers.NFD(), normalizers.NFKD()
    rows, text = [], []
    for c in CHARACTERS:
        canonical, compatible = (form.normalize_str(c) for form in forms)
        if canonical != compatible:
            rows.append((ord(c), len(text), len(compatible)))
            text += map(ord, compatible)
    print("// Compatibility decompositions: character, first of kCompatibleText, how many.")
    print_rows("kCompatible", "Compatible", rows)
    print_rows("kCompatibleText", "char32_t", text)


def charsmap(rules):
    """A precompiled charsmap, {text: replacement}: its double array, naively placed."""
    texts, at = b"", {}
    root = {}
    for text, replacement in rules.items():
        at[text] = len(texts)
        texts += replacement.encode() + b"\0"
        node = root
        for byte in text.encode():
            node = node.setdefault(byte, {})
        node[None] = at[text]
    units, bases, free = {0: 0}, set(), 1

    def place(node, unit):
        nonlocal free
        labels = [0 if label is None else label for label in node]
        base = free
        while base in bases or any(base ^ label in units for label in labels):
            base += 1
        bases.add(base)
        while free in units:
            free += 1
        units[unit] |= base << 10 | (256 if None in node else 0)
        for label, child in node.items():
            units[base ^ (label or 0)] = child | 1 << 31 if label is None else label
        for label, child in node.items():
            if label is not None:
                place(child, base ^ label)

    # The offset of a unit is to its own place.
    def relative(unit, value):
        return value if value >> 31 else (value >> 10 ^ unit) << 10 | value & 0x3FF

    place(root, 0)
    size = (max(units) | 0xFF) + 1
    array = [relative(i, units[i]) if i in units else 0 for i in range(size)]
    return struct.pack(f"<I{size}I", 4 * size, *array) + texts


def print_graphemes():
    """What a grapheme cluster consists of, seen by what is lost where a rule for the start
    of one replaces it all, which those of at most five bytes are."""
    joins = normalizers.Precompiled(charsmap({"a": "X", "\xa9": "Y"})).normalize_str
    joining = {c for c in CHARACTERS if joins("a" + c) == "X"}
    pictographs = {c for c in CHARACTERS if c not in joining and joins("\xa9\u200d" + c)
                   in ("Y\u200d" + c, "Y\u200dY")}
    few = {c for c in CHARACTERS if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")
           or 0xE0000 <= ord(c) < 0xE1000 or 0xFFF0 <= ord(c) < 0xFFF9 or ord(c) == 0x2065}
    others = {c for c in CHARACTERS if ord(c) in (0xD4E, 0x111C2, 0x111C3, 0x1193F, 0x11941,
                                                  0x11A3A, 0x11D46, 0x11F02, 0x113D1)
              or 0x11A84 <= ord(c) < 0x11A8A or 0x890 <= ord(c) < 0x892}
    rule = normalizers.Precompiled(charsmap(
        {c: "Y" for c in sorted(few | others) if c != "\0"})).normalize_str
    prepended = {c for c in few | others if c != "\0" and rule(c + "b") == "Y"}
    # Of four bytes and a mark of two all is replaced one by one.
    breaking = {c for c in few - joining - prepended
                if c == "\0" or len(c.encode()) == 4 or rule(c + "\u0300") != "Y"}
    for comment, name, members in [
            ("What joins the character before it: marks, joiners and the like", "kJoining", joining),
            ("Pictographs", "kPictographs", pictographs), ("What nothing joins", "kBreaking", breaking),
            ("What joins the character after it", "kPrepended", prepended)]:
        print_class(comment, name, members.__contains__)


def main():
    print("// Made by make_unicode_tables.py. // clang-format off")
    words, punctuation = pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()
    clean = normalizers.BertNormalizer(True, False, False, False)
    nonspacing = normalizers.BertNormalizer(False, False, True, False)
    marks = normalizers.StripAccents()
    print_class("What \\w matches", "kWord",
                lambda c: words.pre_tokenize_str("a" + c)[0][0] == "a" + c)
    print_class("Punctuation", "kPunctuation",
                lambda c: len(punctuation.pre_tokenize_str("a" + c)) == 2)
    print_class("Control characters and their kind", "kControl",
                lambda c: clean.normalize_str("a" + c) == "a")
    print_class("Nonspacing marks", "kNonspacing",
                lambda c: nonspacing.normalize_str("a" + c) == "a")
    print_class("All marks", "kMarks", lambda c: marks.normalize_str("a" + c) == "a")
    print_graphemes()
    print_lower()
    print_compatible()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes nfc_tables.inc, which nfc.cc includes.

The data are those of Python's unicodedata, without the characters that PyPI's
`tokenizers` takes for unassigned: its normalizer is of Unicode 9. What was assigned
by then normalizes alike in all versions.

    python3 text/make_nfc_tables.py > text/nfc_tables.inc
"""

import unicodedata

from tokenizers import normalizers

NFC = normalizers.NFC().normalize_str
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)


def known_class(c):
    """Whether `tokenizers` orders the mark as Unicode does."""
    for mark in "\u0316\u0301\u0345\u05b0":
        for text in (f"q{c}{mark}", f"q{mark}{c}"):
            if NFC(text) != unicodedata.normalize("NFC", text):
                return False
    return True


def canonical(c):
    parts = unicodedata.decomposition(c)
    if not parts or parts.startswith("<") or ord(c) in HANGUL:
        return None
    return [int(p, 16) for p in parts.split()]


def print_rows(name, row_type, rows):
    print(f"constexpr {row_type} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(map(str, row)) + "},"
        if len(line) + len(text) > 100:
            print(line)
            line = "   "
        line += text
    print(line + "\n};")


def main():
    print("// Made by make_nfc_tables.py. // clang-format off")
    classes = []
    for c in CHARACTERS:
        number = unicodedata.combining(c)
        if not number or not known_class(c):
            continue
        if classes and classes[-1][1:] == [ord(c) - 1, number]:
            classes[-1][1] = ord(c)
        else:
            classes.append([ord(c), ord(c), number])
    print("// Canonical combining classes: first, last, class.")
    print_rows("kClasses", "ClassRange", classes)
    decompositions = [(ord(c), canonical(c)) for c in CHARACTERS if canonical(c)]
    kept = []
    for c, parts in decompositions:
        text = "".join(map(chr, parts))
        composed = int(len(parts) == 2 and NFC(text) == chr(c))
        # Of a pair that is composed only in newer versions nothing is known.
        if len(parts) == 2 and not composed and \
                unicodedata.normalize("NFC", text) == chr(c):
            continue
        kept.append((c, parts[0], parts[1] if len(parts) == 2 else 0, composed))
    print("// Canonical decompositions: character, first, second, whether they compose.")
    print_rows("kDecompositions", "Decomposition", kept)


if __name__ == "__main__":
    main()

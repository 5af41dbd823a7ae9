#!/usr/bin/env python3
"""Writes unicode_tables.inc, which unicode.cc includes.

The data are read off PyPI's `tokenizers` (0.23.3), code point by code point, since its
parts are of several versions of Unicode: what `\\w` matches and lower case are of 16 and
later, punctuation, control characters and nonspacing marks of Unicode 8, compatibility
decompositions of 9.

    python3 text/make_unicode_tables.py > text/unicode_tables.inc
"""

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
    print_lower()
    print_compatible()


if __name__ == "__main__":
    main()

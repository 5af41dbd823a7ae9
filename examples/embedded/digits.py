"""Writes digits.csv as a C header: python3 digits.py digits.csv > digits.h

Rows are 64 grey levels from 0 to 16 and the digit.
"""

import pathlib
import sys


def main():
    rows = pathlib.Path(sys.argv[1]).read_text().split()
    print("#include <stdint.h>\n")
    print(f"enum {{ DIGITS = {len(rows)} }};")
    print("static const uint8_t digits[DIGITS][65] = {")
    for row in rows:
        print(f"    {{{row}}},")
    print("};")


if __name__ == "__main__":
    main()

"""Compares losses that main.c has printed: python3 compare_losses.py host.txt other.txt...

Prints the largest relative difference of each file to the first; exit 1 above 1e-6.
"""

import pathlib
import struct
import sys


def losses(path):
    lines = pathlib.Path(path).read_text().split("\n")
    return [struct.unpack(">f", bytes.fromhex(line.split()[0]))[0] for line in lines if line]


def main():
    first = losses(sys.argv[1])
    worst = 0 if len(first) > 1 else 1
    for path in sys.argv[2:]:
        own = losses(path)
        difference = max(abs(a - b) / abs(b) for a, b in zip(own, first)) if len(own) == len(
            first) else float("inf")
        print(f"{path}: {len(own)} losses, {difference:.2g} from {sys.argv[1]}'s")
        worst = max(worst, difference)
    return 1 if not worst < 1e-6 else 0


if __name__ == "__main__":
    sys.exit(main())

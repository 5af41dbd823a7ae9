"""Writes BasicMotions of the UEA archive, as aeon has it, in the form of motions.csv:

    python3 motions.py BasicMotions_TRAIN.ts BasicMotions_TEST.ts > motions.csv

A row is one motion: the class, and 100 readings of six sensors in turn, in units of 1/3 (of
m/s^2 and rad/s). Rows of the second file come after those of the first.
"""

import pathlib
import sys

CLASSES = ["Standing", "Walking", "Running", "Badminton"]


def main():
    for path in sys.argv[1:]:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            if line[0] in "#@":
                continue
            *sensors, name = line.split(":")
            series = [[round(3 * float(x)) for x in sensor.split(",")] for sensor in sensors]
            readings = [x for at_once in zip(*series) for x in at_once]
            print(CLASSES.index(name), *readings, sep=",")


if __name__ == "__main__":
    main()

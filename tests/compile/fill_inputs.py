"""Writes a function that fills the inputs of a step with random numbers, from its header:

    python3 tests/compile/fill_inputs.py step.h tokens=96 targets=96 > inputs.h

Integers are below the number that is given for their input.
"""

import re
import sys


def main():
    header, *limits = sys.argv[1:]
    below = dict(limit.split("=") for limit in limits)
    print('#include "numbers.h"\n#include "step.h"\n\nstatic void fill_inputs(int64_t step) {')
    with open(header, encoding="utf-8") as file:
        inputs = re.findall(r"(\w+) \*step_input_(\w+)\(void\);.*: \w+\(([\d, ]*)\)", file.read())
    for kind, name, shape in inputs:
        if name == "lr":
            print("  *step_input_lr() = 1e-3f * (float)step / 100.0f; /* warms up */")
        elif name in ("step", "seed"):
            print(f"  *step_input_{name}() = step;")
        else:
            count = " * ".join(shape.split(", ")) or "1"
            value = (f"({kind})(random_bits() % {below.pop(name)})" if kind.startswith("int")
                     else f"({kind})random_bits() / 65536")
            print(f"  for (int i = 0; i < {count}; ++i) step_input_{name}()[i] = {value};")
    print("}")
    if below:
        sys.exit(f"{header} has no input {', '.join(below)}")


if __name__ == "__main__":
    main()

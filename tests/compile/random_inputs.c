/* Trains a compiled step on random numbers and prints losses as examples/embedded/main.c does:
 * MAIN of its Makefile, with inputs.h of fill_inputs.py. */
#include "inputs.h"

enum { STEPS = 20 };

int main(void) {
  step_init(42);
  for (int64_t i = 1; i <= STEPS; ++i) {
    fill_inputs(i);
    const int code = step_step();
    const float loss = *step_output_loss();
    print_loss(loss);
    if (code != 0) return code;
  }
  return 0;
}

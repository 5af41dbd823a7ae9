/* Trains a compiled step of a classifier of images on one image, for 20 steps, and prints each
 * loss as examples/embedded/main.c does. */
#include "board.h"
#include "numbers.h"
#include "step.h"

int main(void) {
  step_init(42);
  for (int i = 0; i < PIXELS; ++i) {
    step_input_x()[i] = (float)random_bits() / 65536.0f;
  }
  *step_input_labels() = 3;
  *step_input_lr() = 3e-5f;
  for (int64_t i = 1; i <= 20; ++i) {
    const int code = step_step();
    if (code != 0) return code;
    const float loss = *step_output_loss();
    print_loss(loss);
  }
  return 0;
}

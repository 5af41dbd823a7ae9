/* Trains a compiled step on data of its own and prints the loss of each step, as the bits of
 * a float and in thousandths.
 *
 *   make run-host run-cortex-m7
 *
 * A board needs what board.h declares: a way to print, and to end. */
#include "board.h"
#include "numbers.h"
#include "step.h"

enum { STEPS = 20 };

/* Images of noise, brighter in the rows of their class. */
static void fill(float *x, int32_t *y, int batch, int pixels) {
  for (int n = 0; n < batch; ++n) {
    y[n] = (int32_t)(random_bits() % 10);
    for (int i = 0; i < pixels; ++i) {
      const int row = i * 10 / pixels;
      x[n * pixels + i] =
          (float)random_bits() / 65536.0f + (row == y[n] ? 1.0f : 0.0f);
    }
  }
}

int main(void) {
  step_init(42);
  for (int64_t i = 1; i <= STEPS; ++i) {
    fill(step_input_x(), step_input_y(), BATCH, PIXELS);
    *step_input_lr() = 1e-3f * (float)i / 100.0f; /* warms up */
    *step_input_step() = i;
    const int code = step_step();
    const float loss = *step_output_loss();
    print_loss(loss);
    if (code != 0) return code;
  }
  return 0;
}

/* Trains a compiled step of a model of images on handwritten digits, and prints how many of
 * those held out, every fifth, it names right.
 *
 *   make run-digits-cortex-m7 MODEL=cnn-small BATCH=8 BUDGET=500KB OPTIMIZER=sgd \
 *     MORE="--micro-batches 8 --recompute auto --allow-batch-change --evaluate"
 *
 * The digits are constants; what is trained is in the arena. */
#include "digits.h"

#include "board.h"
#include "numbers.h"
#include "step.h"

enum { STEPS = 200, SIDE = 28, IMAGE = SIDE * SIDE };

/* A row's image, 8 x 8, as large as the model's. */
static void copy_image(float *x, int row) {
  for (int i = 0; i < IMAGE; ++i) {
    const int from = i / SIDE * 8 / SIDE * 8 + i % SIDE * 8 / SIDE;
    x[i] = (float)digits[row][from] / 16.0f;
  }
}

/* One step on rows drawn at random of those that are not held out; returns its code. */
static int train(int64_t step) {
  float *const x = step_input_x();
  int32_t *const y = step_input_y();
  for (int n = 0; n < BATCH; ++n) {
    int row = (int)(random_bits() % DIGITS);
    while (row % 5 == 0) row = (int)(random_bits() % DIGITS);
    copy_image(x + n * IMAGE, row);
    y[n] = digits[row][64];
  }
  *step_input_lr() = 0.03f;
  *step_input_step() = step;
  return step_step();
}

/* The digits held out that are named right, of whole batches; -1 where a run fails. */
static int evaluate(int *count) {
  int right = 0;
  *count = 0;
  for (int row = 0; row + 5 * EVALUATE_BATCH <= DIGITS;
       row += 5 * EVALUATE_BATCH) {
    for (int n = 0; n < EVALUATE_BATCH; ++n) {
      copy_image(step_evaluate_input_x() + n * IMAGE, row + 5 * n);
      step_evaluate_input_y()[n] = digits[row + 5 * n][64];
    }
    if (step_evaluate() != 0) return -1;
    for (int n = 0; n < EVALUATE_BATCH; ++n) {
      right += step_evaluate_output_predictions()[n] == digits[row + 5 * n][64];
    }
    *count += EVALUATE_BATCH;
  }
  return right;
}

int main(void) {
  step_init(42);
  for (int i = 1; i <= STEPS; ++i) {
    const int code = train(i);
    if (code != 0) return code;
  }
  int count;
  const int right = evaluate(&count);
  print_number(STEPS, 10, 1);
  board_print(" steps: ");
  if (right < 0) return 1;
  print_number((uint32_t)right, 10, 1);
  board_print(" of ");
  print_number((uint32_t)count, 10, 1);
  board_print(" digits\n");
  return 0;
}

/* Trains the last layer of a classifier of motions, whose other layers are constants, and prints
 * how many motions of the validation set it names right before and after.
 *
 *   make run-motions-cortex-m7
 *
 * The readings of a sensor would be in motions.h's place. */
#include "motions.h"

#include "board.h"
#include "numbers.h"
#include "step.h"

enum { STEPS = 200, TRAINING = MOTIONS / 2 };

/* A motion's readings, in the units in which the layers were trained. */
static void copy_motion(float *x, int row) {
  for (int i = 0; i < READINGS; ++i) {
    x[i] = (float)motions[row][1 + i] / 16.0f;
  }
}

/* One step on motions drawn at random from the first half; returns its code. */
static int train(void) {
  for (int n = 0; n < BATCH; ++n) {
    const int row = (int)(random_bits() % TRAINING);
    copy_motion(step_input_x() + n * READINGS, row);
    step_input_y()[n] = motions[row][0];
  }
  *step_input_lr() = 0.1f;
  return step_step();
}

/* Prints the number of right predictions of the second half; returns the code of a run. */
static int evaluate(const char *when) {
  uint32_t right = 0;
  for (int row = TRAINING; row + EVALUATE_BATCH <= MOTIONS;
       row += EVALUATE_BATCH) {
    for (int n = 0; n < EVALUATE_BATCH; ++n) {
      copy_motion(step_evaluate_input_x() + n * READINGS, row + n);
    }
    const int code = step_evaluate();
    if (code != 0) return code;
    for (int n = 0; n < EVALUATE_BATCH; ++n) {
      right += step_evaluate_output_prediction()[n] == motions[row + n][0];
    }
  }
  board_print(when);
  print_number(right, 10, 1);
  board_print(" of ");
  print_number(MOTIONS - TRAINING, 10, 1);
  board_print(" motions\n");
  return 0;
}

int main(void) {
  step_init(1);
  int code = evaluate("before: ");
  for (int i = 0; i < STEPS && code == 0; ++i) code = train();
  return code != 0 ? code : evaluate("after: ");
}

/* Generates random numbers, and prints numbers. */
#ifndef NUMBERS_H_
#define NUMBERS_H_

#include <stdint.h>
#include <string.h>

#include "board.h"

/* Returns 16 random bits, from the generator of Knuth's MMIX. */
static inline uint32_t random_bits(void) {
  static uint64_t state = 1;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 48);
}

/* Prints `value` with at least `digits` digits. */
static inline void print_number(uint32_t value, uint32_t base, int digits) {
  char text[12];
  int end = 11;
  text[end] = '\0';
  do {
    text[--end] = "0123456789abcdef"[value % base];
    value /= base;
  } while (--digits > 0 || value > 0);
  board_print(text + end);
}

/* Prints a line with the bits of the float and the loss in thousandths. */
static inline void print_loss(float loss) {
  uint32_t bits;
  memcpy(&bits, &loss, sizeof bits);
  print_number(bits, 16, 8);
  board_print(" ");
  print_number((uint32_t)(loss * 1000.0f), 10, 1);
  board_print("\n");
}

#endif

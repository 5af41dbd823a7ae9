#ifndef BOARD_H_
#define BOARD_H_

/* The functions that the example requires from a board, or from a host. */

void board_print(const char *text);

#endif /* BOARD_H_ */

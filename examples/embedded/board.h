#ifndef BOARD_H_
#define BOARD_H_

/* What the example needs of a board, or of a host. */

void board_print(const char *text);

#endif /* BOARD_H_ */

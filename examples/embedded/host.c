/* The board of a system that has stdio. */
#include "board.h"

#include <stdio.h>

void board_print(const char *text) { fputs(text, stdout); }

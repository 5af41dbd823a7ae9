/* The board of a Cortex-M in qemu: a vector table, memory as the program expects it, and
 * printing by semihosting (ARM IHI 0100). */
#include "board.h"

#include <stdint.h>
#include <string.h>

extern uint8_t stack_top, data_start, data_end, data_load, bss_start, bss_end, psram_start,
    psram_end;

int main(void);

enum { SYS_WRITE0 = 4, SYS_EXIT_EXTENDED = 0x20 };

static void semihost(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void board_print(const char *text) { semihost(SYS_WRITE0, text); }

static void end(uint32_t code) {
  const uint32_t reason[2] = {0x20026, code}; /* ADP_Stopped_ApplicationExit */
  semihost(SYS_EXIT_EXTENDED, reason);
  for (;;) {
  }
}

void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFU << 20; /* CPACR: the FPU, if there is one */
  __asm__ volatile("dsb\n isb");
  memcpy(&data_start, &data_load, (size_t)(&data_end - &data_start));
  memset(&bss_start, 0, (size_t)(&bss_end - &bss_start));
  memset(&psram_start, 0, (size_t)(&psram_end - &psram_start));
  end((uint32_t)main());
}

static void fault(void) {
  board_print("fault\n");
  end(255);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault};

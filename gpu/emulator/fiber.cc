#include "gpu/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/result.h"
#include "base/sanitizers.h"

#if STOWAGE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace stowage::gpu::emulator {
namespace {

// For the kernel's locals; sanitizers add much between them.
constexpr size_t kStackBytes = STOWAGE_ASAN ? 512 * 1024 : 128 * 1024;
constexpr size_t kStagger = 4096 + 192;
constexpr size_t kStaggered = 16;

// The fiber that a switch has left, and the one that it enters.
constinit thread_local Fiber* g_from = nullptr;
constinit thread_local Fiber* g_to = nullptr;

}  // namespace

#if defined(__x86_64__)

// Pushes the callee-saved registers, exchanges stacks, pops.
asm(R"(
.text
.globl stowage_switch_stacks
.hidden stowage_switch_stacks
.type stowage_switch_stacks, @function
stowage_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size stowage_switch_stacks, .-stowage_switch_stacks
)");
extern "C" void stowage_switch_stacks(void** save, void* to);

struct Fiber::Machine {
  void* stack = nullptr;  // where it stands, while it does not run

  void Start(std::byte* bottom, size_t size, void (*entry)()) {
    auto* top = reinterpret_cast<uintptr_t*>(bottom + size);
    *--top = 0;  // where `entry` would return to
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;
    stack = top;
  }
  static void Switch(Machine& from, Machine& to) {
    stowage_switch_stacks(&from.stack, to.stack);
  }
};

#else

struct Fiber::Machine {
  ucontext_t context;

  void Start(std::byte* bottom, size_t size, void (*entry)()) {
    STOWAGE_CHECK(getcontext(&context) == 0);
    context.uc_stack.ss_sp = bottom;
    context.uc_stack.ss_size = size;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  static void Switch(Machine& from, Machine& to) {
    swapcontext(&from.context, &to.context);
  }
};

#endif

Fiber::Fiber() : machine_(std::make_unique<Machine>()) {}

Fiber::Fiber(size_t index) : Fiber() {
  const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t room = guard + kStackBytes + kStagger * kStaggered;
  void* memory = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STOWAGE_CHECK(memory != MAP_FAILED);
  STOWAGE_CHECK(mprotect(memory, guard, PROT_NONE) == 0);
  memory_ = static_cast<std::byte*>(memory);
  bottom_ = memory_ + guard;
  size_ = kStackBytes + kStagger * (index % kStaggered);
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
  const size_t guard = static_cast<size_t>(bottom_ - memory_);
  munmap(memory_, guard + kStackBytes + kStagger * kStaggered);
}

void Fiber::Start(Body body) {
  STOWAGE_CHECK(memory_ != nullptr);
#if STOWAGE_ASAN
  __asan_unpoison_memory_region(bottom_, size_);
#endif
  body_ = body;
  fake_stack_ = nullptr;
  machine_->Start(bottom_, size_, Enter);
}

void Fiber::Switch(Fiber& from, Fiber& to) {
  g_from = &from;
  g_to = &to;
#if STOWAGE_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
  Machine::Switch(*from.machine_, *to.machine_);
  AfterSwitch(from.fake_stack_);
}

// Notifies AddressSanitizer, and receives the bounds of the first stack.
void Fiber::AfterSwitch([[maybe_unused]] void* fake_stack) {
#if STOWAGE_ASAN
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
  g_from->bottom_ = static_cast<std::byte*>(const_cast<void*>(bottom));
  g_from->size_ = size;
#endif
}

void Fiber::Enter() {
  AfterSwitch(nullptr);
  g_to->body_();
  STOWAGE_CHECK(false);  // a body never returns
}

}  // namespace stowage::gpu::emulator

#ifndef STOWAGE_GPU_EMULATOR_FIBER_H_
#define STOWAGE_GPU_EMULATOR_FIBER_H_

// Provides fibers, which execute on their own stacks and are switched explicitly. An emulated GPU
// thread is a fiber, so that it can wait for other threads. On x86-64, a switch executes about
// fifteen instructions. On other machines, it calls swapcontext. AddressSanitizer is notified of
// every switch.
//
//   Fiber main, other(0);
//   other.Start(Body);        // a function that must not return
//   Fiber::Switch(main, other);

#include <cstddef>
#include <memory>

namespace stowage::gpu::emulator {

class Fiber {
 public:
  using Body = void (*)();

  /// Represents the stack on which the calling thread already runs.
  Fiber();
  /// Creates a fiber with its own stack. The stack begins at an offset that depends on `index`. If
  /// all stacks began at multiples of one size, they would share a few sets of the cache.
  explicit Fiber(size_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the next switch to this fiber call `body`, which must not return. Requires that the
  /// fiber has its own stack.
  void Start(Body body);

  /// Suspends the running fiber `from` until a switch back to it, and resumes `to`.
  static void Switch(Fiber& from, Fiber& to);

 private:
  struct Machine;  // machine-dependent state

  static void Enter();
  static void AfterSwitch(void* fake_stack);

  std::byte* memory_ = nullptr;  // null for a stack that already existed
  std::byte* bottom_ = nullptr;
  size_t size_ = 0;
  Body body_ = nullptr;
  void* fake_stack_ = nullptr;  // for AddressSanitizer
  std::unique_ptr<Machine> machine_;
};

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_FIBER_H_

#ifndef STOWAGE_GPU_EMULATOR_FIBER_H_
#define STOWAGE_GPU_EMULATOR_FIBER_H_

// Execution on a stack of its own, left and entered by hand: how an emulated
// GPU thread waits for the others. On x86-64 a switch is a dozen instructions;
// elsewhere it is swapcontext. AddressSanitizer is told of every switch.
//
//   Fiber main, other(0);
//   other.Start(Body);        // a function that never returns
//   Fiber::Switch(main, other);

#include <cstddef>
#include <memory>

namespace stowage::gpu::emulator {

class Fiber {
 public:
  using Body = void (*)();

  /// Stands for the stack that is running already.
  Fiber();
  /// A stack of its own. `index` tells fibers apart: it staggers where their
  /// stacks begin, since stacks at multiples of one size would share the same
  /// few sets of the cache.
  explicit Fiber(size_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber enters `body`, whatever it was doing.
  void Start(Body body);

  /// Leaves `from`, which is running, until somebody switches to it.
  static void Switch(Fiber& from, Fiber& to);

 private:
  struct Machine;  // what the kind of machine needs

  static void Enter();
  static void AfterSwitch(void* fake_stack);

  std::byte* memory_ = nullptr;  // null: a stack that was there before
  std::byte* bottom_ = nullptr;
  size_t size_ = 0;
  Body body_ = nullptr;
  void* fake_stack_ = nullptr;  // of AddressSanitizer
  std::unique_ptr<Machine> machine_;
};

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_FIBER_H_

#ifndef STOWAGE_GPU_EMULATOR_FIBER_H_
#define STOWAGE_GPU_EMULATOR_FIBER_H_

// A fiber: execution on its own stack, entered and left explicitly, by which an emulated GPU
// thread waits for others. On x86-64 a switch is a dozen instructions; elsewhere it is
// swapcontext. AddressSanitizer is notified of every switch.
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

  /// The fiber of the stack that is running already.
  Fiber();
  /// A fiber with its own stack. `index` staggers where stacks begin: stacks at multiples of one
  /// size would share the same few sets of the cache.
  explicit Fiber(size_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber enters `body`.
  void Start(Body body);

  /// Suspends the running fiber `from` until a switch back to it, and resumes `to`.
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

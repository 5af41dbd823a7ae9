#ifndef STOWAGE_GPU_EMULATOR_EMULATOR_H_
#define STOWAGE_GPU_EMULATOR_EMULATOR_H_

// Runs kernels compiled by an ordinary C++ compiler (gpu/simt.h): a fiber per GPU thread, one
// block after the other. Where a thread waits for others, in SyncThreads or in a function of
// its warp, another one runs, chosen at random: a kernel that lacks a barrier gives wrong
// results under some seed, even if it is right in the natural order.
//
// Errors are reported with the name of the kernel: an index outside a shared array; bytes
// written next to one; a misaligned address; threads that wait in different places, or for
// lanes that never come. Shared memory is full of NaN when a block starts.
//
//   EmulatorOptions options{.seed = 7};
//   RunGrid(call, options);
//
//   EmulatedQueue queue({.seed = 3});
//   kernel.enqueue(launch, queue);
//   CHECK(!queue.has_fault());

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "gpu/queue.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

struct EmulatorOptions {
  /// 0: blocks and threads in their natural order, and copies to shared memory
  /// (CopyAsyncZero16, CopyBox) at once. Others: shuffled, and the bytes of such copies
  /// are NaN from the call to the CopyAsyncWait or AwaitBytes that waits for them.
  uint64_t seed = 0;
  /// Warps are chosen at random: one runs until all of its lanes wait for the block or have
  /// returned.
  bool warp_by_warp = false;
  /// Receives the error of a kernel, the rest of whose launch is then not run. Null: the error
  /// is printed, and the process aborts.
  std::string* report = nullptr;
};

/// Runs all blocks of `call`, in this thread.
void RunGrid(const KernelCall& call, const EmulatorOptions& options = {});

/// A queue on host memory: all work runs at once, kernels in the emulator, matmuls as plain
/// loops that sum in double precision.
class EmulatedQueue : public Queue {
 public:
  explicit EmulatedQueue(const EmulatorOptions& options = {})
      : options_(options) {}

  void Launch(const KernelCall& call) override;
  /// m x n x k x batch operations.
  void MatMul(const MatMulCall& call) override;
  bool Takes(const MatMulCall& call) override {
    return takes_epilogues_ || Queue::Takes(call);
  }
  void Fill(std::byte* to, uint8_t value, Bytes bytes) override;
  void Copy(std::byte* to, const std::byte* from, Bytes bytes) override;
  AttentionAlgorithm ChooseAttention(const stowage::Launch&,
                                     AttentionAlgorithms algorithms) override {
    return algorithms.Has(attention_) ? attention_ : algorithms.first();
  }
  TensorMap Encode(const TensorMapSpec& spec) override;
  FaultSlot fault() const override { return {&word_, launch_}; }

  /// Sets the launch that is enqueued from here on; 0 at first.
  void set_launch(uint32_t launch) { launch_ = launch; }

  /// From now on Takes refuses matmuls with an epilogue beyond an addend, to test the kernels'
  /// fallback.
  void refuse_epilogues() { takes_epilogues_ = false; }

  /// From now on attention uses this algorithm where it supports a launch.
  void set_attention(AttentionAlgorithm algorithm) { attention_ = algorithm; }

  bool has_fault() const { return word_ != kNoFault; }
  /// The first launch with a fault.
  uint32_t faulty_launch() const { return word_; }

  int64_t kernels() const { return kernels_; }
  int64_t products() const { return products_; }

 private:
  EmulatorOptions options_;
  mutable uint32_t word_ = kNoFault;
  uint32_t launch_ = 0;
  bool takes_epilogues_ = true;
  AttentionAlgorithm attention_ = AttentionAlgorithm::kWarps;
  int64_t kernels_ = 0;
  int64_t products_ = 0;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_EMULATOR_EMULATOR_H_

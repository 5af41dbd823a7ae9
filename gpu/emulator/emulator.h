#ifndef STOWAGE_GPU_EMULATOR_EMULATOR_H_
#define STOWAGE_GPU_EMULATOR_EMULATOR_H_

// Runs kernels that were compiled by an ordinary C++ compiler (gpu/simt.h). Each GPU thread is a
// fiber, and blocks run one after the other. If a seed is given and a thread waits for others, in
// SyncThreads or in a warp function, a randomly chosen thread runs next. A kernel that lacks a
// barrier then usually produces wrong results for some seed, even if it is correct in the natural
// order.
//
// The following errors are reported with the name of the kernel: an index outside a shared array, a
// write next to a shared array, a misaligned address, threads of a block or warp that wait at
// different calls, and threads that wait for lanes that have returned. Before a block uses shared
// memory, it is filled with NaN.
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
  /// If 0, blocks and threads run in their natural order, and copies to shared memory
  /// (CopyAsyncZero16, CopyBox) complete immediately. Otherwise the order is shuffled, and the
  /// bytes of copies are NaN until the CopyAsyncWait or AwaitBytes that waits for them.
  uint64_t seed = 0;
  /// If true, the warp that runs next is chosen at random, and runs until all of its lanes wait for
  /// the block or have returned.
  bool warp_by_warp = false;
  /// Receives the error of a kernel. The rest of the launch is then skipped. If null, the error is
  /// printed and the process aborts.
  std::string* report = nullptr;
};

/// Runs all blocks of `call` on the calling thread. `call.threads` must be a multiple of 32, and at
/// most 1,024.
void RunGrid(const KernelCall& call, const EmulatorOptions& options = {});

/// A queue on host memory that runs all work immediately. Kernels run in the emulator. Matmuls are
/// plain loops that accumulate in double precision.
class EmulatedQueue : public Queue {
 public:
  explicit EmulatedQueue(const EmulatorOptions& options = {})
      : options_(options) {}

  void Launch(const KernelCall& call) override;
  /// Computes the matmul with m * n * k * batch multiply-adds.
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

  /// Sets the index of the launch whose work follows. It is 0 initially.
  void set_launch(uint32_t launch) { launch_ = launch; }

  /// Makes Takes return false for matmuls with an epilogue other than an addend, so that tests can
  /// check how kernels handle this.
  void refuse_epilogues() { takes_epilogues_ = false; }

  /// Sets the algorithm for attention launches that support it. Other launches use their first
  /// algorithm. The default is kWarps.
  void set_attention(AttentionAlgorithm algorithm) { attention_ = algorithm; }

  bool has_fault() const { return word_ != kNoFault; }
  /// Returns the smallest index of a launch that has reported a fault, or kNoFault.
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

#ifndef STOWAGE_TESTS_GPU_GRID_RUNNER_H_
#define STOWAGE_TESTS_GPU_GRID_RUNNER_H_

// Runs the grids of a test on the CPU. Two libraries define it, and a program links
// one of them: //tests/gpu/emulated:emulated_grids runs kernels that the C++ compiler made, in
// gpu/emulator; //tests/gpu/ptx:ptx_grids the PTX that nvcc made of them. So the same
// tests see both.
//
//   std::string wrong;
//   RunTestGrid(call, {.seed = 3, .report = &wrong, .memory = buffers});

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/emulator/emulator.h"
#include "gpu/queue.h"

namespace stowage::testing {

struct GridOptions {
  /// 0: threads in their natural order; others: shuffled.
  uint64_t seed = 0;
  /// One warp runs until it waits for the block.
  bool warp_by_warp = false;
  /// Receives a kernel's fault. Null: the fault is printed, and the process aborts.
  std::string* report = nullptr;
  /// The bytes of global memory that the kernel may touch; empty: any. The emulator
  /// ignores them.
  std::span<const std::span<std::byte>> memory = {};
};

void RunTestGrid(const gpu::KernelCall& call, const GridOptions& options);

/// Whether tests run every order of threads, or a few where that is slow.
bool TakesAllOrders();

// A queue that runs each grid by RunTestGrid when it is enqueued; matmuls are plain loops.
//
//   GridQueue queue({.seed = 3});
//   kernel.enqueue(launch, queue);
//   CHECK(!queue.has_fault());

class GridQueue final : public gpu::EmulatedQueue {
 public:
  explicit GridQueue(const GridOptions& options = {}) : options_(options) {}

  void Launch(const gpu::KernelCall& call) override {
    ++grids_;
    RunTestGrid(call, options_);
  }
  /// Kernels that are launched from here on may touch only these bytes and the fault's word; by
  /// default, any.
  void set_memory(std::vector<std::span<std::byte>> memory) {
    memory_ = std::move(memory);
    memory_.emplace_back(reinterpret_cast<std::byte*>(fault().word),
                         sizeof(*fault().word));
    options_.memory = memory_;
  }
  /// The number of kernels that were launched.
  int64_t kernels() const { return grids_; }

 private:
  GridOptions options_;
  std::vector<std::span<std::byte>> memory_;
  int64_t grids_ = 0;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_GRID_RUNNER_H_

#ifndef STOWAGE_TESTS_GPU_GRID_RUNNER_H_
#define STOWAGE_TESTS_GPU_GRID_RUNNER_H_

// Runs CUDA kernels on the CPU. Two libraries implement these functions, and a program links one
// of them. //tests/gpu/emulated:emulated_grids runs kernels compiled as C++, in gpu/emulator.
// //tests/gpu/ptx:ptx_grids interprets the PTX that nvcc compiled from the same kernels. The same
// tests therefore check both.
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
  /// Selects the order in which threads run. 0 is the natural order, and other seeds shuffle it.
  uint64_t seed = 0;
  /// If true, a warp runs until it waits at a barrier of its block.
  bool warp_by_warp = false;
  /// Receives the error of a faulty kernel. If null, the error is printed and the process aborts.
  std::string* report = nullptr;
  /// The global memory that the kernel may access. If empty, it may access any address. The
  /// emulator ignores this.
  std::span<const std::span<std::byte>> memory = {};
};

/// Runs all threads of one kernel launch.
void RunTestGrid(const gpu::KernelCall& call, const GridOptions& options);

/// Returns whether tests try every thread order. If the linked library is slow, they try a few.
bool TakesAllOrders();

// GridQueue is a queue that runs each kernel with RunTestGrid as soon as it is enqueued. Matmuls
// are plain loops.
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
  /// Restricts later kernels to this memory and the word that reports faults. Without this call
  /// they may access any address.
  void set_memory(std::vector<std::span<std::byte>> memory) {
    memory_ = std::move(memory);
    memory_.emplace_back(reinterpret_cast<std::byte*>(fault().word),
                         sizeof(*fault().word));
    options_.memory = memory_;
  }
  /// Returns the number of kernels launched so far.
  int64_t kernels() const { return grids_; }

 private:
  GridOptions options_;
  std::vector<std::span<std::byte>> memory_;
  int64_t grids_ = 0;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_GRID_RUNNER_H_

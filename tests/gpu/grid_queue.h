#ifndef STOWAGE_TESTS_GPU_GRID_QUEUE_H_
#define STOWAGE_TESTS_GPU_GRID_QUEUE_H_

// A queue whose grids run as the program was linked (tests/gpu/grid_runner.h), at once;
// matrix products are plain loops.
//
//   GridQueue queue({.seed = 3});
//   kernel.enqueue(launch, queue);
//   CHECK(!queue.has_fault());

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gpu/emulator/emulated_queue.h"
#include "gpu/queue.h"
#include "tests/gpu/grid_runner.h"

namespace stowage::testing {

class GridQueue final : public gpu::EmulatedQueue {
 public:
  explicit GridQueue(const GridOptions& options = {}) : options_(options) {}

  void Launch(const gpu::KernelCall& call) override {
    ++grids_;
    RunTestGrid(call, options_);
  }
  /// What is launched from here on may touch this and the fault's word, and nothing
  /// else; at first, anything.
  void set_memory(std::vector<std::span<std::byte>> memory) {
    memory_ = std::move(memory);
    memory_.emplace_back(reinterpret_cast<std::byte*>(fault().word),
                         sizeof(*fault().word));
    options_.memory = memory_;
  }
  /// Kernels that were launched.
  int64_t kernels() const { return grids_; }

 private:
  GridOptions options_;
  std::vector<std::span<std::byte>> memory_;
  int64_t grids_ = 0;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_GRID_QUEUE_H_

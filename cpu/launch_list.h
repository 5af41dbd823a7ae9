#ifndef STOWAGE_CPU_LAUNCH_LIST_H_
#define STOWAGE_CPU_LAUNCH_LIST_H_

// Launches with the kernels that run them, chosen once: those of a program, and in the
// nodes of control flow, those of their bodies. Running them allocates nothing.
//
//   LaunchList list(graph, launches, &pool, &ranks, /*check=*/false);
//   StepCode code = list.Run(0, launches.size(), &failed);

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "ir/graph.h"
#include "runtime/collectives.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

class LaunchList {
 public:
  /// All must outlive this. With `check`, a launch that makes NaN or infinity ends the
  /// run with kNonFinite.
  LaunchList(const Graph& graph, std::span<const Launch> launches,
             ThreadPool* pool, Collectives* ranks, bool check);

  /// Runs launches [first, last) in order. On failure *failed is the launch's index
  /// in this list, also where one in a body of it is to blame.
  StepCode Run(size_t first, size_t last, size_t* failed) const noexcept;

  /// Runs launch `index`; in its bodies, what is dead is filled with `poison`.
  StepCode RunPoisoned(size_t index, uint8_t poison,
                       size_t* failed) const noexcept;

 private:
  using Poison = std::optional<uint8_t>;

  StepCode RunOne(size_t index, Poison poison) const noexcept;
  StepCode RunLoop(size_t index, Poison poison) const noexcept;
  StepCode RunCond(size_t index, Poison poison) const noexcept;
  // Runs body `body` of launch `index`.
  StepCode RunBody(size_t index, size_t body, Poison poison) const noexcept;

  std::span<const Launch> launches_;
  std::vector<CpuKernel> kernels_;
  std::vector<std::vector<LaunchList>> bodies_;  // by launch
  ThreadPool* pool_;
  Collectives* ranks_;
  bool check_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_LAUNCH_LIST_H_

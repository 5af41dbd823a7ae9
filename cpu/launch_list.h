#ifndef STOWAGE_CPU_LAUNCH_LIST_H_
#define STOWAGE_CPU_LAUNCH_LIST_H_

// Launches with the kernels that run them, chosen once: those of a program, and in the
// nodes of control flow, those of their bodies. Running them allocates nothing.
//
// Exchanges between ranks are begun in their order and run beside the launches behind
// them, but for those that must wait (cpu/launch_hazards.h): bits are the same.
//
//   LaunchList list(graph, launches, {.pool = &pool, .ranks = &ranks});
//   StepCode code = list.Run(0, launches.size(), &failed);

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cpu/blocking.h"
#include "cpu/blocking_chooser.h"
#include "cpu/exchange_thread.h"
#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "ir/graph.h"
#include "runtime/collectives.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

/// What launches run with; all must outlive the list.
struct RunsWith {
  ThreadPool* pool = nullptr;
  Collectives* ranks = nullptr;
  /// Null: nothing runs beside an exchange.
  ExchangeThread* exchanges = nullptr;
  /// Whether a launch that makes NaN or infinity ends the run with kNonFinite.
  bool check = false;
};

class LaunchList {
 public:
  LaunchList(const Graph& graph, std::span<const Launch> launches,
             const RunsWith& with);

  /// Has the blockings of all launches chosen that have a choice, those in bodies, too;
  /// until then they are the default.
  void ChooseBlockings(BlockingChooser& chooser);

  /// Runs launches [first, last) in order, and waits for all exchanges among them. On
  /// failure *failed is the launch's index in this list, also where one in a body of it
  /// is to blame.
  StepCode Run(size_t first, size_t last, size_t* failed) const noexcept;

  /// Runs launch `index`; in its bodies, what is dead is filled with `poison`. An
  /// exchange goes on beside the launches that follow, until the last is run.
  StepCode RunPoisoned(size_t index, uint8_t poison,
                       size_t* failed) const noexcept;

 private:
  using Poison = std::optional<uint8_t>;

  StepCode RunInOrder(size_t index, Poison poison,
                      size_t* failed) const noexcept;
  StepCode Land(uint64_t count, size_t* failed) const noexcept;
  StepCode RunOne(size_t index, Poison poison) const noexcept;
  StepCode RunLoop(size_t index, Poison poison) const noexcept;
  StepCode RunCond(size_t index, Poison poison) const noexcept;
  // Runs body `body` of launch `index`.
  StepCode RunBody(size_t index, size_t body, Poison poison) const noexcept;

  std::span<const Launch> launches_;
  std::vector<CpuKernel> kernels_;
  std::vector<Blocking> blockings_;              // by launch
  std::vector<std::vector<LaunchList>> bodies_;  // by launch
  RunsWith with_;
  // By launch, if there is a thread for exchanges.
  std::vector<size_t> exchanges_before_;
  std::vector<size_t> to_land_;  // ExchangesToLand
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_LAUNCH_LIST_H_

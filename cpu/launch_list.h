#ifndef STOWAGE_CPU_LAUNCH_LIST_H_
#define STOWAGE_CPU_LAUNCH_LIST_H_

// Runs the launches of a program (runtime/kernel.h) in order on the caller's thread and its pool.
// Collectives, and copies to and from the file of host memory (runtime/host_file.h), run
// asynchronously on a separate thread.
//
//   LaunchList list(graph, launches, {.kernels = &kernels, .pool = &pool, .ranks = &ranks});
//   StepCode code = list.Run(0, launches.size(), &failed);
//
// In this file, an exchange is a launch that runs asynchronously. It has landed when it has
// completed. Exchanges land in the order in which they begin. A launch must not run concurrently
// with an exchange if it reads or overwrites the exchange's result or scratch, or overwrites its
// operand (runtime/program.h). One number per launch describes all these dependencies: the number
// of exchanges that must have landed before the launch runs. The results are bit-identical to the
// results of synchronous exchanges.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "cpu/blocking.h"
#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "ir/graph.h"
#include "ir/uses.h"
#include "runtime/backend.h"
#include "runtime/host_file.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

/// The thread on which exchanges run, one after the other. Allocates nothing after construction.
/// Begin and Land must not be called concurrently.
///
///   ExchangeThread exchanges(ranks);
///   exchanges.Begin({.kernel = kernel.run_among_ranks, .launch = &launch});
///   ...
///   StepCode code = exchanges.Land(exchanges.begun());
class ExchangeThread {
 public:
  /// Starts the thread. `ranks` must outlive this object. While an exchange is running, nothing
  /// else may use `ranks`.
  explicit ExchangeThread(Collectives& ranks);
  /// Waits for all exchanges, then stops the thread.
  ~ExchangeThread();
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  struct Task {
    CpuKernel::AmongRanksFn kernel = nullptr;  // Set for a collective.
    const Launch* launch = nullptr;
    HostFile* host = nullptr;  // Set for a copy.
  };
  /// Queues `task`, which becomes an exchange. Fewer than kExchangesUnderWay (ir/uses.h) exchanges
  /// may have begun and not landed before. After an exchange has failed, all later exchanges
  /// complete without running, and Land returns the error.
  void Begin(const Task& task) noexcept;
  uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }

  /// Waits until the first `count` exchanges have landed. Returns the code of the first exchange
  /// that failed, or kOk if none has failed. failed() returns the launch of that exchange, or null.
  StepCode Land(uint64_t count) noexcept;
  const Launch* failed() const { return failed_.load(); }

 private:
  void Work();

  Collectives& ranks_;
  // A ring buffer, indexed by the number of the exchange.
  std::array<Task, kExchangesUnderWay> tasks_;
  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> landed_{0};
  std::atomic<bool> stop_{false};
  std::atomic<const Launch*> failed_{nullptr};  // Set before `code_`.
  std::atomic<StepCode> code_{StepCode::kOk};
  std::thread thread_;
};

/// Returns whether launches of `op` are exchanges. `host_is_file` states whether host memory is in
/// a file.
bool RunsBeside(OpKind op, bool host_is_file);

/// Returns, for each launch of `graph`, the number of exchanges that must have landed before it
/// runs. Before an exchange begins, all earlier exchanges except the latest kExchangesUnderWay - 1
/// must have landed. Before a node whose body contains an exchange runs, all exchanges must have
/// landed. `host_is_file` is as in RunsBeside. Takes time proportional to the number of launches
/// times the number of exchanges that are in flight.
std::vector<size_t> ExchangesToLand(const Graph& graph,
                                    std::span<const Launch> launches,
                                    bool host_is_file);

/// The resources of a LaunchList, which must outlive it.
struct RunsWith {
  const KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
  Collectives* ranks = nullptr;
  /// If null, exchanges run synchronously.
  ExchangeThread* exchanges = nullptr;
  /// The file of host memory. If null, host memory is in RAM.
  HostFile* host = nullptr;
  /// If true, a result of a kernel with a non-finite element ends the run with kNonFinite.
  /// `exchanges` must then be null, because results of exchanges are not checked.
  bool check = false;
};

/// Runs the launches of a graph. The kernels are selected once, at construction. The bodies of
/// loops and conds have their own lists. Running allocates no memory.
class LaunchList {
 public:
  LaunchList(const Graph& graph, std::span<const Launch> launches,
             const RunsWith& with);

  /// Chooses the blockings of all launches, including launches in bodies. Launches use the default
  /// blocking until this has been called.
  void ChooseBlockings(BlockingAutotuner& autotuner);

  /// Runs launches [first, last) in order, and waits for all exchanges. On failure, sets *failed to
  /// the index of the launch that failed. If it is in a body, this is the index of the loop or
  /// cond. *failed is unspecified if the run succeeds.
  StepCode Run(size_t first, size_t last, size_t* failed) const noexcept;

  /// Runs launch `index`. If it has bodies, fills the memory of their values with `poison` as soon
  /// as the values are dead, except values in a file. A collective may still be running when this
  /// returns. The call for the last launch of the list waits for all exchanges.
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
  std::vector<Blocking> blockings_;              // Indexed by launch.
  std::vector<std::vector<LaunchList>> bodies_;  // Indexed by launch.
  RunsWith with_;
  // The number of exchanges before each launch. Empty if there is no exchange thread.
  std::vector<size_t> exchanges_before_;
  std::vector<size_t> to_land_;  // See ExchangesToLand.
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_LAUNCH_LIST_H_

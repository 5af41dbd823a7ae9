#ifndef STOWAGE_CPU_EXCHANGE_THREAD_H_
#define STOWAGE_CPU_EXCHANGE_THREAD_H_

// A thread on which a step's exchanges run, one after the other, beside what the step
// computes meanwhile: those between ranks, and copies to and from the file in which host
// memory lies (runtime/host_file.h). It allocates nothing once it is made.
//
//   ExchangeThread exchanges(ranks);
//   exchanges.Begin({.kernel = kernel.run_among_ranks, .launch = &launch});
//   ...
//   StepCode code = exchanges.Land(exchanges.begun());

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

/// Begin and Land are for one thread.
class ExchangeThread {
 public:
  /// `ranks`, which must outlive this, exchanges on the thread alone while one is under
  /// way.
  explicit ExchangeThread(Collectives& ranks);
  /// Waits for what was begun.
  ~ExchangeThread();
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  struct Task {
    CpuKernel::AmongRanksFn kernel = nullptr;  // between ranks
    const Launch* launch = nullptr;
    HostFile* host = nullptr;  // of a copy
  };
  /// Runs `task` once those before it are done; at most kExchangesUnderWay may have
  /// begun and not landed. Once one has failed, the others fail, and do nothing.
  void Begin(const Task& task) noexcept;
  uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }

  /// Waits until the first `count` that were ever begun have landed. What the first that
  /// failed, of all, ended with; failed() is that.
  StepCode Land(uint64_t count) noexcept;
  const Launch* failed() const { return failed_.load(); }

 private:
  void Work();

  Collectives& ranks_;
  std::array<Task, kExchangesUnderWay> tasks_;  // by number, over and over
  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> landed_{0};
  std::atomic<bool> stop_{false};
  std::atomic<const Launch*> failed_{nullptr};  // set before `code_`
  std::atomic<StepCode> code_{StepCode::kOk};
  std::thread thread_;
};

// Which launches have to wait for exchanges that are under way (ir/uses.h).
//
// A launch must not run beside an exchange of which it reads or overwrites a result, or
// scratch, or overwrites an operand (runtime/launch_accesses.h). Exchanges land in the
// order in which they were begun, so for each launch a number says it all.
//
//   landed[i]  // so many of the exchanges before launch i must have landed before it runs

/// Whether launches of `op` are exchanges, where host memory is a file or is not.
bool RunsBeside(OpKind op, bool host_is_file);

/// Per launch of `graph`. Before an exchange is begun, all but the latest
/// kExchangesUnderWay - 1 must have landed; before a node with an exchange in a body, all.
/// Linear in the launches, times the exchanges that are under way at each.
std::vector<size_t> ExchangesToLand(const Graph& graph,
                                    std::span<const Launch> launches,
                                    bool host_is_file);

// Launches with the kernels that run them, chosen once: those of a program, and in the
// nodes of control flow, those of their bodies. Running them allocates nothing.
//
// Exchanges are begun in their order and run beside the launches behind them, but for
// those that must wait (ExchangesToLand): bits are the same.
//
//   LaunchList list(graph, launches, {.kernels = &kernels, .pool = &pool, .ranks = &ranks});
//   StepCode code = list.Run(0, launches.size(), &failed);

/// What launches run with; all must outlive the list.
struct RunsWith {
  const KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
  Collectives* ranks = nullptr;
  /// Null: nothing runs beside an exchange.
  ExchangeThread* exchanges = nullptr;
  /// The file in which host memory lies; null: it is memory.
  HostFile* host = nullptr;
  /// Whether a launch that makes NaN or infinity ends the run with kNonFinite.
  bool check = false;
};

class LaunchList {
 public:
  LaunchList(const Graph& graph, std::span<const Launch> launches,
             const RunsWith& with);

  /// Has the blockings of all launches chosen that have a choice, those in bodies, too;
  /// until then they are the default.
  void ChooseBlockings(BlockingAutotuner& autotuner);

  /// Runs launches [first, last) in order, and waits for all exchanges among them. On
  /// failure *failed is the launch's index in this list, also where one in a body of it
  /// is to blame.
  StepCode Run(size_t first, size_t last, size_t* failed) const noexcept;

  /// Runs launch `index`; in its bodies, what is dead is filled with `poison`, but for
  /// what lies in a file. An exchange between ranks goes on beside the launches that
  /// follow, until the last is run.
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

#endif  // STOWAGE_CPU_EXCHANGE_THREAD_H_

#ifndef STOWAGE_CPU_EXCHANGE_THREAD_H_
#define STOWAGE_CPU_EXCHANGE_THREAD_H_

// A thread on which a step's exchanges between ranks run, one after the other, beside
// what the step computes meanwhile. It allocates nothing once it is made.
//
//   ExchangeThread exchanges(ranks);
//   exchanges.Begin(kernel.run_among_ranks, launch);
//   ...
//   StepCode code = exchanges.Land(exchanges.begun());

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "cpu/kernel.h"
#include "ir/exchanges.h"
#include "runtime/collectives.h"
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

  /// Runs `launch` once those before it are done; at most kExchangesUnderWay may have
  /// begun and not landed. Once one has failed, the others fail, and do nothing.
  void Begin(CpuKernel::AmongRanksFn kernel, const Launch& launch) noexcept;
  uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }

  /// Waits until the first `count` that were ever begun have landed. What the first that
  /// failed, of all, ended with; failed() is that.
  StepCode Land(uint64_t count) noexcept;
  const Launch* failed() const { return failed_.load(); }

 private:
  struct Task {
    CpuKernel::AmongRanksFn kernel = nullptr;
    const Launch* launch = nullptr;
  };
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

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_EXCHANGE_THREAD_H_

#include "cpu/exchange_thread.h"

#include "base/check.h"

namespace stowage::cpu {

ExchangeThread::ExchangeThread(Collectives& ranks) : ranks_(ranks) {
  thread_ = std::thread([this] { Work(); });
}

ExchangeThread::~ExchangeThread() {
  static_cast<void>(Land(begun()));
  stop_ = true;
  begun_.fetch_add(1, std::memory_order_release);  // of nothing, to wake it
  begun_.notify_one();
  thread_.join();
}

void ExchangeThread::Begin(CpuKernel::AmongRanksFn kernel,
                           const Launch& launch) noexcept {
  const uint64_t number = begun();
  STOWAGE_CHECK(number - landed_.load(std::memory_order_acquire) <
                tasks_.size());
  tasks_[number % tasks_.size()] = {kernel, &launch};
  begun_.store(number + 1, std::memory_order_release);
  begun_.notify_one();
}

StepCode ExchangeThread::Land(uint64_t count) noexcept {
  uint64_t landed = landed_.load(std::memory_order_acquire);
  while (landed < count) {
    landed_.wait(landed, std::memory_order_acquire);
    landed = landed_.load(std::memory_order_acquire);
  }
  return code_;
}

void ExchangeThread::Work() {
  for (uint64_t number = 0;; ++number) {
    begun_.wait(number, std::memory_order_acquire);
    if (stop_) return;
    const Task& task = tasks_[number % tasks_.size()];
    if (code_ == StepCode::kOk) {
      const StepCode code = task.kernel(*task.launch, ranks_);
      if (code != StepCode::kOk) {
        failed_ = task.launch;
        code_ = code;
      }
    }
    landed_.store(number + 1, std::memory_order_release);
    landed_.notify_one();
  }
}

}  // namespace stowage::cpu

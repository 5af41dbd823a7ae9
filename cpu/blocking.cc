#include "cpu/blocking.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/autotune_cache.h"

namespace stowage::cpu {
namespace {

constexpr ChoicesKind kKind = {.room = "cpu",
                               .name = "blockings",
                               .key_numbers = kBlockingKeyNumbers,
                               .choice_words = 3,
                               .says = "how products are cut",
                               .shows_in_bits = false};

// Change this when the meaning or the speed of a candidate changes.
constexpr std::string_view kLoops = "loops 1";

// The model name that Linux reports, on ARM the part number, or "a processor" if there is
// neither.
std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name") || line.starts_with("CPU part")) {
      return line.substr(colon + 2);
    }
  }
  return "a processor";
}

AutotuneCache::Choice WordsOf(const Blocking& blocking) {
  return {static_cast<uint64_t>(blocking.strip),
          static_cast<uint64_t>(blocking.task_rows), blocking.packs ? 1U : 0U};
}

AutotuneCache::Key KeyOf(const BlockingTrial& trial) {
  return {trial.key.begin(), trial.key.end()};
}

struct Freed {
  void operator()(std::byte* block) const {
    ::operator delete(block, kAlignment);
  }
  static constexpr std::align_val_t kAlignment{64};
};

}  // namespace

double BlockingAutotuner::Seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

BlockingAutotuner BlockingAutotuner::Open(const std::string& folder,
                                          std::string_view vectors,
                                          Stopwatch stopwatch) {
  BlockingAutotuner autotuner(std::move(stopwatch));
  Result<AutotuneCache> kept =
      AutotuneCache::Open(folder, kKind, {ProcessorName(), vectors, kLoops});
  if (kept.ok()) {
    autotuner.kept_ = *std::move(kept);
  } else {
    autotuner.note_ = kept.error().message;
  }
  return autotuner;
}

Blocking BlockingAutotuner::Choose(const BlockingTrial& trial,
                                   ThreadPool& pool) {
  STOWAGE_CHECK(trial.candidates.size() > 1);
  const auto known = chosen_.find(trial.key);
  if (known != chosen_.end()) return known->second;
  std::optional<Blocking> blocking = Kept(trial);
  if (!blocking) {
    blocking = Fastest(trial, pool);
    if (!blocking) return trial.candidates.front();
    Keep(trial, *blocking);
    // Another process may have kept another one meanwhile.
    blocking = Kept(trial).value_or(*blocking);
  }
  return chosen_[trial.key] = *blocking;
}

std::optional<Blocking> BlockingAutotuner::Kept(
    const BlockingTrial& trial) const {
  if (!kept_) return std::nullopt;
  const AutotuneCache::Choice* const words = kept_->Find(KeyOf(trial));
  if (words == nullptr) return std::nullopt;
  const auto kept = std::ranges::find(trial.candidates, *words, WordsOf);
  if (kept == trial.candidates.end()) return std::nullopt;
  return *kept;
}

std::optional<Blocking> BlockingAutotuner::Fastest(const BlockingTrial& trial,
                                                   ThreadPool& pool) const {
  const std::unique_ptr<std::byte[], Freed> memory(
      static_cast<std::byte*>(::operator new(static_cast<size_t>(trial.bytes),
                                             Freed::kAlignment, std::nothrow)));
  if (memory == nullptr) return std::nullopt;
  // Small normal numbers; subnormal ones would slow a matmul down.
  std::fill_n(memory.get(), trial.bytes, std::byte{0x3c});
  const Result<size_t> fastest =
      ChooseFastest(trial.candidates.size(), [&](size_t i) -> Result<double> {
        return stopwatch_(
            [&] { trial.run(memory.get(), trial.candidates[i], pool); });
      });
  return trial.candidates[*fastest];  // no run fails
}

void BlockingAutotuner::Keep(const BlockingTrial& trial,
                             const Blocking& blocking) {
  if (!kept_) return;
  const Result<AutotuneCache::Choice> kept =
      kept_->Keep(KeyOf(trial), WordsOf(blocking));
  if (kept.ok()) return;
  note_ = kept.error().message;
  kept_.reset();
}

}  // namespace stowage::cpu

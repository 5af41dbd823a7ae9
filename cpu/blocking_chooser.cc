#include "cpu/blocking_chooser.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "runtime/choose_fastest.h"

namespace stowage::cpu {
namespace {

constexpr ChoicesKind kKind = {.room = "cpu",
                               .name = "blockings",
                               .key_numbers = kBlockingKeyNumbers,
                               .choice_words = 3,
                               .says = "how products are cut",
                               .shows_in_bits = false};

// Another one wherever a candidate means something else, or its times may be others.
constexpr std::string_view kLoops = "loops 1";

#if defined(__AVX512F__)
constexpr std::string_view kVectors = "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
constexpr std::string_view kVectors = "AVX2";
#elif defined(__aarch64__)
constexpr std::string_view kVectors = "NEON";
#else
constexpr std::string_view kVectors = "SSE";
#endif

// As Linux calls it; where it has no name for it, choices are of "a processor".
std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  constexpr std::string_view kStart = "model name";
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with(kStart) || colon == std::string::npos) continue;
    return line.substr(colon + 2);
  }
  return "a processor";
}

KeptChoices::Choice WordsOf(const Blocking& blocking) {
  return {static_cast<uint64_t>(blocking.strip),
          static_cast<uint64_t>(blocking.task_rows), blocking.packs ? 1U : 0U};
}

struct Freed {
  void operator()(std::byte* block) const {
    ::operator delete(block, kAlignment);
  }
  static constexpr std::align_val_t kAlignment{64};
};

}  // namespace

double BlockingChooser::Seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

Result<BlockingChooser> BlockingChooser::Open(const std::string& folder,
                                              Stopwatch stopwatch) {
  STOWAGE_ASSIGN_OR_RETURN(
      KeptChoices kept,
      KeptChoices::Open(folder, kKind, {ProcessorName(), kVectors, kLoops}));
  return BlockingChooser(std::move(kept), std::move(stopwatch));
}

Result<Blocking> BlockingChooser::Choose(const BlockingTrial& trial,
                                         ThreadPool& pool) {
  STOWAGE_CHECK(trial.candidates.size() > 1);
  const KeptChoices::Key key(trial.key.begin(), trial.key.end());
  KeptChoices::Choice words;
  if (const KeptChoices::Choice* const found = kept_.Find(key)) {
    words = *found;
  } else {
    const std::unique_ptr<std::byte[], Freed> memory(static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(trial.bytes), Freed::kAlignment,
                       std::nothrow)));
    // Steps take none of it, and may have enough.
    if (memory == nullptr) return trial.candidates.front();
    // Of small numbers, none of which slows a product down.
    std::fill_n(memory.get(), trial.bytes, std::byte{0x3c});
    STOWAGE_ASSIGN_OR_RETURN(
        const size_t fastest,
        ChooseFastest(trial.candidates.size(), [&](size_t i) -> Result<double> {
          return stopwatch_(
              [&] { trial.run(memory.get(), trial.candidates[i], pool); });
        }));
    STOWAGE_ASSIGN_OR_RETURN(
        words, kept_.Keep(key, WordsOf(trial.candidates[fastest])));
  }
  const auto is_kept = [&](const Blocking& candidate) {
    return WordsOf(candidate) == words;
  };
  const auto chosen = std::ranges::find_if(trial.candidates, is_kept);
  if (chosen != trial.candidates.end()) return *chosen;
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[cpu] ", Quoted(path()), " keeps a blocking of ", words[0],
             " registers, ", words[1], " rows and ", words[2] == 0 ? "un" : "",
             "packed strips where there is no such one to choose; remove the "
             "file to have blockings timed again, which changes no bit")};
}

}  // namespace stowage::cpu

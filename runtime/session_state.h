#ifndef STOWAGE_RUNTIME_SESSION_STATE_H_
#define STOWAGE_RUNTIME_SESSION_STATE_H_

// What sessions and their runners remember: for runtime/session.cc, which moves values in
// and out, and runtime/session.cc, which takes steps.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "runtime/backend.h"
#include "runtime/program.h"
#include "runtime/session.h"

namespace stowage {

inline Error SessionError(std::string_view message) {
  return {ErrorCode::kInvalidArgument, StrCat("[session] ", message)};
}

inline constexpr uint8_t kPoison =
    0xFF;  // NaN in every float type, -1 in integers

// What a step needs written before it runs.
struct RequiredInput {
  ValueId value;
  bool written = false;
};

// What is known of a step, and kept for the last kStepsInFlight of them.
struct KeptStep {
  StepCode code = StepCode::kOk;
  NodeId failed_node = kNoNode;
  std::vector<float> scalars;  // Program::scalars()
};

struct Runner::State {
  std::string name;
  Program program;
  std::unique_ptr<Executable> executable;
  Session::State* session = nullptr;
  std::vector<RequiredInput> inputs;
  std::vector<ValueId> caches;
  // Params and states that have never been given values, by name.
  std::set<std::string_view> unset;
  uint64_t started = 0;  // steps
  uint64_t settled = 0;  // of them, those of which `kept` knows how they ended
  std::array<KeptStep, kStepsInFlight> kept;
  // Whether the arena holds what the last step left.
  bool stepped = false;
  // Poisoning: which buffers die after each launch, by the launch's index.
  std::vector<std::vector<int32_t>> deaths;
  NodeId failed_node = kNoNode;
  std::span<double> seconds = {};  // by node, while a step is timed

  KeptStep& Kept(uint64_t step) { return kept[step % kStepsInFlight]; }
  // Whether a step can be waited for.
  bool Knows(uint64_t step) const {
    return step >= 1 && step <= started && started - step < kStepsInFlight;
  }
  Status Poison(const PlannedBuffer& buffer);
  // That a param or state that is to be read was ever given values.
  Status CheckSet(const ValueInfo& value) const;
  // The param or state called `name`, if `bytes` bytes of it from `begin` on are there.
  Result<ValueId> FindPart(std::string_view name, DType dtype, Bytes begin,
                           size_t bytes, std::string_view asked) const;
  void RunNow(KeptStep* step) noexcept;
  StepCode RunPoisoned(size_t* failed) noexcept;
  StepCode RunTimed(size_t* failed) noexcept;
  void NoteFailure(StepCode code, size_t failed, KeptStep* step) noexcept;
  // Waits for all steps up to `last`.
  void Settle(uint64_t last) noexcept;
  // Whether the arena holds what runs before left in the cache.
  bool Keeps(ValueId cache) const;
};

struct Session::State {
  Backend* backend = nullptr;
  std::byte* arena = nullptr;
  Bytes arena_bytes = 0;
  std::byte* host =
      nullptr;  // the host's memory beside it; null: none is wanted
  Bytes host_bytes = 0;
  Bytes alignment = 1;
  bool owned = false;
  bool poison = false;
  std::vector<Runner> runners;
  // Whose inputs, activations and outputs the unshared part of the arena holds.
  Runner::State* occupant = nullptr;
  // Names of its caches that hold something.
  std::set<std::string_view> caches;

  ~State();
  // Waits until the host's memory can be looked at.
  void Settle();
  // Writes what persists to its place, which steps no longer use.
  Status CopyIn(const ValueInfo& value, std::byte* to,
                std::span<const std::byte> data);
  // Reads what lies in one piece at `from`, once no step uses it.
  Status CopyOut(const ValueInfo& value, std::span<std::byte> to,
                 const std::byte* from);
  // Notes that the param or state called `name` has values, in all programs. What
  // caches hold was made with others.
  void MarkSet(std::string_view name);
  // Notes that it has none.
  void MarkUnset(std::string_view name);
  // Hands the unshared part of the arena to `runner`; whoever had it loses it, save
  // the caches that `runner` has, too.
  void Occupy(Runner::State* runner);
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_SESSION_STATE_H_

#ifndef STOWAGE_RUNTIME_SESSION_STATE_H_
#define STOWAGE_RUNTIME_SESSION_STATE_H_

// The state of sessions and their runners, for runtime/session.cc.

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

// The values that must be written before a step runs.
struct RequiredInput {
  ValueId value;
  bool written = false;
};

// The state of a step, kept for the last kStepsInFlight of them.
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
  uint64_t settled = 0;  // those of them whose status is in `kept`
  std::array<KeptStep, kStepsInFlight> kept;
  // True if the arena holds the results of the last step.
  bool stepped = false;
  // For poisoning: the buffers that die after each launch, by the launch's index.
  std::vector<std::vector<int32_t>> deaths;
  NodeId failed_node = kNoNode;
  std::span<double> seconds = {};  // by node, while a step is timed

  KeptStep& Kept(uint64_t step) { return kept[step % kStepsInFlight]; }
  // Returns whether a step can be waited for.
  bool Knows(uint64_t step) const {
    return step >= 1 && step <= started && started - step < kStepsInFlight;
  }
  Status Poison(const PlannedBuffer& buffer);
  // Checks that a param or state to be read was ever given values.
  Status CheckSet(const ValueInfo& value) const;
  // The param or state called `name`, if it has `bytes` bytes from `begin` on.
  Result<ValueId> FindPart(std::string_view name, DType dtype, Bytes begin,
                           size_t bytes, std::string_view asked) const;
  void RunNow(KeptStep* step) noexcept;
  StepCode RunPoisoned(size_t* failed) noexcept;
  StepCode RunTimed(size_t* failed) noexcept;
  void NoteFailure(StepCode code, size_t failed, KeptStep* step) noexcept;
  // Waits for all steps up to `last`.
  void Settle(uint64_t last) noexcept;
  // Returns whether the arena holds the cache's contents of earlier runs.
  bool Keeps(ValueId cache) const;
};

struct Session::State {
  Backend* backend = nullptr;
  std::byte* arena = nullptr;
  Bytes arena_bytes = 0;
  std::byte* host = nullptr;  // the host memory; null: none is needed
  Bytes host_bytes = 0;
  Bytes alignment = 1;
  bool owned = false;
  bool poison = false;
  std::vector<Runner> runners;
  // The program whose inputs, activations and outputs the unshared part of the arena
  // holds.
  Runner::State* occupant = nullptr;
  // Names of its caches that have contents.
  std::set<std::string_view> caches;

  ~State();
  // Waits until the host memory can be read.
  void Settle();
  // Writes a persistent value, once no step uses it.
  Status CopyIn(const ValueInfo& value, std::byte* to,
                std::span<const std::byte> data);
  // Reads contiguous bytes at `from`, once no step uses them.
  Status CopyOut(const ValueInfo& value, std::span<std::byte> to,
                 const std::byte* from);
  // Records that the param or state called `name` has values, in all programs. Contents
  // of caches were computed with the old values.
  void MarkSet(std::string_view name);
  // Records that it has no values.
  void MarkUnset(std::string_view name);
  // Gives the unshared part of the arena to `runner`; the previous program loses it,
  // except caches that `runner` also has.
  void Occupy(Runner::State* runner);
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_SESSION_STATE_H_

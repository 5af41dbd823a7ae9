// The steps of a runner: how they start, run, are waited for and explained.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
#include "runtime/session_state.h"

namespace stowage {

Status Runner::State::Poison(const PlannedBuffer& buffer) {
  const Bytes address = program.plan().AddressOf(buffer);
  if (!IsOnHost(buffer.region)) {
    return session->backend->FillBytes(session->arena + address, buffer.size,
                                       kPoison);
  }
  std::memset(session->host + address, kPoison,
              static_cast<size_t>(buffer.size));
  return {};
}

StepCode Runner::Step() noexcept { return Wait(Start()); }

StepCode Runner::StepTimed(std::span<double> seconds) noexcept {
  STOWAGE_CHECK(seconds.size() == static_cast<size_t>(graph().num_nodes()));
  STOWAGE_CHECK(!state_->session->poison);
  std::ranges::fill(seconds, 0);
  state_->seconds = seconds;
  const StepCode code = Step();
  state_->seconds = {};
  return code;
}

uint64_t Runner::Start() noexcept {
  State& s = *state_;
  if (s.started >= kStepsInFlight) s.Settle(s.started + 1 - kStepsInFlight);
  const uint64_t step = ++s.started;
  KeptStep& kept = s.Kept(step);
  kept.code = StepCode::kOk;
  kept.failed_node = kNoNode;
  const bool lacks_input = std::ranges::any_of(
      s.inputs, [](const RequiredInput& input) { return !input.written; });
  if (lacks_input || !s.unset.empty() || !keeps_caches()) {
    s.Settle(step - 1);
    kept.code = StepCode::kInputsMissing;
    s.settled = step;
    return step;
  }
  s.session->Occupy(&s);
  if (s.session->poison || !s.seconds.empty() || !s.executable->Start(step)) {
    s.Settle(step - 1);
    s.RunNow(&kept);
    s.settled = step;
  }
  for (RequiredInput& input : s.inputs) {
    // Saved values die at their last use; the next step needs them anew.
    if (graph().value(input.value).role == Role::kSaved) input.written = false;
  }
  return step;
}

StepCode Runner::Wait(uint64_t step) noexcept {
  State& s = *state_;
  if (!s.Knows(step)) return StepCode::kStepUnknown;
  s.Settle(step);
  s.failed_node = s.Kept(step).failed_node;
  return s.Kept(step).code;
}

void Runner::State::Settle(uint64_t last) noexcept {
  while (settled < last) {
    KeptStep& step = Kept(++settled);
    size_t failed = 0;
    const StepCode code = executable->Wait(settled, step.scalars, &failed);
    NoteFailure(code, failed, &step);
    stepped = code == StepCode::kOk;
  }
}

void Runner::State::NoteFailure(StepCode code, size_t failed,
                                KeptStep* step) noexcept {
  step->code = code;
  if (code != StepCode::kOk && failed < program.launches().size()) {
    step->failed_node = program.launches()[failed].node;
  }
}

void Runner::State::RunNow(KeptStep* step) noexcept {
  size_t failed = 0;
  StepCode code = session->poison ? RunPoisoned(&failed)
                  : !seconds.empty()
                      ? RunTimed(&failed)
                      : executable->Run(0, program.launches().size(), &failed);
  for (size_t i = 0; code == StepCode::kOk && i < step->scalars.size(); ++i) {
    const Status copied = session->backend->CopyOut(
        std::as_writable_bytes(std::span(&step->scalars[i], 1)),
        program.view(program.scalars()[i]).data);
    if (!copied.ok()) {
      code = StepCode::kDeviceFault;
      failed = program.launches().size();
    }
  }
  NoteFailure(code, failed, step);
  stepped = code == StepCode::kOk;
}

StepCode Runner::State::RunPoisoned(size_t* failed) noexcept {
  const Plan& plan = program.plan();
  // Where all is views nothing is launched, yet inputs take their places.
  if (program.launches().empty()) return executable->Run(0, 0, failed);
  for (size_t i = 0; i < program.launches().size(); ++i) {
    const StepCode code = executable->RunPoisoned(i, kPoison, failed);
    if (code != StepCode::kOk) return code;
    for (const int32_t index : deaths[i]) {
      if (Poison(plan.buffers[static_cast<size_t>(index)]).ok()) continue;
      *failed = i;
      return StepCode::kDeviceFault;
    }
  }
  return StepCode::kOk;
}

StepCode Runner::State::RunTimed(size_t* failed) noexcept {
  using Clock = std::chrono::steady_clock;
  // Where all is views nothing is launched, yet inputs take their places.
  if (program.launches().empty()) return executable->Run(0, 0, failed);
  Clock::time_point before = Clock::now();
  for (size_t i = 0; i < program.launches().size(); ++i) {
    const StepCode code = executable->Run(i, i + 1, failed);
    if (code != StepCode::kOk) return code;
    const Clock::time_point now = Clock::now();
    seconds[static_cast<size_t>(program.launches()[i].node)] =
        std::chrono::duration<double>(now - before).count();
    before = now;
  }
  return StepCode::kOk;
}

Error Runner::Explain(StepCode code) const {
  const State& s = *state_;
  const std::string program = StrCat("program ", Quoted(s.name));
  const std::string node = s.failed_node == kNoNode
                               ? std::string()
                               : " at " + graph().Describe(s.failed_node);
  switch (code) {
    case StepCode::kOk:
      return SessionError(
          StrCat(program, " has nothing to explain: the step was ok"));
    case StepCode::kIndexOutOfRange:
      return SessionError(
          StrCat(program, " failed", node,
                 ": an index or label is outside its range; check the "
                 "integer inputs"));
    case StepCode::kNonFinite:
      return {ErrorCode::kNotFinite,
              StrCat("[session] ", program, " failed", node,
                     ": the result holds NaN or infinity, and is the first "
                     "that does")};
    case StepCode::kDeviceFault:
      return {
          ErrorCode::kDevice,
          StrCat("[session] ", program, " failed on the device", node, ": ",
                 s.executable->fault(),
                 node.empty() ? "; a run that checks every op names it" : "")};
    case StepCode::kRankLost:
      return {ErrorCode::kDevice,
              StrCat("[session] ", program, " failed", node,
                     ": a rank of the step was lost, or the link to it")};
    case StepCode::kStepUnknown:
      return SessionError(
          StrCat(program, " has started ", s.started,
                 " steps and was asked for another, or for one that "
                 "is not among the last ",
                 kStepsInFlight));
    case StepCode::kInputsMissing:
      for (const std::string_view name : s.unset) {
        return SessionError(
            StrCat(program, " was stepped and its ",
                   RoleName(graph().value(*graph().Find(name)).role), " ",
                   Quoted(name),
                   " has no values yet; call Session::Initialize, or "
                   "write or load all params and states"));
      }
      for (const RequiredInput& input : s.inputs) {
        if (input.written) continue;
        return SessionError(
            StrCat(program, " was stepped without ",
                   RoleName(graph().value(input.value).role), " ",
                   Quoted(graph().value(input.value).name),
                   ": it was never written, or another program has "
                   "been used since; write it before the step"));
      }
      for (const ValueId id : s.caches) {
        if (s.Keeps(id)) continue;
        return SessionError(
            StrCat(program, " was stepped without what it keeps in ",
                   Quoted(graph().value(id).name),
                   ": it was never cleared, or a program without that "
                   "cache has been used since; call ClearCaches and "
                   "begin anew"));
      }
      return SessionError(StrCat(program, " has all of its inputs now"));
  }
  STOWAGE_CHECK(false);
}

}  // namespace stowage

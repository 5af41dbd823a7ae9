#include "tools/train_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "tools/command.h"
#include "tools/heap_counter.h"

namespace stowage::tools {

namespace {

using Json = nlohmann::ordered_json;

// After as many, nothing is learned any more.
constexpr int64_t kMaxSkippedInARow = 10;
// The same where each of them made the loss scale smaller: halved so often, the first
// one is far below 1.
constexpr int64_t kMaxScalesInARow = 50;

bool IsRead(const Graph& graph, std::string_view input) {
  const std::optional<ValueId> id = graph.Find(input);
  return id && graph.value(*id).role == Role::kInput;
}

bool IsOutput(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.outputs(), [&](const GraphOutput& output) {
    return output.name == name;
  });
}

Json StepJson(const StepFigures& figures, const MemoryFigures& memory) {
  Json json = Json::object();
  json["step"] = figures.step;
  json["loss"] = figures.loss;
  json["lr"] = figures.lr;
  json["epoch"] = figures.epoch;
  json["grad_norm"] = figures.grad_norm ? Json(*figures.grad_norm) : Json();
  json["step_seconds"] = figures.seconds;
  json["tokens_per_second"] = figures.tokens_per_second;
  json["arena_bytes"] = memory.arena;
  json["budget_bytes"] = memory.budget ? Json(*memory.budget) : Json();
  json["lower_bound_bytes"] = memory.lower_bound;
  json["no_reuse_bytes"] = memory.no_reuse;
  json["saved_bytes"] = memory.saved();
  return json;
}

}  // namespace

StepLoop::StepLoop(std::vector<Runner*> train, Task& task, const RunSpec& run,
                   int64_t first, int64_t ahead, const MemoryFigures& memory,
                   bool json, RankRun& ranks, StepLog* log)
    : train_(std::move(train)),
      task_(task),
      run_(run),
      // A step that may be undone is waited for.
      ahead_(run.skips_nonfinite ? 0 : ahead),
      memory_(memory),
      json_(json),
      ranks_(ranks),
      log_(log),
      reads_step_(IsRead(train_.front()->graph(), "step")),
      reads_seed_(IsRead(train_.front()->graph(), "seed")),
      may_skip_(IsOutput(train_.front()->graph(), "update_skipped")),
      has_scale_(IsOutput(train_.front()->graph(), "new:loss_scale")),
      has_norm_(IsOutput(train_.front()->graph(), "grad_norm")),
      progress_(first, run.stop_at, task.token_name(), memory),
      next_(first) {}

Status StepLoop::Start(int64_t step) {
  Started& started = Of(step);
  started.start = Clock::now();
  started.lr = run_.schedule.At(step, run_.steps);
  started.shape = task_.ShapeOf(step);
  Runner& train = *train_[started.shape];
  STOWAGE_RETURN_IF_ERROR(task_.WriteBatch(train, step));
  STOWAGE_RETURN_IF_ERROR(train.Write("lr", static_cast<float>(started.lr)));
  if (reads_step_) STOWAGE_RETURN_IF_ERROR(train.Write("step", step));
  if (reads_seed_) STOWAGE_RETURN_IF_ERROR(train.Write("seed", run_.seed));
  started.number = train.Start();
  return {};
}

Result<float> StepLoop::ReadLoss(int64_t step) {
  const Result<float> loss =
      train_[Of(step).shape]->ReadScalar("loss", Of(step).number);
  if (loss.ok() && std::isfinite(*loss)) return *loss;
  if (!loss.ok() && loss.error().code != ErrorCode::kNotFinite) {
    return loss.error();
  }
  const std::string where =
      StrCat("step ", step, ", with a learning rate of ", Of(step).lr);
  if (loss.ok()) {
    return Error{ErrorCode::kNotFinite,
                 StrCat("[train] the loss is ", *loss, " at ", where,
                        "; --check names the first op that makes such a "
                        "value, a lower --lr may help")};
  }
  return Error{ErrorCode::kNotFinite,
               StrCat(loss.error().message, "; this was ", where)};
}

Result<int64_t> StepLoop::RunTo(int64_t last, const StopSignals& stop) {
  if (run_.skips_nonfinite && !guard_) {
    STOWAGE_ASSIGN_OR_RETURN(guard_, FiniteGuard::Make(*train_.front()));
  }
  const int64_t sent = ranks_.bytes_sent();
  int64_t settled = next_ - 1;
  while (settled < last) {
    STOWAGE_ASSIGN_OR_RETURN(signal_, ranks_.AnyOf(stop.caught()));
    if (signal_ != 0) last = next_ - 1;  // those under way are finished
    if (settled == last) break;
    const std::optional<int64_t> allocations = HeapAllocations();
    if (next_ <= last) STOWAGE_RETURN_IF_ERROR(Start(next_++));
    const bool reads = next_ > last || next_ - 1 - settled > ahead_;
    Result<float> loss = 0.0f;
    if (reads) loss = ReadLoss(settled + 1);
    if (allocations) {
      *figures_.heap_allocations += *HeapAllocations() - *allocations;
    } else {
      figures_.heap_allocations.reset();
    }
    if (reads) STOWAGE_RETURN_IF_ERROR(Settle(++settled, loss));
    if (reads) ++figures_.steps;
  }
  figures_.bytes_sent += ranks_.bytes_sent() - sent;
  STOWAGE_ASSIGN_OR_RETURN(signal_, ranks_.AnyOf(stop.caught()));
  return settled;
}

// Whether a step is to stand, the same at all ranks: what they split may be finite in
// the blocks of some alone, and a step that only some undo is no step of all.
Result<bool> StepLoop::IsFiniteEverywhere(bool loss_is_finite) {
  if (ranks_.alone() || !loss_is_finite) return loss_is_finite;
  STOWAGE_ASSIGN_OR_RETURN(const bool finite, guard_->IsFinite());
  STOWAGE_ASSIGN_OR_RETURN(const int bad, ranks_.AnyOf(finite ? 0 : 1));
  return bad == 0;
}

// Takes note of a step that is done.
Status StepLoop::Settle(int64_t step, const Result<float>& loss) {
  const bool finite = loss.ok();
  if (!finite && loss.error().code != ErrorCode::kNotFinite) {
    return loss.error();
  }
  STOWAGE_ASSIGN_OR_RETURN(const bool skipped, HasSkippedItself(step));
  if (skipped) return TakeSkipped(step, loss);
  if (guard_) {
    STOWAGE_ASSIGN_OR_RETURN(const bool all_finite, IsFiniteEverywhere(finite));
    STOWAGE_ASSIGN_OR_RETURN(const bool good, guard_->Settle(all_finite));
    if (!good) return Skip(step, loss);
  } else if (!finite) {
    return loss.error();
  }
  skipped_in_a_row_ = 0;
  figures_.loss = *loss;
  if (run_.keeps_losses) {
    figures_.losses.push_back({.step = step, .loss = *loss});
  }
  return Show(step, *loss, false);
}

Result<bool> StepLoop::HasSkippedItself(int64_t step) {
  if (!may_skip_) return false;
  STOWAGE_ASSIGN_OR_RETURN(
      const float skipped,
      train_[Of(step).shape]->ReadScalar("update_skipped", Of(step).number));
  return skipped != 0;
}

// Takes note of a step that counts for nothing, `why`, and `what` is said of it.
Status StepLoop::NoteSkipped(int64_t step, const Result<float>& loss,
                             const std::string& why, std::string_view what) {
  ++figures_.skipped;
  ++skipped_in_a_row_;
  const int64_t most = has_scale_ ? kMaxScalesInARow : kMaxSkippedInARow;
  if (skipped_in_a_row_ == most) {
    return Error{ErrorCode::kNotFinite,
                 StrCat(why, "; ", most,
                        " steps one after the other were skipped, nothing is "
                        "learned any more")};
  }
  if (json_ || log_ != nullptr) {
    STOWAGE_RETURN_IF_ERROR(
        Show(step, loss.ok() ? *loss : std::nanf(""), true));
  }
  std::cerr << why << "; " << what << std::endl;
  return {};
}

// Takes note of a step that was undone.
Status StepLoop::Skip(int64_t step, const Result<float>& loss) {
  const std::string why =
      loss.ok() ? StrCat("[train] the update of step ", step,
                         " makes NaN or infinity, with a learning rate of ",
                         Of(step).lr)
                : loss.error().message;
  return NoteSkipped(step, loss, why, "skipped: all is as before that step");
}

// Takes note of a step that updated nothing by itself. Its scale has moved.
Status StepLoop::TakeSkipped(int64_t step, const Result<float>& loss) {
  if (guard_) STOWAGE_RETURN_IF_ERROR(guard_->Settle(true));
  return NoteSkipped(
      step, loss, StrCat("[train] gradients of step ", step, " are not finite"),
      has_scale_ ? "its update was skipped, and the loss scale is smaller now"
                 : "its update was skipped");
}

Status StepLoop::Show(int64_t step, float loss, bool skipped) {
  const double seconds = std::chrono::duration<double>(
                             Clock::now() - std::max(Of(step).start, end_))
                             .count();
  end_ = Clock::now();
  const int64_t tokens = task_.tokens_per_step(Of(step).shape);
  std::optional<double> grad_norm;
  if (has_norm_) {
    STOWAGE_ASSIGN_OR_RETURN(grad_norm, train_[Of(step).shape]->ReadScalar(
                                            "grad_norm", Of(step).number));
  }
  const StepFigures figures{
      .step = step,
      .epoch = static_cast<double>(step) / run_.steps_per_epoch,
      .loss = loss,
      .lr = Of(step).lr,
      .grad_norm = grad_norm,
      .seconds = seconds,
      .tokens_per_second = static_cast<double>(tokens) / seconds};
  if (log_ != nullptr) {
    log_->Add(figures, memory_, run_.EvaluatesAt(step));
  }
  if (!json_) {
    if (!skipped) progress_.Show(figures);
    return {};
  }
  Json json = StepJson(figures, memory_);
  if (train_.size() > 1) json["tokens"] = tokens;  // they differ
  if (has_scale_) {
    STOWAGE_ASSIGN_OR_RETURN(
        json["loss_scale"],
        train_[Of(step).shape]->ReadScalar("new:loss_scale", Of(step).number));
  }
  if (skipped) json["skipped"] = true;
  PrintJson(json);
  return {};
}

}  // namespace stowage::tools

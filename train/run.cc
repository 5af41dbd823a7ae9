#include "train/run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "runtime/backend.h"
#include "train/state_backup.h"

namespace stowage {

namespace {

using Clock = std::chrono::steady_clock;

// The number of consecutive skipped steps that ends a run.
constexpr int64_t kMaxSkippedInARow = 10;
// The same if each of them halves the loss scale, after which the initial one is far below
// 1.
constexpr int64_t kMaxScalesInARow = 50;

bool IsOutput(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.outputs(), [&](const GraphOutput& output) {
    return output.name == name;
  });
}

// Takes steps in order. An asynchronous device starts a step before the loss of the one before
// it is read, so that it is never idle.
class StepLoop {
 public:
  StepLoop(Training& training, const RunSpec& spec, const RunParts& parts,
           RunObserver& observer, int64_t done)
      : spec_(spec),
        parts_(parts),
        observer_(observer),
        inputs_(training.step().graph()),
        may_skip_(IsOutput(training.step().graph(), "update_skipped")),
        has_scale_(IsOutput(training.step().graph(), "new:loss_scale")),
        has_norm_(IsOutput(training.step().graph(), "grad_norm")),
        // Wait for a step that may be undone.
        ahead_(training.backend().works_on_its_own() && !spec.skips_nonfinite &&
                       !observer.reads_values()
                   ? 1
                   : 0),
        next_(done + 1),
        of_groups_(inputs_.of_groups().size()) {
    runners_.push_back(&training.step());
    for (const PlannedShape& shape : training.plan().shapes) {
      runners_.push_back(training.Find(shape.name));
    }
  }

  // Takes steps up to `last`, or up to those started when any rank is asked to stop. Returns the
  // last step taken.
  Result<int64_t> RunTo(int64_t last);
  int stopped() const { return stopped_; }
  RunFigures& figures() { return figures_; }

 private:
  // A step whose loss has not been read yet.
  struct Started {
    size_t shape = 0;
    uint64_t number = 0;  // of that shape's runner
    double lr = 0;
    Clock::time_point start;
  };

  Started& Of(int64_t step) {
    return started_[static_cast<size_t>(step) % started_.size()];
  }
  Result<float> Read(int64_t step, std::string_view output) {
    return runners_[Of(step).shape]->ReadScalar(output, Of(step).number);
  }
  Result<int> AnyOf(int own) {
    return parts_.peers == nullptr ? Result<int>(own)
                                   : parts_.peers->AnyOf(own);
  }
  Status Start(int64_t step);
  Result<float> ReadLoss(int64_t step);
  Result<bool> IsFiniteEverywhere(bool loss_is_finite);
  Status Settle(int64_t step, const Result<float>& loss);
  Status Skip(int64_t step, const Result<float>& loss, const std::string& why,
              std::string_view outcome);
  Status ReadIf(bool has_output, int64_t step, std::string_view output,
                std::optional<double>* figure);
  Result<StepFigures> FiguresOf(int64_t step, float loss);

  const RunSpec& spec_;
  const RunParts& parts_;
  RunObserver& observer_;
  std::vector<Runner*> runners_;  // by shape
  const StepInputs inputs_;
  const bool may_skip_;   // whether steps skip their updates (LossScaling)
  const bool has_scale_;  // the loss scale is dynamic
  const bool has_norm_;
  const int64_t ahead_;
  int64_t next_;                   // the next step to start
  std::vector<double> of_groups_;  // of that step
  int stopped_ = 0;
  int64_t skipped_in_a_row_ = 0;
  std::array<Started, kStepsInFlight> started_;
  Clock::time_point end_;  // of the step before
  std::optional<FiniteGuard> guard_;
  RunFigures figures_;
};

Status StepLoop::Start(int64_t step) {
  Started& started = Of(step);
  started.start = Clock::now();
  started.lr = spec_.RateAt(step);
  started.shape = parts_.data.ShapeOf(step);
  Runner& runner = *runners_[started.shape];
  STOWAGE_RETURN_IF_ERROR(parts_.data.WriteBatch(runner, step));
  for (size_t i = 0; i < of_groups_.size(); ++i) {
    of_groups_[i] = spec_.group_input(inputs_.of_groups()[i], step);
  }
  STOWAGE_RETURN_IF_ERROR(inputs_.Write(runner, {.step = step,
                                                 .lr = started.lr,
                                                 .seed = spec_.seed,
                                                 .of_groups = of_groups_}));
  started.number = runner.Start();
  return {};
}

Result<float> StepLoop::ReadLoss(int64_t step) {
  const Result<float> loss = Read(step, "loss");
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

Result<int64_t> StepLoop::RunTo(int64_t last) {
  if (spec_.skips_nonfinite && !guard_) {
    STOWAGE_ASSIGN_OR_RETURN(guard_, FiniteGuard::Make(*runners_.front()));
  }
  const RunPeers* const peers = parts_.peers;
  const int64_t sent = peers == nullptr ? 0 : peers->bytes_sent();
  int64_t settled = next_ - 1;
  while (settled < last) {
    STOWAGE_ASSIGN_OR_RETURN(stopped_, AnyOf(observer_.StopAsked()));
    if (stopped_ != 0) last = next_ - 1;  // finishes started steps
    if (settled == last) break;
    const std::optional<int64_t> allocations = observer_.HeapAllocations();
    if (next_ <= last) STOWAGE_RETURN_IF_ERROR(Start(next_++));
    const bool reads = next_ > last || next_ - 1 - settled > ahead_;
    Result<float> loss = 0.0f;
    if (reads) loss = ReadLoss(settled + 1);
    if (allocations && figures_.heap_allocations) {
      *figures_.heap_allocations += *observer_.HeapAllocations() - *allocations;
    } else {
      figures_.heap_allocations.reset();
    }
    if (!reads) continue;
    STOWAGE_RETURN_IF_ERROR(Settle(++settled, loss));
    ++figures_.steps;
  }
  if (peers != nullptr) figures_.bytes_sent += peers->bytes_sent() - sent;
  STOWAGE_ASSIGN_OR_RETURN(stopped_, AnyOf(observer_.StopAsked()));
  return settled;
}

// Whether all ranks keep the step: split values may be finite on some ranks only, and all must
// undo the same steps.
Result<bool> StepLoop::IsFiniteEverywhere(bool loss_is_finite) {
  if (parts_.peers == nullptr || !loss_is_finite) return loss_is_finite;
  STOWAGE_ASSIGN_OR_RETURN(const bool finite, guard_->IsFinite());
  STOWAGE_ASSIGN_OR_RETURN(const int bad, AnyOf(finite ? 0 : 1));
  return bad == 0;
}

// Records a completed step.
Status StepLoop::Settle(int64_t step, const Result<float>& loss) {
  const bool finite = loss.ok();
  if (!finite && loss.error().code != ErrorCode::kNotFinite) {
    return loss.error();
  }
  float skips = 0;
  if (may_skip_) {
    STOWAGE_ASSIGN_OR_RETURN(skips, Read(step, "update_skipped"));
  }
  if (skips != 0) {
    // Its change of the loss scale stays.
    if (guard_) STOWAGE_RETURN_IF_ERROR(guard_->Settle(true));
    return Skip(
        step, loss,
        StrCat("[train] gradients of step ", step, " are not finite"),
        has_scale_ ? "its update was skipped, and the loss scale is smaller now"
                   : "its update was skipped");
  }
  if (guard_) {
    STOWAGE_ASSIGN_OR_RETURN(const bool all_finite, IsFiniteEverywhere(finite));
    STOWAGE_ASSIGN_OR_RETURN(const bool good, guard_->Settle(all_finite));
    if (!good) {
      return Skip(step, loss,
                  finite ? StrCat("[train] the update of step ", step,
                                  " makes NaN or infinity, with a learning "
                                  "rate of ",
                                  Of(step).lr)
                         : loss.error().message,
                  "skipped: all is as before that step");
    }
  } else if (!finite) {
    return loss.error();
  }
  skipped_in_a_row_ = 0;
  figures_.loss = *loss;
  STOWAGE_ASSIGN_OR_RETURN(const StepFigures figures, FiguresOf(step, *loss));
  observer_.OnStep(figures);
  return {};
}

// Records a step without effect.
Status StepLoop::Skip(int64_t step, const Result<float>& loss,
                      const std::string& why, std::string_view outcome) {
  ++figures_.skipped;
  ++skipped_in_a_row_;
  const int64_t max = has_scale_ ? kMaxScalesInARow : kMaxSkippedInARow;
  if (skipped_in_a_row_ == max) {
    return Error{ErrorCode::kNotFinite,
                 StrCat(why, "; ", max,
                        " steps one after the other were skipped, nothing is "
                        "learned any more")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const StepFigures figures,
                           FiguresOf(step, loss.ok() ? *loss : std::nanf("")));
  observer_.OnSkipped(figures, why, outcome);
  return {};
}

// A step that failed by NaN or infinity has no outputs.
Status StepLoop::ReadIf(bool has_output, int64_t step, std::string_view output,
                        std::optional<double>* figure) {
  if (!has_output) return {};
  const Result<float> read = Read(step, output);
  if (read.ok()) {
    *figure = *read;
  } else if (read.error().code != ErrorCode::kNotFinite) {
    return read.error();
  }
  return {};
}

Result<StepFigures> StepLoop::FiguresOf(int64_t step, float loss) {
  const Started& started = Of(step);
  StepFigures figures{
      .step = step,
      .epoch = static_cast<double>(step) / spec_.steps_per_epoch,
      .loss = loss,
      .lr = started.lr,
      .seconds = std::chrono::duration<double>(Clock::now() -
                                               std::max(started.start, end_))
                     .count(),
      .tokens = parts_.data.tokens_per_step(started.shape)};
  end_ = Clock::now();
  figures.tokens_per_second =
      static_cast<double>(figures.tokens) / figures.seconds;
  STOWAGE_RETURN_IF_ERROR(
      ReadIf(has_norm_, step, "grad_norm", &figures.grad_norm));
  STOWAGE_RETURN_IF_ERROR(
      ReadIf(has_scale_, step, "new:loss_scale", &figures.loss_scale));
  return figures;
}

std::optional<double> LossOf(const std::optional<Evaluation>& evaluation) {
  return evaluation ? std::optional(evaluation->loss) : std::nullopt;
}

// A run: its loop, evaluations and checkpoints.
class Progression {
 public:
  Progression(Training& training, const RunSpec& spec, const RunParts& parts,
              RunObserver& observer, const RunStart& start)
      : training_(training),
        spec_(spec),
        parts_(parts),
        observer_(observer),
        begin_(start.done),
        loop_(training, spec, parts, observer, start.done),
        result_{.last_step = start.done, .history = start.history} {}

  Result<RunResult> Run() {
    STOWAGE_RETURN_IF_ERROR(TakeSteps());
    result_.stopped = loop_.stopped();
    if (result_.stopped == 0) STOWAGE_RETURN_IF_ERROR(Finish());
    if (result_.stopped != 0) {
      result_.saved = Save(std::nullopt, /*best_alone=*/false);
    }
    result_.figures = loop_.figures();
    return std::move(result_);
  }

 private:
  bool IsOutOfPatience() const {
    return spec_.patience > 0 && result_.history.since_best >= spec_.patience;
  }

  Status Save(std::optional<double> held_out_loss, bool best_alone) {
    if (parts_.saver == nullptr) return {};
    return parts_.saver->Save(training_, result_.last_step, result_.history,
                              held_out_loss, best_alone);
  }

  // Called after the last step, at most once.
  Status Evaluate() {
    if (evaluated_ == result_.last_step) return {};
    STOWAGE_ASSIGN_OR_RETURN(
        result_.evaluation,
        EvaluateRun(training_, parts_.data, result_.last_step));
    evaluated_ = result_.last_step;
    return {};
  }

  // Records the evaluation after the last step; not if the run is interrupted there, since the
  // whole run does not have it.
  void Record() {
    const int64_t step = result_.last_step;
    const std::optional<Evaluation>& evaluation = result_.evaluation;
    const bool counts = evaluation && spec_.eval_every > 0 &&
                        (step % spec_.eval_every == 0 || step == spec_.steps);
    if (counts) result_.history.Add(step, evaluation->loss);
    observer_.OnEvaluation(step, evaluation, counts);
  }

  // Called after a step other than the last.
  Status EvaluateAndSave(bool evaluates, bool saves) {
    if (!evaluates && !saves) return {};
    STOWAGE_RETURN_IF_ERROR(Evaluate());
    if (evaluates) Record();
    const bool is_best = result_.history.best_step == result_.last_step;
    if (!saves && !(evaluates && is_best)) return {};
    const Status saved =
        Save(LossOf(result_.evaluation), /*best_alone=*/!saves);
    if (saved.ok() || saved.error().code != ErrorCode::kIo) return saved;
    return observer_.OnUnsaved(saved.error());
  }

  // Up to the last step, whose evaluation and checkpoint Finish makes.
  Status TakeSteps() {
    const int64_t last = spec_.last_step();
    int64_t& done = result_.last_step;
    const auto next = [&](int64_t every) {
      return every > 0 ? std::min(last, (done / every + 1) * every) : last;
    };
    // The evaluation that a stop has omitted.
    const bool is_due = done > result_.history.last_step && done < last &&
                        done > 0 && spec_.EvaluatesAt(done);
    STOWAGE_RETURN_IF_ERROR(EvaluateAndSave(is_due, false));
    while (done < last && !IsOutOfPatience()) {
      STOWAGE_ASSIGN_OR_RETURN(
          done, loop_.RunTo(
                    std::min(next(spec_.save_every), next(spec_.eval_every))));
      if (loop_.stopped() != 0 || done == last) return {};
      STOWAGE_RETURN_IF_ERROR(EvaluateAndSave(
          spec_.EvaluatesAt(done),
          spec_.save_every > 0 && done % spec_.save_every == 0));
    }
    return {};
  }

  Status Finish() {
    STOWAGE_RETURN_IF_ERROR(Evaluate());
    int asked = observer_.StopAsked();
    if (parts_.peers != nullptr) {
      STOWAGE_ASSIGN_OR_RETURN(asked, parts_.peers->AnyOf(asked));
    }
    if (asked != 0 && parts_.data.has_held_out() && !result_.evaluation) {
      result_.stopped = asked;
      return {};
    }
    const bool has_moved = result_.last_step > begin_;
    if (has_moved && result_.last_step > result_.history.last_step) {
      Record();
    }
    result_.stops_early = result_.last_step < spec_.last_step();
    // Without steps, the checkpoint stays as it is.
    if (has_moved) result_.saved = Save(LossOf(result_.evaluation), false);
    return {};
  }

  Training& training_;
  const RunSpec& spec_;
  const RunParts& parts_;
  RunObserver& observer_;
  const int64_t begin_;
  int64_t evaluated_ = -1;  // the step of result_.evaluation
  StepLoop loop_;
  RunResult result_;
};

}  // namespace

Result<std::optional<Evaluation>> EvaluateRun(Training& training, RunData& data,
                                              int64_t step) {
  if (!data.has_held_out()) return std::optional<Evaluation>();
  STOWAGE_ASSIGN_OR_RETURN(AveragedWeights averaged,
                           AveragedWeights::Use(training.step()));
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Evaluation> evaluation,
                           data.Evaluate(training));
  STOWAGE_RETURN_IF_ERROR(averaged.Restore());
  if (!evaluation || std::isfinite(evaluation->loss)) return evaluation;
  return Error{ErrorCode::kNotFinite,
               StrCat("[train] the held-out loss is ", evaluation->loss,
                      " after step ", step, "; a lower --lr may help")};
}

Result<RunResult> Run(Training& training, const RunSpec& spec,
                      const RunParts& parts, const RunStart& start) {
  if (start.done < 0 || start.done > spec.last_step() ||
      spec.last_step() > spec.steps) {
    return InvalidArgumentError("[run] steps ", start.done, " to ",
                                spec.last_step(), " of a run of ", spec.steps);
  }
  if (spec.eval_every > 0 && !parts.data.has_held_out()) {
    return InvalidArgumentError(
        "[run] nothing is held out to evaluate on every ", spec.eval_every,
        " steps");
  }
  if (spec.patience > 0 && spec.eval_every == 0) {
    return InvalidArgumentError("[run] patience is ", spec.patience,
                                ", and eval_every 0: there are no evaluations "
                                "to stop by");
  }
  const StepInputs inputs(training.step().graph());
  if (!inputs.of_groups().empty() && !spec.group_input) {
    return InvalidArgumentError(
        "[run] the step has the input ", Quoted(inputs.of_groups().front()),
        " of a param group, and group_input is empty; give a function");
  }
  RunObserver silent;
  return Progression(training, spec, parts,
                     parts.observer != nullptr ? *parts.observer : silent,
                     start)
      .Run();
}

}  // namespace stowage

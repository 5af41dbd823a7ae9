#include "tools/run_steps.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "tools/command.h"
#include "tools/step_log.h"
#include "tools/work_progress.h"

namespace stowage::tools {

using Json = nlohmann::ordered_json;

Result<Runner*> Savable(const Work& work, std::optional<WholeValues>* whole) {
  Runner& step = work.training.step();
  if (work.values.own_name == nullptr) return &step;
  STOWAGE_ASSIGN_OR_RETURN(
      *whole, WholeValues::Make(work.values.whole, work.training.backend(),
                                *work.ranks.collectives()));
  STOWAGE_RETURN_IF_ERROR((*whole)->Gather(step));
  Session* const session = (*whole)->session();
  return session == nullptr ? &step : &session->front();
}

Status Save(const Work& work, int64_t step, std::optional<double> held_out_loss,
            bool best_alone) {
  const Runner& own = work.training.step();
  if (work.files.saves_shards()) {
    return work.files.SaveShards(own, work.values, work.ranks.collectives(),
                                 step, held_out_loss, best_alone);
  }
  if (!work.saves) return CheckFinite(own);  // each rank what it keeps
  std::optional<WholeValues> whole;
  STOWAGE_ASSIGN_OR_RETURN(const Runner* const values, Savable(work, &whole));
  return work.files.Save(*values, step, held_out_loss, best_alone);
}

Result<std::optional<Evaluation>> Judge(const Work& work, int64_t step) {
  if (!work.task.has_held_out()) return std::optional<Evaluation>();
  WorkProgress progress("evaluating", "batches");
  STOWAGE_ASSIGN_OR_RETURN(const Evaluation evaluation,
                           work.task.Evaluate(*work.training.Find("evaluate"),
                                              work.evaluation_batch, progress));
  if (std::isfinite(evaluation.loss)) return std::optional(evaluation);
  return Error{ErrorCode::kNotFinite,
               StrCat("[train] the held-out loss is ", evaluation.loss,
                      " after step ", step, "; a lower --lr may help")};
}

std::optional<double> LossOf(const std::optional<Evaluation>& evaluation) {
  return evaluation ? std::optional(evaluation->loss) : std::nullopt;
}

namespace {

// Tells of an evaluation on the way.
void ShowEvaluation(const Work& work, int64_t step,
                    const Evaluation& evaluation) {
  if (work.json) {
    Json json = {{"step", step}, {"validation_loss", evaluation.loss}};
    if (work.reads_text) json["perplexity"] = std::exp(evaluation.loss);
    if (evaluation.accuracy) json["accuracy"] = *evaluation.accuracy;
    PrintJson(json);
    return;
  }
  std::cerr << "step " << step << "  validation loss "
            << Fixed(evaluation.loss, 4);
  if (evaluation.accuracy) {
    std::cerr << "  accuracy " << Fixed(100 * *evaluation.accuracy, 1) << " %";
  }
  std::cerr << std::endl;
}

}  // namespace

void RecordEvaluation(const Work& work, int64_t step,
                      const std::optional<Evaluation>& evaluation) {
  if (StepLog* const log = work.files.log()) {
    log->AddEvaluation(LossOf(evaluation));
  }
  const RunSpec& run = work.run;
  // One where a run is interrupted is none of the whole run.
  const bool counts =
      run.eval_every > 0 && (step % run.eval_every == 0 || step == run.steps);
  if (!evaluation || !counts) return;
  EvaluationHistory history = work.files.history();
  history.Add(step, evaluation->loss);
  work.files.set_history(history);
  ShowEvaluation(work, step, *evaluation);
}

bool IsOutOfPatience(const Work& work) {
  return work.run.patience > 0 &&
         work.files.history().since_best >= work.run.patience;
}

namespace {

// A full disk may have room for the next checkpoint.
Status GoOnUnsaved(const Status& saved) {
  if (saved.ok() || saved.error().code != ErrorCode::kIo) return saved;
  std::cerr << "stowage: " << saved.error().message << "; training goes on"
            << std::endl;
  return {};
}

// Evaluates behind `done` where that is due, and saves where that is.
Status EvaluateAndSave(const Work& work, int64_t done, bool evaluates,
                       bool saves) {
  if (!evaluates && !saves) return {};
  STOWAGE_ASSIGN_OR_RETURN(const auto evaluation, Judge(work, done));
  if (evaluates) RecordEvaluation(work, done, evaluation);
  const bool is_best = work.files.history().best_step == done;
  if (!saves && !(evaluates && is_best && work.saves)) return {};
  return GoOnUnsaved(Save(work, done, LossOf(evaluation), !saves));
}

}  // namespace

Result<int64_t> RunSteps(const Work& work, int64_t done, StepLoop& loop,
                         const StopSignals& stop) {
  const RunSpec& run = work.run;
  const auto next = [&](int64_t every) {
    return every > 0 ? std::min(run.stop_at, (done / every + 1) * every)
                     : run.stop_at;
  };
  // What a signal has kept from being evaluated.
  const bool is_due = done > work.files.history().last_step &&
                      done < run.stop_at && done > 0 && run.EvaluatesAt(done);
  STOWAGE_RETURN_IF_ERROR(EvaluateAndSave(work, done, is_due, false));
  while (done < run.stop_at && !IsOutOfPatience(work)) {
    const int64_t until = std::min(next(run.save_every), next(run.eval_every));
    STOWAGE_ASSIGN_OR_RETURN(done, loop.RunTo(until, stop));
    if (loop.signal() != 0 || done == run.stop_at) return done;
    STOWAGE_RETURN_IF_ERROR(
        EvaluateAndSave(work, done, run.EvaluatesAt(done),
                        run.save_every > 0 && done % run.save_every == 0));
  }
  return done;
}

}  // namespace stowage::tools

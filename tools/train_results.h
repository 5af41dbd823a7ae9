#ifndef STOWAGE_TOOLS_TRAIN_RESULTS_H_
#define STOWAGE_TOOLS_TRAIN_RESULTS_H_

// What a training run came to, as JSON and in words.
//
//   std::cout << Headline(results) << "\n\n" << Details(results);

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "report/report.h"
#include "runtime/session.h"
#include "tools/budget.h"
#include "tools/progress.h"
#include "tools/tuning.h"
#include "train/evaluation.h"
#include "train/run.h"

namespace stowage::tools {

struct TrainResults {
  std::string_view model;
  int64_t steps = 0;                           // of the whole run so far
  const EvaluationHistory* history = nullptr;  // where it evaluates on its way
  bool stops_early = false;                    // by its patience
  const RunFigures& run;
  const std::optional<Evaluation>& evaluation;  // where something was held out
  const std::optional<Evaluation>& base;  // of a model before it was tuned
  const Tuning* tuning = nullptr;         // where one was
  const MemoryFigures& memory;
  const Session& session;
  const Report& report;
  const std::optional<Predicted>& predicted;
  double seconds = 0;
  int ranks = 1;
};

/// The last line of `train --json`.
nlohmann::ordered_json ToJson(const TrainResults& results);

/// What is said of a published model that is tuned: "trainable_params", "frozen_bytes",
/// "lengths", of a classifier "labels", and of examples "positions_computed", "positions_if_padded" (tuning.h).
nlohmann::ordered_json TuningJson(const Tuning& tuning);

/// One line: model, steps, device, losses, accuracy.
std::string Headline(const TrainResults& results);

/// The report of the plan, and what the process took.
std::string Details(const TrainResults& results);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_RESULTS_H_

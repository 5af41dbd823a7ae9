#ifndef STOWAGE_TOOLS_TRAIN_RESULTS_H_
#define STOWAGE_TOOLS_TRAIN_RESULTS_H_

// What a training run came to, as JSON and in words.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "report/report.h"
#include "runtime/session.h"
#include "tools/budget.h"
#include "tools/progress.h"
#include "tools/task.h"
#include "tools/train_run.h"

namespace stowage::tools {

struct TrainResults {
  std::string_view model;
  int64_t steps = 0;  // of the whole run so far
  const RunFigures& run;
  const std::optional<Evaluation>& evaluation;  // where something was held out
  const MemoryFigures& memory;
  const Session& session;
  const Report& report;
  const std::optional<Foretold>& foretold;
  double seconds = 0;
};

/// The last line of `train --json`.
nlohmann::ordered_json ToJson(const TrainResults& results);

/// One line: model, steps, device, losses, accuracy.
std::string Headline(const TrainResults& results);

/// The report of the plan, and what the process took.
std::string Details(const TrainResults& results);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_RESULTS_H_

#include "tools/train_reports.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "report/report.h"
#include "runtime/session.h"
#include "tools/command.h"
#include "tools/tuning.h"
#include "train/device.h"
#include "train/training.h"

namespace stowage::tools {

namespace {

using Json = nlohmann::ordered_json;

// Reads /proc: getrusage also counts memory resident before exec.
Bytes PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  Bytes kibibytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:" && status >> kibibytes) break;
  }
  return kibibytes * 1024;
}

// The bytes that rank 0 sends; absent on GPUs, whose collectives are not counted.
std::optional<Bytes> BytesSentPerStep(const TrainResults& results) {
  if (results.session.backend().name() != "cpu") return std::nullopt;
  return results.run.steps == 0 ? 0
                                : results.run.bytes_sent / results.run.steps;
}

}  // namespace

Json TuningJson(const Tuning& tuning) {
  Json json = {{"trainable_params", tuning.model.trainable_params()},
               {"frozen_bytes", tuning.model.frozen_bytes()},
               {"lengths", tuning.lengths}};
  if (const EncoderConfig* const encoder = tuning.model.base().encoder()) {
    json["labels"] = encoder->labels;
  }
  const Positions positions = CountPositions(tuning);
  if (positions.computed > 0) {
    json["positions_computed"] = positions.computed;
    json["positions_if_padded"] = positions.if_padded;
    json["tokens_per_pass"] = positions.tokens;
  }
  return json;
}

Json ToJson(const TrainResults& results) {
  Json json = Json::object();
  json["done"] = true;
  json["steps"] = results.steps;
  const auto& evaluation = results.evaluation;
  json["validation_loss"] = evaluation ? Json(evaluation->loss) : Json();
  if (evaluation && evaluation->accuracy) {
    json["accuracy"] = *evaluation->accuracy;
  }
  if (evaluation) {
    for (const auto& [name, value] : evaluation->metrics) {
      json[std::string(name)] = value;
    }
  }
  if (results.history != nullptr && results.history->best_step > 0) {
    json["best_validation_loss"] = results.history->best_loss;
    json["best_step"] = results.history->best_step;
  }
  if (results.stops_early) json["stopped_early"] = true;
  if (results.base) json["base_validation_loss"] = results.base->loss;
  if (results.tuning != nullptr) json.update(TuningJson(*results.tuning));
  json["arena_bytes"] = results.memory.arena;
  json["host_bytes"] = results.session.host_bytes();
  json["peak_rss_bytes"] = PeakResidentBytes();
  json["heap_allocations_in_steps"] = results.run.heap_allocations
                                          ? Json(*results.run.heap_allocations)
                                          : Json();
  if (results.run.skipped > 0) json["skipped_steps"] = results.run.skipped;
  json["seconds"] = results.seconds;
  if (results.ranks > 1) {
    json["ranks"] = results.ranks;
    const std::optional<Bytes> sent = BytesSentPerStep(results);
    json["bytes_sent_per_step"] = sent ? Json(*sent) : Json();
  }
  json.update(PredictedJson(results.predicted));
  const Backend& backend = results.session.backend();
  json["device"] = backend.name();
  for (const MemoryNote& note : backend.MemoryBesideArena()) {
    json["beside_arena_bytes"][note.what] = note.bytes;
  }
  return json;
}

std::string Headline(const TrainResults& results) {
  std::string line = StrCat(results.model, ", ", results.steps, " steps on ",
                            results.session.backend().name());
  if (results.ranks > 1) line += StrCat(" of ", results.ranks, " ranks");
  const char* before = ": ";
  const auto add = [&](const std::string& figure) {
    line += before + figure;
    before = ", ";
  };
  if (results.run.loss) {
    add(StrCat("training loss ", Fixed(*results.run.loss, 4)));
  }
  if (const auto& evaluation = results.evaluation) {
    add(StrCat("held-out loss ", Fixed(evaluation->loss, 4)));
    if (results.base) {
      add(StrCat("before ", Fixed(results.base->loss, 4)));
    }
    if (results.history != nullptr && results.history->best_step > 0) {
      add(StrCat("best ", Fixed(results.history->best_loss, 4), " after step ",
                 results.history->best_step));
    }
    if (evaluation->accuracy) {
      add(StrCat("held-out accuracy ", Fixed(100 * *evaluation->accuracy, 1),
                 " %"));
    }
    for (const auto& [name, value] : evaluation->metrics) {
      add(StrCat("held-out ", name, " ", Fixed(value, 4)));
    }
  }
  if (results.run.skipped > 0) {
    line += StrCat(", ", results.run.skipped, " steps skipped");
  }
  return line;
}

std::string Details(const TrainResults& results) {
  std::string text =
      StrCat(ToText(results.report), "\narena of the run ",
             FormatBytes(results.memory.arena), " (", results.memory.arena,
             " bytes, all programs), peak memory of the process ",
             FormatBytes(PeakResidentBytes()));
  if (results.run.heap_allocations) {
    text +=
        StrCat(", heap allocations in steps ", *results.run.heap_allocations);
  }
  text += StrCat(", ", Fixed(results.seconds, 1), " s\n");
  const std::optional<Bytes> sent = BytesSentPerStep(results);
  if (results.ranks > 1 && sent) {
    text += StrCat("sent to other ranks by rank 0: ", FormatBytes(*sent), " (",
                   *sent, " bytes) a step\n");
  }
  for (const MemoryNote& note : results.session.backend().MemoryBesideArena()) {
    text += StrCat(note.what, ": ", FormatBytes(note.bytes), " (", note.bytes,
                   " bytes)\n");
  }
  return text;
}

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMin = 2, kMax = 20;
constexpr double kSeconds = 2;

// Takes a step that changes no param: its learning rate is 0.
Status TakeOne(Runner& step, Task& task, int64_t number, int64_t seed) {
  STOWAGE_RETURN_IF_ERROR(task.WriteBatch(step, number));
  STOWAGE_RETURN_IF_ERROR(
      StepInputs(step.graph()).Write(step, {.step = number, .seed = seed}));
  return TakeStep(step);
}

// The measured speed of steps.
struct Trial {
  int64_t steps = 0;  // that were timed
  double step_seconds = 0;
  double tokens_per_second = 0;
};

// Times the first steps of `task`, each by the program for its length: one untimed, which faults
// in the arena's pages, then 2 to 20, until two seconds have passed. Params must have values.
Result<Trial> TrySteps(Training& training, Task& task, int64_t seed) {
  std::vector<Runner*> steps = {&training.step()};
  for (const PlannedShape& shape : training.plan().shapes) {
    steps.push_back(training.Find(shape.name));
  }
  STOWAGE_RETURN_IF_ERROR(TakeOne(*steps[task.ShapeOf(1)], task, 1, seed));
  Trial trial;
  double seconds = 0, tokens = 0;
  while (trial.steps < kMin || (trial.steps < kMax && seconds < kSeconds)) {
    const int64_t number = ++trial.steps + 1;
    const size_t shape = task.ShapeOf(number);
    const Clock::time_point start = Clock::now();
    STOWAGE_RETURN_IF_ERROR(TakeOne(*steps[shape], task, number, seed));
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    tokens += static_cast<double>(task.tokens_per_step(shape));
  }
  trial.step_seconds = seconds / static_cast<double>(trial.steps);
  trial.tokens_per_second = tokens / seconds;
  return trial;
}

// The speed of a run, and its source.
struct Speed {
  double step_seconds = 0, tokens_per_second = 0;
  std::string_view by;  // for programs
  std::string how;      // for people
};

// Steps that take longer by the rates of the device are not tried.
constexpr double kMaxToTry = 20;

// Measures a few steps if there is memory and they are fast; else estimates by the device's
// rates, also with several ranks, which would measure different numbers of steps and deadlock.
Result<Speed> Gauge(const TrainFlags& flags, const StepSpec& spec,
                    const TrainingPlan& plan, Backend& backend, Task& task,
                    const RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(const DeviceRates rates,
                           MeasureRates(backend, spec.options.dtype));
  const double seconds = StepSeconds(plan.step.graph, rates);
  const Speed guess{
      .step_seconds = seconds,
      .tokens_per_second =
          static_cast<double>(task.tokens_per_step(0)) / seconds,
      .by = "rates",
      .how =
          "predicted by its operations and bytes, and what this device does of "
          "them in a second"};
  if (!spec.tuning || !ranks.alone() || seconds > kMaxToTry) return guess;
  Result<Training> opened = Training::Open(plan, backend);
  if (!opened.ok()) {
    return opened.error().code == ErrorCode::kDevice ? Result<Speed>(guess)
                                                     : opened.error();
  }
  opened->Initialize(static_cast<uint64_t>(flags.seed));
  STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(opened->step()));
  STOWAGE_ASSIGN_OR_RETURN(const Trial trial,
                           TrySteps(*opened, task, flags.seed));
  return Speed{.step_seconds = trial.step_seconds,
               .tokens_per_second = trial.tokens_per_second,
               .by = "trial",
               .how = StrCat("tried: ", trial.steps,
                             " of its steps, which change nothing")};
}

}  // namespace

Status FinishDryRun(const TrainFlags& flags, const TrainFiles& files,
                    const Report& report, const Page& page,
                    const RankRun& ranks) {
  if (!ranks.speaks()) return {};
  if (!flags.resume.empty()) {
    STOWAGE_RETURN_IF_ERROR(files.CheckResumed());
  }
  if (!flags.svg.empty()) {
    STOWAGE_RETURN_IF_ERROR(files.svg().Write(ToSvg(report)));
  }
  if (!flags.html.empty()) {
    STOWAGE_RETURN_IF_ERROR(files.html().Write(ToHtml(page)));
  }
  const std::pair<std::string_view, const std::string&> others[] = {
      {"--save", flags.save},
      {"--continue", flags.continued},
      {"--save-weights", flags.save_weights},
      {"--save-adapter", flags.save_adapter},
      {"--save-merged", flags.save_merged},
      {"--log", flags.log}};
  for (const auto& [option, path] : others) {
    if (path.empty()) continue;
    std::cerr << "dry run: " << option << " " << Quoted(path)
              << " can be written, and is not\n";
  }
  std::cerr << std::flush;
  return {};
}

int ShowPlan(const TrainFlags& flags, const StepSpec& spec,
             TrainingPlanner& planner, const TrainingPlan& plan,
             const Report& report, const std::optional<Predicted>& predicted,
             Backend& backend, Task& task, const RankRun& ranks) {
  Result<Speed> speed = Error{};
  if (predicted) {
    speed = Speed{
        .step_seconds = predicted->step_seconds,
        .tokens_per_second = static_cast<double>(task.tokens_per_step(0)) /
                             predicted->step_seconds,
        .by = "op_times",
        .how = "predicted by the times of its ops"};
  } else {
    speed = Gauge(flags, spec, plan, backend, task, ranks);
  }
  if (!speed.ok()) return Fail(speed.error());
  const Result<Bytes> smallest = planner.step().SmallestBudget();
  if (!smallest.ok()) return Fail(smallest.error());
  const std::optional<Bytes>& budget = spec.training.budget;
  if (flags.json) {
    Json json = FiguresJson(report, 20);
    json["arena_bytes"] = plan.arena_bytes();
    json["host_bytes"] = plan.host_bytes();
    json["budget_bytes"] = budget ? Json(*budget) : Json();
    json["fits"] = true;
    json["minimum_budget_bytes"] = *smallest;
    for (const PlannedShape& shape : plan.shapes) {
      json["programs"].push_back(
          {{"name", shape.name},
           {"arena_bytes", shape.step.plan.arena_bytes()}});
    }
    for (const PlannedProgram& program : plan.programs) {
      json["programs"].push_back({{"name", program.name},
                                  {"arena_bytes", program.plan.arena_bytes()}});
    }
    json.update(PredictedJson(predicted));
    json["predicted_step_seconds"] = speed->step_seconds;
    json["predicted_tokens_per_second"] = speed->tokens_per_second;
    json["predicted_by"] = speed->by;
    if (spec.tuning) json.update(TuningJson(*spec.tuning));
    PrintJson(json);
    return kExitDone;
  }
  std::cout << ToText(report) << "\narena of all programs "
            << FormatBytes(plan.arena_bytes()) << " (" << plan.arena_bytes()
            << " bytes)";
  if (budget) std::cout << ", within a budget of " << FormatBytes(*budget);
  std::cout
      << "; the smallest budget that works with these memory optimizations is "
      << FormatBytes(*smallest) << " (" << *smallest << " bytes)\n"
      << speed->how << ": a step takes about " << Fixed(speed->step_seconds, 3)
      << " s, " << Fixed(speed->tokens_per_second, 0) << " "
      << task.token_name() << "/s\n";
  return kExitDone;
}

}  // namespace stowage::tools

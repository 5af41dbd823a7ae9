#include "tools/train_reports.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "data/batching.h"
#include "report/report.h"
#include "runtime/session.h"
#include "tools/command.h"
#include "tools/tuning.h"
#include "train/device.h"
#include "train/fine_tuning.h"
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
  if (tuning.classifies()) json["labels"] = tuning.model.classifier()->labels;
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
  int64_t steps = 0;  // timed
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
  std::string_view by;  // in JSON
  std::string how;      // in text
};

// Steps that are estimated to take longer are not measured.
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

Positions CountPositions(const Tuning& tuning) {
  Positions positions;
  if (const auto* const split = std::get_if<LabeledSplit>(&tuning.data)) {
    for (const int64_t tokens : TextLengths(*split, split->train)) {
      positions.computed +=
          tuning.lengths[ShortestThatHolds(tuning.lengths, tokens)];
      positions.if_padded += tuning.lengths.front();
      positions.tokens += tokens;
    }
    return positions;
  }
  if (const auto* const split = std::get_if<ContrastiveSplit>(&tuning.data)) {
    const int64_t texts = 2 + split->negatives;
    std::vector<size_t> documents(static_cast<size_t>(texts - 1));
    for (const size_t i : split->train) {
      split->Documents(i, {}, documents);
      positions.computed += texts * tuning.lengths[ShortestThatHolds(
                                        tuning.lengths, split->LongestOf(i))];
      positions.if_padded += texts * tuning.lengths.front();
      positions.tokens += std::ssize(split->texts[split->examples[i].query]);
      for (const size_t document : documents) {
        positions.tokens += std::ssize(split->texts[document]);
      }
    }
    return positions;
  }
  const auto* const split = std::get_if<ExampleSplit>(&tuning.data);
  if (split == nullptr) return positions;
  const int64_t longest = tuning.lengths.front();
  for (const int64_t input : InputsOf(*split, split->train, longest)) {
    positions.computed +=
        split->sequences() *
        tuning.lengths[ShortestThatHolds(tuning.lengths, input)];
    positions.if_padded += split->sequences() * longest;
  }
  for (const size_t example : split->train) {
    for (int which = 0; which < split->sequences(); ++which) {
      positions.tokens +=
          std::min(split->Of(example, which).size() - 1, longest);
    }
  }
  if (tuning.model.options().packed) {
    positions.computed =
        longest * std::ssize(PackExamples(*split, split->train));
  }
  return positions;
}

namespace {

// A line on the positions that several lengths save.
std::string LengthsText(const Tuning& tuning) {
  if (tuning.lengths.size() == 1) return {};
  const Positions positions = CountPositions(tuning);
  std::string lengths;
  for (const int64_t length : tuning.lengths) {
    lengths += StrCat(lengths.empty() ? "" : ", ", length);
  }
  return StrCat("finetune: sequences of ", lengths, " tokens: a pass has ",
                positions.computed, " positions, ", positions.if_padded,
                " if all were as long as the "
                "longest\n");
}

// A line on tensors that the model does not use.
std::string UnreadText(const Tuning& tuning) {
  const auto& unread = tuning.model.base().unread();
  if (unread.empty()) return {};
  return StrCat("finetune: ",
                tuning.embeds() ? "not used for embeddings: "
                                : "of another head, and not read: ",
                Named(unread), "\n");
}

// Lines on the dropouts of an encoder, which may take memory; none for a decoder.
std::string DropoutsText(const Tuning& tuning) {
  const EncoderConfig* const encoder = tuning.model.base().encoder();
  if (encoder == nullptr) return {};
  const EncoderDropout& dropout = encoder->dropout;
  std::string text = StrCat("finetune: dropouts: hidden ", dropout.hidden,
                            ", attention ", dropout.attention);
  if (tuning.classifies()) text += StrCat(", classifier ", dropout.classifier);
  text += "\n";
  if (dropout.attention > 0) {
    text +=
        "finetune: with a dropout of attention, its probabilities are values "
        "of the step; --attention-dropout 0 stores none\n";
  }
  return text;
}

// Lines on labels, truncated and dropped texts, and dropouts that take memory.
std::string ClassifierText(const Tuning& tuning, const LabeledSplit& split) {
  const EncoderConfig& encoder = *tuning.model.classifier();
  std::string text = StrCat(
      "finetune: ", split.texts.size(), " texts of ", encoder.labels.size(),
      " labels, ", split.cut, " cut and ", split.dropped, " dropped at ",
      split.seq, " tokens; ", split.held_out.size(), " are held out\n");
  const std::vector<std::string>& head = tuning.model.base().new_params();
  if (!head.empty()) {
    text += StrCat("finetune: the file has no head for these labels; ",
                   Named(head), " begin as the seed says\n");
  }
  return text + UnreadText(tuning) + DropoutsText(tuning);
}

// Lines on the examples, the loss, and the prompts of a model that embeds texts.
std::string EmbeddingText(const Tuning& tuning, const ContrastiveSplit& split) {
  const EmbeddingRules& rules = *tuning.model.options().embedding;
  std::string text = StrCat(
      "finetune: ", split.examples.size(), " queries with a document each",
      split.negatives == 0 ? std::string()
                           : StrCat(" and ", split.negatives, " negative",
                                    split.negatives == 1 ? "" : "s"),
      ", ", split.cut, " texts cut and ", split.dropped,
      " examples dropped at ", split.seq, " tokens; ", split.held_out.size(),
      " are held out\n");
  if (split.repeated > 0) {
    text += StrCat("finetune: of the training set, ", split.repeated,
                   " examples have a document that an earlier one has; in one "
                   "batch, each is a negative of the other\n");
  }
  text +=
      StrCat("finetune: embeddings are pooled by ", PoolingName(rules.pooling),
             " and compared by their ",
             rules.similarity == Similarity::kCosine ? "cosine" : "dot product",
             " times ", rules.scale,
             rules.symmetric ? ", in both directions\n" : "\n");
  const SentenceTransformer& settings = tuning.sentence_transformer;
  for (const auto& [texts, prompt] :
       {std::pair("queries", settings.QueryPrompt()),
        std::pair("documents", settings.DocumentPrompt())}) {
    if (prompt.empty()) continue;
    text += StrCat("finetune: ", texts, " begin with ", Quoted(prompt), "\n");
  }
  return text + UnreadText(tuning) + DropoutsText(tuning);
}

}  // namespace

std::string TuningText(const Tuning& tuning) {
  std::string text;
  if (const std::string& rates = tuning.model.base().model().dropouts;
      !rates.empty()) {
    text = StrCat("finetune: config.json trains with ", rates,
                  ", which is not applied here; --lora-dropout is\n");
  }
  if (const auto* const split = std::get_if<LabeledSplit>(&tuning.data)) {
    return ClassifierText(tuning, *split) + LengthsText(tuning);
  }
  if (const auto* const split = std::get_if<ContrastiveSplit>(&tuning.data)) {
    return text + EmbeddingText(tuning, *split) + LengthsText(tuning);
  }
  const auto* const split = std::get_if<ExampleSplit>(&tuning.data);
  if (split == nullptr) return text;
  text += StrCat("finetune: ", split->size(),
                 split->kind == ExampleKind::kPairs ? " pairs of answers, "
                                                    : " examples, ",
                 split->cut, " cut and ", split->dropped, " dropped at ",
                 split->seq, " tokens; ", split->held_out.size(),
                 " are held out\n");
  if (split->cut_with_partner > 0) {
    text += StrCat("finetune: ", split->cut_with_partner,
                   " prompts with the answer to another one are cut\n");
  }
  if (tuning.model.options().packed) {
    const Positions positions = CountPositions(tuning);
    return text + StrCat("finetune: packed into ",
                         positions.computed / tuning.lengths.front(),
                         " sequences: a pass has ", positions.computed,
                         " positions for ", positions.tokens, " tokens, ",
                         positions.if_padded, " if each were a sequence\n");
  }
  return text + LengthsText(tuning);
}

}  // namespace stowage::tools

#include "tools/train_results.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/strings.h"
#include "tools/command.h"
#include "tools/tuning.h"

namespace stowage::tools {

namespace {

using Json = nlohmann::ordered_json;

// Of this process alone: getrusage counts what was resident before exec, too.
Bytes PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  Bytes kibibytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:" && status >> kibibytes) break;
  }
  return kibibytes * 1024;
}

// By rank 0 to the others; absent on GPUs, whose exchanges pass by what counts.
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

}  // namespace stowage::tools

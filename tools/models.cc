// stowage models: what --model may name.

#include "nn/models.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "report/text.h"
#include "tools/command.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

void PrintTable() {
  std::cout
      << "name          parameters  batch   seq  optimizer     lr  steps  "
         "description\n";
  for (const ModelInfo& info : Models()) {
    std::cout << PadRight(info.name, 12) << PadLeft(WithCommas(info.params), 12)
              << PadLeft(StrCat(info.batch), 7)
              << PadLeft(info.seq == 0 ? "-" : StrCat(info.seq), 6) << "  "
              << PadRight(info.training.optimizer, 9)
              << PadLeft(StrCat(info.training.schedule.peak), 7)
              << PadLeft(StrCat(info.training.steps), 7) << "  "
              << info.description << '\n';
  }
}

void PrintAsJson() {
  Json models = Json::array();
  for (const ModelInfo& info : Models()) {
    models.push_back(
        {{"name", info.name},
         {"params", info.params},
         {"batch", info.batch},
         {"seq", info.seq == 0 ? Json() : Json(info.seq)},
         {"max_seq", info.max_seq == 0 ? Json() : Json(info.max_seq)},
         {"optimizer", info.training.optimizer},
         {"lr", info.training.schedule.peak},
         {"steps", info.training.steps},
         {"description", info.description}});
  }
  PrintJson(models);
}

}  // namespace

void AddModels(Program& program) {
  Options options = program.AddSubcommand(
      "models", "List the models, their sizes and their defaults",
      "stowage models --json");
  const auto json = std::make_shared<bool>(false);
  options.Group("output");
  options.AddFlag("--json", json.get(), "Print one JSON array");
  options.OnRun([json] {
    if (*json) {
      PrintAsJson();
    } else {
      PrintTable();
    }
    return kExitDone;
  });
}

}  // namespace stowage::tools

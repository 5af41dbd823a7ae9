// stowage models lists the built-in models; stowage export-onnx writes an ONNX file with the
// weights of a checkpoint.

#include "nn/models.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "base/strings.h"
#include "formats/array.h"
#include "onnx/onnx.h"
#include "report/text.h"
#include "runtime/values.h"
#include "runtime/weights.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/train_files.h"

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

namespace {

struct ExportFlags {
  std::string onnx, checkpoint, output;
};

// The tensors of a file of weights, and which of them are params.
class Weights {
 public:
  static Result<Weights> Open(const std::string& path) {
    STOWAGE_ASSIGN_OR_RETURN(WeightSource file,
                             WeightSource::Open(path, "export-onnx"));
    STOWAGE_RETURN_IF_ERROR(file.Check());
    Weights weights(std::move(file));
    const auto& tensors = weights.file_.tensors();
    const std::optional<int64_t> params = weights.file_.params();
    for (size_t i = 0; i < tensors.size(); ++i) {
      // Tensors after a checkpoint's params may be optimizer states.
      const bool is_param = !params || static_cast<int64_t>(i) < *params;
      weights.left_.emplace(tensors[i].name, Tensor{i, is_param});
    }
    return weights;
  }

  // Sets the weight if there is a tensor of its name.
  Result<bool> Give(NamedArray& weight) {
    const auto found = left_.find(weight.name);
    if (found == left_.end()) return false;
    const SafeTensor& tensor = file_.tensors()[found->second.at];
    const std::string has =
        tensor.foreign.empty() ? tensor.type.ToString() : tensor.foreign;
    if (!tensor.foreign.empty() || tensor.type != weight.array.type) {
      return file_.Fail(StrCat("has ", Quoted(weight.name), " as ", has,
                               "; the model's is ",
                               weight.array.type.ToString()));
    }
    std::string& bytes = weight.array.bytes;
    bytes.resize(static_cast<size_t>(tensor.type.bytes()));
    const auto all = std::as_writable_bytes(std::span(bytes));
    STOWAGE_RETURN_IF_ERROR(file_.Read(found->second.at, all));
    if (const auto at = FindNonFinite(tensor.type.dtype, all)) {
      return file_.Fail(
          StrCat("has ", FloatText(tensor.type.dtype, all, *at), " at element ",
                 *at, " of ", Quoted(weight.name)),
          ErrorCode::kNotFinite);
    }
    left_.erase(found);
    ++given_;
    return true;
  }

  // Error: the model has used none, or not all params.
  Status CheckGiven() const {
    std::string name;
    int64_t count = 0;
    for (const auto& [left, tensor] : left_) {
      if (!tensor.is_param) continue;
      name = count++ == 0 ? left : std::min(name, left);
    }
    if (count == 0 && given_ > 0) return {};
    return file_.Fail(
        count == 0
            ? "has no weights"
            : StrCat("has ", count, " weights that the model has not, ",
                     Quoted(name), " the first of them by name, and ", given_,
                     " that it has; expected those of a run of "
                     "this model"));
  }

  int64_t given() const { return given_; }

 private:
  struct Tensor {
    size_t at = 0;
    bool is_param = false;
  };

  explicit Weights(WeightSource file) : file_(std::move(file)) {}

  WeightSource file_;
  std::unordered_map<std::string, Tensor> left_;
  int64_t given_ = 0;
};

Status Export(const ExportFlags& flags) {
  STOWAGE_RETURN_IF_ERROR(CheckPaths(
      {{"output", flags.output}},
      {{"onnx", flags.onnx},
       {"checkpoint", flags.checkpoint},
       {"checkpoint (its shards)", ShardFolderOf(flags.checkpoint)}}));
  STOWAGE_ASSIGN_OR_RETURN(const Output output, Output::Open(flags.output));
  STOWAGE_ASSIGN_OR_RETURN(const OnnxModel model, ReadOnnx(flags.onnx));
  STOWAGE_ASSIGN_OR_RETURN(Weights weights, Weights::Open(flags.checkpoint));
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes,
                           model.WithWeights([&](NamedArray& weight) {
                             return weights.Give(weight);
                           }));
  STOWAGE_RETURN_IF_ERROR(weights.CheckGiven());
  STOWAGE_RETURN_IF_ERROR(output.Write(bytes));
  std::cerr << "export-onnx: " << weights.given() << " weights of "
            << flags.checkpoint << " are in " << flags.output << "\n";
  return {};
}

}  // namespace

void AddExportOnnx(Program& program) {
  Options options = program.AddSubcommand(
      "export-onnx", "Write an ONNX file again, with a checkpoint's weights",
      "stowage export-onnx --onnx resnet18.onnx --checkpoint run.safetensors "
      "-o trained.onnx");
  const auto flags = std::make_shared<ExportFlags>();
  options.Group("model");
  options.Add("--onnx", &flags->onnx, "The ONNX file that was trained");
  options.Require("--onnx");
  options.Add("--checkpoint", &flags->checkpoint,
              "A checkpoint of --save, or the weights of --save-weights; "
              "weights that it lacks are unchanged");
  options.Require("--checkpoint");
  options.Group("output");
  options.AddOutput("-o,--output", &flags->output,
                    "Write to this file, which includes external tensors");
  options.Require("--output");
  options.OnRun([flags] {
    const Status done = Export(*flags);
    return done.ok() ? kExitDone : Fail(done.error());
  });
}

}  // namespace stowage::tools

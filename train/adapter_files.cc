#include "train/adapter_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "formats/weights_file.h"
#include "math/small_floats.h"
#include "runtime/check_programs.h"
#include "runtime/checkpoint.h"
#include "runtime/values.h"
#include "train/lora_matrices.h"

namespace stowage {
namespace {

constexpr std::string_view kAlphaNote = "stowage.lora_alpha";
constexpr std::string_view kStabilizedNote = "stowage.use_rslora";
constexpr std::string_view kLabelsNote = "stowage.labels";

Error Invalid(std::string_view message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[adapter] ", message)};
}

bool IsGpt2(const FineTuning& tuning) {
  return std::holds_alternative<GptConfig>(tuning.base().model().config);
}

// What PEFT calls a param of an adapter.
std::string PeftName(const FineTuning& tuning, std::string_view param) {
  return StrCat(kPeftPrefix, tuning.base().PublishedName(param));
}

std::string StabilizedNote(const FineTuning& tuning) {
  return tuning.options().lora->rank_stabilized ? "true" : "false";
}

std::string LabelsNote(const EncoderConfig& encoder) {
  return nlohmann::json(encoder.labels)
      .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// As the saved adapter counts beside the original base (train/lora_matrices.h).
LoraRules SavedRules(const FineTuning& tuning) {
  LoraRules rules = *tuning.options().lora;
  if (tuning.pissa() == nullptr) return rules;
  // The factor stays.
  rules.rank *= 2;
  rules.alpha *= rules.rank_stabilized ? std::sqrt(2.0) : 2.0;
  return rules;
}

// Those of a classifier's head, which is trained whole, are kept with the adapter's.
std::vector<const ValueInfo*> AdapterParams(const FineTuning& tuning,
                                            const Graph& graph) {
  std::vector<const ValueInfo*> params;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(id);
    if (tuning.IsTrained(info.name)) params.push_back(&info);
  }
  return params;
}

// Names that mean, for PEFT, the layers that have adapters and no others: the last words
// of their names, "q_proj" of "model.layers.0.self_attn.q_proj", where all layers that end
// so have one; else the names in whole.
std::set<std::string> TargetModules(
    const FineTuning& tuning, const std::vector<const ValueInfo*>& params) {
  std::set<std::string> layers, words;
  for (const ValueInfo* param : params) {
    if (!param->name.ends_with(kPeftDown)) continue;
    std::string layer = tuning.base().PublishedName(param->name);
    layer.resize(layer.size() - kPeftDown.size());
    words.insert(layer.substr(layer.rfind('.') + 1));
    layers.insert(std::move(layer));
  }
  std::vector<std::string> weights;
  for (const PretrainedParam& param : tuning.base().params()) {
    if (param.shape.rank() == 2) {
      weights.push_back(tuning.base().PublishedName(param.name));
    }
  }
  for (const std::string& param : tuning.base().new_params()) {
    if (param.ends_with(".weight")) weights.push_back(param);
  }
  for (const std::string& weight : weights) {
    if (layers.contains(std::string(LayerOfWeight(weight)))) continue;
    if (std::ranges::any_of(words, [&](const std::string& word) {
          return MeansLayer(word, weight);
        })) {
      return layers;
    }
  }
  return words;
}

// The modules of a classifier's head, whose names PEFT compares with the ends of others.
std::set<std::string> HeadModules(const EncoderNames& names) {
  constexpr std::string_view kClassifier = "classifier";
  std::set<std::string> modules;
  for (const std::string_view layer : {names.head_dense, names.head_out}) {
    modules.emplace(layer.starts_with(kClassifier) ? kClassifier : layer);
  }
  return modules;
}

std::string ConfigText(const FineTuning& tuning,
                       const std::vector<const ValueInfo*>& params) {
  const LoraRules rules = SavedRules(tuning);
  const bool classifies = tuning.base().encoder() != nullptr;
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", classifies ? "SEQ_CLS" : "CAUSAL_LM"},
      {"base_model_name_or_path", tuning.base().file().path()},
      {"r", rules.rank},
      {"lora_alpha", rules.alpha},
      {"use_rslora", rules.rank_stabilized},
      {"use_dora", rules.dora},
      {"lora_dropout", rules.dropout},
      {"target_modules", TargetModules(tuning, params)},
      {"fan_in_fan_out", IsGpt2(tuning)},
      {"bias", "none"},
      {"inference_mode", true}};
  if (classifies) {
    config["modules_to_save"] = HeadModules(tuning.base().encoder()->names);
  }
  // Paths may be no UTF-8, which JSON is.
  return config.dump(2, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace

Result<AdapterFiles> AdapterFiles::Claim(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return Invalid(StrCat("cannot make the folder ", Quoted(folder), ": ",
                          failed.message()),
                   ErrorCode::kIo);
  }
  STOWAGE_ASSIGN_OR_RETURN(OutputFile config,
                           OutputFile::Claim(AdapterConfigPath(folder)));
  STOWAGE_ASSIGN_OR_RETURN(OutputFile weights,
                           OutputFile::Claim(AdapterWeightsPath(folder)));
  return AdapterFiles(std::move(config), std::move(weights));
}

namespace {

// The type of a param of the adapter in the file: as it is, or, of PiSSA's beside the original
// base, f32 with twice the rank.
TensorType SavedType(const FineTuning& tuning, const ValueInfo& param) {
  if (tuning.pissa() == nullptr || !IsLoraParam(param.name)) return param.type;
  const Shape& shape = param.type.shape;
  return {DType::kF32, param.name.ends_with(kPeftDown)
                           ? Shape{2 * shape[0], shape[1]}
                           : Shape{shape[0], 2 * shape[1]}};
}

Status WriteParam(const FineTuning& tuning, const Runner& runner,
                  const ValueInfo& param, const OutputFile::WritePart& write) {
  if (tuning.pissa() == nullptr || !IsLoraParam(param.name)) {
    return ReadInParts(
        runner, param,
        [&](Bytes, std::span<const std::byte> part) { return write(part); });
  }
  const auto& params = tuning.base().params();
  const auto beside = std::ranges::find_if(params, [&](const auto& weight) {
    const LoraParams names = LoraParamsOf(weight.name);
    return param.name == names.down || param.name == names.up;
  });
  STOWAGE_CHECK(beside != params.end());
  STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices lora,
                           ReadLoraMatrices(tuning, runner, *beside));
  return write(std::as_bytes(
      std::span(param.name.ends_with(kPeftDown) ? lora.down : lora.up)));
}

}  // namespace

Status SaveAdapter(const FineTuning& tuning, const Runner& runner,
                   const AdapterFiles& files) {
  STOWAGE_CHECK(tuning.options().lora.has_value());
  const std::vector<const ValueInfo*> params =
      AdapterParams(tuning, runner.graph());
  SafetensorsHeader header;
  // A save that ends between the two files leaves these weights beside an older
  // configuration, which may have another alpha.
  header.metadata = {
      {"format", "pt"},
      {std::string(kAlphaNote), StrCat(SavedRules(tuning).alpha)},
      {std::string(kStabilizedNote), StabilizedNote(tuning)}};
  if (const EncoderConfig* const encoder = tuning.base().encoder()) {
    header.metadata.emplace_back(kLabelsNote, LabelsNote(*encoder));
  }
  Bytes end = 0;
  for (const ValueInfo* param : params) {
    const TensorType type = SavedType(tuning, *param);
    const Bytes begin = end;
    end += type.bytes();
    header.tensors.push_back({.name = PeftName(tuning, param->name),
                              .type = type,
                              .begin = begin,
                              .end = end});
  }
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner));
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  STOWAGE_RETURN_IF_ERROR(files.weights_.ReplaceBy(
      [&](const OutputFile::WritePart& write) -> Status {
        STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(&length, 1))));
        STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(text))));
        for (const ValueInfo* param : params) {
          STOWAGE_RETURN_IF_ERROR(WriteParam(tuning, runner, *param, write));
        }
        return {};
      }));
  return files.config_.Replace(ConfigText(tuning, params));
}

namespace {

// Whether the base has values for a param.
bool HasInBase(const PretrainedModel& base, std::string_view param) {
  return std::ranges::find(base.params(), param, &PretrainedParam::name) !=
         base.params().end();
}

}  // namespace

Status LoadAdapter(const FineTuning& tuning, const std::string& folder,
                   Runner& runner) {
  STOWAGE_ASSIGN_OR_RETURN(const WeightsFile file,
                           WeightsFile::Open(AdapterWeightsPath(folder)));
  const std::string alpha = StrCat(tuning.options().lora->alpha);
  const std::string* const saved = file.Note(kAlphaNote);
  if (saved != nullptr && *saved != alpha) {
    return file.Fail(StrCat("holds weights of lora_alpha ", *saved,
                            ", and the adapter counts by ", alpha, "; where ",
                            kAdapterConfig,
                            " says so, the two were not saved together, "
                            "and lora_alpha ",
                            *saved, " there is right"));
  }
  const std::string* const stabilized = file.Note(kStabilizedNote);
  if (stabilized != nullptr && *stabilized != StabilizedNote(tuning)) {
    return file.Fail(StrCat("holds weights of use_rslora ", *stabilized,
                            ", and ", kAdapterConfig, " has ",
                            StabilizedNote(tuning),
                            ": the two were not saved together, and ",
                            *stabilized, " there is right"));
  }
  if (const EncoderConfig* const encoder = tuning.base().encoder()) {
    const std::string* const labels = file.Note(kLabelsNote);
    if (labels != nullptr && *labels != LabelsNote(*encoder)) {
      return file.Fail(StrCat("is of a classifier with the labels ", *labels,
                              ", and this one has ", LabelsNote(*encoder)));
    }
  }
  std::vector<const ValueInfo*> params = AdapterParams(tuning, runner.graph());
  std::erase_if(params, [&](const ValueInfo* param) {
    return file.Find(PeftName(tuning, param->name)) == nullptr &&
           HasInBase(tuning.base(), param->name);
  });
  for (const ValueInfo* param : params) {
    const std::string name = PeftName(tuning, param->name);
    const WeightTensor* const tensor = file.Find(name);
    if (tensor == nullptr) return file.Fail(StrCat("lacks ", Quoted(name)));
    if (!tensor->foreign.empty() || tensor->shape != param->type.shape) {
      return file.Fail(StrCat("has ", Quoted(name), " as ", tensor->Describe(),
                              "; the param ", Quoted(param->name), " is ",
                              param->type.ToString()));
    }
  }
  if (file.tensors().size() != params.size()) {
    for (const WeightTensor& tensor : file.tensors()) {
      bool taken = false;
      for (const ValueInfo* param : params) {
        taken = taken || PeftName(tuning, param->name) == tensor.name;
      }
      if (!taken) {
        return file.Fail(StrCat("has ", Quoted(tensor.name),
                                ", which no param of the adapter takes"));
      }
    }
  }
  std::vector<std::string> names;
  for (const ValueInfo* param : params) names.push_back(param->name);
  return AllOrNone(runner, names, [&]() -> Status {
    for (const ValueInfo* param : params) {
      std::vector<float> numbers(
          static_cast<size_t>(param->type.shape.num_elements()));
      STOWAGE_RETURN_IF_ERROR(file.ReadFloats(
          *file.Find(PeftName(tuning, param->name)), 0, numbers));
      const auto bytes = std::as_bytes(std::span(numbers));
      if (const auto index = FindNonFinite(DType::kF32, bytes)) {
        return file.Fail(StrCat("has ", FloatText(DType::kF32, bytes, *index),
                                " at element ", *index, " of ",
                                Quoted(PeftName(tuning, param->name)),
                                "; weights must be finite"));
      }
      STOWAGE_RETURN_IF_ERROR(WriteFloats(runner, param->name, 0, numbers));
    }
    return {};
  });
}

}  // namespace stowage

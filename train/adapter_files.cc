#include "train/adapter_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/weights_file.h"
#include "runtime/checkpoint.h"
#include "runtime/values.h"
#include "train/lora_weights.h"

namespace stowage {
namespace {

constexpr std::string_view kAdapterConfig = "adapter_config.json";
// The prefix of PEFT's names of params, and the suffix of those of lora_A.
constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kPeftDown = ".lora_A.weight";

std::string Within(const std::string& folder, std::string_view file) {
  if (folder.empty()) return "";
  return (std::filesystem::path(folder) / file).string();
}

Error InvalidRules(std::string_view message,
                   ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[adapter] ", message)};
}

// This library's name of a layer of GPT2LMHeadModel or another model.
std::string OurLayer(std::string_view layer) {
  constexpr std::string_view kTransformer = "transformer.";
  if (layer.starts_with(kTransformer)) layer.remove_prefix(kTransformer.size());
  return std::string(layer);
}

}  // namespace

std::string AdapterWeightsPath(const std::string& folder) {
  return Within(folder, "adapter_model.safetensors");
}

std::string AdapterConfigPath(const std::string& folder) {
  return Within(folder, kAdapterConfig);
}

namespace {

// The layers that have adapters in the file of weights of `folder`.
Result<std::vector<std::string>> LayersOf(const std::string& folder) {
  STOWAGE_ASSIGN_OR_RETURN(const WeightsFile file,
                           WeightsFile::Open(AdapterWeightsPath(folder)));
  std::vector<std::string> layers;
  for (const WeightTensor& tensor : file.tensors()) {
    std::string_view name = tensor.name;
    if (!name.starts_with(kPeftPrefix) || !name.ends_with(kPeftDown)) continue;
    name.remove_prefix(kPeftPrefix.size());
    name.remove_suffix(kPeftDown.size());
    layers.push_back(OurLayer(name));
  }
  if (!layers.empty()) return layers;
  return file.Fail("has no \"lora_A.weight\" of any layer");
}

// Whether PEFT's `init_lora_weights` of that name changes the base, which PEFT does again when
// it loads the adapter.
bool ChangesBase(std::string_view start) {
  constexpr std::string_view kKeepIt[] = {"gaussian", "orthogonal", "eva",
                                          "mica"};
  return std::ranges::find(kKeepIt, start) == std::end(kKeepIt);
}

// Whether a module of "modules_to_save" is part of the head of `classifier`: a layer of it, by
// its name or a suffix, or a module that contains one.
bool IsOfHead(std::string_view module, const EncoderNames& classifier) {
  if (module == "score") return true;   // of decoders; PEFT always names it
  if (module == "dense") return false;  // also a layer of all blocks
  for (std::string_view part : {classifier.head_dense, classifier.head_out}) {
    while (!part.empty() && StrCat(part, ".") != classifier.prefix) {
      if (part == module || part.ends_with(StrCat(".", module))) return true;
      const size_t dot = part.rfind('.');
      part = part.substr(0, dot == std::string_view::npos ? 0 : dot);
    }
  }
  return false;
}

// An error for the first module trained whole that is not part of the head.
Status CheckModulesToSave(const JsonValues& config, const std::string& path,
                          const EncoderNames& classifier) {
  for (int64_t i = 0;; ++i) {
    const auto module = config.Text(StrCat("modules_to_save.", i));
    if (!module.ok()) return {};
    if (IsOfHead(*module, classifier)) continue;
    return InvalidRules(StrCat(Quoted(path), " has ", Quoted(*module),
                               " in modules_to_save; the layers of the head, ",
                               Quoted(classifier.head_dense), " and ",
                               Quoted(classifier.head_out),
                               ", are those that are trained whole"),
                        ErrorCode::kUnsupported);
  }
}

}  // namespace

Result<LoraRules> ReadAdapterRules(const std::string& folder,
                                   const EncoderNames* classifier) {
  const std::string path = AdapterConfigPath(folder);
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto fail = [&](std::string_view what,
                        ErrorCode code = ErrorCode::kInvalidArgument) {
    return InvalidRules(StrCat(Quoted(path), " ", what), code);
  };
  const Result<JsonValues> config = JsonValues::Parse(text);
  if (!config.ok()) return fail(config.error().message);
  const auto kind = config->Text("peft_type");
  if (!kind.ok() || *kind != "LORA") {
    return fail(StrCat("is of type ", kind.ok() ? *kind : "none",
                       "; only LORA is read"),
                ErrorCode::kUnsupported);
  }
  // Values that are not clearly off, such as 1 and "true".
  for (const char* flag : {"use_qalora", "lora_bias"}) {
    const auto value = config->Bool(flag);
    if ((value.ok() && *value) || (!value.ok() && config->Has(flag))) {
      return fail(StrCat("has ", flag, ", which is not supported"),
                  ErrorCode::kUnsupported);
    }
  }
  if (classifier != nullptr) {
    STOWAGE_RETURN_IF_ERROR(CheckModulesToSave(*config, path, *classifier));
  }
  for (const std::string_view part :
       {"modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication",
        "target_parameters", "trainable_token_indices", "kasa_config",
        "arrow_config", "monteclora_config", "velora_config", "use_bdlora",
        // aLoRA applies the adapter only after these tokens.
        "alora_invocation_tokens"}) {
    if (classifier != nullptr && part == "modules_to_save") continue;
    if (config->Has(part) || config->HasBelow(part)) {
      return fail(StrCat("has ", part, ", which is not supported"),
                  ErrorCode::kUnsupported);
    }
  }
  const auto start = config->Text("init_lora_weights");
  if (start.ok() && ChangesBase(*start)) {
    return fail(StrCat("began by ", *start,
                       ", which takes what an adapter begins with out of the "
                       "base; PEFT's save_pretrained writes one for the base "
                       "as it was, with path_initial_model_for_weight_"
                       "conversion"),
                ErrorCode::kUnsupported);
  }
  const auto bias = config->Text("bias");
  if (config->Has("bias") && (!bias.ok() || *bias != "none")) {
    return fail(bias.ok() ? StrCat("trains biases (", *bias,
                                   "), which is not supported")
                          : bias.error().message,
                ErrorCode::kUnsupported);
  }
  LoraRules rules{.targets = {}};
  const auto rank = config->Int("r");
  const auto alpha = config->Real("lora_alpha");
  if (!rank.ok()) return fail(rank.error().message);
  if (!alpha.ok()) return fail(alpha.error().message);
  for (const auto& [flag, rule] :
       {std::pair("use_rslora", &rules.rank_stabilized),
        std::pair("use_dora", &rules.dora)}) {
    const auto value = config->Bool(flag);
    if (!value.ok() && config->Has(flag)) return fail(value.error().message);
    *rule = value.ok() && *value;
  }
  rules.rank = *rank;
  rules.alpha = *alpha;
  const auto dropout = config->Real("lora_dropout");
  if (!dropout.ok() && config->Has("lora_dropout")) {
    return fail(dropout.error().message);
  }
  if (dropout.ok()) rules.dropout = *dropout;
  const auto has = [&](std::string_view name) {
    return config->Has(name) || config->HasBelow(name);
  };
  if (!has("target_modules"))
    return fail("names no layers in \"target_modules\"");
  if (config->Has("target_modules") || has("exclude_modules") ||
      has("layers_to_transform")) {
    STOWAGE_ASSIGN_OR_RETURN(rules.targets, LayersOf(folder));
    return rules;
  }
  for (int64_t i = 0;; ++i) {
    const auto layer = config->Text(StrCat("target_modules.", i));
    if (!layer.ok()) break;
    rules.targets.push_back(OurLayer(*layer));
  }
  return rules;
}

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

// PEFT's name of a param of an adapter.
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

// The rules of the saved adapter, relative to the original base (train/lora_weights.h).
LoraRules SavedRules(const FineTuning& tuning) {
  LoraRules rules = *tuning.options().lora;
  if (tuning.pissa() == nullptr) return rules;
  // Keeps LoraFactor.
  rules.rank *= 2;
  rules.alpha *= rules.rank_stabilized ? std::sqrt(2.0) : 2.0;
  return rules;
}

// The params to save: the adapter's, and those of a classifier's head.
std::vector<const ValueInfo*> AdapterParams(const FineTuning& tuning,
                                            const Graph& graph) {
  std::vector<const ValueInfo*> params;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(id);
    if (tuning.IsTrained(info.name)) params.push_back(&info);
  }
  return params;
}

// target_modules for PEFT that match exactly the adapted layers: suffixes, such as "q_proj" of
// "model.layers.0.self_attn.q_proj", if all layers with the suffix have adapters; else full
// names.
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
  // transformers' encoder without a head has a pooler, which graphs that embed lack.
  if (tuning.options().embedding && tuning.base().encoder() != nullptr) {
    weights.push_back("pooler.dense.weight");
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

// The modules of a classifier's head, which PEFT matches by suffix.
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
  const EncoderConfig* const classifier = tuning.classifier();
  const char* const task = classifier != nullptr        ? "SEQ_CLS"
                           : tuning.options().embedding ? "FEATURE_EXTRACTION"
                                                        : "CAUSAL_LM";
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", task},
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
  if (classifier != nullptr) {
    config["modules_to_save"] = HeadModules(classifier->names);
  }
  // Paths may be ill-formed UTF-8, which JSON does not allow.
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

// The type of a param of the adapter in the file: the param's own, but f32 with twice the rank
// for PiSSA.
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
  // If the save is interrupted between the two files, these weights stand beside an older
  // configuration, which may have another alpha.
  header.metadata = {
      {"format", "pt"},
      {std::string(kAlphaNote), StrCat(SavedRules(tuning).alpha)},
      {std::string(kStabilizedNote), StabilizedNote(tuning)}};
  if (const EncoderConfig* const encoder = tuning.classifier()) {
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
  if (const EncoderConfig* const encoder = tuning.classifier()) {
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

#include "train/adapter_rules.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/weights_file.h"

namespace stowage {
namespace {

std::string Within(const std::string& folder, std::string_view file) {
  if (folder.empty()) return "";
  return (std::filesystem::path(folder) / file).string();
}

Error InvalidRules(std::string_view message,
                   ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[adapter] ", message)};
}

// What a layer is called here, of its name in GPT2LMHeadModel or another model.
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

// Whether PEFT's `init_lora_weights` of that name changes the base that an adapter is
// beside; PEFT does so again when it loads the adapter.
bool ChangesBase(std::string_view start) {
  constexpr std::string_view kKeepIt[] = {"gaussian", "orthogonal", "eva",
                                          "mica"};
  return std::ranges::find(kKeepIt, start) == std::end(kKeepIt);
}

// Whether a module of "modules_to_save" is of the head of `classifier` alone: a layer of it,
// by its name or the end of it, or a module that holds one.
bool IsOfHead(std::string_view module, const EncoderNames& classifier) {
  if (module == "score") return true;   // of decoders; PEFT always names it
  if (module == "dense") return false;  // of all blocks, too
  for (std::string_view part : {classifier.head_dense, classifier.head_out}) {
    while (!part.empty() && StrCat(part, ".") != classifier.prefix) {
      if (part == module || part.ends_with(StrCat(".", module))) return true;
      const size_t dot = part.rfind('.');
      part = part.substr(0, dot == std::string_view::npos ? 0 : dot);
    }
  }
  return false;
}

// The error of the first module that is trained whole and is not of the head.
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
  // Whatever is not plainly off, as 1 and "true" are.
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
        // aLoRA's adapter counts behind these tokens alone.
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

}  // namespace stowage

#include "nn/models.h"

#include <array>
#include <string>

#include "base/strings.h"
#include "nn/gpt.h"
#include "nn/mlp.h"
#include "nn/text_data.h"

namespace stowage {
namespace {

const GptConfig& GptNano() {
  static const GptConfig kConfig{.name = "gpt-nano",
                                 .layers = 4,
                                 .heads = 4,
                                 .width = 128,
                                 .vocabulary = kTextVocabulary,
                                 .max_seq = 256};
  return kConfig;
}

const GptConfig& Gpt2() {
  static const GptConfig kConfig{.name = "gpt2-124m",
                                 .layers = 12,
                                 .heads = 12,
                                 .width = 768,
                                 .vocabulary = 50257,
                                 .max_seq = 1024};
  return kConfig;
}

ModelInfo GptInfo(const GptConfig& config, std::string_view description,
                  int64_t batch, int64_t seq,
                  const TrainingDefaults& training) {
  return {.name = config.name,
          .description = description,
          .data = ModelData::kText,
          .batch = batch,
          .seq = seq,
          .max_seq = config.max_seq,
          .vocabulary = config.vocabulary,
          .params = GptParameterCount(config),
          .training = training};
}

int64_t MlpParameterCount() {
  return kMlpInputs * kMlpHidden + kMlpHidden + kMlpHidden * kMlpHidden +
         kMlpHidden + kMlpHidden * kMlpClasses + kMlpClasses;
}

}  // namespace

std::span<const ModelInfo> Models() {
  static const std::array<ModelInfo, 3> kModels = {
      ModelInfo{.name = "mlp",
                .description = "classifier of 8 x 8 digits, two hidden layers "
                               "of 128 with relu",
                .data = ModelData::kDigits,
                .batch = 64,
                .vocabulary = kMlpClasses,
                .params = MlpParameterCount(),
                .training = {.optimizer = "adamw",
                             .decay = 0.01,
                             .steps = 1500,
                             .schedule = {.peak = 2e-3,
                                          .warmup = 20,
                                          .final_factor = 0.1}}},
      GptInfo(GptNano(), "GPT over characters, 4 layers of width 128, 4 heads",
              8, 64,
              {.optimizer = "adamw",
               .beta2 = 0.99,
               .decay = 0.1,
               .steps = 3000,
               .schedule = {.peak = 2e-3, .warmup = 100, .final_factor = 0.1}}),
      GptInfo(
          Gpt2(), "GPT-2 small, 12 layers of width 768, 12 heads", 4, 1024,
          {.optimizer = "adamw",
           .beta2 = 0.95,
           .decay = 0.1,
           .steps = 1000,
           .schedule = {.peak = 6e-4, .warmup = 100, .final_factor = 0.1}})};
  return kModels;
}

Result<ModelInfo> FindModel(std::string_view name) {
  std::string names;
  for (const ModelInfo& info : Models()) {
    if (info.name == name) return info;
    names += StrCat(names.empty() ? "" : ", ", info.name);
  }
  return Error{ErrorCode::kNotFound,
               StrCat("[model] there is no model ", Quoted(name),
                      "; the models are ", names)};
}

Result<Graph> BuildModel(std::string_view name, ModelPurpose purpose,
                         const ModelOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(const ModelInfo info, FindModel(name));
  ModelOptions filled = options;
  if (!filled.batch) filled.batch = info.batch;
  if (!filled.seq && info.seq > 0) filled.seq = info.seq;
  if (name == "mlp") return BuildMlp(purpose, filled);
  const GptConfig& config = name == GptNano().name ? GptNano() : Gpt2();
  return BuildGpt(config, purpose, filled);
}

int64_t ParameterCount(const Graph& graph) {
  int64_t count = 0;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    count += graph.value(id).type.shape.num_elements();
  }
  return count;
}

}  // namespace stowage

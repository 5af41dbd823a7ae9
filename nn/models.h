#ifndef STOWAGE_NN_MODELS_H_
#define STOWAGE_NN_MODELS_H_

// Provides the built-in models by name, with their default sizes and training settings.
// nn/models.def lists them (docs/guides/adding_a_model.md).
//
//   Result<ModelInfo> info = FindModel("gpt-nano");
//   Result<Graph> forward = BuildModel(info->name, ModelPurpose::kTrain);
//   Result<Graph> step = BuildTrainStep(*forward, "loss");

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "nn/schedule.h"

namespace stowage {

/// The vocabulary of the character models (data/text_data.h).
inline constexpr int64_t kTextVocabulary = 96;

/// The kind of data that a model is trained on.
enum class ModelData {
  kImages,  // data/image_data.h, data/digits_data.h: inputs "x" and "y"
  kPixels,  // data/image_data.h: "x", and "y" with a label for each pixel
  kText,    // data/text_data.h: inputs "tokens", and "targets" for a loss
};

/// Settings with which a model trains well on the data in examples/data/.
struct TrainingDefaults {
  std::string_view optimizer = {};  // "sgd", "momentum" or "adamw"
  double beta1 = 0.9;               // for adamw
  double beta2 = 0.999;             // for adamw
  double decay = 0;
  int64_t steps = 0;
  LearningRateSchedule schedule =
      {};  // the schedule over `steps`; its peak is the learning rate
};

struct ModelInfo {
  std::string_view name;
  std::string_view description;  // one line
  ModelData data = ModelData::kText;
  int64_t batch = 1;
  int64_t seq = 0;         // 0 if inputs are not sequences
  int64_t max_seq = 0;     // 0 if inputs are not sequences
  int64_t vocabulary = 0;  // number of tokens or classes
  int64_t params = 0;      // number of elements of all params
  /// The default images of an image model, and their augmentation in training.
  ImageShape images = {};
  Augmentation augmentation = {};
  TrainingDefaults training;
  /// Builds the graph, which has the name of the model. Requires the options for which BuildModel
  /// sets defaults.
  Result<Graph> (*build)(ModelPurpose, const ModelOptions&) = nullptr;
};

/// Returns all models, smallest first.
std::span<const ModelInfo> Models();

/// Returns the model named `name`. Returns kNotFound, listing the names, if there is none.
Result<ModelInfo> FindModel(std::string_view name);

/// Returns the graph of the model named `name`. An absent batch, seq, vocabulary or images has the
/// model's default. ModelData describes the inputs, and ModelPurpose the outputs. Propagates errors
/// of FindModel, and errors of the model for invalid options. Returns kUnsupported if the model
/// does not support the purpose. For example, classifiers do not support generation.
Result<Graph> BuildModel(std::string_view name, ModelPurpose purpose,
                         const ModelOptions& options = {});

}  // namespace stowage

// Declares one function for each line of nn/models.def, which a file in nn/models/ defines:
//
//   ModelInfo models::GptNano() { return {.name = "gpt-nano", ...}; }

namespace stowage::models {

#define STOWAGE_MODEL(function) ModelInfo function();
#include "nn/models.def"
#undef STOWAGE_MODEL

}  // namespace stowage::models

#endif  // STOWAGE_NN_MODELS_H_

#ifndef STOWAGE_NN_MODELS_H_
#define STOWAGE_NN_MODELS_H_

// The built-in models by name, with their default sizes and training settings. nn/models.def
// lists them (docs/guides/adding_a_model.md).
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
  kImages,  // data/image_data.h, data/digits_data.h: inputs "x", "y"
  kPixels,  // data/image_data.h: the same, with a label for each pixel in "y"
  kText,    // data/text_data.h: inputs "tokens", and "targets" for a loss
};

/// Settings that train the model well on the data in examples/data/.
struct TrainingDefaults {
  std::string_view optimizer = {};  // "sgd", "momentum" or "adamw"
  double beta1 = 0.9;               // adamw
  double beta2 = 0.999;             // adamw
  double decay = 0;
  int64_t steps = 0;
  LearningRateSchedule schedule =
      {};  // over `steps`; peak is the learning rate
};

struct ModelInfo {
  std::string_view name;
  std::string_view description;  // one line
  ModelData data = ModelData::kText;
  int64_t batch = 1;
  int64_t seq = 0;         // 0 for models without sequences
  int64_t max_seq = 0;     // likewise
  int64_t vocabulary = 0;  // tokens, or classes
  int64_t params = 0;      // elements of all params
  /// The default images of image models, and their augmentation in training.
  ImageShape images = {};
  Augmentation augmentation = {};
  TrainingDefaults training;
  /// Builds the graph, named as the model. BuildModel has replaced absent options by the
  /// defaults above.
  Result<Graph> (*build)(ModelPurpose, const ModelOptions&) = nullptr;
};

/// All models, smallest first.
std::span<const ModelInfo> Models();

/// The model of that name. Error kNotFound, listing the names.
Result<ModelInfo> FindModel(std::string_view name);

/// The graph of the model called `name`; absent options have the model's defaults. Its inputs
/// are those of its data (ModelData), its outputs those of the purpose (ModelPurpose).
/// Errors: those of FindModel, and of the model for invalid options; kUnsupported for a
/// purpose that the model does not support, such as generating by a classifier.
Result<Graph> BuildModel(std::string_view name, ModelPurpose purpose,
                         const ModelOptions& options = {});

}  // namespace stowage

// One function per line of nn/models.def, defined in a file of nn/models/:
//
//   ModelInfo models::GptNano() { return {.name = "gpt-nano", ...}; }

namespace stowage::models {

#define STOWAGE_MODEL(function) ModelInfo function();
#include "nn/models.def"
#undef STOWAGE_MODEL

}  // namespace stowage::models

#endif  // STOWAGE_NN_MODELS_H_

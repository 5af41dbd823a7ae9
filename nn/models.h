#ifndef STOWAGE_NN_MODELS_H_
#define STOWAGE_NN_MODELS_H_

// The models that the command line knows by name, with the sizes and the
// training settings they start from. nn/models.def lists them, and each is
// described in a file of nn/models/ (docs/guides/adding_a_model.md).
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

/// Settings that train the model well on the data that comes with the project.
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
  /// Of models of images: what they look at where nothing else is asked for, and
  /// how images are varied in training.
  ImageShape images = {};
  Augmentation augmentation = {};
  TrainingDefaults training;
  /// The model's graph, called as the model is. The options are complete:
  /// BuildModel puts the sizes above in place of absent ones.
  Result<Graph> (*build)(ModelPurpose, const ModelOptions&) = nullptr;
};

/// All models, smallest first.
std::span<const ModelInfo> Models();

/// The model of that name. Error kNotFound, listing the names there are.
Result<ModelInfo> FindModel(std::string_view name);

/// The graph of the model called `name`; options left absent are the model's
/// defaults. Its inputs are those of the model's data (ModelData), its outputs
/// those of the purpose (ModelPurpose). Errors: FindModel's, and the model's own
/// for options that it cannot take; kUnsupported where it does not serve the
/// purpose, as a classifier does not generate.
Result<Graph> BuildModel(std::string_view name, ModelPurpose purpose,
                         const ModelOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_NN_MODELS_H_

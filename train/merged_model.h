#ifndef STOWAGE_TRAIN_MERGED_MODEL_H_
#define STOWAGE_TRAIN_MERGED_MODEL_H_

// Writes a tuned model as Hugging Face's transformers loads it: all weights in one safetensors
// file with adapters merged, or a classifier's folder of model.safetensors, config.json and
// tokenizer (AutoModelForSequenceClassification.from_pretrained).
//
//   Status merged = SaveMerged(tuning, training.step(), *OutputFile::Claim("whole"));
//
//   Result<ClassifierFolder> folder =
//       ClassifierFolder::Claim("tuned", tuning.base(), "bert/tokenizer.json");
//   ...                                                        // training
//   Status saved = SaveClassifier(tuning, training.step(), *folder);
//
// MergedRows computes merged weights a few rows at a time: W + alpha / rank B A, with DoRA
// scaled so that the weights of each output have its magnitude as their norm (nn/lora.h).

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "nn/pretrained.h"
#include "runtime/session.h"
#include "train/fine_tuning.h"
#include "train/lora_weights.h"

namespace stowage {

/// The rows of a param of the base, with its adapter merged.
class MergedRows {
 public:
  /// `tuning` and `param`, one of its base, must outlive this. With DoRA, reads the param
  /// once. Errors: those of ReadLoraMatrices; kIo. Precondition: the tuning has adapters.
  static Result<MergedRows> Of(const FineTuning& tuning, const Runner& runner,
                               const PretrainedParam& param);

  /// Whether the param's layer has an adapter; if not, the rows are the base's.
  bool is_adapted() const { return lora_.rank > 0; }

  /// Reads as many rows from `first` on as `to` holds; of a vector, elements. Error kIo.
  /// Preconditions: those of PretrainedModel::ReadFloats.
  Status Read(int64_t first, std::span<float> to) const;

 private:
  MergedRows(const PretrainedModel& base, const PretrainedParam& param)
      : base_(&base), param_(&param) {}
  Status FindScales(std::span<const float> magnitudes);
  void AddShare(int64_t row, std::span<float> numbers) const;

  const PretrainedModel* base_;
  const PretrainedParam* param_;
  LoraMatrices lora_;
  double factor_ = 0;
  std::vector<double> scales_;  // of outputs, with DoRA
};

/// Writes all weights of the model to a safetensors file, under Hugging Face's names, in the
/// tuning's dtype, with adapters merged, a few rows at a time. The trained weights of a
/// classifier are the runner's. Beside the model's config.json, the file loads as any model.
/// Errors: kIo; kNotFinite for a weight that is NaN or infinite; the file is then unchanged.
/// Precondition: the tuning has adapters or is a classifier.
Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file);

/// The path of model.safetensors in a folder; "" for "".
std::string ClassifierWeightsPath(const std::string& folder);

/// The files of a classifier to write.
class ClassifierFolder {
 public:
  /// Creates the folder if necessary. The tokenizer is `tokenizer`, with the files beside it
  /// that belong to one, such as tokenizer_config.json. Errors: kIo; those of
  /// OutputFile::Claim; kInvalidArgument for a config.json that is not a JSON object.
  /// Precondition: `base` is a classifier.
  static Result<ClassifierFolder> Claim(const std::string& folder,
                                        const PretrainedModel& base,
                                        const std::string& tokenizer);

 private:
  friend Status SaveClassifier(const FineTuning&, const Runner&,
                               const ClassifierFolder&);
  ClassifierFolder(OutputFile weights, OutputFile config, std::string text)
      : weights_(std::move(weights)),
        config_(std::move(config)),
        config_text_(std::move(text)) {}

  OutputFile weights_, config_;
  std::string config_text_;  // the base's config.json
  std::vector<std::pair<std::string, OutputFile>> copies_;  // source, copy
};

/// Writes the classifier of `runner`: its weights as SaveMerged does; the base's config.json
/// with the architecture, the labels, the dropouts of training and the dtype; the files of the
/// tokenizer. Errors: those of SaveMerged; kIo.
Status SaveClassifier(const FineTuning& tuning, const Runner& runner,
                      const ClassifierFolder& folder);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_MERGED_MODEL_H_

#ifndef STOWAGE_TRAIN_MERGED_MODEL_H_
#define STOWAGE_TRAIN_MERGED_MODEL_H_

// Writes a tuned model as Hugging Face's transformers loads it: all weights in one safetensors
// file with adapters merged, or a folder of model.safetensors, config.json and tokenizer: of a
// classifier for AutoModelForSequenceClassification, of a model that embeds texts for
// sentence-transformers.
//
//   Status merged = SaveMerged(tuning, training.step(), *OutputFile::Claim("whole"));
//
//   Result<ModelFolder> folder =
//       ModelFolder::Claim("tuned", tuning.base(), "bert/tokenizer.json");
//   ...                                                        // training
//   Status saved = SaveModelFolder(tuning, training.step(), *folder);
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
#include "train/sentence_transformer.h"

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
/// tuning's dtype, with adapters merged, a few rows at a time. Weights that are trained whole are
/// the runner's; PretrainedModel::kept are the base's. Beside the model's config.json, the file
/// loads as any model. Errors: kIo; kNotFinite for a weight that is NaN or infinite; the file is
/// then unchanged. Precondition: the tuning has adapters, or classifies or embeds texts.
Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file);

/// The path of model.safetensors in a folder; "" for "".
std::string ModelFolderWeightsPath(const std::string& folder);

/// The files of a model to write, which classifies or embeds texts.
class ModelFolder {
 public:
  /// Creates the folder if necessary. The tokenizer is `tokenizer`, with the files beside it
  /// that belong to one, such as tokenizer_config.json; `settings` are further files, by names
  /// in the folder (SentenceTransformerFiles). Errors: kIo; those of OutputFile::Claim;
  /// kInvalidArgument for a config.json that is not a JSON object.
  static Result<ModelFolder> Claim(const std::string& folder,
                                   const PretrainedModel& base,
                                   const std::string& tokenizer,
                                   const std::vector<FileText>& settings = {});

 private:
  friend Status SaveModelFolder(const FineTuning&, const Runner&,
                                const ModelFolder&);
  ModelFolder(OutputFile weights, OutputFile config, std::string text)
      : weights_(std::move(weights)),
        config_(std::move(config)),
        config_text_(std::move(text)) {}

  OutputFile weights_, config_;
  std::string config_text_;  // the base's config.json
  std::vector<std::pair<std::string, OutputFile>> copies_;  // source, copy
  std::vector<std::pair<OutputFile, std::string>> settings_;
};

/// Writes the model of `runner`: its weights as SaveMerged does; the base's config.json with the
/// architecture, a classifier's labels, an encoder's dropouts of training and the dtype; the
/// files of the tokenizer and the settings. Errors: those of SaveMerged; kIo.
Status SaveModelFolder(const FineTuning& tuning, const Runner& runner,
                       const ModelFolder& folder);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_MERGED_MODEL_H_

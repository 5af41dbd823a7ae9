#ifndef STOWAGE_TRAIN_MERGED_MODEL_H_
#define STOWAGE_TRAIN_MERGED_MODEL_H_

// Writes a fine-tuned model in the format of Hugging Face's transformers. The result is either one
// safetensors file of all weights, with adapters merged, or a folder with model.safetensors,
// config.json and the tokenizer. AutoModelForSequenceClassification loads the folder of a
// classifier, and sentence-transformers the folder of a model that embeds texts.
//
//   Status merged = SaveMerged(tuning, training.step(), *OutputFile::Claim("whole"));
//
//   Result<ModelFolder> folder =
//       ModelFolder::Claim("tuned", tuning.base(), "bert/tokenizer.json");
//   ...                                                        // training
//   Status saved = SaveModelFolder(tuning, training.step(), *folder);
//
// MergedRows computes merged weights, W + alpha / rank B A, a few rows at a time. With DoRA, they
// are scaled so that the norm of each output's weights is its magnitude (nn/lora.h).

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

/// Reads the rows of a param of the base with its adapter merged.
class MergedRows {
 public:
  /// Creates a reader. `tuning` and `param`, a param of its base, must outlive it. With DoRA, reads
  /// the param once. Propagates errors of ReadLoraMatrices. Returns kIo if reading fails.
  static Result<MergedRows> Of(const FineTuning& tuning, const Runner& runner,
                               const PretrainedParam& param);

  /// Returns whether the param's layer has an adapter. If not, the rows are the base's.
  bool is_adapted() const { return lora_.rank > 0; }

  /// Reads rows from `first` on until `to` is full. The rows of a vector are its elements. The
  /// preconditions of PretrainedModel::ReadFloats apply. Returns kIo if reading fails.
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
  std::vector<double> scales_;  // factors of the outputs, with DoRA
};

/// Writes all weights of the model to a safetensors file, under Hugging Face's names and in the
/// tuning's dtype, a few rows at a time. Adapters are merged. Weights that are trained without
/// adapters are the runner's, and PretrainedModel::kept are the base's. Together with the model's
/// config.json, the file loads like any model. Requires that the tuning has adapters, or classifies
/// or embeds texts. Returns kIo if reading or writing fails, and kNotFinite if a weight is NaN or
/// infinite; the file is then unchanged.
Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file);

/// Returns the path of model.safetensors in a folder, or "" if `folder` is "".
std::string ModelFolderWeightsPath(const std::string& folder);

/// The files of a model that classifies or embeds texts, claimed for writing.
class ModelFolder {
 public:
  /// Creates the folder if necessary, and claims the files. `tokenizer` is the path of the
  /// tokenizer. Files in its folder that belong to a tokenizer, such as tokenizer_config.json, are
  /// copied too. `settings` are additional files, with their names in the folder
  /// (SentenceTransformerFiles). Returns kIo if the folder cannot be created or a file not read,
  /// and kInvalidArgument if config.json is not a JSON object. Propagates errors of
  /// OutputFile::Claim.
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
  std::string config_text_;  // content of the base's config.json
  std::vector<std::pair<std::string, OutputFile>> copies_;  // source, copy
  std::vector<std::pair<OutputFile, std::string>> settings_;
};

/// Writes the model of `runner`: its weights, as SaveMerged does, its config.json, the files of the
/// tokenizer, and the settings. The config.json is the base's with the architecture, a classifier's
/// labels, an encoder's dropout rates in training, and the dtype. Propagates errors of SaveMerged.
/// Returns kIo if reading or writing fails.
Status SaveModelFolder(const FineTuning& tuning, const Runner& runner,
                       const ModelFolder& folder);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_MERGED_MODEL_H_

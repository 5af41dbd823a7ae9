#ifndef STOWAGE_TRAIN_MERGED_MODEL_H_
#define STOWAGE_TRAIN_MERGED_MODEL_H_

// Writes a fine-tuned model in the format of Hugging Face's transformers. SaveMerged writes one
// safetensors file of all weights, with adapters merged. SaveModelFolder writes a folder with this
// file as model.safetensors, config.json and the tokenizer. AutoModelForSequenceClassification
// loads the folder of a classifier, and sentence-transformers the folder of a model that embeds
// texts.
//
//   Status merged = SaveMerged(tuning, training.step(), *OutputFile::Claim("whole"));
//
//   Result<ModelFolder> folder =
//       ModelFolder::Claim("tuned", tuning.base(), "bert/tokenizer.json");
//   ...                                                        // training
//   Status saved = SaveModelFolder(tuning, training.step(), *folder);
//
// MergedRows computes merged weights, W + alpha / rank B A, for any range of rows. With DoRA, they
// are scaled so that the norm of each output's weights is the output's magnitude (nn/lora.h).

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

/// Reads rows of a param of the base, with the param's adapter merged.
class MergedRows {
 public:
  /// Creates a reader of `param`, a param of the tuning's base, with the adapter of `runner`.
  /// `tuning` and `param` must outlive the reader. Requires that the tuning has adapters if `param`
  /// has one in `runner`. With DoRA, reads the whole param. Propagates errors of ReadLoraMatrices.
  /// Returns kIo if reading fails.
  static Result<MergedRows> Of(const FineTuning& tuning, const Runner& runner,
                               const PretrainedParam& param);

  /// Returns whether the param's layer has an adapter. If it has none, Read returns the rows of the
  /// base's file.
  bool is_adapted() const { return lora_.rank > 0; }

  /// Reads rows from row `first` on until `to` is full. Each element of a vector is a row. The
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
/// adapters are read from `runner`, and the tensors of PretrainedModel::kept from the base's file.
/// Together with the model's config.json, the file loads like any model. Requires that the tuning
/// has adapters, or that the model classifies or embeds texts. Returns kIo if reading or writing
/// fails, and kNotFinite if a param or state of `runner` is NaN or infinite. On an error, the file
/// is unchanged.
Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file);

/// Returns the path of model.safetensors in `folder`, or "" if `folder` is "".
std::string ModelFolderWeightsPath(const std::string& folder);

/// The files of a model that classifies or embeds texts, claimed for writing.
class ModelFolder {
 public:
  /// Creates `folder` if it does not exist, and claims the files (OutputFile in base/files.h).
  /// `base` must be a model in a folder with a config.json. `tokenizer` is the path of the
  /// tokenizer, which SaveModelFolder copies as tokenizer.json. It also copies files next to it
  /// that belong to a tokenizer, such as tokenizer_config.json. `settings` are additional files to
  /// write, such as the files of SentenceTransformerFiles. Returns kNotFound or kIo if config.json
  /// cannot be read, kIo if the folder cannot be created, and kInvalidArgument if config.json is
  /// not a JSON object. Propagates errors of OutputFile::Claim.
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

/// Writes the model of `runner`: the weights, as SaveMerged does, the files of the tokenizer, the
/// settings, and config.json. In the config.json of the base, the architecture, the labels of a
/// classifier, the dropout rates of an encoder and the dtype are replaced by the values of
/// `tuning`. config.json is written last, so a folder without it is incomplete. Requires that the
/// model classifies or embeds texts. Propagates errors of SaveMerged. Returns kIo if reading or
/// writing fails.
Status SaveModelFolder(const FineTuning& tuning, const Runner& runner,
                       const ModelFolder& folder);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_MERGED_MODEL_H_

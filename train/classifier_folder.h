#ifndef STOWAGE_TRAIN_CLASSIFIER_FOLDER_H_
#define STOWAGE_TRAIN_CLASSIFIER_FOLDER_H_

// A classifier of texts as Hugging Face's transformers keeps it: a folder with
// model.safetensors, config.json and the tokenizer, which
// AutoModelForSequenceClassification.from_pretrained loads.
//
//   Result<ClassifierFolder> folder =
//       ClassifierFolder::Claim("tuned", tuning.base(), "bert/tokenizer.json");
//   ...                                                        // training
//   Status saved = SaveClassifier(tuning, training.step(), *folder);

#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "nn/pretrained.h"
#include "runtime/session.h"
#include "train/fine_tuning.h"

namespace stowage {

/// The file of the weights in the folder of a classifier; "" for "".
std::string ClassifierWeightsPath(const std::string& folder);

/// The files that will be written.
class ClassifierFolder {
 public:
  /// Makes the folder if it is not there. The tokenizer is `tokenizer` with the files that go
  /// with one beside it, as tokenizer_config.json. Errors: kIo; OutputFile::Claim's;
  /// kInvalidArgument for a config.json that is no JSON object. Precondition: `base` is a
  /// classifier.
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
  std::string config_text_;                                 // of the base
  std::vector<std::pair<std::string, OutputFile>> copies_;  // by their sources
};

/// Writes the classifier of `runner`: its weights as SaveMerged does, the base's config.json
/// with the architecture, the names of the labels, the dropouts that it was trained with and
/// the type of the weights, and the files of the tokenizer. Errors: those of SaveMerged; kIo.
Status SaveClassifier(const FineTuning& tuning, const Runner& runner,
                      const ClassifierFolder& folder);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CLASSIFIER_FOLDER_H_

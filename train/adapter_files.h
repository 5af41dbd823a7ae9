#ifndef STOWAGE_TRAIN_ADAPTER_FILES_H_
#define STOWAGE_TRAIN_ADAPTER_FILES_H_

// Low-rank adapters as Hugging Face's PEFT keeps them: a folder with
// adapter_config.json and adapter_model.safetensors. What is written here, PEFT loads
// beside the same base, and the other way round.
//
//   Status saved = SaveAdapter(tuning, training.step(), *AdapterFiles::Claim("tuned"));
//   Result<LoraRules> rules = ReadAdapterRules("tuned");   // rank, alpha, targets
//   Status loaded = LoadAdapter(tuning, "tuned", training.step());
//
// train/merged_weights.h writes models with adapters merged, train/gguf_export.h adapters
// and models as GGUF files.

#include <string>

#include "base/files.h"
#include "base/result.h"
#include "runtime/session.h"
#include "train/adapter_rules.h"  // IWYU pragma: export
#include "train/fine_tuning.h"

namespace stowage {

/// The two files of an adapter that will be written.
class AdapterFiles {
 public:
  /// Makes the folder if it is not there. Errors: kIo; OutputFile::Claim's.
  static Result<AdapterFiles> Claim(const std::string& folder);

 private:
  friend Status SaveAdapter(const FineTuning&, const Runner&,
                            const AdapterFiles&);
  AdapterFiles(OutputFile config, OutputFile weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  OutputFile config_, weights_;
};

/// Writes the adapter of `runner`; one that began as PiSSA's as plain LoRA of twice the rank,
/// for the original base (train/lora_matrices.h). Of a classifier its head too, which PEFT
/// loads by modules_to_save. Precondition: the tuning has adapters. Errors: kIo;
/// kNotFinite, with the files untouched, where a weight is NaN or infinite.
Status SaveAdapter(const FineTuning& tuning, const Runner& runner,
                   const AdapterFiles& files);

/// Gives the adapter's params of `runner` the weights in `folder`. Errors: kNotFound,
/// kIo; kInvalidArgument for a tensor that is missing or of another shape, and for one
/// that no param takes, and for the labels of another classifier. A layer of a head that
/// the base has and the adapter does not keeps the base's weights. Whatever is wrong is known before the first is written; where the
/// file cannot be read then, the adapter has no values (AllOrNone in
/// runtime/check_programs.h).
Status LoadAdapter(const FineTuning& tuning, const std::string& folder,
                   Runner& runner);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_ADAPTER_FILES_H_

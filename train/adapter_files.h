#ifndef STOWAGE_TRAIN_ADAPTER_FILES_H_
#define STOWAGE_TRAIN_ADAPTER_FILES_H_

// Low-rank adapters in the format of Hugging Face's PEFT: a folder with adapter_config.json
// and adapter_model.safetensors. PEFT loads what this writes beside the same base model, and
// the other way round.
//
//   Status saved = SaveAdapter(tuning, training.step(), *AdapterFiles::Claim("tuned"));
//   Result<LoraRules> rules = ReadAdapterRules("tuned");   // rank, alpha, targets
//   Status loaded = LoadAdapter(tuning, "tuned", training.step());
//
// train/merged_model.h writes models with adapters merged, train/gguf_export.h adapters and
// models as GGUF files.

#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"
#include "nn/encoder.h"
#include "nn/lora.h"
#include "runtime/session.h"
#include "train/fine_tuning.h"

namespace stowage {

/// The paths of adapter_model.safetensors and adapter_config.json in a folder; "" for "".
std::string AdapterWeightsPath(const std::string& folder);
std::string AdapterConfigPath(const std::string& folder);

/// Reads adapter_config.json of `folder`. The targets are the layers that it lists by name,
/// whole or the suffix after a dot; if PEFT chose them by a regular expression, "all-linear",
/// exclusion or block numbers, the layers in the file of weights. With `classifier`, an
/// encoder that classifies texts, modules_to_save may list the layers of its head, and
/// "score", which PEFT always adds. Errors: kNotFound, kIo; kInvalidArgument for a file
/// without a rank or layers; kUnsupported, with its name, for anything but plain LoRA: other
/// kinds of adapters, modules_to_save, ranks by layer, biases, trained tokens or parameters,
/// aLoRA, QALoRA, BD-LoRA, MonteCLoRA, VeLoRA, KaSA, Arrow, and initializations that change
/// the base (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA).
Result<LoraRules> ReadAdapterRules(const std::string& folder,
                                   const EncoderNames* classifier = nullptr);

/// The two files of an adapter to write.
class AdapterFiles {
 public:
  /// Creates the folder if necessary. Errors: kIo; those of OutputFile::Claim.
  static Result<AdapterFiles> Claim(const std::string& folder);

 private:
  friend Status SaveAdapter(const FineTuning&, const Runner&,
                            const AdapterFiles&);
  AdapterFiles(OutputFile config, OutputFile weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  OutputFile config_, weights_;
};

/// Writes the adapter of `runner`. An adapter that began by PiSSA is written as plain LoRA of
/// twice the rank, for the original base (train/lora_weights.h). The head of a classifier is
/// included, for PEFT's modules_to_save. Errors: kIo; kNotFinite for a weight that is NaN or
/// infinite; the files are then unchanged. Precondition: the tuning has adapters.
Status SaveAdapter(const FineTuning& tuning, const Runner& runner,
                   const AdapterFiles& files);

/// Sets the adapter's params of `runner` to the weights in `folder`. Layers of a head that the
/// adapter lacks keep the base's weights. Errors: kNotFound, kIo; kInvalidArgument for a
/// tensor that is missing, of another shape or of no param, and for other labels of a
/// classifier. All checks precede the first write; if reading fails after that, the adapter
/// has no values (AllOrNone in runtime/values.h).
Status LoadAdapter(const FineTuning& tuning, const std::string& folder,
                   Runner& runner);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_ADAPTER_FILES_H_

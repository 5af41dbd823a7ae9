#ifndef STOWAGE_TRAIN_ADAPTER_FILES_H_
#define STOWAGE_TRAIN_ADAPTER_FILES_H_

// Reads and writes low-rank adapters in the format of Hugging Face's PEFT: a folder with
// adapter_config.json and adapter_model.safetensors. PEFT can load an adapter that SaveAdapter
// wrote, with the same base model. LoadAdapter can load an adapter that PEFT saved, unless
// ReadAdapterRules reports that it is not supported.
//
//   Status saved = SaveAdapter(tuning, training.step(), *AdapterFiles::Claim("tuned"));
//   Result<LoraRules> rules = ReadAdapterRules("tuned");   // rank, alpha, targets
//   Status loaded = LoadAdapter(tuning, "tuned", training.step());
//
// train/merged_model.h writes models with merged adapters. train/gguf_export.h writes adapters and
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

/// AdapterWeightsPath returns the path of adapter_model.safetensors in `folder`, and
/// AdapterConfigPath the path of adapter_config.json. Both return "" if `folder` is "".
std::string AdapterWeightsPath(const std::string& folder);
std::string AdapterConfigPath(const std::string& folder);

/// Reads the rules of an adapter from adapter_config.json in `folder`. The targets are the layers
/// that the config lists, by full name or by the last components of the name. If PEFT chose the
/// layers by a regular expression, "all-linear", an exclusion or block numbers, the targets are
/// instead the layers with an adapter in the file of weights. For a classifier, `classifier` must
/// be the names of the encoder. modules_to_save may then list the layers of its head, and "score",
/// which PEFT always adds.
///
/// Returns kNotFound or kIo if a file cannot be read. Returns kInvalidArgument if the config is not
/// JSON, if it lacks "r", "lora_alpha" or "target_modules", or if a value has the wrong type.
/// Returns kUnsupported, naming the feature, unless the adapter is LoRA, rsLoRA or DoRA. Not
/// supported are: other kinds of adapters, other modules_to_save, ranks by layer, biases, trained
/// tokens or parameters, aLoRA, QALoRA, BD-LoRA, MonteCLoRA, VeLoRA, KaSA, Arrow, and
/// initializations that change the base (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA).
Result<LoraRules> ReadAdapterRules(const std::string& folder,
                                   const EncoderNames* classifier = nullptr);

/// The two files of an adapter, claimed for writing.
class AdapterFiles {
 public:
  /// Creates `folder` if it does not exist, and claims the files (OutputFile in base/files.h).
  /// Returns kIo if the folder cannot be created. Propagates errors of OutputFile::Claim.
  static Result<AdapterFiles> Claim(const std::string& folder);

 private:
  friend Status SaveAdapter(const FineTuning&, const Runner&,
                            const AdapterFiles&);
  AdapterFiles(OutputFile config, OutputFile weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  OutputFile config_, weights_;
};

/// Writes the adapter of `runner`. An adapter that was initialized by PiSSA is written as a LoRA
/// adapter for the original base, with twice the rank (train/lora_weights.h). The head of a
/// classifier is written, too, and listed in PEFT's modules_to_save. Requires that the tuning has
/// adapters. Returns kNotFinite if a weight is NaN or infinite. The files are then unchanged.
/// Returns kIo if writing fails.
Status SaveAdapter(const FineTuning& tuning, const Runner& runner,
                   const AdapterFiles& files);

/// Sets the adapter's params of `runner` to the weights in `folder`. Requires that the tuning has
/// adapters. If the file lacks layers of a classifier's head that the base has, they keep the
/// base's weights. Returns kNotFound or kIo if the file cannot be read. Returns kInvalidArgument if
/// a tensor is missing, has another shape or belongs to no param, if a weight is not finite, or if
/// the file was saved with other labels of a classifier, another lora_alpha or another use_rslora.
/// Except for the check that weights are finite, all checks precede the first write. If an error
/// occurs after the first write, the adapter has no values (AllOrNone in runtime/values.h).
Status LoadAdapter(const FineTuning& tuning, const std::string& folder,
                   Runner& runner);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_ADAPTER_FILES_H_

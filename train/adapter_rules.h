#ifndef STOWAGE_TRAIN_ADAPTER_RULES_H_
#define STOWAGE_TRAIN_ADAPTER_RULES_H_

// The settings of an adapter in a folder of Hugging Face's PEFT: the layers that have one, its
// rank, and how much it counts.
//
//   Result<LoraRules> rules = ReadAdapterRules("tuned");
//   rules->rank, rules->alpha, rules->targets

#include <string>
#include <string_view>

#include "base/result.h"
#include "nn/encoder.h"
#include "nn/lora.h"

namespace stowage {

inline constexpr std::string_view kAdapterConfig = "adapter_config.json";
/// The beginning of PEFT's names of params, and the end of those of lora_A.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";
inline constexpr std::string_view kPeftDown = ".lora_A.weight";

/// The file of the weights in an adapter's folder, and the one that says how they count;
/// "" for "".
std::string AdapterWeightsPath(const std::string& folder);
std::string AdapterConfigPath(const std::string& folder);

/// What adapter_config.json of `folder` says. Its layers are those that it lists by name,
/// in whole or the end behind a dot. Where PEFT chose them in another way, by a regular
/// expression, "all-linear", layers left out or blocks by number, they are those that the
/// file of weights beside it has. Errors: kNotFound, kIo; kInvalidArgument for a file
/// without a rank or layers; kUnsupported, naming it, for what is no plain LoRA: another
/// kind of adapter, layers that are trained whole, ranks of their own, biases, single
/// tokens and bare parameters, aLoRA, QALoRA, BD-LoRA, MonteCLoRA, VeLoRA, KaSA, Arrow, a
/// start that changes the base (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA). Beside an
/// encoder that classifies texts, given as `classifier`, the layers of its head may be
/// trained whole, and "score", which PEFT names beside them whether or not it is there.
Result<LoraRules> ReadAdapterRules(const std::string& folder,
                                   const EncoderNames* classifier = nullptr);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_ADAPTER_RULES_H_

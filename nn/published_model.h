#ifndef STOWAGE_NN_PUBLISHED_MODEL_H_
#define STOWAGE_NN_PUBLISHED_MODEL_H_

// Reads the family and the settings of the model in a file of published weights.
//
//   Result<PublishedModel> model = DescribeModel(*WeightsFile::Open("Qwen2.5-0.5B"));
//   std::get<LlamaConfig>(model->config).kv_heads == 2
//
// All families of nn/llama.h are supported, in GGUF files and with a config.json. GPT-2 and the
// encoders of nn/encoder.h are supported only with a config.json. An encoder without a
// classification head has no labels. A value that the models here do not support, such as another
// activation or RoPE scaling, results in an error that names it. Keys of config.json that are not
// known here are ignored.

#include <string>
#include <variant>

#include "base/result.h"
#include "formats/weights_file.h"
#include "nn/encoder.h"
#include "nn/gpt.h"
#include "nn/llama.h"

namespace stowage {

struct PublishedModel {
  std::string family;  // LlamaFamily::name, "gpt2" or EncoderNames::family
  /// The config's name is the family. LlamaConfig::out_in is true, as in the files.
  std::variant<LlamaConfig, GptConfig, EncoderConfig> config;
  /// Whether the model is a decoder without a head, such as "Qwen3Model".
  bool is_bare = false;
  /// The dropouts of a decoder in config.json, such as "attn_pdrop 0.1, resid_pdrop 0.1", or "" if
  /// there are none. Graphs ignore them.
  std::string dropouts = {};
};

/// Returns the description of the model in `file`. Errors name the file and the value. Returns
/// kUnsupported for an unknown architecture or an unsupported setting, kInvalidArgument if the
/// description is missing, lacks a size or contradicts the tensors of the file, and kIo if reading
/// fails.
Result<PublishedModel> DescribeModel(const WeightsFile& file);

}  // namespace stowage

#endif  // STOWAGE_NN_PUBLISHED_MODEL_H_

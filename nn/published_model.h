#ifndef STOWAGE_NN_PUBLISHED_MODEL_H_
#define STOWAGE_NN_PUBLISHED_MODEL_H_

// Describes the model in a file of published weights: its family and its sizes.
//
//   Result<PublishedModel> model = DescribeModel(*WeightsFile::Open("Qwen2.5-0.5B"));
//   std::get<LlamaConfig>(model->config).kv_heads == 2
//
// All families of nn/llama.h are supported. If there is a config.json, GPT-2 and the encoders
// of nn/encoder.h are also supported. An encoder without a classification head has no labels. A
// setting that the models here do not support, such as another activation or RoPE scaling, is never
// ignored; it results in an error that names it.

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
  /// The config is named after the family. The weights of a Llama are laid out (out, in), as in the
  /// files.
  std::variant<LlamaConfig, GptConfig, EncoderConfig> config;
  /// True if the model is a decoder without a head, such as "Qwen3Model".
  bool is_bare = false;
  /// The dropouts in config.json, which graphs of language models ignore, such as "attn_pdrop 0.1,
  /// resid_pdrop 0.1". The string is empty if there are none.
  std::string dropouts = {};
};

/// Returns the description of the model. Errors name the file and the value. Returns kUnsupported
/// for an unknown architecture or an unsupported setting, kInvalidArgument if the description is
/// missing, lacks a size or contradicts the tensors of the file, and kIo if reading fails.
Result<PublishedModel> DescribeModel(const WeightsFile& file);

}  // namespace stowage

#endif  // STOWAGE_NN_PUBLISHED_MODEL_H_

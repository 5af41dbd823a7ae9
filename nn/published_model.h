#ifndef STOWAGE_NN_PUBLISHED_MODEL_H_
#define STOWAGE_NN_PUBLISHED_MODEL_H_

// The family and sizes of the model in a file of published weights.
//
//   Result<PublishedModel> model = DescribeModel(*WeightsFile::Open("Qwen2.5-0.5B"));
//   std::get<LlamaConfig>(model->config).kv_heads == 2
//
// The families are those of nn/llama.h and, by config.json, GPT-2 and the encoders of
// nn/encoder.h; an encoder without a classification head has no labels. A setting that the
// models here do not support, such as another activation or scaling of rope, is an error
// that names it and never ignored.

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
  /// The config's name is the family's. A Llama's weights are laid out (out, in), as in the
  /// files.
  std::variant<LlamaConfig, GptConfig, EncoderConfig> config;
  /// Whether the architecture is a decoder's without a head, such as "Qwen3Model".
  bool is_bare = false;
  /// Dropouts in config.json, which graphs of language models ignore: "attn_pdrop 0.1,
  /// resid_pdrop 0.1"; empty if there are none.
  std::string dropouts = {};
};

/// Errors, naming the file and the value: kUnsupported for another architecture or an
/// unsupported setting; kInvalidArgument for a description that is missing, lacks a size or
/// contradicts the file's tensors; kIo.
Result<PublishedModel> DescribeModel(const WeightsFile& file);

}  // namespace stowage

#endif  // STOWAGE_NN_PUBLISHED_MODEL_H_

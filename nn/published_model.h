#ifndef STOWAGE_NN_PUBLISHED_MODEL_H_
#define STOWAGE_NN_PUBLISHED_MODEL_H_

// What a file of published weights says of its model: the family, and its sizes.
//
//   Result<PublishedModel> model = DescribeModel(*WeightsFile::Open("Qwen2.5-0.5B"));
//   std::get<LlamaConfig>(model->config).kv_heads == 2
//
// The families are those of nn/llama_families.h and, of config.json, GPT-2 and the encoders
// of nn/encoder.h, which have no labels where the file has no head for them. What such a
// model has that ours cannot do, be it another activation or another way of
// scaling rope, is an error that names it and never passed over.

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
  /// Of the family's name. A Llama's weights are (out, in), as the files have them.
  std::variant<LlamaConfig, GptConfig, EncoderConfig> config;
  /// Dropouts by which config.json trains it, which graphs of language models do not
  /// have: "attn_pdrop 0.1, resid_pdrop 0.1"; empty where there are none.
  std::string dropouts = {};
};

/// Errors, naming the file and the value: kUnsupported for another architecture and for
/// what ours cannot do; kInvalidArgument for a description that is absent, lacks a size
/// or contradicts the file's tensors; kIo.
Result<PublishedModel> DescribeModel(const WeightsFile& file);

}  // namespace stowage

#endif  // STOWAGE_NN_PUBLISHED_MODEL_H_

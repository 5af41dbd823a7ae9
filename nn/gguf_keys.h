#ifndef STOWAGE_NN_GGUF_KEYS_H_
#define STOWAGE_NN_GGUF_KEYS_H_

// What describes a published model in a GGUF file: the keys of its architecture, and the
// tensors of factors of rope, as llama.cpp's converter of Hugging Face's folders has them.
//
//   STOWAGE_RETURN_IF_ERROR(AddGgufKeys(model, &metadata));

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "nn/pretrained.h"

namespace stowage {

/// Sets the keys of the architecture, of a model that config.json describes. Errors
/// kUnsupported, naming it, for what GGUF files of the architecture cannot say.
Status AddGgufKeys(const PretrainedModel& model, GgufMetadata* metadata);

struct GgufFactors {
  std::string tensor;  // "rope_freqs.weight"
  std::vector<float> numbers;
};
/// Of a model that config.json describes, the tensors of factors by which pairs of a head
/// turn slower: Llama 3's, or LongRoPE's two.
std::vector<GgufFactors> RopeFactorsInGguf(const PretrainedModel& model);

}  // namespace stowage

#endif  // STOWAGE_NN_GGUF_KEYS_H_

#ifndef STOWAGE_NN_GGUF_FORM_H_
#define STOWAGE_NN_GGUF_FORM_H_

// How a published model is written as a GGUF file: what its tensors are called there, and of
// which types they are, as llama.cpp's converter of Hugging Face's folders and its quantizer
// have them.
//
//   GgufName(model, "model.layers.0.mlp.down_proj.weight") == "blk.0.ffn_down.weight"
//   STOWAGE_ASSIGN_OR_RETURN(const GgufMix mix, ParseGgufMix("q4_k_m"));
//   TypeInMix(mix, {.layers = 32}, "blk.0.ffn_down.weight", {4096, 14336});  // Q6_K

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"
#include "nn/published_model.h"

namespace stowage {

/// What a GGUF file calls a param of a model.
std::string GgufName(const PublishedModel& model, std::string_view param);

/// Whether GGUF files hold the transpose of this param's matrix: those of GPT-2's layers,
/// which are (in, out) in Hugging Face's.
bool IsTransposedInGguf(const PublishedModel& model, std::string_view param);

/// A type for a model's matrices, or a mix of some, by llama.cpp's names.
struct GgufMix {
  std::string_view name;                // "q4_k_m"
  WeightType usual = WeightType::kF32;  // of most matrices
  uint32_t file_type = 0;               // "general.file_type"
};

/// The mix of that name. Error kInvalidArgument, with the names that there are.
Result<GgufMix> ParseGgufMix(std::string_view name);

/// What decides the types of a mix beside a tensor itself.
struct GgufMixFacts {
  int64_t layers = 1;
  bool tied_head = false;
  /// Of llama.cpp's "70B" models, where eight heads share keys and values.
  bool is_70b = false;
};
GgufMixFacts MixFactsOf(const PublishedModel& model);

/// Whether a mix decides the type of a tensor: matrices called "weight" but norms and
/// learned positions.
bool IsInMix(std::string_view tensor, const Shape& shape);

/// The type of such a tensor, as llama.cpp's quantizer chooses it without an importance
/// matrix: a head, or an embedding tied to it, in Q6_K or Q8_0; values and the last matrix
/// of the feed-forward part in more bits in some layers of the mixes _s and _m; where rows
/// are not whole blocks, a type of smaller blocks.
WeightType TypeInMix(const GgufMix& mix, const GgufMixFacts& facts,
                     std::string_view tensor, const Shape& shape);

}  // namespace stowage

#endif  // STOWAGE_NN_GGUF_FORM_H_

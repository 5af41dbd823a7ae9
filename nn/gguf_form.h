#ifndef STOWAGE_NN_GGUF_FORM_H_
#define STOWAGE_NN_GGUF_FORM_H_

// The form of a published model in a GGUF file, as written by llama.cpp's converter of
// Hugging Face folders and its quantizer: names, row orders and types of tensors, and the
// metadata of the architecture.
//
//   GgufName(model, "model.layers.0.mlp.down_proj.weight") == "blk.0.ffn_down.weight"
//   STOWAGE_ASSIGN_OR_RETURN(const GgufMix mix, ParseGgufMix("q4_k_m"));
//   TypeInMix(mix, {.layers = 32}, "blk.0.ffn_down.weight", {4096, 14336});  // Q6_K
//   STOWAGE_RETURN_IF_ERROR(AddGgufKeys(model, &metadata));

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"
#include "nn/published_model.h"

namespace stowage {

class PretrainedModel;  // nn/pretrained.h

/// The name of a model's param in GGUF files.
std::string GgufName(const PublishedModel& model, std::string_view param);

/// Returns whether GGUF files hold the transpose of this param's matrix: of GPT-2's layers,
/// which are (in, out) in Hugging Face's files.
bool IsTransposedInGguf(const PublishedModel& model, std::string_view param);

/// A type or mix of types for a model's matrices, by llama.cpp's names.
struct GgufMix {
  std::string_view name;                // "q4_k_m"
  WeightType usual = WeightType::kF32;  // of most matrices
  uint32_t file_type = 0;               // "general.file_type"
};

/// The mix of that name. Error kInvalidArgument, listing the names.
Result<GgufMix> ParseGgufMix(std::string_view name);

/// Properties of a model that the types of a mix depend on.
struct GgufMixFacts {
  int64_t layers = 1;
  bool tied_head = false;
  /// True for llama.cpp's "70B" models, in which eight heads share keys and values.
  bool is_70b = false;
};
GgufMixFacts MixFactsOf(const PublishedModel& model);

/// Returns whether a mix determines the type of a tensor: a matrix called "weight" other
/// than norms and learned positions.
bool IsInMix(std::string_view tensor, const Shape& shape);

/// The type of such a tensor, as chosen by llama.cpp's quantizer without an importance
/// matrix: Q6_K or Q8_0 for the head or an embedding tied to it; more bits for value and
/// down projections in some layers of the mixes _s and _m; a type of smaller blocks if rows
/// are not whole blocks.
WeightType TypeInMix(const GgufMix& mix, const GgufMixFacts& facts,
                     std::string_view tensor, const Shape& shape);

/// The rows of a param in a GGUF file, if they differ from Hugging Face's in order or by an
/// added constant.
///
///   const GgufRows rows = GgufRowsOf(model, "model.layers.0.self_attn.q_proj.weight");
///   rows.RowOfFile(1, /*rows=*/32)   // of heads of 8 whose pairs are adjacent: 2
struct GgufRows {
  /// Rows of a head, if the two rows of a rotary pair are adjacent in the file and half a
  /// head apart in the model; else 0.
  int64_t paired = 0;
  /// Rows of a head's query, if the model groups query, key and value by head and the file
  /// has all queries, all keys, all values; else 0.
  int64_t head_by_head = 0;
  /// The file's numbers minus the model's.
  float added = 0;

  bool in_order() const { return paired == 0 && head_by_head == 0; }

  // The index of a row of one in the other, of `rows` rows.
  int64_t RowOfFile(int64_t row_of_model, int64_t rows) const;
  int64_t RowOfModel(int64_t row_of_file, int64_t rows) const;
};

GgufRows GgufRowsOf(const PublishedModel& model, std::string_view param);

/// Sets the metadata of the architecture for a model described by config.json. Error
/// kUnsupported, naming the setting, if GGUF files of the architecture cannot express it.
Status AddGgufKeys(const PretrainedModel& model, GgufMetadata* metadata);

struct GgufFactors {
  std::string tensor;  // "rope_freqs.weight"
  std::vector<float> numbers;
};
/// The tensors of rotary frequency divisors for a model described by config.json: Llama 3's,
/// or LongRoPE's two.
std::vector<GgufFactors> RopeFactorsInGguf(const PretrainedModel& model);

}  // namespace stowage

#endif  // STOWAGE_NN_GGUF_FORM_H_

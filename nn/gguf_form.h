#ifndef STOWAGE_NN_GGUF_FORM_H_
#define STOWAGE_NN_GGUF_FORM_H_

// Maps a published model to its representation in a GGUF file, as written by llama.cpp's converter
// of Hugging Face folders and by its quantizer. The mapping covers names, row orders and types of
// tensors, and the metadata of the architecture.
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

/// Returns the name of a model's param in GGUF files.
std::string GgufName(const PublishedModel& model, std::string_view param);

/// Returns whether GGUF files hold the transpose of this param's matrix. This is the case for
/// GPT-2's linear layers, which are (in, out) in Hugging Face's files.
bool IsTransposedInGguf(const PublishedModel& model, std::string_view param);

/// A type, or a mix of types, for a model's matrices, named as in llama.cpp.
struct GgufMix {
  std::string_view name;                // "q4_k_m"
  WeightType usual = WeightType::kF32;  // the type of most matrices
  uint32_t file_type = 0;               // "general.file_type"
};

/// Returns the mix named `name`. Returns kInvalidArgument, listing the names, if there is none.
Result<GgufMix> ParseGgufMix(std::string_view name);

/// Properties of a model that the types of a mix depend on.
struct GgufMixFacts {
  int64_t layers = 1;
  bool tied_head = false;
  /// True if llama.cpp considers it a "70B" model, in which eight heads share keys and values.
  bool is_70b = false;
};
GgufMixFacts MixFactsOf(const PublishedModel& model);

/// Returns whether a mix determines the type of a tensor: a matrix named "weight" that is not a
/// norm, a router of experts or a position embedding.
bool IsInMix(std::string_view tensor, const Shape& shape);

/// Returns the type of a tensor for which IsInMix is true, as llama.cpp's quantizer chooses it
/// without an importance matrix. The head, or an embedding tied to it, is Q6_K or Q8_0. Value and
/// down projections have more bits in some layers of the mixes q4_k_s, q4_k_m and q5_k_m. If a
/// row is not a multiple of the type's block, a type of smaller blocks or F16 replaces it. The
/// mixes f32, f16 and bf16 use a single type.
WeightType TypeInMix(const GgufMix& mix, const GgufMixFacts& facts,
                     std::string_view tensor, const Shape& shape);

/// How the rows of a param in a GGUF file differ from the rows in Hugging Face's file: in their
/// order, or by an added constant.
///
///   const GgufRows rows = GgufRowsOf(model, "model.layers.0.self_attn.q_proj.weight");
///   rows.RowOfFile(1, /*rows=*/32)   // 2, for heads of 8 rows whose pairs are adjacent
struct GgufRows {
  /// The number of rows of a head if the two rows of a rotary pair are adjacent in the file and
  /// half a head apart in the model, and 0 otherwise.
  int64_t paired = 0;
  /// The number of rows of a head's query if the model groups query, key and value by head, while
  /// the file has all queries, then all keys, then all values. 0 otherwise.
  int64_t head_by_head = 0;
  /// The constant by which the file's values exceed the model's.
  float added = 0;

  bool in_order() const { return paired == 0 && head_by_head == 0; }

  // Convert the index of a row between model and file, for a param of `rows` rows.
  int64_t RowOfFile(int64_t row_of_model, int64_t rows) const;
  int64_t RowOfModel(int64_t row_of_file, int64_t rows) const;
};

GgufRows GgufRowsOf(const PublishedModel& model, std::string_view param);

/// Sets the metadata of the architecture for a model described by a config.json. Returns
/// kUnsupported, naming the setting, if GGUF files of the architecture cannot express a setting.
Status AddGgufKeys(const PretrainedModel& model, GgufMetadata* metadata);

struct GgufFactors {
  std::string tensor;  // "rope_freqs.weight"
  std::vector<float> numbers;
};
/// Returns the tensors of rotary frequency divisors for a model described by a config.json: one for
/// Llama 3's scaling, two for LongRoPE, and none otherwise.
std::vector<GgufFactors> RopeFactorsInGguf(const PretrainedModel& model);

}  // namespace stowage

#endif  // STOWAGE_NN_GGUF_FORM_H_

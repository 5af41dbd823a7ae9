#ifndef STOWAGE_NN_GGUF_FORM_H_
#define STOWAGE_NN_GGUF_FORM_H_

// Maps a published decoder to its representation in GGUF files. The representation is the one that
// llama.cpp's converter of Hugging Face folders and its quantizer write. The mapping covers the
// names, row orders and types of tensors, and the metadata of the architecture.
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

/// Returns the name in GGUF files of `param`, which must be a param of `model`.
std::string GgufName(const PublishedModel& model, std::string_view param);

/// Returns whether GGUF files contain the transpose of this param's matrix. This is the case for
/// GPT-2's linear layers, which are laid out (in, out) in Hugging Face's files.
bool IsTransposedInGguf(const PublishedModel& model, std::string_view param);

/// A mix of types for the matrices of a model, named as in llama.cpp. Some mixes consist of a
/// single type.
struct GgufMix {
  std::string_view name;                // "q4_k_m"
  WeightType usual = WeightType::kF32;  // the type of most matrices
  uint32_t file_type = 0;               // "general.file_type"
};

/// Returns the mix named `name`. Returns kInvalidArgument, listing the names, if there is no such
/// mix.
Result<GgufMix> ParseGgufMix(std::string_view name);

/// The properties of a model on which TypeInMix depends.
struct GgufMixFacts {
  int64_t layers = 1;
  bool tied_head = false;
  /// Whether llama.cpp considers the model a "70B" model: 80 layers of a suitable architecture, in
  /// which eight heads share keys and values.
  bool is_70b = false;
};
GgufMixFacts MixFactsOf(const PublishedModel& model);

/// Returns whether a mix determines the type of a tensor. This is the case for a tensor of two or
/// more dimensions whose name ends in "weight", unless it is a router of experts or a position
/// embedding. Other tensors are f32.
bool IsInMix(std::string_view tensor, const Shape& shape);

/// Returns the type of a tensor for which IsInMix is true, as llama.cpp's quantizer chooses it
/// without an importance matrix. The head, or an embedding tied to it, is Q6_K or Q8_0. In the
/// mixes q4_k_s, q4_k_m and q5_k_m, the value and down projections of some layers have a type of
/// more bits. If the row size is not a multiple of the type's block size, the result is instead a
/// type with smaller blocks, or F16. The mixes f32, f16 and bf16 use a single type.
WeightType TypeInMix(const GgufMix& mix, const GgufMixFacts& facts,
                     std::string_view tensor, const Shape& shape);

/// The differences between the rows of a param in a GGUF file and in Hugging Face's file: another
/// order, or an added constant.
///
///   const GgufRows rows = GgufRowsOf(model, "model.layers.0.self_attn.q_proj.weight");
///   rows.RowOfFile(1, /*rows=*/32)   // 2, for heads of 8 rows whose pairs are adjacent
struct GgufRows {
  /// The number of rows of a head if the two rows of a rotary pair are adjacent in the GGUF file,
  /// while they are half a head apart in the model. 0 otherwise.
  int64_t paired = 0;
  /// The number of rows of a head's query if the model groups query, key and value by head, while
  /// the GGUF file has all queries, then all keys, then all values. 0 otherwise.
  int64_t head_by_head = 0;
  /// The constant that is added to the model's values in the GGUF file.
  float added = 0;

  bool in_order() const { return paired == 0 && head_by_head == 0; }

  // RowOfFile returns the index in the GGUF file of a row of the model, and RowOfModel the inverse,
  // for a param of `rows` rows.
  int64_t RowOfFile(int64_t row_of_model, int64_t rows) const;
  int64_t RowOfModel(int64_t row_of_file, int64_t rows) const;
};

/// Returns the differences for `param`, a param of `model`.
GgufRows GgufRowsOf(const PublishedModel& model, std::string_view param);

/// Adds the keys of the model's architecture to `metadata`. `model` must be a decoder with a
/// config.json. Returns kUnsupported, naming the setting, if GGUF files of the architecture cannot
/// express a setting of the model.
Status AddGgufKeys(const PretrainedModel& model, GgufMetadata* metadata);

struct GgufFactors {
  std::string tensor;  // "rope_freqs.weight"
  std::vector<float> numbers;
};
/// Returns the tensors of rotary frequency divisors (nn/rope_scaling.h) that a GGUF file of `model`
/// has in addition to the weights: one for Llama 3's scaling, two for LongRoPE, and none for other
/// scalings or if the model has no config.json.
std::vector<GgufFactors> RopeFactorsInGguf(const PretrainedModel& model);

}  // namespace stowage

#endif  // STOWAGE_NN_GGUF_FORM_H_

#ifndef STOWAGE_NN_LLAMA_H_
#define STOWAGE_NN_LLAMA_H_

// Llama (Touvron et al. 2023) at any size: token embedding, pre-norm blocks of causal
// attention with rotary positions, whose keys and values serve several heads each, and
// of a gated feed-forward part, a last norm, an output layer of its own or the
// embedding transposed. Norms have no mean, and nothing has a bias, unless the config
// says so: Mistral (Jiang et al. 2023), Qwen 2 and 3 (Yang et al. 2024, 2025) and Llama
// 3 are the same but for a few of its fields, which nn/pretrained.h takes from files.
//
// Params carry the names of Hugging Face's models: "model.embed_tokens.weight"
// (vocabulary, width), "model.layers.<i>.self_attn.q_proj.weight" (width, width), ...,
// "model.norm.weight", "lm_head.weight" (vocabulary, width). As everywhere here, a
// linear layer's weight is (in, out), where theirs is (out, in), unless `out_in` asks
// for theirs; the head, which is looked at by rows as the embedding is, lies as theirs.
//
//   Result<Graph> graph = BuildLlama({.name = "tiny", .layers = 2, .heads = 4,
//                                     .kv_heads = 2, .width = 32, .hidden = 88,
//                                     .vocabulary = 40, .max_seq = 24},
//                                    ModelPurpose::kTrain, {.batch = 3, .seq = 16});

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

// Rotary positions for texts longer than those that a model first learned from: some
// pairs of elements of a head turn slower than rope's base has them turn. Llama 3.1
// divides the turns of pairs whose wavelength is long by a factor, those of short ones
// by 1, and those between by something between (Grattafiori et al. 2024); YaRN says
// otherwise which are between, and makes queries and keys longer (Peng et al. 2023). The
// formulas are Hugging Face's, modeling_rope_utils.py.
//
// The op `rope` knows a base and nothing else; here, cosines and sines are constants of
// the graph, computed in double, and turn the halves of a head by products.
//
//   const std::vector<double> factors = Llama3RopeFactors(128, 500000, {});
//   const RopeTable turns = ScaledRopeTable(g, /*positions=*/2048, 128, 500000, factors,
//                                           /*gain=*/1);
//   const Value turned = Rope(q, turns);

struct Llama3RopeScaling {
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_positions = 8192;
};
/// Error kInvalidArgument, naming it, unless all numbers are finite and above 0, and the
/// high frequency factor above the low one.
Status CheckLlama3Rope(const Llama3RopeScaling& scaling);
/// By how much slower each of the `dims` / 2 pairs turns. Precondition: CheckLlama3Rope.
std::vector<double> Llama3RopeFactors(int64_t dims, double base,
                                      const Llama3RopeScaling& scaling);

struct YarnRopeScaling {
  double factor = 1;
  double original_positions = 32768;
  double fast_turns = 32;  // in these positions: pairs that turn as often stay
  double slow_turns =
      1;  // and those that turn no oftener are divided by the factor
  bool truncate = true;  // the bounds between them to whole pairs
};
/// Error kInvalidArgument, naming it, unless all numbers are finite and above 0.
Status CheckYarn(const YarnRopeScaling& scaling);
/// By how much slower each of the `dims` / 2 pairs turns. Precondition: CheckYarn.
std::vector<double> YarnRopeFactors(int64_t dims, double base,
                                    const YarnRopeScaling& scaling);
/// By how much longer YaRN makes queries and keys: 1 + weight ln(factor) / 10.
double YarnGain(double factor, double weight = 1);

/// Error kInvalidArgument unless there are none, or dims / 2, all finite and above 0.
Status CheckRopeFactors(std::string_view model, int64_t dims,
                        std::span<const double> factors);

struct RopeTable {
  Value cos, sin;  // f32 (positions, 1, dims / 2)
};
/// Pair i turns by position * base^(-2i / dims) / factors[i], and becomes `gain` times as
/// long. Precondition: the factors are dims / 2.
RopeTable ScaledRopeTable(GraphBuilder& g, int64_t positions, int64_t dims,
                          double base, std::span<const double> factors,
                          double gain, SourceLoc loc = SourceLoc::Current());

/// The rows of some positions, i32 (T), of which each is one of the table's.
RopeTable RowsOf(const RopeTable& table, Value positions,
                 SourceLoc loc = SourceLoc::Current());

/// x (B, T, H, dims) with pairs of elements i and i + dims / 2 turned, for a table of T
/// positions. Computed in f32 and rounded to x's type.
Value Rope(Value x, const RopeTable& table,
           SourceLoc loc = SourceLoc::Current());

struct LlamaConfig {
  std::string name;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;  // of keys and values; they divide the heads
  int64_t width = 1;
  int64_t hidden = 1;  // of the feed-forward part
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  double rope_base = 10000;
  double eps = 1e-5;
  bool tied_head = false;
  int64_t head_size = 0;  // elements of a head; 0 for width / heads
  /// Keys that a query reads, itself included; 0 for all before it.
  int64_t window = 0;
  bool qkv_bias = false;  // of the projections to queries, keys and values
  bool out_bias = false;  // of the projection behind attention
  bool mlp_bias = false;  // of the feed-forward part
  /// Queries and keys of each head are normalized before they turn, by params
  /// "model.layers.<i>.self_attn.q_norm.weight" (head_size) and "k_norm.weight".
  bool qk_norm = false;
  /// Of a pair of elements of a head, by how much slower it turns; empty for none
  /// (nn/llama.h).
  std::vector<double> rope_factors = {};
  double rope_gain =
      1;  // how much longer queries and keys become, where they turn so
  bool out_in = false;  // linear layers' weights lie (out, in)
};

/// The graph of a Llama, with the inputs, outputs, dropout and chunks of logits of
/// nn/gpt.h. Initial values are normal with deviation 0.02, those of projections into
/// the residual stream with 0.02 / sqrt(2 layers). Errors: batch or seq absent, below 1,
/// or seq above max_seq; a size of `config` below 1; an odd head_size, heads that do not
/// divide the width where none is given, kv_heads that do not divide the heads; a
/// negative window; rope_factors that are not one positive number a pair, a rope_gain that is none; dropout outside
/// [0, 1); an integer dtype; a negative logit_chunk.
Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options);

/// Elements of all params of that Llama: with width C, vocabulary V, hidden F, and Q and
/// K elements of the queries and keys of a token, V C (twice if the head is not tied) +
/// layers (2 C Q + 2 C K + 3 C F + 2 C) + C, and what biases and norms of heads have.
int64_t LlamaParameterCount(const LlamaConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_H_

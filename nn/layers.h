#ifndef STOWAGE_NN_LAYERS_H_
#define STOWAGE_NN_LAYERS_H_

// Layers: functions over the IR that declare their own params.
//
// A layer takes its input and a name. The name prefixes the layer's params and is the name
// of its result: `Linear(x, "fc1", 128)` declares "fc1.weight" and "fc1.bias", and its
// result is "fc1" in error messages, plans and checkpoints. The param names of the
// transformer layers are those of GPT-2, those of the gated ones Hugging Face's.
//
// Weights of linear layers are laid out (in, out), so that y = x W + b needs no
// transposition; PyTorch's nn.Linear holds the transposed matrix.
//
//   GraphBuilder g("classifier");
//   Value x = g.Input("x", DType::kF32, {32, 64});
//   Value logits = Linear(Relu(Linear(x, "fc1", 128)), "fc2", 10);
//
// Params take their element type from the layer's input.

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/model_options.h"

namespace stowage {

// Initial values of weights, by fan-in and fan-out: the dimensions of a linear layer's
// (in, out), times the size of the window for a convolution's. Init (ir/graph.h) also has
// the truncated normal and the orthogonal.
//
//   Linear(x, "fc", 128, {.init = KaimingNormal(64)});

/// The gain of relu.
inline constexpr double kReluGain = std::numbers::sqrt2;

/// Preserves the variance of activations (He et al. 2015); PyTorch's kaiming_normal_ and
/// kaiming_uniform_. Precondition: fan_in >= 1.
inline Init KaimingNormal(int64_t fan_in, double gain = kReluGain) {
  return Init::Normal(gain / std::sqrt(static_cast<double>(fan_in)));
}
inline Init KaimingUniform(int64_t fan_in, double gain = kReluGain) {
  return Init::Uniform(gain * std::sqrt(3 / static_cast<double>(fan_in)));
}

/// Balances the variance of activations and gradients (Glorot & Bengio 2010); PyTorch's
/// xavier_normal_ and xavier_uniform_. Precondition: fans of at least 1.
inline Init XavierNormal(int64_t fan_in, int64_t fan_out, double gain = 1) {
  return Init::Normal(gain *
                      std::sqrt(2 / static_cast<double>(fan_in + fan_out)));
}
inline Init XavierUniform(int64_t fan_in, int64_t fan_out, double gain = 1) {
  return Init::Uniform(gain *
                       std::sqrt(6 / static_cast<double>(fan_in + fan_out)));
}

struct LinearOptions {
  bool bias = true;
  Init init = Init::Normal(0.02);  // of the weight; the bias starts at zero
  /// The weight is laid out (out, in), as in PyTorch.
  bool out_in = false;
};

/// x (..., in) -> x W + b (..., out). Params "<name>.weight" (in, out) and,
/// with bias, "<name>.bias" (out).
Value Linear(Value x, std::string_view name, int64_t out_features,
             const LinearOptions& options = {},
             SourceLoc loc = SourceLoc::Current());

/// Normalizes the last axis of x (..., C). Params "<name>.weight" (C), ones at
/// first, and "<name>.bias" (C), zeros.
Value LayerNorm(Value x, std::string_view name, double eps = 1e-5,
                SourceLoc loc = SourceLoc::Current());

// Convolutions over x (N, C, spatial...) of 1 to 3 spatial dimensions. Weights are laid out as
// in PyTorch, (out, in / groups, kernel...), or (in, out, kernel...) if transposed.
//
//   Value h = Conv(x, "conv1", 64, {.kernel = 7, .stride = 2, .padding = 3});
//   h = Relu(BatchNorm(h, "bn1"));

struct ConvLayerOptions {
  EachDimension kernel = 3;
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  bool bias = false;              // batch norm, which usually follows, has one
  std::optional<Init> init = {};  // of the weight, in place of Conv's
};

/// x (N, C, in...) -> (N, channels, out...). Params "<name>.weight", initially normal with
/// deviation sqrt(2 / (channels * kernel / groups)) (He et al. 2015, fan-out, as torchvision),
/// and, with bias, "<name>.bias" (channels), zeros. Errors: those of the op (ir/ops.h);
/// channels that are not a multiple of the groups.
Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct ConvTransposeLayerOptions {
  EachDimension kernel = 2;
  EachDimension stride = 2;
  bool bias = false;
};

/// x (N, C, in...) -> (N, channels, (in - 1) * stride + kernel...): an up-convolution.
/// Params "<name>.weight", initially normal with deviation sqrt(2 / n) for the n = C * kernel /
/// stride terms of a result, and, with bias, "<name>.bias" (channels), zeros. Errors: those of the op; channels below 1.
Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options = {},
                    SourceLoc loc = SourceLoc::Current());

struct BatchNormOptions {
  /// Normalizes by the batch's statistics and updates the running ones; false: normalizes
  /// by the running statistics.
  bool training = true;
  double eps = 1e-5;
  double momentum = 0.1;  // of a batch in the running statistics, as PyTorch's
};

/// Normalizes each channel of x (N, C, ...). Params "<name>.weight" (C), ones at
/// first, and "<name>.bias" (C), zeros; states "<name>.running_mean" (C), zeros, and
/// "<name>.running_var" (C), ones, as in PyTorch: the running variance is unbiased. With
/// micro-batches, each has its own statistics.
Value BatchNorm(Value x, std::string_view name,
                const BatchNormOptions& options = {},
                SourceLoc loc = SourceLoc::Current());

struct EmbeddingResults {
  Value rows;   // indices' shape + (width)
  Value table;  // the param, for models that tie their output layer to it
};

/// Row indices[i] of a table (rows, width), normal with deviation 0.02 at
/// first, for indices of i32 or i64 in [0, rows). The param is called `name`.
EmbeddingResults Embedding(Value indices, std::string_view name, int64_t rows,
                           int64_t width, DType dtype,
                           SourceLoc loc = SourceLoc::Current());

/// The dropouts of one model, numbered so that each draws different elements. seed and step
/// are i64 scalars.
class Dropouts {
 public:
  /// No dropout: Apply returns its argument.
  Dropouts() = default;
  /// The first one has the number `first`.
  Dropouts(Value seed, Value step, double p, int64_t first = 0)
      : seed_(seed), step_(step), p_(p), next_id_(first) {}

  Value Apply(Value x, SourceLoc loc = SourceLoc::Current());
  /// At another rate than p, 0 for none.
  Value ApplyAt(double rate, Value x, SourceLoc loc = SourceLoc::Current());

 private:
  Value seed_, step_;
  double p_ = 0;
  int64_t next_id_ = 0;
};

/// Caches of keys and values for generation: each run of a program reads the next tokens of a
/// text and appends their keys and values to caches (Role::kCache), which later runs attend
/// to. Programs for one token and for many can share them.
///
///   KvCache cache(g, /*batch=*/1, /*count=*/1, /*positions=*/1024);
///   q = Rope(q, cache.token_positions());
///   k = Rope(k, cache.token_positions());
///   Value attended = cache.Attend(q, k, v, "h.0.attn");
///
/// The input "position" is the number of tokens read before. Cache entries from there on are
/// ignored, so a smaller position goes back in the text.
class KvCache {
 public:
  /// For runs that read `count` tokens of each of `batch` texts of at most `positions`
  /// tokens; all are at least 1. Declares the input "position", an i32 scalar; a step with
  /// one above positions - count fails with kIndexOutOfRange.
  KvCache(GraphBuilder& g, int64_t batch, int64_t count, int64_t positions,
          SourceLoc loc = SourceLoc::Current());

  /// The positions of the run's tokens in their texts: i32 (count).
  Value token_positions() const { return token_positions_; }

  /// Causal attention of q (B, count, H, D) to k and v (B, count, G, D) and to all earlier
  /// ones, with the scale, window and softcap of `options`, whose other fields are ignored.
  /// Stores keys and values in the caches "<name>.keys" and "<name>.values"
  /// (B, positions, G, D), of k's and v's types. Errors: k or v that are not
  /// (B, count, G, D); those of Attention.
  Value Attend(Value q, Value k, Value v, std::string_view name,
               const AttentionOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

 private:
  Value Keep(Value now, std::string_view name, SourceLoc loc);
  Value Mask(DType dtype, int64_t window, SourceLoc loc);

  GraphBuilder& g_;
  int64_t batch_, count_, positions_;
  Value position_;         // of the first token
  Value token_positions_;  // of all
  Value lengths_;          // of the texts, including these tokens: i32 (B)
  // By window; shared by layers.
  std::map<int64_t, Value> masks_;
};

struct TransformerOptions {
  int64_t heads = 1;
  /// Of the two projections that end in the residual stream.
  Init projection_init = Init::Normal(0.02);
  Dropouts* dropouts = nullptr;  // after each of these projections
  KvCache* cache = nullptr;      // for generation; null: none
  Value segments = {};           // AttentionOptions::segments
};

/// x (B, T, C) -> (B, T, C): queries, keys and values from one linear layer
/// "<name>.c_attn" (C, 3C), split into views (B, T, H, C / H); causal attention, through
/// the cache if there is one; the projection "<name>.c_proj" (C, C). Error: C is not a
/// multiple of the heads.
Value CausalSelfAttention(Value x, std::string_view name,
                          const TransformerOptions& options,
                          SourceLoc loc = SourceLoc::Current());

struct MultiHeadAttentionOptions {
  int64_t heads = 1;
  int64_t groups =
      0;  // of heads that share keys and values; 0: each has its own
  bool causal = false;  // ir/ops.h
  /// Added to the scores of (B, heads, T, T), as AttentionOptions::bias is.
  Value bias = {};
  Value segments = {};  // AttentionOptions::segments
};

/// x (B, T, C) -> (B, T, C): queries, keys and values from one linear layer
/// "<name>.in_proj" (C, C + 2 groups C / heads), split into views in this order, each head
/// attending to its group; then "<name>.out_proj" (C, C). The names are those of PyTorch's
/// MultiheadAttention, whose in_proj_weight is a layer here; weights are (in, out). Weights
/// are initially normal with deviation 0.02. Errors: C is not a multiple of the heads, or
/// these of the groups.
Value MultiHeadAttention(Value x, std::string_view name,
                         const MultiHeadAttentionOptions& options,
                         SourceLoc loc = SourceLoc::Current());

/// x (B, T, C) -> (B, T, C), one pre-norm block of GPT-2:
/// h = x + attention(norm(x)); h + mlp(norm(h)), where mlp has 4C hidden units and the tanh
/// form of GELU. Params of "<name>.ln_1", "<name>.attn",
/// "<name>.ln_2", "<name>.mlp.c_fc", "<name>.mlp.c_proj".
Value TransformerBlock(Value x, std::string_view name,
                       const TransformerOptions& options,
                       SourceLoc loc = SourceLoc::Current());

struct GatedMlpOptions {
  GluActivation activation = GluActivation::kSilu;
  bool side_by_side = false;  // gate and up projection in one layer
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // of the projection back
  bool bias = false;                    // of all layers
  bool out_in = false;                  // LinearOptions'
};

/// The gated feed-forward part of a transformer block (Shazeer 2020):
/// x (..., C) -> (activation(x Wg) * (x Wu)) Wd. Params "<name>.gate_proj.weight" and
/// "<name>.up_proj.weight" (C, hidden), or both side by side in
/// "<name>.gate_up_proj.weight" (C, 2 hidden), "<name>.down_proj.weight" (hidden, C), and
/// optional biases of the same names. Backward saves both factors.
///
///   Value y = GatedMlp(h, "model.layers.0.mlp", 352);
Value GatedMlp(Value x, std::string_view name, int64_t hidden,
               const GatedMlpOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

/// Divides the last axis of x (..., C) by the root of its mean square. Param
/// "<name>.weight" (C), ones at first.
Value RmsNorm(Value x, std::string_view name, double eps = 1e-5,
              SourceLoc loc = SourceLoc::Current());

/// Normalizes x (N, C, ...) over each of `groups` groups of adjacent channels of each
/// example, as PyTorch's GroupNorm. Params "<name>.weight" (C), ones at first,
/// and "<name>.bias" (C), zeros. Error: channels that are not a multiple of the groups.
Value GroupNorm(Value x, std::string_view name, int64_t groups,
                double eps = 1e-5, SourceLoc loc = SourceLoc::Current());

struct InstanceNormOptions {
  bool affine = false;  // with params "<name>.weight" and "<name>.bias", (C)
  double eps = 1e-5;
};
/// Normalizes each channel of each example of x (N, C, spatial...).
Value InstanceNorm(Value x, std::string_view name,
                   const InstanceNormOptions& options = {},
                   SourceLoc loc = SourceLoc::Current());

struct ExpertsOptions {
  int64_t count = 0;      // of experts; 0: the model has none
  int64_t per_token = 1;  // experts selected for a token
  int64_t hidden = 1;     // hidden units of an expert
  /// Hidden units of the shared expert, which computes every token; 0: none.
  int64_t shared_hidden = 0;
  /// Divides the selected probabilities by their sum.
  bool normalized = true;
  GluActivation activation = GluActivation::kSilu;
  // Names of an expert's matrices.
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // of the projections back
};

/// A mixture of experts (Shazeer et al. 2017), x (B, T, C) -> (B, T, C): a router selects
/// `per_token` of `count` gated feed-forward parts for each token, and sums their outputs
/// weighted by its probabilities, a softmax over all experts in f32.
///
///   const ExpertsOptions experts = {.count = 8, .per_token = 2, .hidden = 14336};
///   Value y = Experts(h, "model.layers.0.block_sparse_moe", experts);
///
/// Tokens are sorted by expert, and grouped_matmul multiplies each group by its expert's
/// matrices. Experts have no capacity: no token is dropped, and shapes, of tokens times
/// `per_token` rows, do not depend on the routing. A token's output depends on no other
/// token, so micro-batches compute the same as the whole batch, but the batch analysis
/// (autodiff/batch_analysis.h) cannot see that through the sort and requires
/// TrainOptions::allow_batch_change.
///
/// Params, laid out (out, in): the router "<name>.gate.weight" (count, C); stacks
/// "<name>.experts.<gate>.weight" and "<name>.experts.<up>.weight" (count, hidden, C) and
/// "<name>.experts.<down>.weight" (count, C, hidden); with a shared expert, the layers of
/// GatedMlp under "<name>.shared_expert", and "<name>.shared_expert_gate.weight" (1, C),
/// whose sigmoid multiplies its output. Errors: those of TopK, for a per_token below 1 or
/// above `count`.
Value Experts(Value x, std::string_view name, const ExpertsOptions& options);

/// The name of one expert's matrix in a stack: "a.experts.w1.weight" and 3 give
/// "a.experts.3.w1.weight". Precondition: IsOfExperts(param).
std::string NameOfExpert(std::string_view param, int64_t expert);

/// Returns whether the param is a stack of the experts' matrices.
bool IsOfExperts(std::string_view param);

/// The number of elements of the params of Experts for width C.
int64_t ExpertsParameterCount(const ExpertsOptions& options, int64_t width);

}  // namespace stowage

#endif  // STOWAGE_NN_LAYERS_H_

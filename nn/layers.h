#ifndef STOWAGE_NN_LAYERS_H_
#define STOWAGE_NN_LAYERS_H_

// Provides neural-network layers: functions over the IR that declare their own params.
//
// The first argument of a layer is its input, the second its name. The name prefixes the names of
// the layer's params, and the layer's result has this name. For example, `Linear(x, "fc1", 128)`
// declares "fc1.weight" and "fc1.bias", and its result is called "fc1" in error messages, plans
// and checkpoints. Params of the transformer layers are named as in GPT-2, and params of the gated
// layers as in Hugging Face's models.
//
// Weights of linear layers are laid out (in, out), so y = x W + b needs no transposition.
// PyTorch's nn.Linear stores the transposed matrix.
//
//   GraphBuilder g("classifier");
//   Value x = g.Input("x", DType::kF32, {32, 64});
//   Value logits = Linear(Relu(Linear(x, "fc1", 128)), "fc2", 10);
//
// The element type of params is the element type of the layer's input.

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

// Initializers for weights, which depend on the fan-in and fan-out. For a linear layer, these are
// the dimensions of its (in, out) weight. For a convolution, they are the input and output
// channels times the number of elements of the kernel. Init (ir/graph.h) also provides truncated
// normal and orthogonal initializers.
//
//   Linear(x, "fc", 128, {.init = KaimingNormal(64)});

/// The gain of ReLU.
inline constexpr double kReluGain = std::numbers::sqrt2;

/// Returns an initializer that preserves the variance of activations (He et al. 2015), as
/// PyTorch's kaiming_normal_ and kaiming_uniform_ do. Requires `fan_in >= 1`.
inline Init KaimingNormal(int64_t fan_in, double gain = kReluGain) {
  return Init::Normal(gain / std::sqrt(static_cast<double>(fan_in)));
}
inline Init KaimingUniform(int64_t fan_in, double gain = kReluGain) {
  return Init::Uniform(gain * std::sqrt(3 / static_cast<double>(fan_in)));
}

/// Returns an initializer that balances the variances of activations and gradients (Glorot &
/// Bengio 2010), as PyTorch's xavier_normal_ and xavier_uniform_ do. Requires that both fans are
/// at least 1.
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
  Init init = Init::Normal(0.02);  // initial weight; the bias starts at zero
  /// The weight is laid out (out, in), as in PyTorch.
  bool out_in = false;
};

/// Returns x W + b of shape (..., out) for x (..., in). Declares the param "<name>.weight"
/// (in, out) and, with a bias, "<name>.bias" (out).
Value Linear(Value x, std::string_view name, int64_t out_features,
             const LinearOptions& options = {},
             SourceLoc loc = SourceLoc::Current());

/// Normalizes x (..., C) over its last axis. Declares the params "<name>.weight" (C), which starts
/// at ones, and "<name>.bias" (C), which starts at zeros.
Value LayerNorm(Value x, std::string_view name, double eps = 1e-5,
                SourceLoc loc = SourceLoc::Current());

// Convolutions of x (N, C, spatial...) with 1 to 3 spatial dimensions. Weights are laid out as
// in PyTorch: (out, in / groups, kernel...), or (in, out, kernel...) for a transposed convolution.
//
//   Value h = Conv(x, "conv1", 64, {.kernel = 7, .stride = 2, .padding = 3});
//   h = Relu(BatchNorm(h, "bn1"));

struct ConvLayerOptions {
  EachDimension kernel = 3;
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  bool bias = false;              // usually left to the batch norm that follows
  std::optional<Init> init = {};  // initial weight; by default as in Conv
};

/// Returns the convolution (N, channels, out...) of x (N, C, in...). Declares the param
/// "<name>.weight" and, with a bias, "<name>.bias" (channels), which starts at zeros. The weight is
/// initially normal with standard deviation sqrt(2 / (channels * kernel / groups)), where kernel
/// is its number of elements (He et al. 2015 with fan-out, as in torchvision). Records an error if
/// C or `channels` is not a multiple of the groups, and propagates errors of the op (ir/ops.h).
Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct ConvTransposeLayerOptions {
  EachDimension kernel = 2;
  EachDimension stride = 2;
  bool bias = false;
};

/// Returns the transposed convolution (N, channels, (in - 1) * stride + kernel...) of
/// x (N, C, in...). Declares the param "<name>.weight" and, with a bias, "<name>.bias" (channels),
/// which starts at zeros. The weight is initially normal with standard deviation sqrt(2 / n),
/// where n = C * kernel / stride is the number of terms of a result. Records an error if
/// `channels` is below 1, and propagates errors of the op.
Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options = {},
                    SourceLoc loc = SourceLoc::Current());

struct BatchNormOptions {
  /// Normalizes by the statistics of the batch and updates the running statistics. If false,
  /// normalizes by the running statistics.
  bool training = true;
  double eps = 1e-5;
  double momentum = 0.1;  // weight of a new batch, as in PyTorch
};

/// Normalizes each channel of x (N, C, ...), as PyTorch's BatchNorm does. Declares the params
/// "<name>.weight" (C), which starts at ones, and "<name>.bias" (C), which starts at zeros, and the
/// states "<name>.running_mean" (C), which starts at zeros, and "<name>.running_var" (C), which
/// starts at ones. The running variance is unbiased. With gradient accumulation, each micro-batch
/// has its own statistics.
Value BatchNorm(Value x, std::string_view name,
                const BatchNormOptions& options = {},
                SourceLoc loc = SourceLoc::Current());

struct EmbeddingResults {
  Value rows;   // the shape of the indices, then (width)
  Value table;  // the param, for models that tie their output layer to it
};

/// Looks up rows of a table (rows, width) by `indices`, which are i32 or i64 in [0, rows).
/// Declares the table as the param `name`, initially normal with standard deviation 0.02.
EmbeddingResults Embedding(Value indices, std::string_view name, int64_t rows,
                           int64_t width, DType dtype,
                           SourceLoc loc = SourceLoc::Current());

/// Applies the dropouts of one model. Each has a different number, so each drops different
/// elements. `seed` and `step` are i64 scalars.
class Dropouts {
 public:
  /// Creates an object whose Apply returns its argument.
  Dropouts() = default;
  /// Creates dropouts of rate `p`, numbered from `first`.
  Dropouts(Value seed, Value step, double p, int64_t first = 0)
      : seed_(seed), step_(step), p_(p), next_id_(first) {}

  Value Apply(Value x, SourceLoc loc = SourceLoc::Current());
  /// Applies dropout with `rate` instead of p. A rate of 0 means no dropout.
  Value ApplyAt(double rate, Value x, SourceLoc loc = SourceLoc::Current());

 private:
  Value seed_, step_;
  double p_ = 0;
  int64_t next_id_ = 0;
};

/// Provides the caches of keys and values (Role::kCache) for generation. Each run of a program
/// reads the next tokens of a text and appends their keys and values to the caches, to which later
/// runs attend. Programs that read one token and programs that read several can share the caches.
///
///   KvCache cache(g, /*batch=*/1, /*count=*/1, /*positions=*/1024);
///   q = Rope(q, cache.token_positions());
///   k = Rope(k, cache.token_positions());
///   Value attended = cache.Attend(q, k, v, "h.0.attn");
///
/// The input "position" is the number of tokens that earlier runs read. Cache entries at this
/// position and after it are ignored, so a smaller position resumes from an earlier token.
class KvCache {
 public:
  /// Declares the input "position", an i32 scalar, for runs that read `count` tokens of each of
  /// `batch` texts. A text has at most `positions` tokens. All three numbers must be at least 1. A
  /// step whose position exceeds positions - count fails with kIndexOutOfRange.
  KvCache(GraphBuilder& g, int64_t batch, int64_t count, int64_t positions,
          SourceLoc loc = SourceLoc::Current());

  /// Returns the positions of the run's tokens in their texts, i32 (count).
  Value token_positions() const { return token_positions_; }

  /// Returns the causal attention of q (B, count, H, D) to k and v (B, count, G, D) and to the
  /// cached keys and values. Uses the scale, window and softcap of `options` and ignores its other
  /// fields. Stores k and v in the caches "<name>.keys" and "<name>.values"
  /// (B, positions, G, D), which have the types of k and v. Records an error if k or v is not
  /// (B, count, G, D), and propagates errors of Attention.
  Value Attend(Value q, Value k, Value v, std::string_view name,
               const AttentionOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

 private:
  Value Keep(Value now, std::string_view name, SourceLoc loc);
  Value Mask(DType dtype, int64_t window, SourceLoc loc);

  GraphBuilder& g_;
  int64_t batch_, count_, positions_;
  Value position_;         // position of the first token
  Value token_positions_;  // positions of all tokens
  Value lengths_;          // tokens of each text after this run, i32 (B)
  // The masks by window size. Layers share them.
  std::map<int64_t, Value> masks_;
};

struct TransformerOptions {
  int64_t heads = 1;
  /// The initial weights of the two projections whose results are added to the residual stream.
  Init projection_init = Init::Normal(0.02);
  Dropouts* dropouts = nullptr;  // applied after each of these projections
  KvCache* cache = nullptr;      // for generation; may be null
  Value segments = {};           // AttentionOptions::segments
};

/// Returns the causal self-attention (B, T, C) of x (B, T, C). One linear layer, "<name>.c_attn"
/// (C, 3C), computes queries, keys and values, which are split into views (B, T, H, C / H).
/// Attention uses `options.cache` if there is one. The output projection is "<name>.c_proj"
/// (C, C). Records an error if C is not a multiple of the heads.
Value CausalSelfAttention(Value x, std::string_view name,
                          const TransformerOptions& options,
                          SourceLoc loc = SourceLoc::Current());

struct MultiHeadAttentionOptions {
  int64_t heads = 1;
  int64_t groups =
      0;  // heads in a group share one key and value head; 0 means a group per head
  bool causal = false;  // AttentionOptions::causal (ir/ops.h)
  /// Added to the scores (B, heads, T, T), as AttentionOptions::bias is.
  Value bias = {};
  Value segments = {};  // AttentionOptions::segments
};

/// Returns the self-attention (B, T, C) of x (B, T, C). One linear layer, "<name>.in_proj"
/// (C, C + 2 groups C / heads), computes queries, keys and values, which are split into views in
/// this order. Each head attends to the keys and values of its group. The output projection is
/// "<name>.out_proj" (C, C). The names follow PyTorch's MultiheadAttention, except that its
/// in_proj_weight is a layer here. Weights are laid out (in, out), and are initially normal with
/// standard deviation 0.02. Records an error if C is not a multiple of the heads, or the heads are
/// not a multiple of the groups.
Value MultiHeadAttention(Value x, std::string_view name,
                         const MultiHeadAttentionOptions& options,
                         SourceLoc loc = SourceLoc::Current());

/// Applies one pre-norm block of GPT-2 to x (B, T, C): h = x + attention(norm(x)), then
/// h + mlp(norm(h)). The MLP has 4C hidden units and the tanh approximation of GELU. Declares the
/// params of "<name>.ln_1", "<name>.attn", "<name>.ln_2", "<name>.mlp.c_fc" and
/// "<name>.mlp.c_proj".
Value TransformerBlock(Value x, std::string_view name,
                       const TransformerOptions& options,
                       SourceLoc loc = SourceLoc::Current());

struct GatedMlpOptions {
  GluActivation activation = GluActivation::kSilu;
  bool side_by_side = false;  // one layer computes gate and up projection
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // for the down projection
  bool bias = false;                    // all layers have a bias
  bool out_in = false;                  // LinearOptions::out_in
};

/// Applies the gated feed-forward network of a transformer block (Shazeer 2020) to x (..., C):
/// (activation(x Wg) * (x Wu)) Wd. Declares the params "<name>.gate_proj.weight" and
/// "<name>.up_proj.weight" (C, hidden), or both side by side as "<name>.gate_up_proj.weight"
/// (C, 2 hidden), "<name>.down_proj.weight" (hidden, C), and optional biases, named accordingly.
/// The backward pass saves x Wg and x Wu.
///
///   Value y = GatedMlp(h, "model.layers.0.mlp", 352);
Value GatedMlp(Value x, std::string_view name, int64_t hidden,
               const GatedMlpOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

/// Divides x (..., C) by the root mean square over its last axis. Declares the param
/// "<name>.weight" (C), which starts at ones and multiplies the result.
Value RmsNorm(Value x, std::string_view name, double eps = 1e-5,
              SourceLoc loc = SourceLoc::Current());

/// Normalizes x (N, C, ...) over each of `groups` groups of adjacent channels of each example, as
/// PyTorch's GroupNorm does. Declares the params "<name>.weight" (C), which starts at ones, and
/// "<name>.bias" (C), which starts at zeros. Records an error if the channels are not a multiple
/// of the groups.
Value GroupNorm(Value x, std::string_view name, int64_t groups,
                double eps = 1e-5, SourceLoc loc = SourceLoc::Current());

struct InstanceNormOptions {
  bool affine = false;  // declares "<name>.weight" and "<name>.bias", (C)
  double eps = 1e-5;
};
/// Normalizes each channel of each example of x (N, C, spatial...).
Value InstanceNorm(Value x, std::string_view name,
                   const InstanceNormOptions& options = {},
                   SourceLoc loc = SourceLoc::Current());

struct ExpertsOptions {
  int64_t count = 0;      // number of experts; 0 means none
  int64_t per_token = 1;  // experts selected for a token
  int64_t hidden = 1;     // hidden units of an expert
  /// Hidden units of the shared expert, which processes every token. 0 means no shared expert.
  int64_t shared_hidden = 0;
  /// Divides the probabilities of a token's selected experts by their sum.
  bool normalized = true;
  GluActivation activation = GluActivation::kSilu;
  // The names of an expert's matrices.
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // for the down projections
};

/// Applies a mixture of experts (Shazeer et al. 2017) to x (B, T, C). A router computes a softmax
/// over all experts, in f32, and selects `per_token` of the `count` experts for each token.
/// Experts are gated feed-forward networks. The result for a token is the sum of its experts'
/// outputs, weighted by their probabilities.
///
///   const ExpertsOptions experts = {.count = 8, .per_token = 2, .hidden = 14336};
///   Value y = Experts(h, "model.layers.0.block_sparse_moe", experts);
///
/// Tokens are sorted by expert, and the op grouped_matmul multiplies each group by the matrices of
/// its expert. Experts have no capacity limit, so no token is dropped. The shapes do not depend on
/// the routing: there are `per_token` rows for each token. A token's output does not depend on
/// other tokens, so gradient accumulation computes the same as the whole batch. The batch analysis
/// (autodiff/batch_analysis.h) cannot prove this because of the sort, and therefore requires
/// TrainOptions::allow_batch_change.
///
/// Declares params that are laid out (out, in). The router is "<name>.gate.weight" (count, C). The
/// experts are stacked in "<name>.experts.<gate>.weight" and "<name>.experts.<up>.weight"
/// (count, hidden, C), and "<name>.experts.<down>.weight" (count, C, hidden). A shared expert has
/// the layers of GatedMlp under "<name>.shared_expert", and its output is multiplied by the
/// sigmoid of a linear layer, "<name>.shared_expert_gate.weight" (1, C). Propagates the error of
/// TopK if `per_token` is below 1 or above `count`.
Value Experts(Value x, std::string_view name, const ExpertsOptions& options);

/// Returns the name of one expert's matrix in a stack. For "a.experts.w1.weight" and 3, it is
/// "a.experts.3.w1.weight". Requires IsOfExperts(param).
std::string NameOfExpert(std::string_view param, int64_t expert);

/// Returns whether `param` is the name of a stack of experts' matrices.
bool IsOfExperts(std::string_view param);

/// Returns the number of elements of the params of Experts for a width of C.
int64_t ExpertsParameterCount(const ExpertsOptions& options, int64_t width);

}  // namespace stowage

#endif  // STOWAGE_NN_LAYERS_H_

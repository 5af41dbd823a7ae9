#ifndef STOWAGE_NN_LAYERS_H_
#define STOWAGE_NN_LAYERS_H_

// Provides neural-network layers: functions that add ops to a graph (ir/builder.h) and declare
// their own params.
//
// The first argument of a layer is its input, and the second is its name. The names of the layer's
// params begin with the layer's name, and the layer's result has the layer's name. For example,
// `Linear(x, "fc1", 128)` declares "fc1.weight" and "fc1.bias", and its result is called "fc1" in
// error messages, plans and checkpoints. The params of TransformerBlock are named as in GPT-2, and
// the params of GatedMlp and Experts as in Hugging Face's models.
//
// Unless stated otherwise, weights of linear layers are laid out (in, out), so y = x W + b needs no
// transposition. PyTorch's nn.Linear stores the transposed matrix.
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

// Initializers for weights, which depend on the fan-in and fan-out. For a linear layer, the fans
// are the numbers of inputs and outputs. For a convolution, they are the numbers of input and
// output channels, each multiplied by the number of elements of the kernel. Init (ir/graph.h) also
// provides truncated normal and orthogonal initializers.
//
//   Linear(x, "fc", 128, {.init = KaimingNormal(64)});

/// The gain of ReLU.
inline constexpr double kReluGain = std::numbers::sqrt2;

/// KaimingNormal and KaimingUniform return initializers that preserve the variance of activations
/// (He et al. 2015), as PyTorch's kaiming_normal_ and kaiming_uniform_ do. They require `fan_in >=
/// 1`.
inline Init KaimingNormal(int64_t fan_in, double gain = kReluGain) {
  return Init::Normal(gain / std::sqrt(static_cast<double>(fan_in)));
}
inline Init KaimingUniform(int64_t fan_in, double gain = kReluGain) {
  return Init::Uniform(gain * std::sqrt(3 / static_cast<double>(fan_in)));
}

/// XavierNormal and XavierUniform return initializers that balance the variances of activations and
/// gradients (Glorot & Bengio 2010), as PyTorch's xavier_normal_ and xavier_uniform_ do. They
/// require that both fans are at least 1.
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
  /// Whether the weight is laid out (out, in), as in PyTorch.
  bool out_in = false;
};

/// Returns x W + b of shape (..., out) for x (..., in). Declares the param "<name>.weight" (in,
/// out), or (out, in) if `options.out_in` is set, and, with a bias, "<name>.bias" (out).
Value Linear(Value x, std::string_view name, int64_t out_features,
             const LinearOptions& options = {},
             SourceLoc loc = SourceLoc::Current());

/// Normalizes x (..., C) over its last axis. Declares the params "<name>.weight" (C), which starts
/// at ones, and "<name>.bias" (C), which starts at zeros.
Value LayerNorm(Value x, std::string_view name, double eps = 1e-5,
                SourceLoc loc = SourceLoc::Current());

// Convolutions of x (N, C, spatial...), which must have 1 to 3 spatial dimensions. Weights are laid
// out as in PyTorch: (out, in / groups, kernel...), or (in, out, kernel...) for a transposed
// convolution.
//
//   Value h = Conv(x, "conv1", 64, {.kernel = 7, .stride = 2, .padding = 3});
//   h = Relu(BatchNorm(h, "bn1"));

struct ConvLayerOptions {
  EachDimension kernel = 3;
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  bool bias = false;              // a batch norm after the layer adds one
  std::optional<Init> init = {};  // initial weight; absent: see Conv
};

/// Returns the convolution (N, channels, out...) of x (N, C, in...). Declares the param
/// "<name>.weight" and, with a bias, "<name>.bias" (channels), which starts at zeros. By default,
/// the weight is initially normal with standard deviation sqrt(2 / (channels * k / groups)), where
/// k is the number of elements of the kernel (He et al. 2015 with fan-out, as in torchvision).
/// Records an error if C or `channels` is not a multiple of the groups, and propagates errors of
/// the op (ir/ops.h).
Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct ConvTransposeLayerOptions {
  EachDimension kernel = 2;
  EachDimension stride = 2;
  bool bias = false;
};

/// Returns the transposed convolution (N, channels, (in - 1) * stride + kernel...) of x (N, C,
/// in...). Declares the param "<name>.weight" and, with a bias, "<name>.bias" (channels), which
/// starts at zeros. The weight is initially normal with standard deviation sqrt(2 / n). Here, n = C
/// * k / s is the number of products in the sum of a result, where k is the number of elements of
/// the kernel, and s the product of the strides. Records an error if `channels` is below 1, and
/// propagates errors of the op.
Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options = {},
                    SourceLoc loc = SourceLoc::Current());

struct BatchNormOptions {
  /// Whether to normalize by the statistics of the batch and to update the running statistics. If
  /// false, normalizes by the running statistics.
  bool training = true;
  double eps = 1e-5;
  double momentum = 0.1;  // weight of a new batch, as in PyTorch
};

/// Normalizes each channel of x (N, C, ...), as PyTorch's BatchNorm does. Declares the params
/// "<name>.weight" (C), which starts at ones, and "<name>.bias" (C), which starts at zeros, and the
/// states "<name>.running_mean" (C), which starts at zeros, and "<name>.running_var" (C), which
/// starts at ones. The statistics are f64 if x is f64, and f32 otherwise. The running variance is
/// unbiased, so a channel must have at least 2 elements in a training step. With 1, the running
/// variance becomes NaN. With gradient accumulation, each micro-batch is normalized by its own
/// statistics.
Value BatchNorm(Value x, std::string_view name,
                const BatchNormOptions& options = {},
                SourceLoc loc = SourceLoc::Current());

struct EmbeddingResults {
  Value rows;   // has the shape of the indices, then (width)
  Value table;  // the param, for models that tie their output layer to it
};

/// Looks up the rows with these `indices`, i32 or i64 in [0, rows), in a table (rows, width).
/// Declares the table as the param `name`. It is initially normal with standard deviation 0.02. The
/// rows are named "<name>.rows".
EmbeddingResults Embedding(Value indices, std::string_view name, int64_t rows,
                           int64_t width, DType dtype,
                           SourceLoc loc = SourceLoc::Current());

/// Applies dropout at several places of a model. Each application has a number of its own, from
/// which the dropped elements are derived, so applications drop different elements.
class Dropouts {
 public:
  /// Creates an object without dropout: Apply returns its argument. ApplyAt may only be called with
  /// a rate of 0.
  Dropouts() = default;
  /// Creates dropouts of rate `p`, whose applications are numbered from `first` on. `seed` and
  /// `step` are i64 scalars, on which the dropped elements also depend.
  Dropouts(Value seed, Value step, double p, int64_t first = 0)
      : seed_(seed), step_(step), p_(p), next_id_(first) {}

  Value Apply(Value x, SourceLoc loc = SourceLoc::Current());
  /// Applies dropout with `rate` instead of `p`. Returns x if the rate is 0.
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
/// position and after it are ignored, so a run with a smaller position continues from an earlier
/// token.
class KvCache {
 public:
  /// Declares the input "position", an i32 scalar, for runs that read `count` tokens of each of
  /// `batch` texts. The caches have `positions` positions, so a text has at most this number of
  /// tokens. All three numbers must be at least 1. A step fails with kIndexOutOfRange if its
  /// position exceeds positions - count.
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
  /// The initial weights of the output projections of attention and MLP, whose results are added to
  /// the residual stream.
  Init projection_init = Init::Normal(0.02);
  Dropouts* dropouts = nullptr;  // applied after these projections
  KvCache* cache = nullptr;      // for generation; may be null
  Value segments = {};           // AttentionOptions::segments
};

/// Returns the causal self-attention (B, T, C) of x (B, T, C). One linear layer, "<name>.c_attn"
/// (C, 3C), computes queries, keys and values, which are split into views (B, T, H, C / H).
/// Attention uses `options.cache` if it is not null. The output projection is "<name>.c_proj" (C,
/// C), and is followed by `options.dropouts`. Records an error if C is not a multiple of the heads.
Value CausalSelfAttention(Value x, std::string_view name,
                          const TransformerOptions& options,
                          SourceLoc loc = SourceLoc::Current());

struct MultiHeadAttentionOptions {
  int64_t heads = 1;
  int64_t groups =
      0;  // heads in a group share one key and value head; 0 means a group per head
  bool causal = false;  // AttentionOptions::causal (ir/ops.h)
  /// Added to the attention scores (B, heads, T, T), as AttentionOptions::bias is.
  Value bias = {};
  Value segments = {};  // AttentionOptions::segments
};

/// Returns the self-attention (B, T, C) of x (B, T, C). One linear layer, "<name>.in_proj" (C, C +
/// 2 groups C / heads), computes queries, keys and values, which are split into views in this
/// order. Each head uses the keys and values of its group. The output projection is
/// "<name>.out_proj" (C, C). The names are those of PyTorch's MultiheadAttention, except that its
/// in_proj_weight is a layer "in_proj" here. Weights are laid out (in, out), and are initially
/// normal with standard deviation 0.02. Records an error if C is not a multiple of the heads, or
/// the heads are not a multiple of the groups.
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
/// "<name>.up_proj.weight" (C, hidden), and "<name>.down_proj.weight" (hidden, C). With
/// `options.side_by_side`, "<name>.gate_up_proj.weight" (C, 2 hidden) replaces the first two. With
/// `options.bias`, each layer also has a bias, "<name>.gate_proj.bias" and so on. x Wg and x Wu are
/// saved for the backward pass.
///
///   Value y = GatedMlp(h, "model.layers.0.mlp", 352);
Value GatedMlp(Value x, std::string_view name, int64_t hidden,
               const GatedMlpOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

/// Divides x (..., C) by the root mean square over its last axis. Declares the param
/// "<name>.weight" (C), which starts at ones and multiplies the result.
Value RmsNorm(Value x, std::string_view name, double eps = 1e-5,
              SourceLoc loc = SourceLoc::Current());

/// Divides the channels of x (N, C, ...) into `groups` groups of adjacent channels, and normalizes
/// each group of each example, as PyTorch's GroupNorm does. Declares the params "<name>.weight"
/// (C), which starts at ones, and "<name>.bias" (C), which starts at zeros. Records an error if the
/// channels are not a multiple of the groups.
Value GroupNorm(Value x, std::string_view name, int64_t groups,
                double eps = 1e-5, SourceLoc loc = SourceLoc::Current());

struct InstanceNormOptions {
  bool affine = false;  // declares "<name>.weight" and "<name>.bias", (C)
  double eps = 1e-5;
};
/// Normalizes each channel of each example of x (N, C, spatial...), as PyTorch's InstanceNorm
/// layers do.
Value InstanceNorm(Value x, std::string_view name,
                   const InstanceNormOptions& options = {},
                   SourceLoc loc = SourceLoc::Current());

struct ExpertsOptions {
  int64_t count = 0;      // number of experts; 0 means none
  int64_t per_token = 1;  // experts selected for a token
  int64_t hidden = 1;     // hidden units of an expert
  /// Hidden units of the shared expert, which processes every token. 0 means no shared expert.
  int64_t shared_hidden = 0;
  /// Whether to divide the probabilities of a token's selected experts by their sum.
  bool normalized = true;
  GluActivation activation = GluActivation::kSilu;
  // The names of an expert's matrices.
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // for the down projections
};

/// Applies a mixture of experts (Shazeer et al. 2017) to x (B, T, C). A router computes the softmax
/// over all experts, in f32 or f64, and selects the `per_token` most probable of the `count`
/// experts for each token. Experts are gated feed-forward networks. The result for a token is the
/// sum of its experts' outputs, weighted by their probabilities.
///
///   const ExpertsOptions experts = {.count = 8, .per_token = 2, .hidden = 14336};
///   Value y = Experts(h, "model.layers.0.block_sparse_moe", experts);
///
/// Tokens are sorted by expert, and the op grouped_matmul multiplies each group by the matrices of
/// its expert. Experts have no capacity limit, so no token is dropped. The shapes do not depend on
/// the routing: there are `per_token` rows for each token. A token's output does not depend on
/// other tokens, so gradient accumulation does not change the results beyond rounding. The batch
/// analysis (autodiff/batch_analysis.h) cannot prove this because of the sort. Micro-batches
/// therefore require TrainOptions::allow_batch_change.
///
/// Declares the following params, whose matrices are laid out (out, in). The router is
/// "<name>.gate.weight" (count, C). The experts are stacked in "<name>.experts.<gate>.weight" and
/// "<name>.experts.<up>.weight" (count, hidden, C), and "<name>.experts.<down>.weight" (count, C,
/// hidden). A shared expert has the layers of GatedMlp under "<name>.shared_expert", and its output
/// is multiplied by the sigmoid of a linear layer, "<name>.shared_expert_gate.weight" (1, C).
/// Propagates the error of TopK if `per_token` is below 1 or above `count`.
Value Experts(Value x, std::string_view name, const ExpertsOptions& options);

/// Returns the name of one expert's matrix in a stack. For "a.experts.w1.weight" and 3, it is
/// "a.experts.3.w1.weight". Requires IsOfExperts(param).
std::string NameOfExpert(std::string_view param, int64_t expert);

/// Returns whether `param` is the name of a stack of experts' matrices.
bool IsOfExperts(std::string_view param);

/// Returns the number of elements of all params that Experts declares for x (..., width).
int64_t ExpertsParameterCount(const ExpertsOptions& options, int64_t width);

}  // namespace stowage

#endif  // STOWAGE_NN_LAYERS_H_

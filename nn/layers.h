#ifndef STOWAGE_NN_LAYERS_H_
#define STOWAGE_NN_LAYERS_H_

// Layers: functions over the IR that declare their own params.
//
// A layer takes its input and a name. The name prefixes the layer's params and
// names its result, so `Linear(x, "fc1", 128)` declares "fc1.weight" and
// "fc1.bias" and its result is called "fc1"; error messages, plans and
// checkpoints then speak of "fc1". The param names of the transformer layers
// are those of GPT-2.
//
// Weights of linear layers are laid out (in, out), so y = x W + b needs no
// transposition; PyTorch's nn.Linear holds the transposed matrix.
//
//   GraphBuilder g("classifier");
//   Value x = g.Input("x", DType::kF32, {32, 64});
//   Value logits = Linear(Relu(Linear(x, "fc1", 128)), "fc2", 10);
//
// Params take their element type from the layer's input.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/kv_cache.h"
#include "nn/model_options.h"

namespace stowage {

struct LinearOptions {
  bool bias = true;
  Init init = Init::Normal(0.02);  // of the weight; the bias starts at zero
  /// The weight lies (out, in), as files of others have it.
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

struct BatchNormOptions {
  /// Normalize by the batch, and let the running statistics follow it; or by the
  /// running statistics, as evaluation does.
  bool training = true;
  double eps = 1e-5;
  double momentum = 0.1;  // of a batch in the running statistics, as PyTorch's
};

/// Normalizes each channel of x (N, C, ...). Params "<name>.weight" (C), ones at
/// first, and "<name>.bias" (C), zeros; states "<name>.running_mean" (C), zeros, and
/// "<name>.running_var" (C), ones, whose names and meaning are PyTorch's: the
/// variance that they follow is divided by one less than the count. A batch taken in
/// micro-batches has statistics of its own in each.
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

/// Numbers the dropouts of one model, so that no two drop the same elements.
/// seed and step are i64 scalars.
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

struct TransformerOptions {
  int64_t heads = 1;
  /// Of the two projections that end in the residual stream.
  Init projection_init = Init::Normal(0.02);
  Dropouts* dropouts = nullptr;  // after each of these projections
  KvCache* cache = nullptr;      // of a text that is read in parts
  Value segments = {};           // AttentionOptions::segments
};

/// x (B, T, C) -> (B, T, C): queries, keys and values from one linear layer
/// "<name>.c_attn" (C, 3C), cut into views (B, T, H, C / H); causal attention, to
/// what the cache keeps, too, under `name`, where there is one; the projection "<name>.c_proj" (C, C). Error: C is not a multiple of the
/// heads.
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
/// "<name>.in_proj" (C, C + 2 groups C / heads), cut into views in this order, the
/// heads attending each to its group; then "<name>.out_proj" (C, C). The names are
/// those of PyTorch's MultiheadAttention, save that its in_proj_weight is a layer
/// here; weights are (in, out), as Linear's. Weights begin normal with deviation
/// 0.02. Errors: C is not a multiple of the heads, nor these of the groups.
Value MultiHeadAttention(Value x, std::string_view name,
                         const MultiHeadAttentionOptions& options,
                         SourceLoc loc = SourceLoc::Current());

/// x (B, T, C) -> (B, T, C), one pre-norm block of GPT-2:
/// h = x + attention(norm(x)); h + mlp(norm(h)), where mlp widens to 4C and
/// bends with the tanh form of GELU. Params of "<name>.ln_1", "<name>.attn",
/// "<name>.ln_2", "<name>.mlp.c_fc", "<name>.mlp.c_proj".
Value TransformerBlock(Value x, std::string_view name,
                       const TransformerOptions& options,
                       SourceLoc loc = SourceLoc::Current());

// The gated feed-forward part of a transformer's block (Shazeer 2020), by the names
// of Hugging Face's models.
//
//   Value y = GatedMlp(h, "model.layers.0.mlp", 352);

struct GatedMlpOptions {
  GluActivation activation = GluActivation::kSilu;
  bool side_by_side = false;  // the gate and the other factor, in one layer
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // of the projection back
  bool bias = false;                    // of all layers
  bool out_in = false;                  // LinearOptions'
};

/// x (..., C) -> activation(x Wg) * (x Wu) Wd. Params "<name>.gate_proj.weight" and
/// "<name>.up_proj.weight" (C, hidden), or both side by side in
/// "<name>.gate_up_proj.weight" (C, 2 hidden), "<name>.down_proj.weight" (hidden, C), and
/// biases of the same names where there are any. Of the hidden values, backward keeps the
/// gate and the other factor.
Value GatedMlp(Value x, std::string_view name, int64_t hidden,
               const GatedMlpOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

// Norms beside those of nn/layers.h: of rows without a mean, as Llama has them, and
// of groups of channels or of single ones in each example, which know no batch.
// Names and meaning are PyTorch's; params take their element type from x.
//
//   Value h = RmsNorm(x, "model.norm");
//   h = Relu(GroupNorm(Conv(images, "conv", 32), "gn", 8));

/// Divides the last axis of x (..., C) by the root of its mean square. Param
/// "<name>.weight" (C), ones at first.
Value RmsNorm(Value x, std::string_view name, double eps = 1e-5,
              SourceLoc loc = SourceLoc::Current());

/// Normalizes x (N, C, ...) in `groups` groups of neighbouring channels, over all
/// the numbers that an example has of one. Params "<name>.weight" (C), ones at first,
/// and "<name>.bias" (C), zeros. Error: channels that are no multiple of the groups.
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

// A classifier of two hidden layers with relu, for the 8 x 8 digits of
// nn/digits_data.h or for images of any size, whose pixels it takes in a row.
//
//   Result<Graph> graph = BuildMlp(ModelPurpose::kTrain, {.batch = 64});

inline constexpr int64_t kMlpInputs = 64;
inline constexpr int64_t kMlpHidden = 128;
inline constexpr int64_t kMlpClasses = 10;
inline constexpr ImageShape kMlpImages = {
    .channels = 1, .height = 8, .width = 8, .classes = kMlpClasses};

/// The graph of the classifier: linear layers "fc1", "fc2" and "fc3", weights
/// normal with deviation sqrt(2 / in) (He et al. 2015). Inputs: "x" (B, 64),
/// always f32 and cast to the dtype of the options, "y" i32 (B) in [0, 10); other
/// images, if the options have any, in place of 64 and 10.
/// Outputs: "loss", the mean cross-entropy in nats; when evaluating also
/// "predictions" i32 (B). Errors: batch absent or below 1; a seq or a
/// logit_chunk; impossible images; dropout outside [0, 1); an integer dtype;
/// kUnsupported for generating.
Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_LAYERS_H_

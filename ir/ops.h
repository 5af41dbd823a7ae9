#ifndef STOWAGE_IR_OPS_H_
#define STOWAGE_IR_OPS_H_

// Provides the ops from which models are built, as free functions of Value handles. Each function
// checks its operands. An invalid operand puts the builder into an error state (ir/builder.h), with
// an error that states the caller's file and line. Binary functions broadcast their operands as in
// NumPy, by inserting `broadcast` views.
//
//   Value h = Relu(Add(MatMul(x, w1), b1));
//
// Shapes are written as (M, K), where "..." is any number of leading dimensions. Arrows separate
// the shapes of operands from the shapes of results. Negative axes count from the end.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/element_groups.h"
#include "ir/weight_type.h"
#include "ir/windows.h"

namespace stowage {

using Axes = std::vector<int64_t>;
#define STOWAGE_LOC SourceLoc loc = SourceLoc::Current()

// --- Creation ---

/// Returns a tensor whose elements all equal `value`.
Value Fill(GraphBuilder& g, double value, DType dtype, const Shape& shape,
           STOWAGE_LOC);
/// Returns a tensor whose content is stored in the graph. `data` contains the elements in row-major
/// order.
Value Constant(GraphBuilder& g, DType dtype, const Shape& shape,
               std::span<const std::byte> data, STOWAGE_LOC);
/// Returns the `n` numbers start, start + step, ...
Value Iota(GraphBuilder& g, DType dtype, double start, double step, int64_t n,
           STOWAGE_LOC);

// --- Views, which own no bytes and launch no kernels ---

/// Returns the elements of x in row-major order with another shape. One dimension may be -1, which
/// is then computed. A copy is inserted only if strides cannot express the view.
Value Reshape(Value x, const Shape& shape, STOWAGE_LOC);
/// Permutes the axes of x. Axis i of the result is axis `order[i]` of x.
Value Permute(Value x, const Axes& order, STOWAGE_LOC);
/// Swaps the last two axes.
Value Transpose(Value x, STOWAGE_LOC);
/// Returns every `step`-th of the elements [start, end) along one axis. Requires `step >= 1`.
Value Slice(Value x, int64_t axis, int64_t start, int64_t end, int64_t step = 1,
            STOWAGE_LOC);
/// Splits x along one axis into views of the given sizes, whose sum must be the size of the axis.
std::vector<Value> Split(Value x, int64_t axis, const Axes& sizes, STOWAGE_LOC);
/// Broadcasts x to `shape`, by adding leading dimensions and repeating dimensions of size 1.
Value BroadcastTo(Value x, const Shape& shape, STOWAGE_LOC);
/// Returns x. No gradient passes through the result.
Value StopGradient(Value x, STOWAGE_LOC);

// --- Movement ---

/// Returns a contiguous copy of x.
Value Copy(Value x, STOWAGE_LOC);
/// Returns a copy in the arena of x, a value in host memory.
Value Reload(Value x, STOWAGE_LOC);
/// Returns a copy of x in host memory, for a later Reload.
Value Offload(Value x, STOWAGE_LOC);
/// Replaces the content of a state in host memory with x. Returns the updated state.
Value OffloadUpdate(Value state, Value x, STOWAGE_LOC);
/// Converts x to another element type, rounding to nearest even. Conversions from float to integer
/// truncate, and conversions to bool compare with 0. If x already has the type, returns x.
Value Cast(Value x, DType dtype, STOWAGE_LOC);
/// Concatenates `parts` along one axis. Their element types and their other dimensions must be
/// equal.
Value Concat(std::span<const Value> parts, int64_t axis, STOWAGE_LOC);
/// Returns the rows of `table` at `indices`. table (V, C...), indices of any shape S, i32 or i64 in
/// [0, V) -> S + (C...).
Value Gather(Value table, Value indices, STOWAGE_LOC);
/// Returns the decoded rows, f32, of a frozen quantized table at `indices`. The table (V, C) is
/// stored as u8, in rows of blocks with the format `blocks` (ir/weight_type.h). indices S ->
/// S + (C).
Value QuantizedGather(Value table, Value indices, WeightType blocks,
                      STOWAGE_LOC);
/// Returns `base` with each row of `updates` added to the row at its index. Rows with equal indices
/// are added in order, so the result is deterministic. base (V, C...), indices S,
/// updates S + (C...) -> (V, C...).
Value ScatterAdd(Value base, Value indices, Value updates, STOWAGE_LOC);

// --- Along an axis ---

/// Returns the cumulative sums of x along `axis`. If `exclusive`, each sum excludes the element
/// itself. If `reverse`, sums begin at the end.
Value CumSum(Value x, int64_t axis, bool exclusive = false,
             bool reverse = false, STOWAGE_LOC);
/// Returns the elements of x at `indices` along `axis`, as PyTorch's gather does. Indices are i32
/// or i64 in [0, x.dim(axis)). Their dimensions along all other axes are equal to x's. The result
/// has the shape of `indices`.
Value TakeAlongAxis(Value x, Value indices, int64_t axis, STOWAGE_LOC);
/// Returns `base` with each element of `updates` added to the element at its index along `axis`, as
/// PyTorch's scatter_add does. Indices are as in TakeAlongAxis, and `updates` has their shape.
/// Updates with equal indices are added in order, so the result is deterministic.
Value PutAdd(Value base, Value indices, Value updates, int64_t axis,
             STOWAGE_LOC);
struct TopKResults {
  Value values, indices;
};
/// Returns the k largest elements along the last axis in descending order, or the k smallest in
/// ascending order, and their indices (i32). Equal elements keep their order. NaNs are last.
TopKResults TopK(Value x, int64_t k, bool descending = true, STOWAGE_LOC);
/// Sorts the elements along the last axis, in the order of TopK, and returns their indices too.
TopKResults Sort(Value x, bool descending = false, STOWAGE_LOC);

/// Returns the one-hot encoding of `indices` along a new last axis of size `depth`: 1 at the index
/// and 0 elsewhere. If an index is out of range, all its elements are 0.
Value OneHot(Value indices, int64_t depth, DType dtype = DType::kF32,
             STOWAGE_LOC);
/// Returns x (..., R, C) with 0 above the given diagonal (Tril) or below it (Triu). Diagonal 0 is
/// the main diagonal, and diagonal 1 is the next one above it.
Value Tril(Value x, int64_t diagonal = 0, STOWAGE_LOC);
Value Triu(Value x, int64_t diagonal = 0, STOWAGE_LOC);
/// Repeats x along each axis, `repeats[i]` times along axis i.
Value Tile(Value x, const Axes& repeats, STOWAGE_LOC);

// --- Random numbers ---

// The generator is Philox4x32-10, with the key (seed, id) and the counter (step, element), as in
// Dropout. It is stateless, so forward, backward and recomputation see the same numbers. `seed` and
// `step` are i64 scalars and inputs of the step. Each op of a model must have its own `id`.

/// Returns numbers that are uniform in [0, 1), with the same bits on all devices.
Value RandomUniform(Value seed, Value step, const Shape& shape, DType dtype,
                    int64_t id, STOWAGE_LOC);
/// Returns normally distributed numbers with mean 0 and variance 1, all in [-5.8, 5.8].
Value RandomNormal(Value seed, Value step, const Shape& shape, DType dtype,
                   int64_t id, STOWAGE_LOC);

// --- In place ---

// These ops write to values that persist from step to step, such as running means, averages of
// weights or a hidden state. The target is a whole param, state or cache, or the result of another
// op of this section. The result is its new content, and no later op may read the old content. In a
// training step, the backward pass may read the old content from a copy.

/// Replaces the content of `target` with x, which must have the same type.
Value Assign(Value target, Value x, STOWAGE_LOC);
/// Replaces `target` with target + weight * (x - target), as PyTorch's lerp_ does. All operands
/// have the same float type. `weight` is broadcast to the shape of `target`. Where the weight is
/// infinite, the target is unchanged. For example, this op applies the momentum of a batch norm.
Value LerpUpdate(Value target, Value x, Value weight, STOWAGE_LOC);
/// Replaces the elements [start, start + x.dim(axis)) of `target` along `axis` with x. The target
/// may also be a Fill that no other op reads, so tensors can be concatenated without a second copy.
Value SliceUpdate(Value target, Value x, int64_t axis, int64_t start,
                  STOWAGE_LOC);
/// Does the same with `start`, an i32 or i64 scalar. If it is negative or x extends past the end
/// of the target, the step returns kIndexOutOfRange.
Value SliceUpdate(Value target, Value x, int64_t axis, Value start,
                  STOWAGE_LOC);

// --- Collectives ---
//
// Each rank runs the same ops on its own values. A tensor of n elements is split into flat blocks
// of consecutive elements, one for each rank. A block has ceil(n / ranks) elements, rounded up to a
// multiple of `granule`. The last blocks are padded with zeros. AllGather accepts blocks with any
// granule.

/// Returns the sum of x over all ranks. Terms are added in rank order, and each addition is rounded
/// to x's type.
Value AllReduce(Value x, int64_t ranks, STOWAGE_LOC);
/// Returns this rank's block of the sum of x over all ranks.
Value ReduceScatter(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);
/// Returns the concatenated blocks of all ranks as a tensor with `shape`.
Value AllGather(Value block, int64_t ranks, const Shape& shape, STOWAGE_LOC);
/// Replaces the content of `target` with the concatenated blocks of all ranks, as Assign does.
Value AllGatherUpdate(Value target, Value block, int64_t ranks, STOWAGE_LOC);
/// Returns a copy of this rank's block of x. An update may overwrite the copy.
Value OwnBlock(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);

// --- Elementwise ---

// Unary and binary ops without attributes are declared from the list in ir/ops.def. Examples are
// Neg, Exp, Relu, LogicalNot, Add, Mul and Maximum.
// - Sign returns -1, 0 or 1, and Round rounds half to even.
// - Silu is x * sigmoid(x), Mish is x * tanh(Softplus(x)), and HardSwish is x * HardSigmoid(x).
// - GeluErf is x * Phi(x), and GeluTanh is its tanh approximation (GPT-2).
// - Pow has gradients only where a > 0.
// - The result of Remainder has the sign of b, and the result of Fmod has the sign of a.
// - Comparisons, Equal to GreaterEqual, return bool.
//
// The gradients of unary ops are declared from the list too. They return dy times the derivative,
// which is computed from the output y if possible (relu, sigmoid, tanh), and from the input x
// otherwise.
#define STOWAGE_OP(Kind, name)
#define STOWAGE_UNARY_OP(Kind, name) Value Kind(Value x, STOWAGE_LOC);
#define STOWAGE_BINARY_OP(Kind, name) Value Kind(Value a, Value b, STOWAGE_LOC);
#define STOWAGE_UNARY_GRAD_OP(Kind, name) \
  Value Kind(Value x_or_y, Value dy, STOWAGE_LOC);
#include "ir/ops.def"
#undef STOWAGE_OP

/// Returns x + c and x * c, where c is converted to x's type.
Value AddScalar(Value x, double c, STOWAGE_LOC);
Value MulScalar(Value x, double c, STOWAGE_LOC);

/// Returns x where x > 0, and slope * x elsewhere. Requires `slope >= 0`.
Value LeakyRelu(Value x, double slope = 0.01, STOWAGE_LOC);
/// Returns scale * x where x > 0, and scale * alpha * (e^x - 1) elsewhere. Requires `alpha > 0` and
/// `scale > 0`.
Value Elu(Value x, double alpha = 1, double scale = 1, STOWAGE_LOC);
/// Returns Elu with the constants of Klambauer et al. 2017, which preserve mean and variance.
Value Selu(Value x, STOWAGE_LOC);
/// Returns x clamped to [min, max]. The bounds may be infinite.
Value Clamp(Value x, double min, double max, STOWAGE_LOC);
/// Returns alpha * x + beta, clamped to [0, 1].
Value HardSigmoid(Value x, double alpha = 1.0 / 6, double beta = 0.5,
                  STOWAGE_LOC);
/// Returns whether each element of x is NaN, as bool.
Value IsNan(Value x, STOWAGE_LOC);

/// Returns a where `condition` (bool) is true, and b elsewhere.
Value Where(Value condition, Value a, Value b, STOWAGE_LOC);

/// Zeroes each element with probability p and multiplies the others by 1 / (1 - p). The mask is
/// computed with Philox4x32-10, with the key (seed, id) and the counter (step, element). It is
/// stateless, so forward, backward and recomputation see the same mask, which is never stored.
/// `seed` and `step` are i64 scalars and inputs of the step. Each op of a model must have its own
/// `id`.
Value Dropout(Value x, Value seed, Value step, double p, int64_t id,
              STOWAGE_LOC);

// --- Reductions ---

/// Reduces x over `axes`. If `axes` is empty, all axes are reduced. With `keep`, reduced dimensions
/// have size 1 in the result. Otherwise they are removed.
Value ReduceSum(Value x, const Axes& axes = {}, bool keep = false, STOWAGE_LOC);
Value ReduceMean(Value x, const Axes& axes = {}, bool keep = false,
                 STOWAGE_LOC);
Value ReduceMax(Value x, const Axes& axes = {}, bool keep = false, STOWAGE_LOC);
/// Returns the sum of the squares of all elements, a scalar. It is used for gradient norms.
Value SumSquares(Value x, STOWAGE_LOC);
/// Returns the index (i32) of the largest element along the last axis, the first one if several are
/// equal.
Value ArgMax(Value x, STOWAGE_LOC);

// --- Matmuls, losses and layers ---

/// Returns the matmul of a (..., M, K) and b (..., K, N) -> (..., M, N). With `transpose_a` or
/// `transpose_b`, the last two axes of that operand are swapped. Leading dimensions are broadcast.
/// If b is a single matrix (K, N), all matrices of a are multiplied by it.
Value MatMul(Value a, Value b, bool transpose_a = false,
             bool transpose_b = false, STOWAGE_LOC);
/// Multiplies each group of rows of x by its own matrix, for a mixture of experts with tokens
/// sorted by expert. x (S, K), w (E, K, N), or (E, N, K) with `transpose_w`, ends (E) -> (S, N).
/// `ends` is i32 or i64, non-decreasing and at most S. Rows [ends[e - 1], ends[e]) of x are
/// multiplied by matrix e, where rows of the first group start at 0. Rows of the result after the
/// last end are zeros.
Value GroupedMatMul(Value x, Value w, Value ends, bool transpose_w = false,
                    STOWAGE_LOC);
/// Returns x^T dy for each group of rows. x (S, K), dy (S, N), ends (E) -> (E, K, N).
Value GroupedMatMulWeightGrad(Value x, Value dy, Value ends, STOWAGE_LOC);
/// Multiplies x by a frozen quantized matrix w (R, C), which is stored as u8 in rows of blocks with
/// the format `blocks` (ir/weight_type.h). x (..., C) -> x w^T (..., R), or without `transpose_w`,
/// x (..., R) -> x w (..., C). The result equals the matmul with the decoded matrix, bit for bit,
/// but only a few thousand decoded numbers exist simultaneously. w has no gradient.
Value QuantizedMatMul(Value x, Value w, WeightType blocks,
                      bool transpose_w = true, STOWAGE_LOC);
Value Softmax(Value x, int64_t axis = -1, STOWAGE_LOC);
Value LogSoftmax(Value x, int64_t axis = -1, STOWAGE_LOC);
/// Returns the gradient dx of the operand. y is the result of the forward op. y, dy (..., C) -> dx.
Value SoftmaxGrad(Value y, Value dy, STOWAGE_LOC);
Value LogSoftmaxGrad(Value y, Value dy, STOWAGE_LOC);

/// The minimum vocabulary size for which built-in and imported models compute logits in chunks.
/// Unchunked logits of that size would be the largest value of a step.
inline constexpr int64_t kLargeVocabulary = 8192;

/// Returns the default `chunk` of LinearCrossEntropy for `rows` rows. It is a quarter of the rows,
/// but at least 256, which is enough to keep a device busy, and at most 4,096.
inline int64_t LogitChunk(int64_t rows) {
  return std::clamp<int64_t>((rows + 3) / 4, 256, 4096);
}

/// Returns the mean over rows of -log softmax(logits)[label]. logits (..., V), labels (...) ->
/// scalar. Labels are i32 or i64 in [0, V). A step with a label outside this range returns
/// kIndexOutOfRange.
Value CrossEntropy(Value logits, Value labels, STOWAGE_LOC);
/// Returns the gradient of the logits. logits (..., V), labels, log_sum_exp (...), dloss scalar ->
/// dlogits (..., V).
Value CrossEntropyGrad(Value logits, Value labels, Value log_sum_exp,
                       Value dloss, STOWAGE_LOC);
struct LinearCrossEntropyOptions {
  /// The factors of the rows' losses (...), which are multiplied before the mean over all rows.
  /// They are f64 if x is f64, and f32 otherwise. A factor of 0 ignores a row. Scaling all factors
  /// by rows / (sum of factors) gives the weighted mean. Value() means that all factors are 1.
  Value weights = {};
  /// The format of w, if it is a frozen quantized matrix (see QuantizedMatMul). If absent, w has
  /// x's element type.
  std::optional<WeightType> blocks = {};
  /// If above 0, each logit l is replaced by softcap * tanh(l / softcap). The GPU has no kernel for
  /// this.
  double softcap = 0;
};
/// Returns the CrossEntropy of the logits x w^T. x (..., C), w (V, C), labels (...) -> scalar.
/// Logits exist only for `chunk` rows simultaneously, in workspace. Requires `chunk >= 1`.
Value LinearCrossEntropy(Value x, Value w, Value labels, int64_t chunk,
                         const LinearCrossEntropyOptions& options = {},
                         STOWAGE_LOC);
/// Returns the losses of the rows (...) instead of their mean. A loss is the negative
/// log-probability of the label. Losses are f64 if x is f64, and f32 otherwise. The gradient
/// computes the logits a second time, whereas a training step that only reads the mean computes
/// them once. `options.weights` must not be set.
Value LinearCrossEntropyRows(Value x, Value w, Value labels, int64_t chunk,
                             const LinearCrossEntropyOptions& options = {},
                             STOWAGE_LOC);
struct LinearCrossEntropyGrads {
  Value loss, dx, dw;  // dw is inert if `wants_dw` is false
};
/// Returns the loss and its gradients, multiplied by the scalar dloss. The logits of each chunk are
/// computed only once. dw is summed over the chunks in order. A quantized w has no gradient.
LinearCrossEntropyGrads LinearCrossEntropyGrad(
    Value x, Value w, Value labels, Value dloss, int64_t chunk,
    const LinearCrossEntropyOptions& options = {}, bool wants_dw = true,
    STOWAGE_LOC);
/// Returns the mean of the squared differences, a scalar.
Value MeanSquaredError(Value prediction, Value target, STOWAGE_LOC);

/// Returns (x - mean) / sqrt(var + eps) * gamma + beta, with the mean and variance along the last
/// axis. x (..., C), gamma (C), beta (C) -> (..., C).
Value LayerNorm(Value x, Value gamma, Value beta, double eps = 1e-5,
                STOWAGE_LOC);
struct LayerNormGrads {
  Value dx, dgamma, dbeta;
};
/// Returns the gradients of LayerNorm. x, dy (..., C), gamma (C), mean and rstd (...).
LayerNormGrads LayerNormGrad(Value x, Value gamma, Value mean, Value rstd,
                             Value dy, STOWAGE_LOC);

struct BatchNormResults {
  Value y, mean, variance;
};
/// Returns y = (x - mean) / sqrt(variance + eps) * gamma + beta, and the mean and population
/// variance of each channel over all other axes. x (N, C, ...), gamma (C), beta (C) ->
/// y (N, C, ...), mean (C), variance (C). A channel must have at least two elements.
BatchNormResults BatchNorm(Value x, Value gamma, Value beta, double eps = 1e-5,
                           STOWAGE_LOC);
struct BatchNormGrads {
  Value dx, dgamma, dbeta;
};
/// Returns the gradients of BatchNorm. x, dy (N, C, ...), gamma, mean and variance (C).
BatchNormGrads BatchNormGrad(Value x, Value gamma, Value mean, Value variance,
                             Value dy, double eps, STOWAGE_LOC);

struct LocalResponse {
  int64_t size = 5;  // the number of channels in a sum
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
};
/// Returns x / (bias + alpha / size * sum)^beta, where x is (N, C, ...). The sum is over the
/// squares of up to `size` channels: the element's own channel, floor((size - 1) / 2) channels
/// before it and the others after it, as in ONNX's LRN. For an even size, PyTorch's
/// local_response_norm sums one more channel before it instead. Only x is saved for the backward
/// pass.
Value LocalResponseNorm(Value x, const LocalResponse& response = {},
                        STOWAGE_LOC);

struct AttentionOptions {
  /// The factor of q k^T. 0 or less means 1 / sqrt(D).
  double scale = 0;
  /// If true, query t reads keys s <= t + (S - T). The last query is aligned with the last key, as
  /// in decoding. It is an error if there are more queries than keys, since the first query would
  /// read no key.
  bool causal = false;
  /// If above 0, limits the keys that a query reads. A causal query reads only the last `window`
  /// keys up to its position t + (S - T). Other queries read the keys at a distance below `window`
  /// from their position. It is an error if the first query reads no key.
  int64_t window = 0;
  /// The number of keys of each example, i32 (B), each in [1, S], or Value() for all keys. Later
  /// keys are not read and have a gradient of zeros. The positions of queries do not depend on it.
  /// The result of a query that reads no key is zeros.
  Value key_lengths = {};
  /// The segments of packed sequences, i32 (B, 2, T) with T = S, or Value() for none. For each
  /// position, they contain the first position of its segment and the position after its last. A
  /// query reads only keys of its own segment, so several sequences can share a row. It is an error
  /// if key lengths are given as well.
  Value segments = {};
  /// A bias of q's type that is added to scale * q k^T before the mask, or Value() for none. It has
  /// shape (B, H, T, S), where each of the first three dimensions may be 1. Examples are
  /// (1, H, 1, S) for ALiBi, (1, H, T, S) for relative positions and (B, 1, 1, S) for padding. A
  /// bias of -inf masks a key, except that a NaN in the key still propagates. If all keys of a
  /// query are masked, its result and gradient are zeros.
  Value bias = {};
  /// If above 0, each score s = scale * q k^T is replaced by softcap * tanh(s / softcap), before
  /// the bias and the mask are applied. The GPU has no kernel for this.
  double softcap = 0;
};
/// Returns softmax(scale * q k^T + bias + mask) v, computed blockwise without a T x S buffer.
/// q (B, T, H, D), k and v (B, S, G, D) -> (B, T, H, D). G must divide H, and head h reads group
/// h / (H / G) of k and v.
Value Attention(Value q, Value k, Value v, const AttentionOptions& options = {},
                STOWAGE_LOC);
/// Returns Attention with a causal mask and no other options.
Value CausalAttention(Value q, Value k, Value v, double scale = 0, STOWAGE_LOC);
struct AttentionGrads {
  Value dq, dk, dv;
};
/// Returns the gradients of q, k and v. o and log_sum_exp (B, H, T) are the results of `attention`,
/// and d_o is the gradient of o.
AttentionGrads AttentionGrad(Value q, Value k, Value v, Value o,
                             Value log_sum_exp, Value d_o,
                             const AttentionOptions& options = {}, STOWAGE_LOC);
/// Returns the gradient of `options.bias`, which must be set. Dimensions of the bias that are 1 are
/// summed blockwise. The operands are the same as for AttentionGrad.
Value AttentionBiasGrad(Value q, Value k, Value v, Value o, Value log_sum_exp,
                        Value d_o, const AttentionOptions& options,
                        STOWAGE_LOC);

// --- Recurrent layers ---

struct LstmSequenceResults {
  Value h, c;  // (B, T, H): hidden and cell states after each position
};
/// Runs an LSTM layer over all T positions of a sequence. At each position, c = f * c' + i * g and
/// h = o * tanh(c), where h' and c' are the states of the previous position. The gates i, f and o
/// are sigmoids, and g is the tanh, of `gates` + w h'. `gates` (B, T, 4H), in the order i, f, g, o,
/// is the contribution of the inputs and biases, and w is (4H, H). h0 and c0 (B, H) are the states
/// before the first position. With `reverse`, positions are processed from the last to the first,
/// and h0 and c0 precede the last. The backward pass saves h, c and the activated gates, which may
/// overwrite `gates`.
LstmSequenceResults LstmSequence(Value gates, Value h0, Value c0, Value w,
                                 bool reverse = false, STOWAGE_LOC);
struct LstmGrads {
  Value dgates, dh0, dc0;
};
/// Returns the gradients of LstmSequence. `gates` are the activated gates, which are the first
/// result of the op `lstm`, and c is its third result. dh and dc (B, T, H) are the gradients of h
/// and c, where Value() for dc means zeros. dgates is the gradient of LstmSequence's operand
/// `gates`.
LstmGrads LstmGrad(Value gates, Value c0, Value w, Value c, Value dh, Value dc,
                   bool reverse, STOWAGE_LOC);
/// Returns the gradient of w, which is computed by one matmul over all positions.
Value LstmWeightGrad(Value dgates, Value h0, Value h, bool reverse,
                     STOWAGE_LOC);

// --- Llama-style transformers ---

/// Returns x / sqrt(mean(x^2) + eps) * gamma, with the mean along the last axis (Zhang & Sennrich
/// 2019). x (..., C), gamma (C) -> (..., C).
Value RmsNorm(Value x, Value gamma, double eps = 1e-5, STOWAGE_LOC);
struct RmsNormGrads {
  Value dx, dgamma;
};
/// Returns the gradients of RmsNorm. x, dy (..., C), gamma (C), rstd (...).
RmsNormGrads RmsNormGrad(Value x, Value gamma, Value rstd, Value dy,
                         STOWAGE_LOC);

struct RopeOptions {
  double base = 10000;  // rope_theta in Hugging Face's models
  /// The number of elements at the start of each head that are rotated. It must be even, and 0
  /// means all elements.
  int64_t dims = 0;
  /// If true, pair i consists of elements 2i and 2i + 1. Otherwise it consists of elements i and
  /// i + dims / 2, which is "rotate half" in Hugging Face's models.
  bool interleaved = false;
  bool inverse = false;  // negates the angle, for the gradient
};
/// Applies the rotary position embedding (Su et al. 2021) to x (B, T, H, D). Pair i, (a, b), of
/// each head is rotated by the angle position * base^(-2i / dims), to
/// (a cos - b sin, b cos + a sin). Positions are 0 to T - 1, unless they are given by `positions`,
/// i32 (T) or (B, T).
Value Rope(Value x, Value positions = Value(), const RopeOptions& options = {},
           STOWAGE_LOC);

/// The activation function of a gated linear unit.
enum class GluActivation { kSilu = 0, kGeluTanh = 1, kGeluErf = 2 };
/// Returns activation(gate) * up (Shazeer 2020). Both operands must have the same shape, and only
/// they are saved for the backward pass.
Value Glu(Value gate, Value up, GluActivation activation, STOWAGE_LOC);
Value SwiGlu(Value gate, Value up, STOWAGE_LOC);
/// Returns Glu with the tanh approximation of GELU.
Value GeGlu(Value gate, Value up, STOWAGE_LOC);
struct GluGrads {
  Value dgate, dup;
};
/// Returns the gradients dgate = dy * up * activation'(gate) and dup = dy * activation(gate).
GluGrads GluGrad(Value gate, Value up, Value dy, GluActivation activation,
                 STOWAGE_LOC);

// --- Convolutions ---

// x is (N, C, in...) with 1 to 3 spatial dimensions. ir/windows.h states the formula. A bias is
// added by a separate Add, which runs in place.

/// The parameters of a convolution. Padding consists of zeros.
struct ConvOptions {
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
};
/// Computes a convolution as PyTorch does, without flipping the filters. x (N, C, in...),
/// w (O, C / groups, kernel...) -> (N, O, out...). The convolution is depthwise if `groups` is C.
Value Conv(Value x, Value w, const ConvOptions& options = {}, STOWAGE_LOC);

/// The parameters of a transposed convolution. `size` is the spatial size of the result. If empty,
/// it is the smallest size that a convolution maps to the spatial size of x, plus `output_padding`.
/// It is an error to set both.
struct ConvTransposeOptions {
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  EachDimension output_padding = 0;
  Axes size = {};
};
/// Computes a transposed convolution, the gradient of a convolution with w with respect to its
/// image, as PyTorch's ConvTranspose does. x (N, C, in...), w (C, O / groups, kernel...) ->
/// (N, O, size...).
Value ConvTranspose(Value x, Value w, const ConvTransposeOptions& options = {},
                    STOWAGE_LOC);
/// Returns the gradient of the filters. x (N, C, in...), dy (N, O, out...) ->
/// dw (O, C / groups, kernel...).
Value ConvWeightGrad(Value x, Value dy, const Axes& kernel,
                     const ConvOptions& options = {}, STOWAGE_LOC);

// --- Pooling ---

/// The window of a pooling op, which slides along the 1 to 3 spatial dimensions of
/// x (N, C, spatial...). It is an error if a window can consist only of padding.
struct PoolWindow {
  EachDimension kernel;
  EachDimension stride = 0;  // 0 means the kernel size
  EachDimension padding = 0;
  EachDimension dilation = 1;  // only MaxPool supports other values than 1
  /// Whether a last window may extend past the end of the padded x. AvgPool does not count the
  /// elements past that end. The window must start before the padding after x.
  bool ceil_mode = false;
};

/// Returns the largest element of each window, or NaN if the window contains one. The backward pass
/// searches x for the element a second time and selects the first of equal elements. It does not
/// save an index, since x is usually saved anyway, for the gradient of the preceding relu.
Value MaxPool(Value x, const PoolWindow& window, STOWAGE_LOC);
/// Returns the mean of each window. With `count_include_pad`, padding counts as zeros.
Value AvgPool(Value x, const PoolWindow& window, bool count_include_pad = true,
              STOWAGE_LOC);
/// Returns the mean over all spatial axes, which have size 1 in the result.
Value GlobalAvgPool(Value x, STOWAGE_LOC);
/// Returns AvgPool with equal, adjacent windows and the spatial sizes `sizes`. Each must divide the
/// size of its axis.
Value AdaptiveAvgPool(Value x, const Axes& sizes, STOWAGE_LOC);

// --- Images ---

/// Returns x with `before[i]` elements inserted before axis i and `after[i]` elements after it. The
/// elements are `value` (kConstant), the elements of x mirrored at the outermost element, which is
/// not repeated (kReflect), or copies of the outermost element (kEdge). Padding of kReflect must be
/// smaller than the axis.
Value Pad(Value x, const Axes& before, const Axes& after,
          PadMode mode = PadMode::kConstant, double value = 0, STOWAGE_LOC);
enum class ResizeMode : uint8_t { kNearest = 0, kLinear = 1 };
/// Resizes the 1 to 3 spatial axes of x (N, C, spatial...) to `sizes`, as PyTorch's interpolate
/// does. Element o of an axis is computed from a source position along the axis:
/// - kNearest: the element of x at floor(o * in / out).
/// - kLinear: interpolated between the neighbors of (o + 1/2) * in / out - 1/2, or with
///   `align_corners` of o * (in - 1) / (out - 1).
Value Resize(Value x, const Axes& sizes, ResizeMode mode = ResizeMode::kLinear,
             bool align_corners = false, STOWAGE_LOC);
/// Moves blocks of channels to the spatial axes. x (N, C, H, W) ->
/// (N, C / block^2, H * block, W * block). DepthToSpace reads channels in the order (block, block,
/// C / block^2), as in ONNX. PixelShuffle reads them in the order (C / block^2, block, block), as
/// in PyTorch.
Value DepthToSpace(Value x, int64_t block, STOWAGE_LOC);
Value PixelShuffle(Value x, int64_t block, STOWAGE_LOC);
/// Computes the inverse of DepthToSpace.
Value SpaceToDepth(Value x, int64_t block, STOWAGE_LOC);

// --- Optimizer updates ---

// Updates write in place of weights and states (see autodiff/optimizer.h). `lr` is an f32 scalar,
// and `step` is an i64 scalar that counts from 1. The gradient is first multiplied by `scale`, an
// f32 scalar such as a factor for gradient clipping. If `scale` is infinite, nothing is updated.
// Value() means that gradients are not scaled. In the formulas, g is the scaled gradient.

/// Computes w -= lr * (g + decay * w).
Value SgdUpdate(Value w, Value g, Value lr, Value scale, double decay,
                STOWAGE_LOC);
struct MomentumResults {
  Value w, velocity;
};
/// Computes velocity = momentum * velocity + g + decay * w, then w -= lr * velocity.
MomentumResults MomentumUpdate(Value w, Value velocity, Value g, Value lr,
                               Value scale, double momentum, double decay,
                               STOWAGE_LOC);
/// Computes velocity = momentum * velocity + d with d = g + decay * w, then
/// w -= lr * (d + momentum * velocity).
MomentumResults NesterovUpdate(Value w, Value velocity, Value g, Value lr,
                               Value scale, double momentum, double decay,
                               STOWAGE_LOC);
struct MeanSquareResults {
  Value w, v;
};
/// Computes v = alpha * v + (1 - alpha) * d^2 with d = g + decay * w, then
/// w -= lr * d / (sqrt(v) + eps).
MeanSquareResults RmsPropUpdate(Value w, Value v, Value g, Value lr,
                                Value scale, double alpha, double eps,
                                double decay, STOWAGE_LOC);
/// Computes v = v + d^2 with d = g + decay * w, then w -= lr * d / (sqrt(v) + eps).
MeanSquareResults AdagradUpdate(Value w, Value v, Value g, Value lr,
                                Value scale, double eps, double decay,
                                STOWAGE_LOC);
struct AdamWResults {
  Value w, m, v;
};
/// Computes the Adam update (Kingma & Ba 2015) with the gradient d = g + decay * w.
AdamWResults AdamUpdate(Value w, Value m, Value v, Value g, Value lr,
                        Value step, Value scale, double beta1, double beta2,
                        double eps, double decay, STOWAGE_LOC);
/// Computes the AdamW update (Loshchilov & Hutter 2019): w -= lr * decay * w, then
/// w -= lr * m_hat / (sqrt(v_hat) + eps). The bias of m_hat and v_hat is corrected with `step`.
AdamWResults AdamWUpdate(Value w, Value m, Value v, Value g, Value lr,
                         Value step, Value scale, double beta1, double beta2,
                         double eps, double decay, STOWAGE_LOC);
struct AdamWSplitResults {
  Value w, delta, m, v;
};
/// Computes AdamWUpdate in f32 for a split master weight (math/optimizer.h). The upper half of the
/// f32 master weight is w (bf16), and the lower half is delta (i16). If delta is u8, it contains
/// only bits 8 to 15. m and v are f32, and g is bf16.
AdamWSplitResults AdamWSplitUpdate(Value w, Value delta, Value m, Value v,
                                   Value g, Value lr, Value step, Value scale,
                                   double beta1, double beta2, double eps,
                                   double decay, STOWAGE_LOC);

// The following updates compute in f32 and have low-precision states. Their weights are f32, or for
// functions named `Split`, bf16 with a delta as in AdamWSplitUpdate. Gradients have the type of the
// weights.

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
};
/// Selects the random numbers of stochastic rounding (math/random.h). Updates with the same seed
/// and different ids use different numbers. Element i uses the random number of element first + i,
/// so that a block of a param is rounded in the same way as within the whole param.
struct RoundingNumbers {
  int64_t id = 0;
  int64_t first = 0;  // a multiple of 4
};
/// Computes AdamWUpdate with bf16 moments, rounded stochastically. `seed` is an i64 scalar.
AdamWResults AdamWBf16Update(Value w, Value m, Value v, Value g, Value lr,
                             Value step, Value seed, Value scale,
                             const AdamWOptions& options,
                             const RoundingNumbers& numbers, STOWAGE_LOC);
AdamWSplitResults AdamWBf16SplitUpdate(Value w, Value delta, Value m, Value v,
                                       Value g, Value lr, Value step,
                                       Value seed, Value scale,
                                       const AdamWOptions& options,
                                       const RoundingNumbers& numbers,
                                       STOWAGE_LOC);
struct Moments8Bit {
  Value m, v;              // u8, of the weight's shape
  Value m_scale, v_scale;  // f32, MomentScales() (ir/element_groups.h)
};
struct AdamW8BitResults {
  Value w, delta;  // delta is inert for f32 weights
  Moments8Bit moments;
};
/// Computes AdamWUpdate with 8-bit moments (math/optimizer.h).
AdamW8BitResults AdamW8BitUpdate(Value w, const Moments8Bit& moments, Value g,
                                 Value lr, Value step, Value scale,
                                 const AdamWOptions& options, MomentCode code,
                                 STOWAGE_LOC);
AdamW8BitResults AdamW8BitSplitUpdate(Value w, Value delta,
                                      const Moments8Bit& moments, Value g,
                                      Value lr, Value step, Value scale,
                                      const AdamWOptions& options,
                                      MomentCode code, STOWAGE_LOC);
/// Computes MomentumUpdate with a bf16 velocity, rounded stochastically. w is updated with the
/// velocity before rounding.
MomentumResults MomentumBf16Update(Value w, Value velocity, Value g, Value lr,
                                   Value step, Value seed, Value scale,
                                   double momentum, double decay,
                                   const RoundingNumbers& numbers, STOWAGE_LOC);
struct MomentumSplitResults {
  Value w, delta, velocity;
};
MomentumSplitResults MomentumBf16SplitUpdate(
    Value w, Value delta, Value velocity, Value g, Value lr, Value step,
    Value seed, Value scale, double momentum, double decay,
    const RoundingNumbers& numbers, STOWAGE_LOC);
struct SplitWeight {
  Value w, delta;
};
/// Returns the f32 master weight that is stored in w (bf16) and delta (i16) (math/optimizer.h).
Value JoinWeight(Value w, Value delta, STOWAGE_LOC);
/// Replaces the master weight that is stored in w and delta with x (f32), bit for bit.
SplitWeight SplitUpdate(Value w, Value delta, Value x, STOWAGE_LOC);

// --- Custom ops (ir/op_def.h) ---

/// Appends a node of `op`, which DefineOp has returned, and returns its result 0. At least one
/// operand is required.
Value Apply(OpKind op, std::initializer_list<Value> operands, Attrs attrs = {},
            STOWAGE_LOC);
/// Appends a node of `op` and returns all its results, or kMaxResults inert values after an error.
std::vector<Value> ApplyAll(OpKind op, std::span<const Value> operands,
                            Attrs attrs = {}, STOWAGE_LOC);

// --- For planning only ---

/// Appends an op of another framework, of which only the operands, the types of the results and the
/// cost are known. At least one operand and at most 8 results are allowed. The op can be planned,
/// reordered and recomputed like any other op, but no backend runs it. BuildBackward emits a
/// stand-in for its gradients that reads all operands, unless the graph contains its own backward
/// nodes. Workspace is represented by a result that no node reads.
std::vector<Value> StandIn(std::span<const Value> operands, DType dtype,
                           std::span<const Shape> shapes, double flops,
                           STOWAGE_LOC);

#undef STOWAGE_LOC

}  // namespace stowage

#endif  // STOWAGE_IR_OPS_H_

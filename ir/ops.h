#ifndef STOWAGE_IR_OPS_H_
#define STOWAGE_IR_OPS_H_

// Provides the ops from which models are built, as free functions of Value handles. Each function
// checks its operands. An invalid operand puts the builder into an error state (ir/builder.h), with
// an error that states the caller's file and line. Binary functions broadcast their operands as in
// NumPy, by inserting `broadcast` views.
//
//   Value h = Relu(Add(MatMul(x, w1), b1));
//
// Comments state shapes, such as (M, K), where "..." means any number of dimensions. An arrow
// separates the shapes of operands from the shapes of results. Negative axes count from the end.
//
// Some ops read indices or labels. If one is out of range when a step runs, the step fails with
// StepCode::kIndexOutOfRange (runtime/kernel.h).

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
/// Returns a tensor whose content is stored in the graph. `data` must contain the bytes of all
/// elements in row-major order.
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
/// Returns every `step`-th of the elements [start, end) along one axis. Requires
/// `0 <= start < end <= x.dim(axis)` and `step >= 1`.
Value Slice(Value x, int64_t axis, int64_t start, int64_t end, int64_t step = 1,
            STOWAGE_LOC);
/// Splits x along one axis into views of the given sizes. Their sum must be the size of the axis.
std::vector<Value> Split(Value x, int64_t axis, const Axes& sizes, STOWAGE_LOC);
/// Returns x, broadcast to `shape` by adding leading dimensions and repeating dimensions of size 1.
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
/// Concatenates `parts` along one axis. At least one part is required. All parts must have the same
/// element type, and the same dimensions along all other axes.
Value Concat(std::span<const Value> parts, int64_t axis, STOWAGE_LOC);
/// Returns the rows of `table` at `indices`, which are i32 or i64 in [0, V). If `indices` has shape
/// (I...), table (V, C...) -> (I..., C...).
Value Gather(Value table, Value indices, STOWAGE_LOC);
/// Returns the rows of a quantized table at `indices`, decoded to f32. The table, which is not
/// trained, has the decoded shape (V, C). It is stored as u8, in rows of blocks with the format
/// `blocks` (ir/weight_type.h). If `indices` has shape (I...), the result is (I..., C).
Value QuantizedGather(Value table, Value indices, WeightType blocks,
                      STOWAGE_LOC);
/// Returns `base` with each row of `updates` added to the row of `base` at its index. Rows with
/// equal indices are added in order, so the result is deterministic. base (V, C...),
/// indices (I...), updates (I..., C...) -> (V, C...).
Value ScatterAdd(Value base, Value indices, Value updates, STOWAGE_LOC);

// --- Along an axis ---

/// Returns the cumulative sums of x along `axis`. If `exclusive` is true, each sum excludes the
/// element at its own position. If `reverse` is true, sums begin at the end.
Value CumSum(Value x, int64_t axis, bool exclusive = false,
             bool reverse = false, STOWAGE_LOC);
/// Returns the elements of x at `indices` along `axis`, as PyTorch's gather does. Indices are i32
/// or i64 in [0, x.dim(axis)). x and `indices` must have the same dimensions along all other axes.
/// The result has the shape of `indices`.
Value TakeAlongAxis(Value x, Value indices, int64_t axis, STOWAGE_LOC);
/// Returns `base` with each element of `updates` added to the element of `base` at its index along
/// `axis`, as PyTorch's scatter_add does. `indices` must satisfy the requirements of TakeAlongAxis,
/// where `base` is x. `updates` has the shape of `indices`. Updates with equal indices are added in
/// order, so the result is deterministic.
Value PutAdd(Value base, Value indices, Value updates, int64_t axis,
             STOWAGE_LOC);
struct TopKResults {
  Value values, indices;
};
/// Returns elements along the last axis and their indices (i32): the k largest in descending order,
/// or the k smallest in ascending order if `descending` is false. Equal elements keep their order.
/// NaNs are last in both orders.
TopKResults TopK(Value x, int64_t k, bool descending = true, STOWAGE_LOC);
/// Returns all elements along the last axis and their indices, as TopK does. The default order is
/// ascending.
TopKResults Sort(Value x, bool descending = false, STOWAGE_LOC);

/// Returns the one-hot encoding of `indices` along a new last axis of size `depth`: 1 at the index
/// and 0 elsewhere. The encoding of an index that is out of range is 0 everywhere, which is not an
/// error.
Value OneHot(Value indices, int64_t depth, DType dtype = DType::kF32,
             STOWAGE_LOC);
/// Tril returns x (..., R, C) with zeros above the given diagonal. Triu returns x with zeros below
/// the diagonal. Diagonal 0 is the main diagonal, and diagonal 1 is the next diagonal above it.
Value Tril(Value x, int64_t diagonal = 0, STOWAGE_LOC);
Value Triu(Value x, int64_t diagonal = 0, STOWAGE_LOC);
/// Returns x repeated `repeats[i]` times along each axis i.
Value Tile(Value x, const Axes& repeats, STOWAGE_LOC);

// --- Random numbers ---

// The generator is Philox4x32-10, with the key (seed, id) and the counter (step, element), as in
// Dropout. It is stateless, so forward, backward and recomputation compute the same numbers. `seed`
// and `step` are i64 scalars, and usually inputs of the step. Each random op of a model, including
// Dropout, must have its own `id`.

/// Returns numbers that are uniform in [0, 1), with the same bits on all devices.
Value RandomUniform(Value seed, Value step, const Shape& shape, DType dtype,
                    int64_t id, STOWAGE_LOC);
/// Returns normally distributed numbers with mean 0 and variance 1, all in [-5.8, 5.8].
Value RandomNormal(Value seed, Value step, const Shape& shape, DType dtype,
                   int64_t id, STOWAGE_LOC);

// --- In place ---

// These ops write to values that persist from step to step, such as running means, averages of
// weights or a hidden state. The target is a whole param, state or cache, or the result of another
// op of this section. The result is the target's new content, and no later op may read the old
// content. In a training step, the backward pass may still read the old content, from a copy that
// is added automatically.

/// Replaces the content of `target` with x, which must have the same type.
Value Assign(Value target, Value x, STOWAGE_LOC);
/// Replaces `target` with target + weight * (x - target), as PyTorch's lerp_ does. All operands
/// must have the same float type. `weight` is broadcast to the shape of `target`. Where the weight
/// is infinite, the target is unchanged. For example, this op updates the running mean of a batch
/// norm.
Value LerpUpdate(Value target, Value x, Value weight, STOWAGE_LOC);
/// Replaces the elements [start, start + x.dim(axis)) of `target` along `axis` with x. The target
/// may also be the result of Fill, so tensors can be concatenated without a second copy.
Value SliceUpdate(Value target, Value x, int64_t axis, int64_t start,
                  STOWAGE_LOC);
/// Does the same with a `start` that is computed in the step, an i32 or i64 scalar. It is out of
/// range if it is negative or if x would extend past the end of the target.
Value SliceUpdate(Value target, Value x, int64_t axis, Value start,
                  STOWAGE_LOC);

// --- Collectives ---
//
// Each rank runs the same ops on its own values. A tensor of n elements is split into flat blocks
// of consecutive elements, one for each rank. A block has ceil(n / ranks) elements, rounded up to a
// multiple of `granule` (RankBlock in ir/element_groups.h). The last blocks are padded with zeros.
// AllGather accepts blocks with any granule.

/// Returns the sum of x over all ranks. Terms are added in rank order, and each addition is rounded
/// to x's type.
Value AllReduce(Value x, int64_t ranks, STOWAGE_LOC);
/// Returns this rank's block of the sum of x over all ranks.
Value ReduceScatter(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);
/// Returns the concatenated blocks of all ranks as a tensor with `shape`.
Value AllGather(Value block, int64_t ranks, const Shape& shape, STOWAGE_LOC);
/// Replaces the content of `target` with the concatenated blocks of all ranks, as Assign does.
Value AllGatherUpdate(Value target, Value block, int64_t ranks, STOWAGE_LOC);
/// Returns a copy of this rank's block of x. An update op may write in place of the copy.
Value OwnBlock(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);

// --- Elementwise ---

// Unary and binary ops without attributes are declared from the list in ir/ops.def. Examples are
// Neg, Exp, Relu, LogicalNot, Add, Mul and Maximum.
// - Sign returns -1, 0 or 1, and Round rounds half to even.
// - Silu is x * sigmoid(x), Mish is x * tanh(Softplus(x)), and HardSwish is x * HardSigmoid(x).
// - GeluErf is x * Phi(x), where Phi is the normal distribution function. GeluTanh is its tanh
//   approximation (GPT-2).
// - Pow is a^b. Where a < 0, the gradient of b is NaN. Where a is 0 and b >= 0, it is 0.
// - The result of Remainder has the sign of b, and the result of Fmod has the sign of a.
// - Comparisons, Equal to GreaterEqual, return bool.
//
// The gradient functions of activation functions, such as ReluGrad, are declared from the list too.
// They return dy times the derivative. The first operand is the output y for relu, sigmoid and
// tanh, and the input x for all others.
#define STOWAGE_OP(Kind, name)
#define STOWAGE_UNARY_OP(Kind, name) Value Kind(Value x, STOWAGE_LOC);
#define STOWAGE_BINARY_OP(Kind, name) Value Kind(Value a, Value b, STOWAGE_LOC);
#define STOWAGE_UNARY_GRAD_OP(Kind, name) \
  Value Kind(Value x_or_y, Value dy, STOWAGE_LOC);
#include "ir/ops.def"
#undef STOWAGE_OP

/// AddScalar returns x + c, and MulScalar returns x * c. `c` is converted to x's type.
Value AddScalar(Value x, double c, STOWAGE_LOC);
Value MulScalar(Value x, double c, STOWAGE_LOC);

/// Returns x where x > 0, and slope * x elsewhere. Requires `slope >= 0`.
Value LeakyRelu(Value x, double slope = 0.01, STOWAGE_LOC);
/// Returns scale * x where x > 0, and scale * alpha * (e^x - 1) elsewhere. Requires `alpha > 0` and
/// `scale > 0`.
Value Elu(Value x, double alpha = 1, double scale = 1, STOWAGE_LOC);
/// Returns Elu with the constants of Klambauer et al. 2017, which preserve mean and variance.
Value Selu(Value x, STOWAGE_LOC);
/// Returns x clamped to [min, max]. Requires `min <= max`. The bounds may be infinite.
Value Clamp(Value x, double min, double max, STOWAGE_LOC);
/// Returns alpha * x + beta, clamped to [0, 1].
Value HardSigmoid(Value x, double alpha = 1.0 / 6, double beta = 0.5,
                  STOWAGE_LOC);
/// Returns a bool tensor that is true where x is NaN.
Value IsNan(Value x, STOWAGE_LOC);

/// Returns a where `condition` (bool) is true, and b elsewhere.
Value Where(Value condition, Value a, Value b, STOWAGE_LOC);

/// Zeroes each element with probability p, in [0, 1), and multiplies the others by 1 / (1 - p). The
/// mask is never stored. Forward, backward and recomputation compute the same mask, with the
/// generator of the random ops above. `seed`, `step` and `id` have the same meaning as there.
Value Dropout(Value x, Value seed, Value step, double p, int64_t id,
              STOWAGE_LOC);

// --- Reductions ---

/// These functions return the sum, the mean and the maximum of x over `axes`. If `axes` is empty,
/// all axes are reduced. With `keep`, reduced dimensions have size 1 in the result. Otherwise they
/// are removed.
Value ReduceSum(Value x, const Axes& axes = {}, bool keep = false, STOWAGE_LOC);
Value ReduceMean(Value x, const Axes& axes = {}, bool keep = false,
                 STOWAGE_LOC);
Value ReduceMax(Value x, const Axes& axes = {}, bool keep = false, STOWAGE_LOC);
/// Returns the sum of the squares of all elements, a scalar of type f64 if x is f64, and f32
/// otherwise. It is used for gradient norms.
Value SumSquares(Value x, STOWAGE_LOC);
/// Returns the index (i32) of the largest element along the last axis. If several elements are
/// equal, returns the first index.
Value ArgMax(Value x, STOWAGE_LOC);

// --- Matmuls, losses and layers ---

/// Returns the matmul of a (..., M, K) and b (..., K, N) -> (..., M, N). `transpose_a` and
/// `transpose_b` state that the last two axes of the operand are swapped, (K, M) or (N, K). Leading
/// dimensions are broadcast. If b is a single matrix (K, N), all matrices of a are multiplied by b.
Value MatMul(Value a, Value b, bool transpose_a = false,
             bool transpose_b = false, STOWAGE_LOC);
/// Multiplies each group of rows of x by its own matrix, for a mixture of experts with tokens
/// sorted by expert. x (S, K), w (E, K, N), or (E, N, K) with `transpose_w`, ends (E) -> (S, N).
/// Rows [ends[e - 1], ends[e]) of x are multiplied by matrix e. The first group starts at row 0.
/// `ends` is i32 or i64. It must be non-decreasing and in [0, S], and is out of range otherwise.
/// Rows of the result after the last end are zeros.
Value GroupedMatMul(Value x, Value w, Value ends, bool transpose_w = false,
                    STOWAGE_LOC);
/// Returns x^T dy for each group of rows, the gradient of GroupedMatMul's w. x (S, K), dy (S, N),
/// ends (E) -> (E, K, N).
Value GroupedMatMulWeightGrad(Value x, Value dy, Value ends, STOWAGE_LOC);
/// Multiplies x by a quantized matrix w, which is not trained. w has the decoded shape (R, C). It
/// is stored as u8, in rows of blocks with the format `blocks` (ir/weight_type.h). With
/// `transpose_w`, returns x w^T: x (..., C) -> (..., R). Without it, returns x w:
/// x (..., R) -> (..., C). The result equals the matmul with the decoded matrix, bit for bit, but
/// only a few thousand decoded numbers exist simultaneously. w has no gradient.
Value QuantizedMatMul(Value x, Value w, WeightType blocks,
                      bool transpose_w = true, STOWAGE_LOC);
Value Softmax(Value x, int64_t axis = -1, STOWAGE_LOC);
Value LogSoftmax(Value x, int64_t axis = -1, STOWAGE_LOC);
/// These functions return the gradient of the operand of Softmax or LogSoftmax along the last axis,
/// where y is the result of the forward op. y, dy (..., C) -> (..., C).
Value SoftmaxGrad(Value y, Value dy, STOWAGE_LOC);
Value LogSoftmaxGrad(Value y, Value dy, STOWAGE_LOC);

/// The minimum vocabulary size for which built-in and imported models compute logits in chunks
/// (LinearCrossEntropy). For larger vocabularies, the logits of all rows would be the largest value
/// of a step.
inline constexpr int64_t kLargeVocabulary = 8192;

/// Returns the default `chunk` of LinearCrossEntropy for `rows` rows. It is a quarter of the rows,
/// but at least 256, which is enough to keep a device busy, and at most 4,096.
inline int64_t LogitChunk(int64_t rows) {
  return std::clamp<int64_t>((rows + 3) / 4, 256, 4096);
}

/// Returns the mean over rows of -log softmax(logits)[label]. logits (..., V), labels (...) ->
/// scalar. Labels are i32 or i64 in [0, V).
Value CrossEntropy(Value logits, Value labels, STOWAGE_LOC);
/// Returns the gradient of CrossEntropy's logits. logits (..., V), labels and log_sum_exp (...),
/// dloss scalar -> (..., V). log_sum_exp is the second result of the op `cross_entropy`.
Value CrossEntropyGrad(Value logits, Value labels, Value log_sum_exp,
                       Value dloss, STOWAGE_LOC);
struct LinearCrossEntropyOptions {
  /// The factors (...) by which the losses of rows are multiplied before the mean over all rows.
  /// They are f64 if x is f64, and f32 otherwise. A row with the factor 0 is ignored. For the
  /// weighted mean, multiply all factors by rows / (sum of factors). Value() means that all factors
  /// are 1.
  Value weights = {};
  /// The format of w, if it is a frozen quantized matrix (see QuantizedMatMul). If absent, w has
  /// x's element type.
  std::optional<WeightType> blocks = {};
  /// If above 0, each logit l is replaced by softcap * tanh(l / softcap). The GPU has no kernel for
  /// this.
  double softcap = 0;
};
/// Returns the CrossEntropy of the logits x w^T, without storing all logits. x (..., C), w (V, C),
/// labels (...) -> scalar. Logits exist only for `chunk` rows at a time, in workspace. Requires
/// `chunk >= 1`.
Value LinearCrossEntropy(Value x, Value w, Value labels, int64_t chunk,
                         const LinearCrossEntropyOptions& options = {},
                         STOWAGE_LOC);
/// Returns the losses of the rows (...) instead of their mean. A loss is the negative
/// log-probability of the label. Losses are f64 if x is f64, and f32 otherwise. The gradient
/// computes the logits a second time. A training step that only reads the mean computes them once.
/// Aborts if `options.weights` is set.
Value LinearCrossEntropyRows(Value x, Value w, Value labels, int64_t chunk,
                             const LinearCrossEntropyOptions& options = {},
                             STOWAGE_LOC);
struct LinearCrossEntropyGrads {
  Value loss, dx, dw;  // dw is inert if `wants_dw` is false
};
/// Returns the loss of LinearCrossEntropy, and its gradients multiplied by the scalar dloss. The
/// logits of each chunk are computed only once. dw is summed over the chunks in order. A quantized
/// w has no gradient.
LinearCrossEntropyGrads LinearCrossEntropyGrad(
    Value x, Value w, Value labels, Value dloss, int64_t chunk,
    const LinearCrossEntropyOptions& options = {}, bool wants_dw = true,
    STOWAGE_LOC);
/// Returns the mean of the squared differences, a scalar.
Value MeanSquaredError(Value prediction, Value target, STOWAGE_LOC);

/// Returns (x - mean) / sqrt(variance + eps) * gamma + beta, with the mean and variance along the
/// last axis. x (..., C), gamma (C), beta (C) -> (..., C).
Value LayerNorm(Value x, Value gamma, Value beta, double eps = 1e-5,
                STOWAGE_LOC);
struct LayerNormGrads {
  Value dx, dgamma, dbeta;
};
/// Returns the gradients of LayerNorm. x, dy (..., C), gamma (C), mean and rstd (...), where rstd
/// is 1 / sqrt(variance + eps).
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
  int64_t size = 5;  // the maximum number of channels in a sum
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
};
/// Returns x / (bias + alpha / size * sum)^beta, where x is (N, C, ...). Each sum is over the
/// squares of the element's own channel, of floor((size - 1) / 2) channels before it, and of
/// floor(size / 2) channels after it, as in ONNX's LRN. Channels outside of x are omitted. For an
/// even size, PyTorch's local_response_norm instead has the additional channel before the element.
/// Only x is saved for the backward pass.
Value LocalResponseNorm(Value x, const LocalResponse& response = {},
                        STOWAGE_LOC);

struct AttentionOptions {
  /// The factor of q k^T. 0 or less means 1 / sqrt(D).
  double scale = 0;
  /// If true, query t reads keys s <= t + (S - T). The last query is aligned with the last key, as
  /// in decoding. More queries than keys are an error, since the first query would read no key.
  bool causal = false;
  /// If above 0, limits the keys that a query reads. With `causal`, a query reads only the last
  /// `window` keys up to its position t + (S - T). Otherwise, a query reads the keys at a distance
  /// below `window` from its position. It is an error if the first query reads no key.
  int64_t window = 0;
  /// The number of keys of each example, i32 (B), each in [1, S], or Value() for all keys. The keys
  /// after them are not read, and their gradients are zeros. The positions of queries do not depend
  /// on the number. The result of a query that reads no key is zeros.
  Value key_lengths = {};
  /// The segments of packed sequences, i32 (B, 2, T) with T = S, or Value() for none. For each
  /// position t, element (b, 0, t) is the first position of its segment, and element (b, 1, t) is
  /// the position after the segment's last. A query reads only keys of its own segment, so several
  /// sequences can share a row. It is an error if `key_lengths` is set as well.
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
/// q (B, T, H, D), k and v (B, S, G, D) -> (B, T, H, D). G must divide H. Head h of q reads head
/// h / (H / G) of k and v (grouped-query attention).
Value Attention(Value q, Value k, Value v, const AttentionOptions& options = {},
                STOWAGE_LOC);
/// Returns Attention with a causal mask and no other options.
Value CausalAttention(Value q, Value k, Value v, double scale = 0, STOWAGE_LOC);
struct AttentionGrads {
  Value dq, dk, dv;
};
/// Returns the gradients of q, k and v. o and log_sum_exp (B, H, T) are the two results of the op
/// `attention`, and d_o is the gradient of o. `options` must be the options of the forward op.
AttentionGrads AttentionGrad(Value q, Value k, Value v, Value o,
                             Value log_sum_exp, Value d_o,
                             const AttentionOptions& options = {}, STOWAGE_LOC);
/// Returns the gradient of `options.bias`, which must be set. The operands are the same as for
/// AttentionGrad. Along dimensions of the bias that are 1, the gradient is summed, blockwise.
Value AttentionBiasGrad(Value q, Value k, Value v, Value o, Value log_sum_exp,
                        Value d_o, const AttentionOptions& options,
                        STOWAGE_LOC);

// --- Recurrent layers ---

struct LstmSequenceResults {
  Value h, c;  // (B, T, H): hidden and cell states after each position
};
/// Runs an LSTM layer over all T positions of a sequence. At each position, c = f * c' + i * g and
/// h = o * tanh(c), where h' and c' are the states of the previous position. The gates i, f, g and
/// o are computed from `gates` + w h', where i, f and o are sigmoids and g is a tanh. `gates`
/// (B, T, 4H) is the contribution of the inputs and biases, in the order i, f, g, o. w is (4H, H).
/// h0 and c0 (B, H) are the states before the first position. With `reverse`, positions are
/// processed from the last to the first, and h0 and c0 are the states before the last position. h,
/// c and the activated gates are saved for the backward pass. The activated gates may overwrite
/// `gates`.
LstmSequenceResults LstmSequence(Value gates, Value h0, Value c0, Value w,
                                 bool reverse = false, STOWAGE_LOC);
struct LstmGrads {
  Value dgates, dh0, dc0;
};
/// Returns the gradients of LstmSequence. Here, `gates` are the activated gates, the first result
/// of the op `lstm`, and c is its third result. dh and dc (B, T, H) are the gradients of h and c,
/// where Value() for dc means zeros. dgates is the gradient of LstmSequence's operand `gates`.
LstmGrads LstmGrad(Value gates, Value c0, Value w, Value c, Value dh, Value dc,
                   bool reverse, STOWAGE_LOC);
/// Returns the gradient of w, which one matmul over all positions computes.
Value LstmWeightGrad(Value dgates, Value h0, Value h, bool reverse,
                     STOWAGE_LOC);

// --- Llama-style transformers ---

/// Returns x / sqrt(mean(x^2) + eps) * gamma, with the mean along the last axis (Zhang & Sennrich
/// 2019). x (..., C), gamma (C) -> (..., C).
Value RmsNorm(Value x, Value gamma, double eps = 1e-5, STOWAGE_LOC);
struct RmsNormGrads {
  Value dx, dgamma;
};
/// Returns the gradients of RmsNorm. x, dy (..., C), gamma (C), rstd (...), where rstd is
/// 1 / sqrt(mean(x^2) + eps).
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
/// Applies the rotary position embedding (Su et al. 2021) to x (B, T, H, D). In each head, pair i
/// with the elements (a, b) is rotated by the angle position * base^(-2i / dims). It becomes
/// (a cos - b sin, b cos + a sin). Positions are `positions`, i32 (T) or (B, T), or 0 to T - 1 by
/// default.
Value Rope(Value x, Value positions = Value(), const RopeOptions& options = {},
           STOWAGE_LOC);

/// The activation function of a gated linear unit.
enum class GluActivation { kSilu = 0, kGeluTanh = 1, kGeluErf = 2 };
/// Returns activation(gate) * up (Shazeer 2020). Both operands must have the same shape. Only the
/// operands are saved for the backward pass.
Value Glu(Value gate, Value up, GluActivation activation, STOWAGE_LOC);
/// Returns Glu with SiLU.
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

// x is (N, C, in...) with 1 to 3 spatial dimensions. ir/windows.h states the formula. To add a
// bias, use Add, which can run in place.

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

/// The parameters of a transposed convolution. `size` contains the spatial sizes of the result. If
/// `size` is empty, they are the smallest sizes that a convolution with these parameters maps to
/// the spatial sizes of x, plus `output_padding`. It is an error to set both.
struct ConvTransposeOptions {
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  EachDimension output_padding = 0;
  Axes size = {};
};
/// Computes a transposed convolution, as PyTorch's ConvTranspose does: the gradient of the image of
/// a convolution with the filters w. x (N, C, in...), w (C, O / groups, kernel...) ->
/// (N, O, size...).
Value ConvTranspose(Value x, Value w, const ConvTransposeOptions& options = {},
                    STOWAGE_LOC);
/// Returns the gradient of the filters of Conv. `kernel` contains the spatial sizes of the filters.
/// x (N, C, in...), dy (N, O, out...) -> (O, C / groups, kernel...).
Value ConvWeightGrad(Value x, Value dy, const Axes& kernel,
                     const ConvOptions& options = {}, STOWAGE_LOC);

// --- Pooling ---

/// The window of a pooling op, which slides along the 1 to 3 spatial dimensions of
/// x (N, C, spatial...). It is an error if a window can consist only of padding.
struct PoolWindow {
  EachDimension kernel;
  EachDimension stride = 0;  // 0 means the kernel size
  EachDimension padding = 0;
  EachDimension dilation = 1;  // AvgPool only supports 1
  /// Whether one more window, which extends past the end of the padded x, is added along each axis
  /// with remaining elements. It is only added if it starts before the padding after x. AvgPool
  /// does not count the elements past the end of the padded x.
  bool ceil_mode = false;
};

/// Returns the largest element of each window, or NaN if the window contains a NaN. No indices are
/// saved for the backward pass, which searches x for the largest elements a second time. It selects
/// the first of equal elements. x is usually saved anyway, for the gradient of the preceding relu.
Value MaxPool(Value x, const PoolWindow& window, STOWAGE_LOC);
/// Returns the mean of each window. With `count_include_pad`, padding counts as zeros.
Value AvgPool(Value x, const PoolWindow& window, bool count_include_pad = true,
              STOWAGE_LOC);
/// Returns the mean over all spatial axes, which have size 1 in the result.
Value GlobalAvgPool(Value x, STOWAGE_LOC);
/// Returns the means of equal, adjacent windows. `sizes` contains the spatial sizes of the result.
/// Each must divide the size of the axis of x.
Value AdaptiveAvgPool(Value x, const Axes& sizes, STOWAGE_LOC);

// --- Images ---

/// Returns x with `before[i]` elements inserted at the start of axis i and `after[i]` elements at
/// its end. With kConstant, these elements are `value`. With kReflect, they are the elements of x
/// mirrored at the outermost element, which is not repeated. Each padding must then be smaller than
/// the axis. With kEdge, they are copies of the outermost element.
Value Pad(Value x, const Axes& before, const Axes& after,
          PadMode mode = PadMode::kConstant, double value = 0, STOWAGE_LOC);
enum class ResizeMode : uint8_t { kNearest = 0, kLinear = 1 };
/// Resizes the 1 to 3 spatial axes of x (N, C, spatial...) to `sizes`, as PyTorch's interpolate
/// does. Along an axis that is resized from `in` to `out` elements, element o is
/// - with kNearest, the element of x at floor(o * in / out),
/// - with kLinear, the interpolation of x at the position (o + 1/2) * in / out - 1/2, or at
///   o * (in - 1) / (out - 1) if `align_corners` is true.
/// It is an error to set `align_corners` with kNearest.
Value Resize(Value x, const Axes& sizes, ResizeMode mode = ResizeMode::kLinear,
             bool align_corners = false, STOWAGE_LOC);
/// DepthToSpace and PixelShuffle move blocks of channels to the spatial axes. x (N, C, H, W) ->
/// (N, C / block^2, H * block, W * block). DepthToSpace reads channels in the order
/// (block, block, C / block^2), as the default mode of ONNX's op does. PixelShuffle reads them in
/// the order (C / block^2, block, block), as PyTorch does.
Value DepthToSpace(Value x, int64_t block, STOWAGE_LOC);
Value PixelShuffle(Value x, int64_t block, STOWAGE_LOC);
/// Computes the inverse of DepthToSpace.
Value SpaceToDepth(Value x, int64_t block, STOWAGE_LOC);

// --- Optimizer updates ---

// Updates write in place of weights and states (see autodiff/optimizer.h). `lr` is an f32 scalar,
// and `step` is an i64 scalar that counts from 1. The gradient is first multiplied by `scale`, an
// f32 scalar such as a factor for gradient clipping. If `scale` is infinite, nothing is updated. If
// `scale` is Value(), gradients are not scaled. In the formulas, g is the scaled gradient.

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
/// Computes AdamWUpdate in f32 for a split master weight (math/optimizer.h). w (bf16) is the upper
/// half of the f32 master weight, and delta (i16) is the lower half. delta may also be u8. It then
/// contains only bits 8 to 15 of the master weight. m and v are f32, and g is bf16.
AdamWSplitResults AdamWSplitUpdate(Value w, Value delta, Value m, Value v,
                                   Value g, Value lr, Value step, Value scale,
                                   double beta1, double beta2, double eps,
                                   double decay, STOWAGE_LOC);

// The following updates compute in f32 and have low-precision states. Weights are f32. In functions
// named `Split`, they are bf16 with a delta, as in AdamWSplitUpdate. Gradients have the type of the
// weights.

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
};
/// Selects the random numbers of stochastic rounding (math/random.h). Updates with the same seed
/// and different ids use different numbers. Element i uses the random number with index first + i.
/// If `first` is the offset of a block within a param, the block is rounded as it would be in an
/// update of the whole param.
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
/// velocity before it is rounded. `seed` is an i64 scalar.
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

/// Appends a node of `op`, which DefineOp has returned, and returns the node's first result. At
/// least one operand is required.
Value Apply(OpKind op, std::initializer_list<Value> operands, Attrs attrs = {},
            STOWAGE_LOC);
/// Appends a node of `op` and returns all its results, or kMaxResults inert values after an error.
/// At least one operand is required.
std::vector<Value> ApplyAll(OpKind op, std::span<const Value> operands,
                            Attrs attrs = {}, STOWAGE_LOC);

// --- For planning only ---

/// Appends a node that represents an op of another framework, of which only the operands, the types
/// of the results and the cost (`flops`) are known. Result i has the element type `dtype` and the
/// shape `shapes[i]`. At least one operand and 1 to 8 results are required. The node can be
/// planned, reordered and recomputed like any other node, but no backend runs it. A result that no
/// node reads can represent workspace. If BuildBackward (autodiff/backward.h) differentiates the
/// node, it emits one stand-in for each gradient, which reads all operands.
std::vector<Value> StandIn(std::span<const Value> operands, DType dtype,
                           std::span<const Shape> shapes, double flops,
                           STOWAGE_LOC);

#undef STOWAGE_LOC

}  // namespace stowage

#endif  // STOWAGE_IR_OPS_H_

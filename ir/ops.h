#ifndef STOWAGE_IR_OPS_H_
#define STOWAGE_IR_OPS_H_

// The op surface: one free function an op, over Value handles. Every function
// checks its operands; a mistake poisons the builder (ir/builder.h) with an
// error that carries the caller's file and line. Binary functions broadcast
// their operands as NumPy does, by inserting `broadcast` views.
//
//   Value h = Relu(Add(MatMul(x, w1), b1));
//
// Shapes are written (M, K); "..." is any number of leading dimensions. Axes
// may be negative, counting from the end.

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

/// A tensor whose elements all equal `value`.
Value Fill(GraphBuilder& g, double value, DType dtype, const Shape& shape,
           STOWAGE_LOC);
/// A tensor whose bytes are part of the graph. `data` holds the type's bytes, row-major.
Value Constant(GraphBuilder& g, DType dtype, const Shape& shape,
               std::span<const std::byte> data, STOWAGE_LOC);
/// start, start + step, ...: n numbers.
Value Iota(GraphBuilder& g, DType dtype, double start, double step, int64_t n,
           STOWAGE_LOC);

// --- Views (no bytes, no work) ---

/// Same elements in row-major order, another shape; one dimension may be -1. A
/// copy is inserted only when strides cannot express it.
Value Reshape(Value x, const Shape& shape, STOWAGE_LOC);
/// Result axis i is x's axis `order[i]`.
Value Permute(Value x, const Axes& order, STOWAGE_LOC);
/// Swaps the last two axes.
Value Transpose(Value x, STOWAGE_LOC);
/// Elements [start, end) of one axis, every `step`-th (step >= 1).
Value Slice(Value x, int64_t axis, int64_t start, int64_t end, int64_t step = 1,
            STOWAGE_LOC);
/// Cuts one axis into parts of the given sizes, which sum to its dimension.
std::vector<Value> Split(Value x, int64_t axis, const Axes& sizes, STOWAGE_LOC);
/// Repeats dimensions of size 1 and adds leading ones to reach `shape`.
Value BroadcastTo(Value x, const Shape& shape, STOWAGE_LOC);
/// x, through which no gradient passes.
Value StopGradient(Value x, STOWAGE_LOC);

// --- Movement ---

/// A contiguous copy.
Value Copy(Value x, STOWAGE_LOC);
/// A copy in the arena of a value in host memory.
Value Reload(Value x, STOWAGE_LOC);
/// A copy of x in host memory, for a later Reload.
Value Offload(Value x, STOWAGE_LOC);
/// Writes x over a state in host memory; returns the state.
Value OffloadUpdate(Value state, Value x, STOWAGE_LOC);
/// Another element type, rounding to nearest even (float to integer truncates,
/// anything to bool is != 0). The same type is x itself.
Value Cast(Value x, DType dtype, STOWAGE_LOC);
/// Joins along one axis; the other dimensions and the types must agree.
Value Concat(std::span<const Value> parts, int64_t axis, STOWAGE_LOC);
/// table (V, C...), indices any shape S of i32 or i64 in [0, V) -> S + (C...).
Value Gather(Value table, Value indices, STOWAGE_LOC);
/// Rows of a frozen table (V, C), u8 in rows of quantized blocks (ir/weight_type.h), at
/// indices S -> f32, S + (C).
Value QuantizedGather(Value table, Value indices, WeightType blocks,
                      STOWAGE_LOC);
/// base (V, C...), indices S, updates S + (C...) -> base plus every update row
/// at its index, repeated indices added in order (deterministic).
Value ScatterAdd(Value base, Value indices, Value updates, STOWAGE_LOC);

// --- Along an axis ---

/// Cumulative sums of x along `axis`, without the element itself if `exclusive`, from the
/// end if `reverse`.
Value CumSum(Value x, int64_t axis, bool exclusive = false,
             bool reverse = false, STOWAGE_LOC);
/// x's elements at indices along `axis`: indices are i32 or i64 in [0, x.dim(axis)), and
/// have x's dimensions in all other axes -> the indices' shape. PyTorch's gather.
Value TakeAlongAxis(Value x, Value indices, int64_t axis, STOWAGE_LOC);
/// base plus every update at its index along `axis`; indices as above, updates of
/// their shape. Repeated indices are added in order (deterministic). PyTorch's
/// scatter_add.
Value PutAdd(Value base, Value indices, Value updates, int64_t axis,
             STOWAGE_LOC);
struct TopKResults {
  Value values, indices;
};
/// The k largest elements of the last axis in descending order, or the k smallest in
/// ascending order, and their indices (i32). Equal elements keep their order; NaN is last.
TopKResults TopK(Value x, int64_t k, bool descending = true, STOWAGE_LOC);
/// All elements of the last axis, likewise.
TopKResults Sort(Value x, bool descending = false, STOWAGE_LOC);

/// 1 at each index along a new last axis of `depth`, 0 elsewhere; a row whose index is out
/// of range is 0.
Value OneHot(Value indices, int64_t depth, DType dtype = DType::kF32,
             STOWAGE_LOC);
/// x (..., R, C) with 0 above the given diagonal (Tril) or below it (Triu); 0 is the main
/// diagonal, 1 the one above.
Value Tril(Value x, int64_t diagonal = 0, STOWAGE_LOC);
Value Triu(Value x, int64_t diagonal = 0, STOWAGE_LOC);
/// x repeated along each axis.
Value Tile(Value x, const Axes& repeats, STOWAGE_LOC);

// --- Random numbers ---

// Philox4x32-10 keyed by (seed, id), counted by step and element, as Dropout: the
// same numbers in forward, backward and recomputation. seed and step are i64
// scalars, inputs of the step; ids of one model differ.

/// In [0, 1): the same bits on every device.
Value RandomUniform(Value seed, Value step, const Shape& shape, DType dtype,
                    int64_t id, STOWAGE_LOC);
/// Normal with mean 0 and variance 1, within [-5.8, 5.8].
Value RandomNormal(Value seed, Value step, const Shape& shape, DType dtype,
                   int64_t id, STOWAGE_LOC);

// --- In place ---

// Writes to values that persist from step to step: running means, averages of weights, a
// hidden state. The target is a whole param or state, or the result of another op of this
// section; the result is its new content, and no later op may read the old one (in a
// training step the backward part may, from a copy).

/// target becomes x, of the same type.
Value Assign(Value target, Value x, STOWAGE_LOC);
/// target becomes target + weight * (x - target), for floats of one type; a weight of
/// another shape is broadcast, and target is unchanged where the weight is infinite.
/// PyTorch's lerp_; a batch norm's momentum.
Value LerpUpdate(Value target, Value x, Value weight, STOWAGE_LOC);
/// target's elements [start, start + x.dim(axis)) along `axis` become x. The target
/// may also be a Fill that nothing else reads, to join parts without a second copy.
Value SliceUpdate(Value target, Value x, int64_t axis, int64_t start,
                  STOWAGE_LOC);
/// The same with `start` as an i32 or i64 scalar; a negative one, or one past which x does
/// not fit, is an index out of range.
Value SliceUpdate(Value target, Value x, int64_t axis, Value start,
                  STOWAGE_LOC);

// --- Among the ranks of a step ---
//
// Each rank runs the same ops on its own values. A tensor of n elements is split into flat
// blocks, one for each rank, in the order of the elements: of ceil(n / ranks) elements,
// rounded up to a multiple of `granule`. The last blocks are padded with zeros. AllGather
// takes blocks of any granule.

/// The sum of all ranks' x, in rank order, each addition rounded to x's type.
Value AllReduce(Value x, int64_t ranks, STOWAGE_LOC);
/// This rank's block of that sum.
Value ReduceScatter(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);
/// The blocks of all ranks, as one value of `shape`.
Value AllGather(Value block, int64_t ranks, const Shape& shape, STOWAGE_LOC);
/// AllGather into `target`, as by Assign.
Value AllGatherUpdate(Value target, Value block, int64_t ranks, STOWAGE_LOC);
/// A copy of this rank's block of x, which an update may overwrite.
Value OwnBlock(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);

// --- Elementwise ---

// Unary and binary ops without attributes are declared from ir/ops.def: Neg, Exp, Relu,
// LogicalNot, ...; Add, Mul, Maximum, ... Sign is -1, 0 or 1, Silu x * sigmoid(x), GeluTanh
// the tanh approximation (GPT-2), GeluErf x * Phi(x), Mish x * tanh(Softplus(x)), HardSwish
// x * HardSigmoid(x); Round rounds half to even; Pow has gradients where a > 0; Remainder
// has the sign of b and Fmod that of a; comparisons, Equal to GreaterEqual, return bool. So
// are the gradients of unary ops: dy times the derivative, read from the output where that
// suffices (relu, sigmoid, tanh), else from the input.
#define STOWAGE_OP(Kind, name)
#define STOWAGE_UNARY_OP(Kind, name) Value Kind(Value x, STOWAGE_LOC);
#define STOWAGE_BINARY_OP(Kind, name) Value Kind(Value a, Value b, STOWAGE_LOC);
#define STOWAGE_UNARY_GRAD_OP(Kind, name) \
  Value Kind(Value x_or_y, Value dy, STOWAGE_LOC);
#include "ir/ops.def"
#undef STOWAGE_OP

/// x with a scalar of its own type: x + c, x * c.
Value AddScalar(Value x, double c, STOWAGE_LOC);
Value MulScalar(Value x, double c, STOWAGE_LOC);

/// x where x is above 0, else slope * x; slope at least 0.
Value LeakyRelu(Value x, double slope = 0.01, STOWAGE_LOC);
/// scale * x where x is above 0, else scale * alpha * (e^x - 1); both above 0.
Value Elu(Value x, double alpha = 1, double scale = 1, STOWAGE_LOC);
/// Elu with the constants of Klambauer et al. 2017, which keep mean and variance.
Value Selu(Value x, STOWAGE_LOC);
/// x clamped to [min, max]; either bound may be infinite.
Value Clamp(Value x, double min, double max, STOWAGE_LOC);
/// alpha * x + beta, clamped to [0, 1].
Value HardSigmoid(Value x, double alpha = 1.0 / 6, double beta = 0.5,
                  STOWAGE_LOC);
/// Whether x is NaN (bool).
Value IsNan(Value x, STOWAGE_LOC);

/// a where condition (bool) holds, else b.
Value Where(Value condition, Value a, Value b, STOWAGE_LOC);

/// Zeroes each element with probability p and scales the rest by 1/(1-p). The
/// mask is Philox4x32-10 keyed by (seed, id), counter (step, element):
/// stateless, the same in forward, backward and recomputation, never stored.
/// seed and step are i64 scalars, inputs of the step; ids of one model differ.
Value Dropout(Value x, Value seed, Value step, double p, int64_t id,
              STOWAGE_LOC);

// --- Reductions ---

/// Over `axes` (all when empty); with `keep`, reduced dimensions stay as 1.
Value ReduceSum(Value x, const Axes& axes = {}, bool keep = false, STOWAGE_LOC);
Value ReduceMean(Value x, const Axes& axes = {}, bool keep = false,
                 STOWAGE_LOC);
Value ReduceMax(Value x, const Axes& axes = {}, bool keep = false, STOWAGE_LOC);
/// The sum of squares of all elements, a scalar: for gradient norms.
Value SumSquares(Value x, STOWAGE_LOC);
/// Index (i32) of the largest element of the last axis, the first if several are equal.
Value ArgMax(Value x, STOWAGE_LOC);

// --- Matmuls, losses and layers ---

/// a (..., M, K) times b (..., K, N), or either transposed in its last two
/// axes. b may also be (K, N) while a has leading dimensions; leading
/// dimensions otherwise broadcast. -> (..., M, N)
Value MatMul(Value a, Value b, bool transpose_a = false,
             bool transpose_b = false, STOWAGE_LOC);
/// x (S, K), whose rows are in groups, w (E, K, N), or (E, N, K) with `transpose_w`, and
/// ends (E), i32 or i64, non-decreasing and at most S -> (S, N): rows [ends[e - 1], ends[e])
/// of x times matrix e; rows after the last end are zeros. For a mixture of experts, with
/// tokens sorted by expert.
Value GroupedMatMul(Value x, Value w, Value ends, bool transpose_w = false,
                    STOWAGE_LOC);
/// x (S, K), dy (S, N), ends (E) -> (E, K, N): x^T dy of each group.
Value GroupedMatMulWeightGrad(Value x, Value dy, Value ends, STOWAGE_LOC);
/// x (..., C) times a frozen matrix w (R, C), u8 in rows of quantized blocks
/// (ir/weight_type.h): x w^T (..., R), or, for x (..., R) and without `transpose_w`, x w
/// (..., C). Equal, bit for bit, to the matmul with the decoded matrix, of which a few
/// thousand numbers exist at a time. w has no gradient.
Value QuantizedMatMul(Value x, Value w, WeightType blocks,
                      bool transpose_w = true, STOWAGE_LOC);
Value Softmax(Value x, int64_t axis = -1, STOWAGE_LOC);
Value LogSoftmax(Value x, int64_t axis = -1, STOWAGE_LOC);
/// y, dy (..., C) -> dx; y is the forward result.
Value SoftmaxGrad(Value y, Value dy, STOWAGE_LOC);
Value LogSoftmaxGrad(Value y, Value dy, STOWAGE_LOC);

/// The smallest vocabulary for which built-in and imported models compute logits in chunks:
/// the logits are then the largest value of a step.
inline constexpr int64_t kLargeVocabulary = 8192;

/// The default `chunk` of LinearCrossEntropy for `rows` rows: a quarter, but at least 256,
/// which keep a device busy, and at most 4,096.
inline int64_t LogitChunk(int64_t rows) {
  return std::clamp<int64_t>((rows + 3) / 4, 256, 4096);
}

/// Mean over rows of -log softmax(logits)[label]; logits (..., V), labels (...)
/// of i32 or i64 in [0, V). A step whose label is out of range reports it.
Value CrossEntropy(Value logits, Value labels, STOWAGE_LOC);
/// logits, labels, log_sum_exp (...), dloss scalar -> dlogits.
Value CrossEntropyGrad(Value logits, Value labels, Value log_sum_exp,
                       Value dloss, STOWAGE_LOC);
struct LinearCrossEntropyOptions {
  /// Factors of the rows' losses before the mean over all rows; (...), f64 for f64, else
  /// f32. 0 leaves a row out; rows / sum of weights makes it a mean over the others. Value():
  /// all 1.
  Value weights = {};
  /// The format of w, if it is a frozen matrix of quantized blocks (QuantizedMatMul);
  /// absent: w has x's element type.
  std::optional<WeightType> blocks = {};
  /// If above 0, logits l become softcap tanh(l / softcap). The GPU has no kernel for it.
  double softcap = 0;
};
/// CrossEntropy of the logits x w^T; x (..., C), w (V, C), labels (...). Logits exist for
/// `chunk` >= 1 rows at a time, in workspace.
Value LinearCrossEntropy(Value x, Value w, Value labels, int64_t chunk,
                         const LinearCrossEntropyOptions& options = {},
                         STOWAGE_LOC);
/// The losses of the rows instead of their mean, (...), f64 for f64, else f32: minus the
/// log-probability of each label. Differentiable, with two matmuls more than the mean.
/// Precondition: no weights.
Value LinearCrossEntropyRows(Value x, Value w, Value labels, int64_t chunk,
                             const LinearCrossEntropyOptions& options = {},
                             STOWAGE_LOC);
struct LinearCrossEntropyGrads {
  Value loss, dx, dw;  // dw is inert unless `wants_dw`
};
/// The loss, and its gradients times the scalar dloss; each chunk's logits are computed once.
/// dw is summed over the chunks in order; quantized w has none.
LinearCrossEntropyGrads LinearCrossEntropyGrad(
    Value x, Value w, Value labels, Value dloss, int64_t chunk,
    const LinearCrossEntropyOptions& options = {}, bool wants_dw = true,
    STOWAGE_LOC);
/// Mean of squared differences, a scalar.
Value MeanSquaredError(Value prediction, Value target, STOWAGE_LOC);

/// x (..., C), gamma (C), beta (C) -> (x - mean) / sqrt(var + eps) * gamma +
/// beta.
Value LayerNorm(Value x, Value gamma, Value beta, double eps = 1e-5,
                STOWAGE_LOC);
struct LayerNormGrads {
  Value dx, dgamma, dbeta;
};
/// x, dy (..., C), gamma (C), mean and rstd (...).
LayerNormGrads LayerNormGrad(Value x, Value gamma, Value mean, Value rstd,
                             Value dy, STOWAGE_LOC);

struct BatchNormResults {
  Value y, mean, variance;
};
/// x (N, C, ...), gamma (C), beta (C) -> y = (x - mean) / sqrt(variance + eps) *
/// gamma + beta of x's shape, and the mean and the population variance (C) of each channel
/// over all other axes. Channels have at least two numbers.
BatchNormResults BatchNorm(Value x, Value gamma, Value beta, double eps = 1e-5,
                           STOWAGE_LOC);
struct BatchNormGrads {
  Value dx, dgamma, dbeta;
};
/// x, dy (N, C, ...), gamma, mean and variance (C).
BatchNormGrads BatchNormGrad(Value x, Value gamma, Value mean, Value variance,
                             Value dy, double eps, STOWAGE_LOC);

struct LocalResponse {
  int64_t size = 5;  // channels
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
};
/// x (N, C, ...) / (bias + alpha / size * sum)^beta, where the sum is of the squares of up to
/// `size` channels: the element's own, floor((size - 1) / 2) before it and the rest after it,
/// as in ONNX's LRN. (For an even size, PyTorch's local_response_norm has one more before.)
/// Backward saves only x.
Value LocalResponseNorm(Value x, const LocalResponse& response = {},
                        STOWAGE_LOC);

struct AttentionOptions {
  double scale = 0;  // of q k^T; 0 or less: 1/sqrt(D)
  /// Query t reads keys s <= t + (S - T): the last query is aligned with the last key, as in
  /// decoding. Error: more queries than keys, as the first would read none.
  bool causal = false;
  /// If above 0, a causal query reads only the last `window` keys up to its position t +
  /// (S - T); any other, the keys less than `window` from there. Error: the first query
  /// reads none.
  int64_t window = 0;
  /// i32 (B), each in [1, S], or Value(): keys from key_lengths[b] on are not read and have a
  /// gradient of zeros. Positions of queries do not change; the result of a query without
  /// keys is zeros.
  Value key_lengths = {};
  /// i32 (B, 2, T) with T = S, or Value(): for each position, the first position of its
  /// segment and the one after its last. A query reads only keys of its own segment, so that
  /// several texts can share a row. Error: given together with key lengths.
  Value segments = {};
  /// Of q's type, or Value(): added to scale q k^T, before the mask. (B, H, T, S),
  /// where the first three may be 1: (1, H, 1, S) for ALiBi, (1, H, T, S) for relative
  /// positions, (B, 1, 1, S) for padding. -inf hides a key from a query like a mask, except
  /// that a NaN of the key still propagates; a query from which all keys are hidden has a
  /// result and gradient of zeros.
  Value bias = {};
  /// If above 0, scores s = scale q k^T become softcap tanh(s / softcap), before the bias
  /// and the mask. The GPU has no kernel for it.
  double softcap = 0;
};
/// q (B, T, H, D), k and v (B, S, G, D) with G dividing H -> (B, T, H, D): head h
/// reads group h / (H / G) of k and v. softmax(scale q k^T + bias + mask) v, computed
/// blockwise: no T x S buffer.
Value Attention(Value q, Value k, Value v, const AttentionOptions& options = {},
                STOWAGE_LOC);
/// Attention with a causal mask and no other options.
Value CausalAttention(Value q, Value k, Value v, double scale = 0, STOWAGE_LOC);
struct AttentionGrads {
  Value dq, dk, dv;
};
/// o and log_sum_exp (B, H, T) are the forward results, d_o the gradient of o.
AttentionGrads AttentionGrad(Value q, Value k, Value v, Value o,
                             Value log_sum_exp, Value d_o,
                             const AttentionOptions& options = {}, STOWAGE_LOC);
/// The gradient of options.bias, which must be given, summed blockwise where its dimensions
/// are 1. The operands are those of AttentionGrad.
Value AttentionBiasGrad(Value q, Value k, Value v, Value o, Value log_sum_exp,
                        Value d_o, const AttentionOptions& options,
                        STOWAGE_LOC);

// --- Recurrent layers ---

struct LstmSequenceResults {
  Value h, c;  // (B, T, H), after each position
};
/// An LSTM layer over all positions: c = f c' + i g and h = o tanh(c), where the gates i, f
/// and o are sigmoids and g the tanh of `gates` plus w h' at the position, and h' and c' are
/// those of the position before. `gates` (B, T, 4H), in the order i, f, g, o, is the
/// contribution of inputs and biases; w (4H, H). h0 and c0 (B, H) precede the first
/// position; with `reverse` they follow the last, and positions run backwards. Backward
/// saves h, c and the activated gates, which may overwrite `gates`.
LstmSequenceResults LstmSequence(Value gates, Value h0, Value c0, Value w,
                                 bool reverse = false, STOWAGE_LOC);
struct LstmGrads {
  Value dgates, dh0, dc0;
};
/// The gradients of LstmSequence, where `gates` are the activated gates (the first result of
/// `lstm`) and c its result; dh and dc (B, T, H), with dc zero if Value(). dgates is the
/// gradient of LstmSequence's operand `gates`.
LstmGrads LstmGrad(Value gates, Value c0, Value w, Value c, Value dh, Value dc,
                   bool reverse, STOWAGE_LOC);
/// The gradient of w: one matmul over all positions.
Value LstmWeightGrad(Value dgates, Value h0, Value h, bool reverse,
                     STOWAGE_LOC);

// --- Transformers of Llama's kind ---

/// x (..., C), gamma (C) -> x / sqrt(mean(x^2) + eps) * gamma (Zhang & Sennrich
/// 2019).
Value RmsNorm(Value x, Value gamma, double eps = 1e-5, STOWAGE_LOC);
struct RmsNormGrads {
  Value dx, dgamma;
};
/// x, dy (..., C), gamma (C), rstd (...).
RmsNormGrads RmsNormGrad(Value x, Value gamma, Value rstd, Value dy,
                         STOWAGE_LOC);

struct RopeOptions {
  double base = 10000;  // Hugging Face's rope_theta
  /// The number of elements of a head, from its first, that are rotated: even; 0 for all.
  int64_t dims = 0;
  /// Pairs elements 2i and 2i + 1; otherwise i and i + dims / 2, the "rotate half" of
  /// Hugging Face's models.
  bool interleaved = false;
  bool inverse = false;  // rotates by the negative angle, as the gradient does
};
/// Rotary position embedding (Su et al. 2021) of x (B, T, H, D): rotates pair i of every
/// head by position * base^(-2i / dims), to (a cos - b sin, b cos + a sin). Positions are 0
/// to T - 1, or those of `positions`, i32 (T) or (B, T).
Value Rope(Value x, Value positions = Value(), const RopeOptions& options = {},
           STOWAGE_LOC);

/// The activation of a gate.
enum class GluActivation { kSilu = 0, kGeluTanh = 1, kGeluErf = 2 };
/// activation(gate) * up (Shazeer 2020), of one shape; backward saves only these two.
Value Glu(Value gate, Value up, GluActivation activation, STOWAGE_LOC);
Value SwiGlu(Value gate, Value up, STOWAGE_LOC);
/// With the tanh form of GELU.
Value GeGlu(Value gate, Value up, STOWAGE_LOC);
struct GluGrads {
  Value dgate, dup;
};
/// dy * up * activation'(gate), dy * activation(gate).
GluGrads GluGrad(Value gate, Value up, Value dy, GluActivation activation,
                 STOWAGE_LOC);

// --- Convolutions ---

// x is (N, C, in...) with 1 to 3 spatial dimensions; ir/windows.h has the
// formula. A bias is an Add after it, in place of the convolution's result.

/// Padding is by zeros.
struct ConvOptions {
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
};
/// w (O, C / groups, kernel...) -> (N, O, out...), as PyTorch's: no kernel is
/// flipped. Depthwise where groups is C.
Value Conv(Value x, Value w, const ConvOptions& options = {}, STOWAGE_LOC);

/// `size` is the result's spatial size. If empty, it is the smallest from which a convolution
/// would return to x's, plus output_padding.
struct ConvTransposeOptions {
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  EachDimension output_padding = 0;
  Axes size = {};
};
/// w (C, O / groups, kernel...) -> (N, O, size...): the gradient of a
/// convolution by w to its image, as PyTorch's ConvTranspose.
Value ConvTranspose(Value x, Value w, const ConvTransposeOptions& options = {},
                    STOWAGE_LOC);
/// x (N, C, in...), dy (N, O, out...) -> dw (O, C / groups, kernel...).
Value ConvWeightGrad(Value x, Value dy, const Axes& kernel,
                     const ConvOptions& options = {}, STOWAGE_LOC);

// --- Pooling ---

/// A window that slides along the 1 to 3 spatial dimensions of x (N, C, spatial...). Error:
/// a window of padding only.
struct PoolWindow {
  EachDimension kernel;
  EachDimension stride = 0;  // 0: as the kernel
  EachDimension padding = 0;
  EachDimension dilation = 1;  // of max_pool alone
  /// Whether a last window may extend past the end, over padding that AvgPool does not count.
  /// It must start before the padding after x.
  bool ceil_mode = false;
};

/// The largest element of each window; NaN if the window has one. Backward searches x for it
/// again, the first of equals. (Saving an index instead would let x die, but the op before
/// a max_pool, mostly a relu, saves x for its own gradient.)
Value MaxPool(Value x, const PoolWindow& window, STOWAGE_LOC);
/// The mean of each window, including its padding (as 0) with `count_include_pad`.
Value AvgPool(Value x, const PoolWindow& window, bool count_include_pad = true,
              STOWAGE_LOC);
/// The mean over all spatial axes, which are kept as 1: a reduce_mean.
Value GlobalAvgPool(Value x, STOWAGE_LOC);
/// AvgPool to `sizes`, one for each spatial axis, which must divide its dimension, so that
/// the windows are equal and adjacent.
Value AdaptiveAvgPool(Value x, const Axes& sizes, STOWAGE_LOC);

// --- Images ---

/// x with `before` and `after` elements added along each axis: `value` (kConstant), the
/// elements mirrored at the outermost one, which is not repeated (kReflect; fewer than the
/// axis has), or the outermost one (kEdge).
Value Pad(Value x, const Axes& before, const Axes& after,
          PadMode mode = PadMode::kConstant, double value = 0, STOWAGE_LOC);
enum class ResizeMode : uint8_t { kNearest = 0, kLinear = 1 };
/// x (N, C, spatial...) with other sizes of its 1 to 3 spatial axes, by interpolation as in
/// PyTorch: the element at o * in / out, rounded down (kNearest), or between the neighbours
/// of (o + 1/2) in / out - 1/2 along each axis, with `align_corners` of o (in - 1) /
/// (out - 1) (kLinear).
Value Resize(Value x, const Axes& sizes, ResizeMode mode = ResizeMode::kLinear,
             bool align_corners = false, STOWAGE_LOC);
/// x (N, C, H, W) -> (N, C / block^2, H block, W block): channels (block, block, C)
/// as ONNX's DepthToSpace orders them, or (C, block, block) as PixelShuffle does.
Value DepthToSpace(Value x, int64_t block, STOWAGE_LOC);
Value PixelShuffle(Value x, int64_t block, STOWAGE_LOC);
/// The inverse of DepthToSpace.
Value SpaceToDepth(Value x, int64_t block, STOWAGE_LOC);

// --- Optimizer updates ---

// In place; see autodiff/optimizer.h. `scale` multiplies the gradient first (a clip factor,
// f32 scalar); if it is infinite, nothing is updated; Value() for none. lr is an f32 scalar,
// step an i64 scalar that counts from 1.

/// w -= lr * (g + decay * w)
Value SgdUpdate(Value w, Value g, Value lr, Value scale, double decay,
                STOWAGE_LOC);
struct MomentumResults {
  Value w, velocity;
};
/// velocity = momentum * velocity + g + decay * w;  w -= lr * velocity
MomentumResults MomentumUpdate(Value w, Value velocity, Value g, Value lr,
                               Value scale, double momentum, double decay,
                               STOWAGE_LOC);
/// d = g + decay * w;  velocity = momentum * velocity + d;
/// w -= lr * (d + momentum * velocity)
MomentumResults NesterovUpdate(Value w, Value velocity, Value g, Value lr,
                               Value scale, double momentum, double decay,
                               STOWAGE_LOC);
struct MeanSquareResults {
  Value w, v;
};
/// d = g + decay * w;  v = alpha * v + (1 - alpha) * d^2;
/// w -= lr * d / (sqrt(v) + eps)
MeanSquareResults RmsPropUpdate(Value w, Value v, Value g, Value lr,
                                Value scale, double alpha, double eps,
                                double decay, STOWAGE_LOC);
/// d = g + decay * w;  v = v + d^2;  w -= lr * d / (sqrt(v) + eps)
MeanSquareResults AdagradUpdate(Value w, Value v, Value g, Value lr,
                                Value scale, double eps, double decay,
                                STOWAGE_LOC);
struct AdamWResults {
  Value w, m, v;
};
/// Kingma & Ba 2015, with d = g + decay * w in place of the gradient.
AdamWResults AdamUpdate(Value w, Value m, Value v, Value g, Value lr,
                        Value step, Value scale, double beta1, double beta2,
                        double eps, double decay, STOWAGE_LOC);
/// Loshchilov & Hutter 2019: w -= lr * decay * w, then
/// w -= lr * m_hat / (sqrt(v_hat) + eps), bias-corrected with `step`.
AdamWResults AdamWUpdate(Value w, Value m, Value v, Value g, Value lr,
                         Value step, Value scale, double beta1, double beta2,
                         double eps, double decay, STOWAGE_LOC);
struct AdamWSplitResults {
  Value w, delta, m, v;
};
/// AdamWUpdate in f32 of the f32 master weight whose upper half is w (bf16) and whose lower
/// half is delta (i16), or bits 8 to 15 if delta is u8 (math/optimizer.h); m and v f32, g
/// bf16.
AdamWSplitResults AdamWSplitUpdate(Value w, Value delta, Value m, Value v,
                                   Value g, Value lr, Value step, Value scale,
                                   double beta1, double beta2, double eps,
                                   double decay, STOWAGE_LOC);

// Updates in f32 with low-precision states, for f32 weights or (`Split`) for bf16 weights
// with a delta as above; gradients have the weights' type.

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
};
/// The random numbers of stochastic rounding (math/random.h): updates of one
/// seed with different ids use different numbers, and element i uses the number of element
/// first + i, so that a block is rounded as it is within the whole param.
struct RoundingNumbers {
  int64_t id = 0;
  int64_t first = 0;  // a multiple of 4
};
/// AdamWUpdate with moments of bf16, rounded stochastically. `seed` is an i64 scalar.
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
  Value m_scale, v_scale;  // f32, of MomentScales of it (ir/element_groups.h)
};
struct AdamW8BitResults {
  Value w, delta;  // delta: none for f32 weights
  Moments8Bit moments;
};
/// AdamWUpdate with 8-bit moments (math/optimizer.h).
AdamW8BitResults AdamW8BitUpdate(Value w, const Moments8Bit& moments, Value g,
                                 Value lr, Value step, Value scale,
                                 const AdamWOptions& options, MomentCode code,
                                 STOWAGE_LOC);
AdamW8BitResults AdamW8BitSplitUpdate(Value w, Value delta,
                                      const Moments8Bit& moments, Value g,
                                      Value lr, Value step, Value scale,
                                      const AdamWOptions& options,
                                      MomentCode code, STOWAGE_LOC);
/// MomentumUpdate with a velocity of bf16, rounded stochastically; w moves by the velocity
/// before rounding.
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
/// The f32 master weight that w (bf16) and delta (i16) hold (math/optimizer.h).
Value JoinWeight(Value w, Value delta, STOWAGE_LOC);
/// Replaces that weight by x (f32), bit for bit.
SplitWeight SplitUpdate(Value w, Value delta, Value x, STOWAGE_LOC);

// --- Ops of a program's own (ir/op_def.h) ---

/// Result 0 of an op from DefineOp; at least one operand.
Value Apply(OpKind op, std::initializer_list<Value> operands, Attrs attrs = {},
            STOWAGE_LOC);
/// All its results; kMaxResults inert ones after an error.
std::vector<Value> ApplyAll(OpKind op, std::span<const Value> operands,
                            Attrs attrs = {}, STOWAGE_LOC);

// --- For planning only ---

/// An op of another framework with `operands` (at least one), results of these shapes (at
/// most 8) and a cost of `flops`. It can be planned, ordered and recomputed like any other
/// op, but no backend runs it. BuildBackward emits a stand-in for its gradients that reads
/// all operands, unless the graph has its own backward part. Workspace is a result that
/// nothing reads.
std::vector<Value> StandIn(std::span<const Value> operands, DType dtype,
                           std::span<const Shape> shapes, double flops,
                           STOWAGE_LOC);

#undef STOWAGE_LOC

}  // namespace stowage

#endif  // STOWAGE_IR_OPS_H_

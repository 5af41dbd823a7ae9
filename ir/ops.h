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
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/element_groups.h"
#include "ir/weight_type.h"
#include "ir/windows.h"

namespace stowage {

using Axes = std::vector<int64_t>;
#define STOWAGE_LOC SourceLoc loc = SourceLoc::Current()

// --- Creation ---

/// A tensor of `value` everywhere.
Value Fill(GraphBuilder& g, double value, DType dtype, const Shape& shape,
           STOWAGE_LOC);
/// A tensor whose bytes are part of the graph. `data` holds exactly the type's
/// bytes, row-major.
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
/// Cuts one axis into pieces of the given sizes, which sum to its dimension.
std::vector<Value> Split(Value x, int64_t axis, const Axes& sizes, STOWAGE_LOC);
/// Repeats dimensions of size 1, and new leading ones, to reach `shape`.
Value BroadcastTo(Value x, const Shape& shape, STOWAGE_LOC);
/// x, which lets no gradient through.
Value StopGradient(Value x, STOWAGE_LOC);

// --- Movement ---

/// A contiguous copy.
Value Copy(Value x, STOWAGE_LOC);
/// A copy in the arena of what lies in the host's memory.
Value Reload(Value x, STOWAGE_LOC);
/// A copy of x in the host's memory, for a later Reload.
Value Offload(Value x, STOWAGE_LOC);
/// Writes x over a state that lies in the host's memory; returns the state.
Value OffloadUpdate(Value state, Value x, STOWAGE_LOC);
/// Another element type, rounding to nearest even (float to integer truncates,
/// anything to bool is != 0). The same type is x itself.
Value Cast(Value x, DType dtype, STOWAGE_LOC);
/// Joins along one axis; the other dimensions and the types must agree.
Value Concat(std::span<const Value> parts, int64_t axis, STOWAGE_LOC);
/// table (V, C...), indices any shape S of i32 or i64 in [0, V) -> S + (C...).
Value Gather(Value table, Value indices, STOWAGE_LOC);
/// Rows of a frozen table (V, C) that lies as its file has it, u8 in rows of blocks
/// (ir/weight_type.h), at indices S -> f32, S + (C).
Value QuantizedGather(Value table, Value indices, WeightType blocks,
                      STOWAGE_LOC);
/// base (V, C...), indices S, updates S + (C...) -> base plus every update row
/// at its index, repeated indices added in order (deterministic).
Value ScatterAdd(Value base, Value indices, Value updates, STOWAGE_LOC);

// --- Along an axis ---

/// Sums of x along `axis` up to each element: with it, or before it (`exclusive`);
/// from the end where `reverse`.
Value CumSum(Value x, int64_t axis, bool exclusive = false,
             bool reverse = false, STOWAGE_LOC);
/// x's elements along `axis` by index, in all other axes at the same place: indices
/// of i32 or i64 in [0, x.dim(axis)), of x's dimensions elsewhere -> the indices'
/// shape. PyTorch's gather.
Value TakeAlongAxis(Value x, Value indices, int64_t axis, STOWAGE_LOC);
/// base plus every update at its index along `axis`; indices as above, updates of
/// their shape. Repeated indices are added in order (deterministic). PyTorch's
/// scatter_add.
Value PutAdd(Value base, Value indices, Value updates, int64_t axis,
             STOWAGE_LOC);
struct TopKResults {
  Value values, indices;
};
/// The k largest elements of the last axis, largest first, or the k smallest,
/// smallest first; and where they are (i32). Equals stand in order of their
/// places, NaN comes last.
TopKResults TopK(Value x, int64_t k, bool descending = true, STOWAGE_LOC);
/// All elements of the last axis, likewise.
TopKResults Sort(Value x, bool descending = false, STOWAGE_LOC);

/// 1 at each index along a new last axis of `depth`, 0 elsewhere; no row has a 1
/// whose index is out of range.
Value OneHot(Value indices, int64_t depth, DType dtype = DType::kF32,
             STOWAGE_LOC);
/// x (..., R, C) with 0 above the given diagonal, or below it; 0 is the main one,
/// those above count up.
Value Tril(Value x, int64_t diagonal = 0, STOWAGE_LOC);
Value Triu(Value x, int64_t diagonal = 0, STOWAGE_LOC);
/// x so many times along each axis, one after the other.
Value Tile(Value x, const Axes& repeats, STOWAGE_LOC);

// --- Random numbers ---

// Philox4x32-10 keyed by (seed, id), counted by step and element, as Dropout: the
// same numbers in forward, backward and recomputation. seed and step are i64
// scalars, inputs of the step; `id` tells those of a model apart.

/// In [0, 1): the same bits on every device.
Value RandomUniform(Value seed, Value step, const Shape& shape, DType dtype,
                    int64_t id, STOWAGE_LOC);
/// Of mean 0 and variance 1, at most 5.8 from 0.
Value RandomNormal(Value seed, Value step, const Shape& shape, DType dtype,
                   int64_t id, STOWAGE_LOC);

// --- In place ---

// What a program keeps from step to step, and writes itself: running means,
// averages of weights, a hidden state. The target is a whole param or state, or the
// result of another op here; the result is its new content, and no later op may read
// the old one (in a training step the backward part may: it is kept for it).

/// target becomes x, of the same type.
Value Assign(Value target, Value x, STOWAGE_LOC);
/// target becomes target + weight * (x - target), for floats of one type; a weight
/// of another shape is broadcast, and where one is infinite, target stays as it is.
/// PyTorch's lerp_; a batch norm's momentum.
Value LerpUpdate(Value target, Value x, Value weight, STOWAGE_LOC);
/// target's elements [start, start + x.dim(axis)) along `axis` become x. The target
/// may also be a Fill that nothing else reads: so a whole is put together from parts
/// without being held twice.
Value SliceUpdate(Value target, Value x, int64_t axis, int64_t start,
                  STOWAGE_LOC);
/// The same from where the step says: `start` is a scalar of i32 or i64. One that is
/// negative, or after which x has no place, is an index out of range.
Value SliceUpdate(Value target, Value x, int64_t axis, Value start,
                  STOWAGE_LOC);

// --- Among the ranks of a step ---
//
// Each rank runs the same ops on what is its own. A whole of n elements is split into
// flat blocks of ceil(n / ranks), rounded up to a multiple of `granule`, one a rank, in
// the order of the elements; what the last blocks have beyond the end is zeros. What is
// gathered may be of any such blocks.

/// The sum of all ranks' x, in rank order, each addition rounded to x's type.
Value AllReduce(Value x, int64_t ranks, STOWAGE_LOC);
/// This rank's block of that sum.
Value ReduceScatter(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);
/// What the ranks have in their blocks, as one value of `shape`.
Value AllGather(Value block, int64_t ranks, const Shape& shape, STOWAGE_LOC);
/// The same as the new content of `target`, as Assign would have it.
Value AllGatherUpdate(Value target, Value block, int64_t ranks, STOWAGE_LOC);
/// A copy of this rank's block of x. An update may write in its place.
Value OwnBlock(Value x, int64_t ranks, int64_t granule = 1, STOWAGE_LOC);

// --- Elementwise ---

// What has an operand or two and nothing else is declared from ir/ops.def, where it
// is listed: Neg, Exp, Relu, LogicalNot, ...; Add, Mul, Maximum, ... Sign is -1, 0 or
// 1, Silu x * sigmoid(x), GeluTanh the tanh approximation (GPT-2), GeluErf x *
// Phi(x), Mish x * tanh(Softplus(x)), HardSwish x * HardSigmoid(x); Round takes the
// even of two equally near; Pow has gradients where a > 0; Remainder has the sign of
// b and Fmod that of a; comparisons, Equal to GreaterEqual, give bool. So are the
// gradients of unary ops: dy times the derivative, read from the output where that
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

/// x where it is above 0, else slope * x; slope at least 0.
Value LeakyRelu(Value x, double slope = 0.01, STOWAGE_LOC);
/// scale * x where x is above 0, else scale * alpha * (e^x - 1); both above 0.
Value Elu(Value x, double alpha = 1, double scale = 1, STOWAGE_LOC);
/// Elu with the constants of Klambauer et al. 2017, which keep mean and variance.
Value Selu(Value x, STOWAGE_LOC);
/// The nearest number to x in [min, max]; either may be infinite.
Value Clamp(Value x, double min, double max, STOWAGE_LOC);
/// alpha * x + beta, clamped to [0, 1].
Value HardSigmoid(Value x, double alpha = 1.0 / 6, double beta = 0.5,
                  STOWAGE_LOC);
/// Whether x is NaN: whether it is not equal to itself.
Value IsNan(Value x, STOWAGE_LOC);

/// a where condition (bool), else b.
Value Where(Value condition, Value a, Value b, STOWAGE_LOC);

/// Zeroes each element with probability p and scales the rest by 1/(1-p). The
/// mask is Philox4x32-10 keyed by (seed, id), counter (step, element):
/// stateless, the same in forward, backward and recomputation, never stored.
/// seed and step are i64 scalars, inputs of the step; `id` tells dropouts of a
/// model apart.
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
/// Index (i32) of the largest element of the last axis, the first of equals.
Value ArgMax(Value x, STOWAGE_LOC);

// --- Products and layers ---

/// a (..., M, K) times b (..., K, N), or either transposed in its last two
/// axes. b may also be (K, N) while a has leading dimensions; leading
/// dimensions otherwise broadcast. -> (..., M, N)
Value MatMul(Value a, Value b, bool transpose_a = false,
             bool transpose_b = false, STOWAGE_LOC);
/// x (S, K), whose rows lie in groups, w (E, K, N), or (E, N, K) with `transpose_w`, and
/// ends (E), i32 or i64, that do not fall and are at most S -> (S, N): rows [ends[e - 1],
/// ends[e]) of x times matrix e. Rows behind the last end are zeros. So the tokens of each
/// expert of a mixture meet its weights once they are sorted by experts.
Value GroupedMatMul(Value x, Value w, Value ends, bool transpose_w = false,
                    STOWAGE_LOC);
/// x (S, K), dy (S, N), ends (E) -> (E, K, N): of each group x^T dy.
Value GroupedMatMulWeightGrad(Value x, Value dy, Value ends, STOWAGE_LOC);
/// x (..., C) times a frozen matrix w (R, C) that lies as its file has it, u8 in rows of
/// blocks (ir/weight_type.h): x w^T (..., R), or, for x (..., R) and without
/// `transpose_w`, x w (..., C). To the bit the product with the numbers of the blocks,
/// which exist a few thousand at a time. w has no gradient.
Value QuantizedMatMul(Value x, Value w, WeightType blocks,
                      bool transpose_w = true, STOWAGE_LOC);
Value Softmax(Value x, int64_t axis = -1, STOWAGE_LOC);
Value LogSoftmax(Value x, int64_t axis = -1, STOWAGE_LOC);
/// y, dy (..., C) -> dx; y is the forward result.
Value SoftmaxGrad(Value y, Value dy, STOWAGE_LOC);
Value LogSoftmaxGrad(Value y, Value dy, STOWAGE_LOC);

/// The size of a vocabulary from which on the built-in and the imported models compute
/// logits in chunks: the logits are then the largest value of a step.
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
  /// What each row's loss is multiplied by before the mean over all rows; (...), f64
  /// for f64, else f32. 0 leaves a row out, rows / their sum makes a mean over the
  /// others. None where it is left away: 1 for all.
  Value weights = {};
  /// The type of w's bytes, if it is a frozen matrix of blocks (quantized_matmul);
  /// absent: w is of x's element type.
  std::optional<WeightType> blocks = {};
  /// If above 0, logits l become softcap tanh(l / softcap). The GPU has no kernel for it.
  double softcap = 0;
};
/// CrossEntropy of the logits x w^T; x (..., C), w (V, C), labels (...). Logits
/// exist for `chunk` >= 1 rows at a time, in scratch: never all of them.
Value LinearCrossEntropy(Value x, Value w, Value labels, int64_t chunk,
                         const LinearCrossEntropyOptions& options = {},
                         STOWAGE_LOC);
/// The losses of the rows instead of their mean, (...), f64 for f64, else f32: minus the
/// log-probability of each label. Differentiable, with two products more than the mean.
/// Precondition: no weights.
Value LinearCrossEntropyRows(Value x, Value w, Value labels, int64_t chunk,
                             const LinearCrossEntropyOptions& options = {},
                             STOWAGE_LOC);
struct LinearCrossEntropyGrads {
  Value loss, dx, dw;  // dw inert where it is not wanted
};
/// The loss again, and its gradients times the scalar dloss, from each chunk's
/// logits made once. dw is summed over chunks in their order; blocks have none.
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
/// gamma + beta of x's shape, and the mean and variance (C) of each channel over
/// all else, the variance divided by the count. At least two numbers a channel.
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
/// x (N, C, ...) / (bias + alpha / size * sum)^beta, the sum over the squares of `size`
/// channels, where there are so many: each element's own, (size - 1) / 2 before it,
/// rounded down, and the rest after, as ONNX's LRN. (Of an even size, PyTorch's
/// local_response_norm has one more before.) Backward keeps x alone.
Value LocalResponseNorm(Value x, const LocalResponse& response = {},
                        STOWAGE_LOC);

struct AttentionOptions {
  double scale = 0;  // of the products q k; 0 or less is 1/sqrt(D)
  /// Query t reads keys s <= t + (S - T): the last query stands at the last key,
  /// as in decoding. Error: more queries than keys, as the first would read none.
  bool causal = false;
  /// If above 0, a query reads only the last `window` keys that causality lets it
  /// read. Without causality, those less than `window` from where it stands, t +
  /// (S - T). Error: the first query reads none.
  int64_t window = 0;
  /// i32 (B), each in [1, S], or Value(): keys from key_lengths[b] on are not
  /// read, whatever they hold, and get a gradient of zeros. Where a query stands
  /// does not change; one that is left without a key gives zeros.
  Value key_lengths = {};
  /// i32 (B, 2, T), of as many keys as queries, or Value(): the first position of the
  /// segment that each position is in, and the one behind its last. Segments lie side by
  /// side, and a query reads keys of its own alone: several texts in one row do not see
  /// each other. Error: key lengths beside it.
  Value segments = {};
  /// Of q's type, or Value(): added to scale q k^T, before the mask. (B, H, T, S),
  /// each of the first three 1 where it is the same for all: (1, H, 1, S) for ALiBi,
  /// (1, H, T, S) for relative positions, (B, 1, 1, S) for padding. -inf keeps a
  /// query from a key, as a mask does, save that a NaN of the key gets through; a
  /// query that is kept from all gives zeros, and a gradient of zeros.
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
/// The same with a causal mask and no more.
Value CausalAttention(Value q, Value k, Value v, double scale = 0, STOWAGE_LOC);
struct AttentionGrads {
  Value dq, dk, dv;
};
/// o and log_sum_exp (B, H, T) are the forward results, d_o the gradient of o.
AttentionGrads AttentionGrad(Value q, Value k, Value v, Value o,
                             Value log_sum_exp, Value d_o,
                             const AttentionOptions& options = {}, STOWAGE_LOC);
/// The gradient of options.bias, of its shape: summed blockwise where that is 1.
/// Operands are those of AttentionGrad; the bias must be there.
Value AttentionBiasGrad(Value q, Value k, Value v, Value o, Value log_sum_exp,
                        Value d_o, const AttentionOptions& options,
                        STOWAGE_LOC);

// --- Recurrent layers ---

struct LstmSequenceResults {
  Value h, c;  // (B, T, H), after each position
};
/// An LSTM layer's cells over all positions: c = f c' + i g and h = o tanh(c), where
/// the gates i, f and o are sigmoids and g is the tanh of a position's part of `gates`
/// plus w h', and h' and c' are those of the position before. `gates` (B, T, 4H), in
/// the order i, f, g, o, is what the inputs and the biases add; w (4H, H); h0 and c0
/// (B, H) stand before the first position, or with `reverse` behind the last, from
/// which it then goes back to the first. Backward keeps the activated gates, which may
/// take the place of `gates`, h and c.
LstmSequenceResults LstmSequence(Value gates, Value h0, Value c0, Value w,
                                 bool reverse = false, STOWAGE_LOC);
struct LstmGrads {
  Value dgates, dh0, dc0;
};
/// Of the gates as they were activated (the first result of `lstm`), c as it came out;
/// dh and dc (B, T, H), dc zero where it is Value(). dgates is the gradient of what was
/// given to LstmSequence as `gates`.
LstmGrads LstmGrad(Value gates, Value c0, Value w, Value c, Value dh, Value dc,
                   bool reverse, STOWAGE_LOC);
/// That of w: one product over all positions.
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
  /// Elements of a head that turn, from its first: an even number; 0 for all.
  int64_t dims = 0;
  /// A pair is elements 2i and 2i + 1; or i and i + dims / 2, the "rotate half" of
  /// Hugging Face's models.
  bool interleaved = false;
  bool inverse = false;  // by the negative angle, which is the gradient
};
/// Rotary position embedding (Su et al. 2021) of x (B, T, H, D): pair i of every
/// head turns by position * base^(-2i / dims), to (a cos - b sin, b cos + a sin).
/// Positions are 0 to T - 1, or those of `positions`, i32 (T) or (B, T).
Value Rope(Value x, Value positions = Value(), const RopeOptions& options = {},
           STOWAGE_LOC);

/// What a gate goes through.
enum class GluActivation { kSilu = 0, kGeluTanh = 1, kGeluErf = 2 };
/// activation(gate) * up (Shazeer 2020), of one shape; backward keeps the two and
/// nothing else.
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
// formula. A bias is an Add after it, written over the convolution's result.

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

/// `size` is the result's in spatial dimensions. Left empty, it is the smallest
/// that a convolution takes back to x's, and output_padding more.
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

/// A window that slides along the 1 to 3 spatial dimensions of x (N, C,
/// spatial...). None may lie in the padding alone.
struct PoolWindow {
  EachDimension kernel;
  EachDimension stride = 0;  // 0: as the kernel
  EachDimension padding = 0;
  EachDimension dilation = 1;  // of max_pool alone
  /// Whether a last window may reach over the end, by padding that AvgPool never
  /// counts. It must start before the padding behind x.
  bool ceil_mode = false;
};

/// The largest element of each window; NaN where one is. Backward finds it again in
/// x, the first of equals. (An index kept for each result would let x die, but what
/// is before a max_pool, a relu mostly, keeps x for its own gradient.)
Value MaxPool(Value x, const PoolWindow& window, STOWAGE_LOC);
/// The mean of each window, over its padding too (as 0) with `count_include_pad`.
Value AvgPool(Value x, const PoolWindow& window, bool count_include_pad = true,
              STOWAGE_LOC);
/// The mean over all spatial axes, which stay as 1: a reduce_mean.
Value GlobalAvgPool(Value x, STOWAGE_LOC);
/// AvgPool to `sizes`, one for each spatial axis: divisors of its dimension, so
/// that windows are equal and meet.
Value AdaptiveAvgPool(Value x, const Axes& sizes, STOWAGE_LOC);

// --- Images ---

/// x with so many elements more before and after, along each axis: `value`, the
/// elements mirrored at the outermost one, which is not repeated (kReflect: fewer
/// than there are), or the outermost one (kEdge).
Value Pad(Value x, const Axes& before, const Axes& after,
          PadMode mode = PadMode::kConstant, double value = 0, STOWAGE_LOC);
enum class ResizeMode : uint8_t { kNearest = 0, kLinear = 1 };
/// x (N, C, spatial...) with other sizes of its 1 to 3 spatial axes, by interpolation
/// as PyTorch has it: the element at o * in / out, rounded down (kNearest); a mixture
/// of the neighbours of (o + 1/2) in / out - 1/2 along each axis, or, with
/// `align_corners`, of o (in - 1) / (out - 1) (kLinear).
Value Resize(Value x, const Axes& sizes, ResizeMode mode = ResizeMode::kLinear,
             bool align_corners = false, STOWAGE_LOC);
/// x (N, C, H, W) -> (N, C / block^2, H block, W block): channels (block, block, C)
/// as ONNX's DepthToSpace orders them, or (C, block, block) as PixelShuffle does.
Value DepthToSpace(Value x, int64_t block, STOWAGE_LOC);
Value PixelShuffle(Value x, int64_t block, STOWAGE_LOC);
/// The inverse of DepthToSpace.
Value SpaceToDepth(Value x, int64_t block, STOWAGE_LOC);

// --- Optimizer updates ---

// In place; see autodiff/optimizer.h. `scale` multiplies the gradient first (a clip
// factor, f32 scalar), or, if it is infinite, has nothing updated at all; pass Value()
// for none. lr is an f32 scalar, step an i64 scalar
// that counts from 1.

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
/// AdamWUpdate in f32 of the f32 weight that w (bf16) and delta (i16) are
/// together, or, where delta is u8, of its upper 24 bits (math/optimizer.h); m and v
/// f32, g bf16.
AdamWSplitResults AdamWSplitUpdate(Value w, Value delta, Value m, Value v,
                                   Value g, Value lr, Value step, Value scale,
                                   double beta1, double beta2, double eps,
                                   double decay, STOWAGE_LOC);

// Updates in f32 whose states take less, all for f32 weights or, `Split`, for bf16
// weights with a delta as above; gradients are of the weights' type.

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
};
/// AdamWUpdate with moments of bf16, which are rounded up or down by chance, so that
/// they are right on average (math/random.h). `seed` is an i64 scalar;
/// updates of one seed with other ids are rounded by other numbers, and element i by the
/// number of element first + i, so that a block is rounded as it is in the whole.
struct RoundingNumbers {
  int64_t id = 0;
  int64_t first = 0;  // a multiple of 4
};
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
/// AdamWUpdate with moments of eight bits (math/optimizer.h).
AdamW8BitResults AdamW8BitUpdate(Value w, const Moments8Bit& moments, Value g,
                                 Value lr, Value step, Value scale,
                                 const AdamWOptions& options, MomentCode code,
                                 STOWAGE_LOC);
AdamW8BitResults AdamW8BitSplitUpdate(Value w, Value delta,
                                      const Moments8Bit& moments, Value g,
                                      Value lr, Value step, Value scale,
                                      const AdamWOptions& options,
                                      MomentCode code, STOWAGE_LOC);
/// MomentumUpdate with a velocity of bf16, rounded as AdamWBf16Update's moments are;
/// w moves by the velocity before that.
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
/// The f32 weight that w (bf16) and delta (i16) are together (math/optimizer.h).
Value JoinWeight(Value w, Value delta, STOWAGE_LOC);
/// Puts x (f32) in the place of that weight, bit for bit.
SplitWeight SplitUpdate(Value w, Value delta, Value x, STOWAGE_LOC);

// --- Ops of a program's own (ir/op_def.h) ---

/// Result 0 of an op that DefineOp gave; `operands` are at least one.
Value Apply(OpKind op, std::initializer_list<Value> operands, Attrs attrs = {},
            STOWAGE_LOC);
/// All its results; kMaxResults inert ones when anything was wrong.
std::vector<Value> ApplyAll(OpKind op, std::span<const Value> operands,
                            Attrs attrs = {}, STOWAGE_LOC);

// --- For plans alone ---

/// An op of another framework that reads `operands` (at least one), makes
/// results of these shapes, at most 8, and costs `flops`. It can be planned,
/// ordered and recomputed like any other, but no backend runs it. BuildBackward stands
/// in for its gradients, which are taken to read all operands; a graph may hold its own
/// backward part instead. Scratch is a result that nothing reads.
std::vector<Value> StandIn(std::span<const Value> operands, DType dtype,
                           std::span<const Shape> shapes, double flops,
                           STOWAGE_LOC);

#undef STOWAGE_LOC

}  // namespace stowage

#endif  // STOWAGE_IR_OPS_H_

#include "ir/ops.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"

namespace stowage {
namespace {

using Operands = std::span<const Value>;

// A braced list as a span: Of({a, b}) lives to the end of the full expression.
Operands Of(std::initializer_list<Value> values) {
  return Operands(values.begin(), values.size());
}

// The builder of the first operand that has one, to report errors to; null if none has.
GraphBuilder* BuilderOf(Operands values) {
  for (const Value& value : values) {
    if (value.builder() != nullptr) return value.builder();
  }
  return nullptr;
}

// Whether types may be read: every operand is alive, in one builder. Otherwise Emit reports
// the error, unless one is recorded already.
bool Usable(Operands values) {
  for (const Value& value : values) {
    if (!value.ok() || value.builder() != values[0].builder()) return false;
  }
  return true;
}

// Emits one node; exactly `count` results, all inert after an error.
std::vector<Value> EmitAll(OpKind op, Operands inputs, Attrs attrs,
                           size_t count, SourceLoc loc) {
  GraphBuilder* g = BuilderOf(inputs);
  std::vector<Value> results;
  if (g != nullptr) results = g->Emit(op, inputs, std::move(attrs), loc);
  results.resize(count);
  return results;
}

// Emits one node; its result 0.
Value Emit(OpKind op, Operands inputs, Attrs attrs, SourceLoc loc) {
  return EmitAll(op, inputs, std::move(attrs), 1, loc)[0];
}

// Precondition: `value` is alive.
std::string Describe(Value value) {
  return StrCat(Quoted(value.builder()->info(value).name), " is ",
                value.type().ToString());
}

Value FailOp(OpKind op, Value operand, std::string_view message,
             SourceLoc loc) {
  return operand.builder()->Fail(StrCat("[", OpName(op), "] ", message), loc);
}

// `axis` counted from the front. Axes out of range are returned unchanged, for the op to
// report.
int64_t NormalAxis(Value x, int64_t axis) {
  if (!x.ok() || axis >= 0 || axis + x.rank() < 0) return axis;
  return axis + x.rank();
}

// The attribute of a shape. A rank above kMaxRank is kept, for the op to refuse.
Axes DimsAttr(const Shape& shape) {
  Axes dims(shape.begin(), shape.end());
  dims.resize(static_cast<size_t>(shape.rank()), 1);
  return dims;
}

// --- Broadcasting ---

// All dimensions of `x` but the last `count`.
Shape LeadingDimsOf(Value x, int count) {
  return Shape(x.shape().span().first(static_cast<size_t>(x.rank() - count)));
}

std::optional<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int added = longer.rank() - shorter.rank();
  Shape out = longer;
  for (int i = 0; i < shorter.rank(); ++i) {
    int64_t& dim = out[added + i];
    if (dim == 1) dim = shorter[i];
    if (shorter[i] != 1 && shorter[i] != dim) return std::nullopt;
  }
  return out;
}

// Whether the op accepts the operands' last `axes` dimensions. If not, it is given the operands
// before broadcasting, so that its error has the names that users know.
bool Suit(OpKind op, Operands values, int axes, const Attrs& attrs) {
  std::vector<TensorType> types;
  std::vector<std::string_view> names;
  for (const Value& value : values) {
    const Shape shape = value.shape();
    const size_t kept =
        std::min(shape.span().size(), static_cast<size_t>(axes));
    types.push_back({value.dtype(), Shape(shape.span().last(kept))});
    names.push_back(value.builder()->info(value).name);
  }
  return GetOpDef(op).infer(OpArgs{op, types, names, attrs}).ok();
}

// Puts broadcast views in front of the operands so that they have one shape.
// `names` are the operands' words in the op's signature. False after an error.
bool BroadcastAll(OpKind op, std::span<Value> values,
                  std::initializer_list<const char*> names, SourceLoc loc) {
  if (!Usable(values) || !Suit(op, values, 0, {})) return true;  // Emit reports
  Shape shape = values[0].shape();
  for (const Value& value : values.subspan(1)) {
    const auto next = BroadcastShape(shape, value.shape());
    if (!next) {
      std::string text;
      for (size_t i = 0; i < values.size(); ++i) {
        text += StrCat(names.begin()[i], " ", Describe(values[i]),
                       i + 1 < values.size() ? ", " : "");
      }
      FailOp(op, value,
             StrCat("shapes do not broadcast: ", text,
                    "; counted from the last, dimensions must be equal or 1"),
             loc);
      return false;
    }
    shape = *next;
  }
  for (Value& value : values) value = BroadcastTo(value, shape, loc);
  return true;
}

Value BroadcastBinary(OpKind op, Value a, Value b, SourceLoc loc) {
  Value operands[] = {a, b};
  if (!BroadcastAll(op, operands, {"a", "b"}, loc)) return Value();
  return Emit(op, operands, {}, loc);
}

// x with a scalar constant of its own type.
Value BinaryWithScalar(OpKind op, Value x, double c, SourceLoc loc) {
  if (!x.ok()) return x;
  return BroadcastBinary(op, x, Fill(*x.builder(), c, x.dtype(), {}, loc), loc);
}

Value Reduce(OpKind op, Value x, const Axes& axes, bool keep, SourceLoc loc) {
  Axes normal;
  for (const int64_t axis : axes) normal.push_back(NormalAxis(x, axis));
  for (int i = 0; axes.empty() && i < x.rank(); ++i) normal.push_back(i);
  std::sort(normal.begin(), normal.end());
  return Emit(op, Of({x}), {{"axes", normal}, {"keep", int64_t{keep}}}, loc);
}

// Applies `op`, which works along the last axis, along `axis`.
Value AlongAxis(OpKind op, Value x, int64_t axis, SourceLoc loc) {
  if (!x.ok()) return x;
  const int64_t normal = NormalAxis(x, axis);
  if (normal < 0 || normal >= x.rank()) {
    return FailOp(op, x,
                  StrCat("axis ", axis, " is out of range: x ", Describe(x),
                         "; expected ", -x.rank(), " to ", x.rank() - 1),
                  loc);
  }
  const int64_t last = x.rank() - 1;
  if (normal == last) return Emit(op, Of({x}), {}, loc);
  Axes swapped;  // its own inverse
  for (int64_t i = 0; i <= last; ++i) swapped.push_back(i);
  std::swap(swapped[static_cast<size_t>(normal)], swapped.back());
  const Value y = Emit(op, Of({Permute(x, swapped, loc)}), {}, loc);
  return Permute(y, swapped, loc);
}

// x where column - row is at most `diagonal` (`lower`) or at least `diagonal`; 0 elsewhere.
Value Triangle(std::string_view name, Value x, int64_t diagonal, bool lower,
               SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (x.rank() < 2) {
    return g.Fail(
        StrCat("[", name, "] x ", Describe(x), "; expected rank at least 2"),
        loc);
  }
  const int64_t rows = x.dim(x.rank() - 2);
  const int64_t columns = x.dim(x.rank() - 1);
  // The last (lower) or first column that each row keeps.
  const Value edge =
      Reshape(Iota(g, DType::kI64, static_cast<double>(diagonal), 1, rows, loc),
              {rows, 1}, loc);
  const Value column = Iota(g, DType::kI64, 0, 1, columns, loc);
  const Value kept =
      lower ? LessEqual(column, edge, loc) : GreaterEqual(column, edge, loc);
  return Where(kept, x, Fill(g, 0, x.dtype(), {}, loc), loc);
}

Value Random(OpKind op, Value seed, Value step, const Shape& shape, DType dtype,
             int64_t id, SourceLoc loc) {
  return Apply(op, {seed, step},
               {{"dtype", dtype}, {"shape", DimsAttr(shape)}, {"id", id}}, loc);
}

}  // namespace

// --- Creation ---

Value Fill(GraphBuilder& g, double value, DType dtype, const Shape& shape,
           SourceLoc loc) {
  return g.Emit(
      OpKind::kFill, {},
      {{"dtype", dtype}, {"shape", DimsAttr(shape)}, {"value", value}}, loc)[0];
}

Value Constant(GraphBuilder& g, DType dtype, const Shape& shape,
               std::span<const std::byte> data, SourceLoc loc) {
  const auto* bytes = reinterpret_cast<const char*>(data.data());
  return g.Emit(OpKind::kConstant, {},
                {{"dtype", dtype},
                 {"shape", DimsAttr(shape)},
                 {"data", std::string(bytes, data.size())}},
                loc)[0];
}

Value Iota(GraphBuilder& g, DType dtype, double start, double step, int64_t n,
           SourceLoc loc) {
  return g.Emit(OpKind::kIota, {},
                {{"dtype", dtype}, {"start", start}, {"step", step}, {"n", n}},
                loc)[0];
}

// --- Views ---

Value Reshape(Value x, const Shape& shape, SourceLoc loc) {
  Axes dims = DimsAttr(shape);
  int64_t known = 1;  // product of the others
  int64_t* unknown = nullptr;
  bool determined = true;
  for (int64_t& dim : dims) {
    if (dim == -1) {
      determined &= unknown == nullptr;
      unknown = &dim;
      continue;
    }
    const auto product = CheckedMul(known, dim);
    determined &= product.has_value();
    known = product.value_or(0);
  }
  if (unknown != nullptr && x.ok()) {
    const int64_t elements = x.shape().num_elements();
    if (!determined || known < 1 || elements % known != 0) {
      return FailOp(
          OpKind::kReshape, x,
          StrCat("the -1 in ", shape.ToString(), " cannot be found: x ",
                 Describe(x), " with ", elements,
                 " elements; expected one -1 and others whose "
                 "product divides that"),
          loc);
    }
    *unknown = elements / known;
  }
  return Emit(OpKind::kReshape, Of({x}), {{"shape", std::move(dims)}}, loc);
}

Value Permute(Value x, const Axes& order, SourceLoc loc) {
  Axes normal;
  for (const int64_t axis : order) normal.push_back(NormalAxis(x, axis));
  return Emit(OpKind::kPermute, Of({x}), {{"order", std::move(normal)}}, loc);
}

Value Transpose(Value x, SourceLoc loc) {
  if (!x.ok()) return x;
  if (x.rank() < 2) {
    return FailOp(OpKind::kPermute, x,
                  StrCat("nothing to transpose: x ", Describe(x),
                         "; expected rank at least 2"),
                  loc);
  }
  Axes order;
  for (int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return Permute(x, order, loc);
}

Value Slice(Value x, int64_t axis, int64_t start, int64_t end, int64_t step,
            SourceLoc loc) {
  return Emit(OpKind::kSlice, Of({x}),
              {{"axis", NormalAxis(x, axis)},
               {"start", start},
               {"end", end},
               {"step", step}},
              loc);
}

std::vector<Value> Split(Value x, int64_t axis, const Axes& sizes,
                         SourceLoc loc) {
  return EmitAll(OpKind::kSplit, Of({x}),
                 {{"axis", NormalAxis(x, axis)}, {"sizes", sizes}},
                 sizes.size(), loc);
}

Value BroadcastTo(Value x, const Shape& shape, SourceLoc loc) {
  if (x.ok() && x.shape() == shape) return x;
  return Emit(OpKind::kBroadcast, Of({x}), {{"shape", DimsAttr(shape)}}, loc);
}

Value StopGradient(Value x, SourceLoc loc) {
  return Emit(OpKind::kStopGradient, Of({x}), {}, loc);
}

// --- Movement ---

Value Copy(Value x, SourceLoc loc) {
  return Emit(OpKind::kCopy, Of({x}), {}, loc);
}

Value Reload(Value x, SourceLoc loc) {
  return Emit(OpKind::kReload, Of({x}), {}, loc);
}

Value Offload(Value x, SourceLoc loc) {
  return Emit(OpKind::kOffload, Of({x}), {}, loc);
}

Value OffloadUpdate(Value state, Value x, SourceLoc loc) {
  return Emit(OpKind::kOffloadUpdate, Of({state, x}), {}, loc);
}

Value Cast(Value x, DType dtype, SourceLoc loc) {
  if (x.ok() && x.dtype() == dtype) return x;
  return Emit(OpKind::kCast, Of({x}), {{"dtype", dtype}}, loc);
}

Value Concat(std::span<const Value> parts, int64_t axis, SourceLoc loc) {
  const int64_t normal = parts.empty() ? axis : NormalAxis(parts[0], axis);
  return Emit(OpKind::kConcat, parts, {{"axis", normal}}, loc);
}

Value Gather(Value table, Value indices, SourceLoc loc) {
  return Emit(OpKind::kGather, Of({table, indices}), {}, loc);
}

Value ScatterAdd(Value base, Value indices, Value updates, SourceLoc loc) {
  return Emit(OpKind::kScatterAdd, Of({base, indices, updates}), {}, loc);
}

// --- Along an axis ---

Value CumSum(Value x, int64_t axis, bool exclusive, bool reverse,
             SourceLoc loc) {
  return Apply(OpKind::kCumSum, {x},
               {{"axis", NormalAxis(x, axis)},
                {"exclusive", int64_t{exclusive}},
                {"reverse", int64_t{reverse}}},
               loc);
}

Value TakeAlongAxis(Value x, Value indices, int64_t axis, SourceLoc loc) {
  return Apply(OpKind::kTakeAlongAxis, {x, indices},
               {{"axis", NormalAxis(x, axis)}}, loc);
}

Value PutAdd(Value base, Value indices, Value updates, int64_t axis,
             SourceLoc loc) {
  return Apply(OpKind::kPutAdd, {base, indices, updates},
               {{"axis", NormalAxis(base, axis)}}, loc);
}

TopKResults TopK(Value x, int64_t k, bool descending, SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kTopK, std::vector{x},
               {{"k", k}, {"descending", int64_t{descending}}}, loc);
  return {results[0], results[1]};
}

TopKResults Sort(Value x, bool descending, SourceLoc loc) {
  const bool has_axis = x.ok() && x.rank() > 0;  // the op refuses others
  return TopK(x, has_axis ? x.dim(x.rank() - 1) : 1, descending, loc);
}

Value OneHot(Value indices, int64_t depth, DType dtype, SourceLoc loc) {
  if (!indices.ok()) return indices;
  GraphBuilder& g = *indices.builder();
  if (!IsIndex(indices.dtype())) {
    return g.Fail(StrCat("[one_hot] ", "indices ", Describe(indices),
                         "; expected i32 or i64"),
                  loc);
  }
  Shape spread = indices.shape();
  spread.push_back(1);
  const Value places = Iota(g, indices.dtype(), 0, 1, depth, loc);
  return Cast(Equal(Reshape(indices, spread, loc), places, loc), dtype, loc);
}

Value Tril(Value x, int64_t diagonal, SourceLoc loc) {
  return Triangle("tril", x, diagonal, /*lower=*/true, loc);
}

Value Triu(Value x, int64_t diagonal, SourceLoc loc) {
  return Triangle("triu", x, diagonal, /*lower=*/false, loc);
}

// A new axis before each repeated one, broadcast, and one copy.
Value Tile(Value x, const Axes& repeats, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (static_cast<int>(repeats.size()) != x.rank()) {
    return g.Fail(
        StrCat("[tile] there are ", repeats.size(), " repeats: ", "x ",
               Describe(x), "; expected ", x.rank(), ", one for each axis"),
        loc);
  }
  Shape narrow, wide;
  bool continues = false;  // the last dimension is one that is not repeated
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t times = repeats[static_cast<size_t>(i)];
    if (times < 1) {
      return g.Fail(StrCat("[tile] repeats is ", times, " along axis ", i,
                           "; expected at least 1"),
                    loc);
    }
    if (times > 1) {
      narrow.push_back(1);
      wide.push_back(times);
    }
    if (times > 1 || !continues) {
      narrow.push_back(x.dim(i));
      wide.push_back(x.dim(i));
    } else {
      narrow[narrow.rank() - 1] *= x.dim(i);
      wide[wide.rank() - 1] *= x.dim(i);
    }
    continues = true;
  }
  if (narrow.rank() > kMaxRank) {
    return g.Fail(StrCat("[tile] takes ", narrow.rank(),
                         " axes on the way, with one more "
                         "for each that is repeated: ",
                         "x ", Describe(x), "; expected at most ", kMaxRank),
                  loc);
  }
  const Value spread = BroadcastTo(Reshape(x, narrow, loc), wide, loc);
  if (!spread.ok()) return spread;  // too large
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    shape[i] *= repeats[static_cast<size_t>(i)];
  }
  return Reshape(spread, shape, loc);
}

// --- Random numbers ---

Value RandomUniform(Value seed, Value step, const Shape& shape, DType dtype,
                    int64_t id, SourceLoc loc) {
  return Random(OpKind::kRandomUniform, seed, step, shape, dtype, id, loc);
}

Value RandomNormal(Value seed, Value step, const Shape& shape, DType dtype,
                   int64_t id, SourceLoc loc) {
  return Random(OpKind::kRandomNormal, seed, step, shape, dtype, id, loc);
}

// --- In place ---

Value Assign(Value target, Value x, SourceLoc loc) {
  return Emit(OpKind::kAssign, Of({target, x}), {}, loc);
}

Value LerpUpdate(Value target, Value x, Value weight, SourceLoc loc) {
  if (Usable(Of({target, weight})) && weight.shape() != target.shape()) {
    weight = BroadcastTo(weight, target.shape(), loc);
  }
  return Emit(OpKind::kLerpUpdate, Of({target, x, weight}), {}, loc);
}

Value SliceUpdate(Value target, Value x, int64_t axis, int64_t start,
                  SourceLoc loc) {
  return Emit(OpKind::kSliceUpdate, Of({target, x}),
              {{"axis", NormalAxis(target, axis)}, {"start", start}}, loc);
}

Value SliceUpdate(Value target, Value x, int64_t axis, Value start,
                  SourceLoc loc) {
  return Emit(OpKind::kSliceUpdate, Of({target, x, start}),
              {{"axis", NormalAxis(target, axis)}, {"start", 0}}, loc);
}

// --- Among the ranks of a step ---

Value AllReduce(Value x, int64_t ranks, SourceLoc loc) {
  return Emit(OpKind::kAllReduce, Of({x}), {{"ranks", ranks}}, loc);
}

Value ReduceScatter(Value x, int64_t ranks, int64_t granule, SourceLoc loc) {
  return Emit(OpKind::kReduceScatter, Of({x}),
              {{"ranks", ranks}, {"granule", granule}}, loc);
}

Value AllGather(Value block, int64_t ranks, const Shape& shape, SourceLoc loc) {
  return Emit(OpKind::kAllGather, Of({block}),
              {{"ranks", ranks}, {"shape", DimsAttr(shape)}}, loc);
}

Value AllGatherUpdate(Value target, Value block, int64_t ranks, SourceLoc loc) {
  return Emit(OpKind::kAllGatherUpdate, Of({target, block}), {{"ranks", ranks}},
              loc);
}

Value OwnBlock(Value x, int64_t ranks, int64_t granule, SourceLoc loc) {
  return Emit(OpKind::kOwnBlock, Of({x}),
              {{"ranks", ranks}, {"granule", granule}}, loc);
}

// --- Elementwise ---

#define STOWAGE_OP(Kind, name)
#define STOWAGE_UNARY_OP(Kind, name)                \
  Value Kind(Value x, SourceLoc loc) {              \
    return Emit(OpKind::k##Kind, Of({x}), {}, loc); \
  }
#define STOWAGE_BINARY_OP(Kind, name)                   \
  Value Kind(Value a, Value b, SourceLoc loc) {         \
    return BroadcastBinary(OpKind::k##Kind, a, b, loc); \
  }
#define STOWAGE_UNARY_GRAD_OP(Kind, name)                    \
  Value Kind(Value x_or_y, Value dy, SourceLoc loc) {        \
    return Emit(OpKind::k##Kind, Of({x_or_y, dy}), {}, loc); \
  }
#include "ir/ops.def"
#undef STOWAGE_OP

Value AddScalar(Value x, double c, SourceLoc loc) {
  return BinaryWithScalar(OpKind::kAdd, x, c, loc);
}

Value MulScalar(Value x, double c, SourceLoc loc) {
  return BinaryWithScalar(OpKind::kMul, x, c, loc);
}

Value LeakyRelu(Value x, double slope, SourceLoc loc) {
  return Emit(OpKind::kLeakyRelu, Of({x}), {{"slope", slope}}, loc);
}

Value Elu(Value x, double alpha, double scale, SourceLoc loc) {
  return Emit(OpKind::kElu, Of({x}), {{"alpha", alpha}, {"scale", scale}}, loc);
}

Value Selu(Value x, SourceLoc loc) {
  return Elu(x, 1.6732632423543772848, 1.0507009873554804934, loc);
}

Value Clamp(Value x, double min, double max, SourceLoc loc) {
  return Emit(OpKind::kClamp, Of({x}), {{"min", min}, {"max", max}}, loc);
}

// Three ops, each in place of its operand, so that they take the bytes of one.
Value HardSigmoid(Value x, double alpha, double beta, SourceLoc loc) {
  return Clamp(AddScalar(MulScalar(x, alpha, loc), beta, loc), 0, 1, loc);
}

Value IsNan(Value x, SourceLoc loc) { return NotEqual(x, x, loc); }

Value Where(Value condition, Value a, Value b, SourceLoc loc) {
  Value operands[] = {condition, a, b};
  if (!BroadcastAll(OpKind::kWhere, operands, {"condition", "a", "b"}, loc)) {
    return Value();
  }
  return Emit(OpKind::kWhere, operands, {}, loc);
}

Value Dropout(Value x, Value seed, Value step, double p, int64_t id,
              SourceLoc loc) {
  return Emit(OpKind::kDropout, Of({x, seed, step}), {{"p", p}, {"id", id}},
              loc);
}

// --- Reductions ---

Value ReduceSum(Value x, const Axes& axes, bool keep, SourceLoc loc) {
  return Reduce(OpKind::kReduceSum, x, axes, keep, loc);
}

Value ReduceMean(Value x, const Axes& axes, bool keep, SourceLoc loc) {
  return Reduce(OpKind::kReduceMean, x, axes, keep, loc);
}

Value ReduceMax(Value x, const Axes& axes, bool keep, SourceLoc loc) {
  return Reduce(OpKind::kReduceMax, x, axes, keep, loc);
}

Value SumSquares(Value x, SourceLoc loc) {
  return Emit(OpKind::kSumSquares, Of({x}), {}, loc);
}

Value ArgMax(Value x, SourceLoc loc) {
  return Emit(OpKind::kArgMax, Of({x}), {}, loc);
}

// --- Matmul, softmax and mean squared error ---

Value MatMul(Value a, Value b, bool transpose_a, bool transpose_b,
             SourceLoc loc) {
  const Attrs attrs{{"transpose_a", int64_t{transpose_a}},
                    {"transpose_b", int64_t{transpose_b}}};
  // A single matrix b serves all of a; otherwise leading dimensions are made equal. If they
  // cannot be, the op reports it.
  if (Usable(Of({a, b})) && b.rank() > 2 &&
      Suit(OpKind::kMatMul, Of({a, b}), 2, attrs)) {
    const auto shape = BroadcastShape(LeadingDimsOf(a, 2), LeadingDimsOf(b, 2));
    for (Value* x : {&a, &b}) {
      if (!shape) break;
      Shape full = *shape;
      full.push_back(x->dim(x->rank() - 2));
      full.push_back(x->dim(x->rank() - 1));
      *x = BroadcastTo(*x, full, loc);
    }
  }
  return Emit(OpKind::kMatMul, Of({a, b}), attrs, loc);
}

Value Softmax(Value x, int64_t axis, SourceLoc loc) {
  return AlongAxis(OpKind::kSoftmax, x, axis, loc);
}

Value LogSoftmax(Value x, int64_t axis, SourceLoc loc) {
  return AlongAxis(OpKind::kLogSoftmax, x, axis, loc);
}

Value SoftmaxGrad(Value y, Value dy, SourceLoc loc) {
  return Emit(OpKind::kSoftmaxGrad, Of({y, dy}), {}, loc);
}

Value LogSoftmaxGrad(Value y, Value dy, SourceLoc loc) {
  return Emit(OpKind::kLogSoftmaxGrad, Of({y, dy}), {}, loc);
}

Value MeanSquaredError(Value prediction, Value target, SourceLoc loc) {
  if (Usable(Of({prediction, target})) &&
      prediction.shape() != target.shape()) {
    return prediction.builder()->Fail(
        StrCat("[mean_squared_error] shapes differ: prediction ",
               Describe(prediction), ", target ", Describe(target),
               "; expected one shape"),
        loc);
  }
  return ReduceMean(Square(Sub(prediction, target, loc), loc), {}, false, loc);
}

// --- Ops of a program's own ---

Value Apply(OpKind op, std::initializer_list<Value> operands, Attrs attrs,
            SourceLoc loc) {
  return Emit(op, Of(operands), std::move(attrs), loc);
}

std::vector<Value> ApplyAll(OpKind op, std::span<const Value> operands,
                            Attrs attrs, SourceLoc loc) {
  GraphBuilder* const g = BuilderOf(operands);
  if (g == nullptr) return std::vector<Value>(size_t{kMaxResults});
  return g->Emit(op, operands, std::move(attrs), loc);
}

// --- For plans alone ---

std::vector<Value> StandIn(std::span<const Value> operands, DType dtype,
                           std::span<const Shape> shapes, double flops,
                           SourceLoc loc) {
  Axes ranks, dims;
  for (const Shape& shape : shapes) {
    const Axes of_shape = DimsAttr(shape);
    ranks.push_back(shape.rank());
    dims.insert(dims.end(), of_shape.begin(), of_shape.end());
  }
  return EmitAll(OpKind::kStandIn, operands,
                 {{"dtype", dtype},
                  {"ranks", std::move(ranks)},
                  {"dims", std::move(dims)},
                  {"flops", flops}},
                 shapes.size(), loc);
}

}  // namespace stowage

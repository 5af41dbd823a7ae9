#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "autodiff/batch_analysis.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"

namespace stowage {
namespace {

bool IsElementwise(OpKind op) {
  switch (op) {
#define STOWAGE_UNARY_OP(kind, name) case OpKind::k##kind:
#define STOWAGE_BINARY_OP(kind, name) case OpKind::k##kind:
#define STOWAGE_OP(kind, name)
#include "ir/ops.def"
#undef STOWAGE_OP
    case OpKind::kCopy:
    case OpKind::kCast:
    case OpKind::kStopGradient:
    case OpKind::kLeakyRelu:
    case OpKind::kElu:
    case OpKind::kClamp:
    case OpKind::kWhere:
    case OpKind::kGlu:
      return true;
    default:
      return false;
  }
}

// Whether an op's attributes may depend on the number of examples: its result types do too,
// or the attribute is only a number of steps.
bool MayTellExamples(OpKind op) {
  switch (op) {
    case OpKind::kReshape:
    case OpKind::kBroadcast:
    case OpKind::kSlice:
    case OpKind::kSplit:
    case OpKind::kLinearCrossEntropy:
    case OpKind::kStandIn:
      return true;
    default:
      return false;
  }
}

bool IsRandom(OpKind op) {
  return op == OpKind::kRandomUniform || op == OpKind::kRandomNormal ||
         op == OpKind::kDropout;
}

// Element counts before an axis.
int64_t Before(const Shape& shape, int axis) {
  int64_t count = 1;
  for (int i = 0; i < axis; ++i) count *= shape[i];
  return count;
}

// Whether all elements of two constants, of `element` bytes each, are equal, as in the zero
// initial states of imported files.
bool AreOneNumber(std::string_view a, std::string_view b, size_t element) {
  const std::string_view first = a.substr(0, element);
  const auto is_it = [&](std::string_view data) {
    for (size_t at = 0; at < data.size(); at += element) {
      if (data.substr(at, element) != first) return false;
    }
    return true;
  };
  return is_it(a) && is_it(b);
}

class Rule {
 public:
  explicit Rule(const BatchNode& node)
      : n_(node), op_(node.part.op), attrs_(node.part.attrs) {
    for (const BatchValue& operand : n_.operands) {
      of_inputs_ &= operand.of_inputs;
    }
    of_inputs_ &= !IsRandom(op_);
  }

  BatchRuling Apply() {
    BatchRuling ruling = {.results = Results()};
    ruling.by_share = by_share_;
    for (BatchValue& result : ruling.results) result.of_inputs = of_inputs_;
    return ruling;
  }

 private:
  using Values = std::vector<BatchValue>;

  size_t num_results() const { return n_.result_types.size(); }
  const BatchValue& in(size_t i) const { return n_.operands[i]; }
  size_t num_operands() const { return n_.operands.size(); }
  const Shape& shape(size_t i) const { return n_.operand_types[i].shape; }
  int rank(size_t i) const { return shape(i).rank(); }
  bool IsSame(size_t i) const { return in(i).kind == BatchKind::kSame; }
  bool IsPerExample(size_t i) const {
    return in(i).kind == BatchKind::kPerExample;
  }

  Values All(const BatchValue& value) const {
    return Values(num_results(), value);
  }
  Values Mixed(std::string_view why) const {
    return All(MixedBecause(StrCat(OpName(op_), " ", why)));
  }

  // Every result per example, along the axis in which it differs.
  Values PerExample(int64_t runs, bool is_uniform = false) const {
    Values results;
    for (size_t r = 0; r < num_results(); ++r) {
      const int axis =
          ExamplesAxis(n_.result_types[r], n_.whole_result_types[r]);
      if (axis < 0) return Mixed("has results without an axis of examples");
      results.push_back({.kind = BatchKind::kPerExample,
                         .axis = axis,
                         .runs = runs,
                         .is_uniform = is_uniform});
    }
    return results;
  }
  Values Kept(const BatchValue& like) const {
    return PerExample(like.runs, like.is_uniform);
  }

  // The operand whose examples' axis counts: the first that is not uniform, if any.
  // Nothing if two operands disagree.
  std::optional<size_t> Leader() const {
    std::optional<size_t> leader;
    for (size_t i = 0; i < num_operands(); ++i) {
      if (!IsPerExample(i)) continue;
      if (!leader || (in(*leader).is_uniform && !in(i).is_uniform)) leader = i;
    }
    if (!leader) return leader;
    for (size_t i = 0; i < num_operands(); ++i) {
      if (!IsPerExample(i) || in(i).is_uniform || in(*leader).is_uniform) {
        continue;
      }
      if (in(i).runs != in(*leader).runs) return std::nullopt;
    }
    return leader;
  }

  Values Results();
  Values OfSame();
  Values OfTotals();
  Values AddTotals();
  Values OfExamples(const BatchValue& x);
  Values Elementwise(const BatchValue& x);
  Values Reshaped(const BatchValue& x);
  Values Sliced(const BatchValue& x);
  Values Concatenated(const BatchValue& x);
  Values Reduced(const BatchValue& x);
  Values Product();
  Values Rows(const BatchValue& x, size_t operands_of_rows);
  bool AllSameFrom(size_t first) const {
    for (size_t i = first; i < num_operands(); ++i) {
      if (!IsSame(i)) return false;
    }
    return true;
  }
  // Whether all operands that differ between examples do so along `axis`.
  bool AllAlong(int axis) const {
    for (size_t i = 0; i < num_operands(); ++i) {
      if (IsPerExample(i) && in(i).axis != axis) return false;
    }
    return true;
  }

  const BatchNode& n_;
  const OpKind op_;
  const Attrs& attrs_;
  bool of_inputs_ = true;
  std::vector<int> by_share_;
};

Rule::Values Rule::Results() {
  if (op_ == OpKind::kAdd && in(0).is_zero) return All(in(1));
  bool has_examples = false, has_totals = false;
  for (const BatchValue& operand : n_.operands) {
    if (operand.kind == BatchKind::kMixed) return All(operand);
    has_examples |= operand.kind == BatchKind::kPerExample;
    has_totals |= operand.kind == BatchKind::kSum ||
                  operand.kind == BatchKind::kMean ||
                  operand.kind == BatchKind::kMax;
  }
  if (op_ == OpKind::kStandIn && (has_examples || has_totals)) {
    Values results;
    for (size_t r = 0; r < num_results(); ++r) {
      const int axis =
          ExamplesAxis(n_.result_types[r], n_.whole_result_types[r]);
      if (axis == -2) return Mixed("is of the batch's size in two axes");
      results.push_back(
          {.kind = axis < 0 ? BatchKind::kMean : BatchKind::kPerExample,
           .axis = std::max(axis, 0)});
    }
    return results;
  }
  if (has_examples && has_totals) {
    return Mixed("reads examples and what was summed over them");
  }
  if (has_totals) return OfTotals();
  if (!has_examples) return OfSame();
  const std::optional<size_t> leader = Leader();
  if (!leader) return Mixed("reads examples in two orders");
  return OfExamples(in(*leader));
}

Rule::Values Rule::OfSame() {
  const bool same_types =
      std::ranges::equal(n_.result_types, n_.whole_result_types);
  if (same_types) {
    if (IsRandom(op_)) {
      return Mixed("draws the same numbers for all examples of a batch");
    }
    if (attrs_ == n_.whole.attrs) return All({});
    if (num_operands() == 0) return All({.is_whole_constant = true});
    return Mixed("does something else for another number of examples");
  }
  if (IsRandom(op_)) return PerExample(1);
  if (op_ == OpKind::kFill &&
      *attrs_.Find("value") == *n_.whole.attrs.Find("value")) {
    return PerExample(1, true);
  }
  if (op_ == OpKind::kConstant &&
      AreOneNumber(
          attrs_.Data("data"), n_.whole.attrs.Data("data"),
          static_cast<size_t>(n_.result_types[0].bytes() /
                              n_.result_types[0].shape.num_elements()))) {
    return PerExample(1, true);
  }
  if (op_ == OpKind::kBroadcast) {
    const int axis = ExamplesAxis(n_.result_types[0], n_.whole_result_types[0]);
    const int from = axis - (n_.result_types[0].shape.rank() - rank(0));
    if (axis >= 0 && (from < 0 || shape(0)[from] == 1)) {
      return PerExample(1, true);
    }
  }
  return Mixed("makes something of the number of examples");
}

// Sums and means are linear in the micro-batches' values.
Rule::Values Rule::OfTotals() {
  if (!(attrs_ == n_.whole.attrs) ||
      !std::ranges::equal(n_.result_types, n_.whole_result_types)) {
    return Mixed(
        "brings a sum, mean or maximum over the examples back to them");
  }
  const auto is_max = [&](size_t i) { return in(i).kind == BatchKind::kMax; };
  switch (op_) {
    case OpKind::kAdd:
    case OpKind::kSub:
      return AddTotals();
    case OpKind::kMul:
    case OpKind::kMatMul:
      if (is_max(0) || is_max(1)) break;
      if (IsSame(0)) return All({.kind = in(1).kind});
      if (IsSame(1)) return All({.kind = in(0).kind});
      return Mixed("multiplies two sums or means over the examples");
    case OpKind::kDiv:
      if (is_max(0) || !IsSame(1)) break;
      return All({.kind = in(0).kind});
    case OpKind::kCast:
      if (!IsFloat(n_.result_types[0].dtype)) break;
      return All({.kind = in(0).kind});
    case OpKind::kNeg:
    case OpKind::kReduceSum:
    case OpKind::kReduceMean:
      if (is_max(0)) break;
      return All({.kind = in(0).kind});
    case OpKind::kCopy:
    case OpKind::kStopGradient:
    case OpKind::kReshape:
    case OpKind::kPermute:
    case OpKind::kSlice:
    case OpKind::kSplit:
    case OpKind::kBroadcast:
      return All({.kind = in(0).kind});
    case OpKind::kReduceMax:
      if (!is_max(0)) break;
      return All({.kind = BatchKind::kMax});
    case OpKind::kMaximum:
      if ((is_max(0) || IsSame(0)) && (is_max(1) || IsSame(1))) {
        return All({.kind = BatchKind::kMax});
      }
      break;
    case OpKind::kWhere:
      if (IsSame(0) && in(1).kind == in(2).kind) {
        return All({.kind = in(1).kind});
      }
      break;
    case OpKind::kConcat:
      if (std::ranges::all_of(n_.operands, [&](const BatchValue& operand) {
            return operand.kind == in(0).kind;
          })) {
        return All({.kind = in(0).kind});
      }
      break;
    default:
      break;
  }
  return Mixed("is not linear in a sum, mean or maximum over the examples");
}

// A mean, or a value that is the same in all micro-batches, is a sum weighted by share.
Rule::Values Rule::AddTotals() {
  const BatchKind a = in(0).kind, b = in(1).kind;
  if (a == b && a != BatchKind::kMax) return All({.kind = a});
  if (a == BatchKind::kMax || b == BatchKind::kMax) {
    if (a == BatchKind::kMax && b == BatchKind::kSame) return All({.kind = a});
    if (b == BatchKind::kMax && a == BatchKind::kSame && op_ == OpKind::kAdd) {
      return All({.kind = b});
    }
    return Mixed("adds to a maximum over the examples what differs with them");
  }
  if (a != BatchKind::kSum && b != BatchKind::kSum) {
    return All({.kind = BatchKind::kMean});
  }
  if (!IsFloat(n_.result_types[0].dtype)) {
    return Mixed("adds whole numbers that count by the share of the examples");
  }
  by_share_.push_back(a == BatchKind::kSum ? 1 : 0);
  return All({.kind = BatchKind::kSum});
}

Rule::Values Rule::OfExamples(const BatchValue& x) {
  if (!MayTellExamples(op_) && !(attrs_ == n_.whole.attrs)) {
    return Mixed("does something else for another number of examples");
  }
  if (IsElementwise(op_)) return Elementwise(x);
  const int last = num_operands() > 0 ? rank(0) - 1 : 0;
  switch (op_) {
    case OpKind::kDropout:
      if (!IsPerExample(0)) return Mixed("draws by the examples");
      return PerExample(x.runs);
    case OpKind::kConcat:
      return Concatenated(x);
    case OpKind::kReshape:
      return Reshaped(x);
    case OpKind::kPermute:
    case OpKind::kBroadcast:
      return Kept(x);
    case OpKind::kSlice:
    case OpKind::kSplit:
      return Sliced(x);
    case OpKind::kReduceSum:
    case OpKind::kReduceMean:
    case OpKind::kReduceMax:
      return Reduced(x);
    case OpKind::kSumSquares:
      return All({.kind = BatchKind::kSum});
    case OpKind::kArgMax:
    case OpKind::kSoftmax:
    case OpKind::kLogSoftmax:
    case OpKind::kTopK:
      if (x.axis == last) return Mixed("runs along the examples");
      return Kept(x);
    case OpKind::kCumSum:
    case OpKind::kTakeAlongAxis:
    case OpKind::kPutAdd:
      if (!AllAlong(x.axis) || x.axis == attrs_.Int("axis")) {
        return Mixed("runs along the examples");
      }
      return Kept(x);
    case OpKind::kMatMul:
      return Product();
    case OpKind::kCrossEntropy:
    case OpKind::kLinearCrossEntropy: {
      // The first result is a mean over all rows.
      const bool is_linear = op_ == OpKind::kLinearCrossEntropy;
      if (x.axis == last || !AllAlong(x.axis) || !IsPerExample(0) ||
          (is_linear && !IsSame(1))) {
        return Mixed("judges across examples");
      }
      Values results = {{.kind = BatchKind::kMean}};
      results.push_back({.kind = BatchKind::kPerExample,
                         .axis = x.axis,
                         .runs = x.runs,
                         .is_uniform = x.is_uniform});
      results.resize(num_results(), results.back());
      return results;
    }
    case OpKind::kLayerNorm:
    case OpKind::kRmsNorm:
      return Rows(x, 1);
    case OpKind::kQuantizedMatMul:
      return Rows(x, 1);
    case OpKind::kBatchNorm:
      // Examples reshaped to channels, as in a group norm, have separate statistics.
      if (!IsPerExample(0) || in(0).axis != 1) {
        return Mixed("normalizes by all examples of the batch");
      }
      return Kept(x);
    case OpKind::kLocalResponseNorm:
      if (x.axis == 1) return Mixed("runs along the examples");
      return Kept(x);
    case OpKind::kAttention:
      if (!AllAlong(0) || !IsPerExample(0) || !IsPerExample(1) ||
          !IsPerExample(2)) {
        return Mixed("reads from one example to another");
      }
      return Kept(x);
    case OpKind::kRope:
      if (!AllAlong(0)) return Mixed("turns along the examples");
      return Kept(x);
    case OpKind::kLstm:
      if (!AllAlong(0) || !IsPerExample(0) || !IsSame(3)) {
        return Mixed("runs along the examples");
      }
      return Kept(x);
    case OpKind::kGather:
    case OpKind::kQuantizedGather:
      if (IsSame(0)) return Kept(x);
      if (IsSame(1) && in(0).axis > 0) return Kept(x);
      return Mixed("looks examples up by their place in the batch");
    case OpKind::kConv:
    case OpKind::kConvTranspose:
      if (!IsSame(1) || x.axis != 0) return Mixed("goes across examples");
      return Kept(x);
    case OpKind::kMaxPool:
    case OpKind::kAvgPool:
    case OpKind::kResize:
      if (x.axis > 1) return Mixed("goes across examples");
      return Kept(x);
    case OpKind::kPad: {
      const auto at = static_cast<size_t>(x.axis);
      if (attrs_.Ints("before")[at] != 0 || attrs_.Ints("after")[at] != 0) {
        return Mixed("puts something beside the examples");
      }
      return Kept(x);
    }
    case OpKind::kSliceUpdate:
      if (!IsPerExample(0) || !IsPerExample(1) || !AllAlong(x.axis) ||
          x.axis == attrs_.Int("axis")) {
        return Mixed("writes examples to a place in the batch");
      }
      return Kept(x);
    default:
      break;
  }
  if (CustomIndex(op_) && GetOpDef(op_).per_example) {
    if (!AllAlong(0)) return Mixed("has its examples in another axis");
    Values results = PerExample(x.runs);
    const bool are_first =
        std::ranges::all_of(results, [](const BatchValue& value) {
          return value.kind != BatchKind::kPerExample || value.axis == 0;
        });
    return are_first ? results : Mixed("has its examples in another axis");
  }
  return Mixed("may go from one example to another, as far as is known");
}

Rule::Values Rule::Elementwise(const BatchValue& x) {
  // Operands have one shape, except scalars of ops like `where`.
  bool is_uniform = true;
  for (size_t i = 0; i < num_operands(); ++i) {
    if (!IsPerExample(i)) {
      if (rank(i) > 0) return Mixed("reads examples in two axes");
      continue;
    }
    if (in(i).axis != x.axis) return Mixed("reads examples in two axes");
    is_uniform &= in(i).is_uniform;
  }
  return PerExample(x.runs, is_uniform);
}

// A reshape keeps the order of elements, and so the number of elements between examples.
Rule::Values Rule::Reshaped(const BatchValue& x) {
  const Shape& to = n_.result_types[0].shape;
  const int axis = ExamplesAxis(n_.result_types[0], n_.whole_result_types[0]);
  if (axis < 0) return Mixed("puts the examples into two axes");
  const int64_t runs = Before(shape(0), x.axis) * x.runs;
  const int64_t before = Before(to, axis);
  if (runs % before != 0) return Mixed("cuts examples");
  const int64_t now = runs / before;
  if (to[axis] % now != 0 || n_.whole_result_types[0].shape[axis] % now != 0) {
    return Mixed("cuts examples");
  }
  // Slices along an axis that was merged or split are no longer equal.
  return PerExample(now, x.is_uniform && to[axis] == shape(0)[x.axis] &&
                             before == Before(shape(0), x.axis));
}

// Along the examples' axis: only whole batches.
Rule::Values Rule::Sliced(const BatchValue& x) {
  const auto axis = static_cast<int>(attrs_.Int("axis"));
  if (axis != x.axis) {
    return attrs_ == n_.whole.attrs ? Kept(x) : Mixed("cuts at the examples");
  }
  const int64_t run = shape(0)[axis] / x.runs;
  const int64_t whole_run = n_.whole_operand_types[0].shape[axis] / x.runs;
  Values results;
  int64_t start = 0, whole_start = 0;
  for (size_t r = 0; r < num_results(); ++r) {
    const int64_t size = n_.result_types[r].shape[axis];
    const int64_t whole_size = n_.whole_result_types[r].shape[axis];
    if (op_ == OpKind::kSlice) {
      start = attrs_.Int("start");
      whole_start = n_.whole.attrs.Int("start");
      if (attrs_.Int("step") != 1) return Mixed("takes some of the examples");
    }
    if (start % run != 0 || size % run != 0 || whole_start % whole_run != 0 ||
        start / run != whole_start / whole_run ||
        size / run * whole_run != whole_size) {
      return Mixed("takes some of the examples");
    }
    results.push_back({.kind = BatchKind::kPerExample,
                       .axis = axis,
                       .runs = size / run,
                       .is_uniform = x.is_uniform});
    start += size;
    whole_start += whole_size;
  }
  return results;
}

Rule::Values Rule::Concatenated(const BatchValue& x) {
  if (!AllAlong(x.axis)) return Mixed("puts together examples of two axes");
  const auto axis = static_cast<int>(attrs_.Int("axis"));
  bool is_uniform = true;
  int64_t runs = 0;
  for (size_t i = 0; i < num_operands(); ++i) {
    if (!IsPerExample(i)) return Mixed("puts something beside the examples");
    is_uniform &= in(i).is_uniform;
    if (axis == x.axis &&
        shape(i)[axis] / in(i).runs != shape(0)[axis] / in(0).runs) {
      return Mixed("puts together other numbers of examples");
    }
    runs += in(i).runs;
  }
  if (axis != x.axis) return PerExample(x.runs, is_uniform);
  return PerExample(runs);
}

Rule::Values Rule::Reduced(const BatchValue& x) {
  const std::vector<int64_t>& axes = attrs_.Ints("axes");
  if (std::ranges::find(axes, x.axis) == axes.end()) return Kept(x);
  if (op_ == OpKind::kReduceSum) return All({.kind = BatchKind::kSum});
  if (op_ == OpKind::kReduceMean) return All({.kind = BatchKind::kMean});
  return All({.kind = BatchKind::kMax});
}

Rule::Values Rule::Product() {
  const auto columns = [&](size_t i, const char* transposed) {
    // The axis of operand i that the matmul sums over; for a, the last.
    const bool swapped = attrs_.Int(transposed) == 1;
    return i == 0 ? rank(0) - (swapped ? 2 : 1) : rank(1) - (swapped ? 1 : 2);
  };
  const int a_summed = columns(0, "transpose_a");
  const int b_summed = columns(1, "transpose_b");
  const bool a_sums = IsPerExample(0) && in(0).axis == a_summed;
  const bool b_sums = IsPerExample(1) && in(1).axis == b_summed;
  if (a_sums && b_sums) return All({.kind = BatchKind::kSum});
  if (a_sums || b_sums) return Mixed("sums over the examples of one operand");
  if (IsPerExample(0) && IsSame(1)) return Kept(in(0));
  if (IsSame(0)) {
    // Along b's columns, or along leading axes that a has too.
    return Kept(in(1));
  }
  const bool are_leading = in(0).axis == in(1).axis &&
                           in(0).axis < rank(0) - 2 && rank(0) == rank(1);
  if (!are_leading) return Mixed("multiplies examples by one another");
  return PerExample(in(0).is_uniform ? in(1).runs : in(0).runs,
                    in(0).is_uniform && in(1).is_uniform);
}

// Ops along the last axis.
Rule::Values Rule::Rows(const BatchValue& x, size_t operands_of_rows) {
  if (!IsPerExample(0) || x.axis == rank(0) - 1 ||
      !AllSameFrom(operands_of_rows)) {
    return Mixed("goes across examples");
  }
  return Kept(x);
}

}  // namespace

BatchRuling ApplyBatchRule(const BatchNode& node) { return Rule(node).Apply(); }

BatchValue MixedBecause(std::string why) {
  BatchValue value = {.kind = BatchKind::kMixed};
  value.why = std::move(why);
  return value;
}

int ExamplesAxis(const TensorType& part, const TensorType& whole) {
  if (part.shape.rank() != whole.shape.rank() || part.dtype != whole.dtype) {
    return -2;
  }
  int axis = -1;
  for (int i = 0; i < part.shape.rank(); ++i) {
    if (part.shape[i] == whole.shape[i]) continue;
    if (axis >= 0) return -2;
    axis = i;
  }
  return axis;
}

}  // namespace stowage

#include "ir/composites.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {
namespace {

// Drops the reduced axes, of size 1, of `kept`, unless `keep`. Precondition: the axes are
// in range.
Value WithoutOnes(Value kept, const Axes& axes, bool keep, SourceLoc loc) {
  if (keep || !kept.ok()) return kept;
  std::vector<bool> is_reduced(static_cast<size_t>(kept.rank()), axes.empty());
  for (const int64_t axis : axes) {
    is_reduced[static_cast<size_t>(axis < 0 ? axis + kept.rank() : axis)] =
        true;
  }
  Shape shape;
  for (int i = 0; i < kept.rank(); ++i) {
    if (!is_reduced[static_cast<size_t>(i)]) shape.push_back(kept.dim(i));
  }
  return Reshape(kept, shape, loc);
}

bool Has(std::string_view labels, char label) {
  return labels.find(label) != std::string_view::npos;
}

// The labels of `of` for which `f` holds, in their order.
template <typename F>
std::string Chosen(std::string_view of, F&& f) {
  std::string chosen;
  std::ranges::copy_if(of, std::back_inserter(chosen), f);
  return chosen;
}

// A tensor and the letter of each of its axes.
struct Term {
  Value value;
  std::string labels;
};

class Contraction {
 public:
  Contraction(std::map<char, int64_t> sizes, SourceLoc loc)
      : sizes_(std::move(sizes)), loc_(loc) {}

  // Sums over the axes whose letters are not in `kept`.
  Term Reduce(const Term& term, std::string_view kept) const {
    Axes axes;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (!Has(kept, term.labels[i])) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return term;
    return {ReduceSum(term.value, axes, /*keep=*/false, loc_),
            Chosen(term.labels, [&](char c) { return Has(kept, c); })};
  }

  // The axes in the order of `labels`, which are the term's.
  Value InOrder(const Term& term, std::string_view labels) const {
    if (term.labels == labels) return term.value;
    Axes order;
    for (const char label : labels) {
      order.push_back(static_cast<int64_t>(term.labels.find(label)));
    }
    return Permute(term.value, order, loc_);
  }

  // One matmul, whose result has the letters in `kept`.
  Term Multiply(const Term& left, const Term& right,
                std::string_view kept) const {
    const Term a = Reduce(left, StrCat(right.labels, kept));
    const Term b = Reduce(right, StrCat(left.labels, kept));
    const auto both = [&](char c) { return Has(b.labels, c); };
    const std::string batch =
        Chosen(a.labels, [&](char c) { return both(c) && Has(kept, c); });
    const std::string summed =
        Chosen(a.labels, [&](char c) { return both(c) && !Has(kept, c); });
    const std::string rows = Chosen(a.labels, [&](char c) { return !both(c); });
    const std::string columns =
        Chosen(b.labels, [&](char c) { return !Has(a.labels, c); });
    const Value product = MatMul(
        Grouped(InOrder(a, StrCat(batch, rows, summed)), batch, rows, summed),
        Grouped(InOrder(b, StrCat(batch, summed, columns)), batch, summed,
                columns),
        /*transpose_a=*/false, /*transpose_b=*/false, loc_);
    const std::string labels = StrCat(batch, rows, columns);
    return {Reshape(product, ShapeOf(labels), loc_), labels};
  }

 private:
  int64_t Size(std::string_view labels) const {
    int64_t size = 1;
    for (const char label : labels) size *= sizes_.at(label);
    return size;
  }

  Shape ShapeOf(std::string_view labels) const {
    Shape shape;
    for (const char label : labels) shape.push_back(sizes_.at(label));
    return shape;
  }

  // (batch, rows, columns), or a single matrix where there is no batch.
  Value Grouped(Value x, std::string_view batch, std::string_view rows,
                std::string_view columns) const {
    Shape shape;
    if (!batch.empty()) shape.push_back(Size(batch));
    shape.push_back(Size(rows));
    shape.push_back(Size(columns));
    return Reshape(x, shape, loc_);
  }

  std::map<char, int64_t> sizes_;
  SourceLoc loc_;
};

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

// An error about letters that name the axes of one tensor, or "".
std::string WrongLabels(std::string_view labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(labels[i])) == 0) {
      return StrCat("has ", Quoted(labels.substr(i, 1)),
                    "; expected a letter for each axis, commas and one \"->\"");
    }
    if (Has(labels.substr(0, i), labels[i])) {
      return StrCat("has ", Quoted(labels.substr(i, 1)), " twice in ",
                    Quoted(labels), "; expected a letter for each axis");
    }
  }
  return "";
}

}  // namespace

Value Variance(Value x, const Axes& axes, int64_t correction, bool keep,
               SourceLoc loc) {
  if (!x.ok()) return x;
  const Value mean = ReduceMean(x, axes, /*keep=*/true, loc);
  if (!mean.ok()) return mean;
  const int64_t count = x.shape().num_elements() / mean.shape().num_elements();
  if (correction < 0 || correction >= count) {
    return x.builder()->Fail(
        StrCat("[variance] correction ", correction, " for ", count,
               " numbers; expected at least 0 and fewer than they are"),
        loc);
  }
  const Value sum = ReduceSum(Square(Sub(x, mean, loc), loc), axes, keep, loc);
  return MulScalar(sum, 1 / static_cast<double>(count - correction), loc);
}

Value LogSumExp(Value x, const Axes& axes, bool keep, SourceLoc loc) {
  if (!x.ok()) return x;
  Value most = StopGradient(ReduceMax(x, axes, /*keep=*/true, loc), loc);
  if (!most.ok()) return most;
  // Infinities propagate if nothing is subtracted.
  const Value zero = Fill(*x.builder(), 0, x.dtype(), {}, loc);
  most = Where(IsNan(Sub(most, most, loc), loc), zero, most, loc);
  const Value rest = Exp(Sub(x, most, loc), loc);
  const Value log = Log(ReduceSum(rest, axes, /*keep=*/true, loc), loc);
  return WithoutOnes(Add(log, most, loc), axes, keep, loc);
}

Value Root(Value x, double p, SourceLoc loc) {
  if (!x.ok()) return x;
  const auto number = [&](double value) {
    return Fill(*x.builder(), value, x.dtype(), {}, loc);
  };
  const Value is_zero = Equal(x, number(0), loc);
  const Value some = Where(is_zero, number(1), x, loc);
  return Where(is_zero, number(0),
               p == 2 ? Sqrt(some, loc) : Pow(some, number(1 / p), loc), loc);
}

Value Norm(Value x, double p, const Axes& axes, bool keep, SourceLoc loc) {
  if (!x.ok()) return x;
  if (!(p >= 1)) {
    return x.builder()->Fail(
        StrCat("[norm] p is ", p, "; expected a number of at least 1"), loc);
  }
  if (std::isinf(p)) return ReduceMax(Abs(x, loc), axes, keep, loc);
  if (p == 1) return ReduceSum(Abs(x, loc), axes, keep, loc);
  const Value power =
      p == 2 ? Square(x, loc)
             : Pow(Abs(x, loc), Fill(*x.builder(), p, x.dtype(), {}, loc), loc);
  return Root(ReduceSum(power, axes, keep, loc), p, loc);
}

Value Einsum(std::string_view equation, std::span<const Value> operands,
             SourceLoc loc) {
  if (operands.empty() || !std::ranges::all_of(operands, &Value::ok)) {
    return operands.empty() ? Value() : operands[0];
  }
  const auto fail = [&](const std::string& what) {
    return operands[0].builder()->Fail(
        StrCat("[einsum] ", Quoted(equation), " ", what), loc);
  };
  const size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos) {
    return fail("has no \"->\"; expected the labels of the result after one");
  }
  const std::string result(equation.substr(arrow + 2));
  const std::vector<std::string> labels =
      SplitAtCommas(equation.substr(0, arrow));
  if (labels.size() != operands.size()) {
    return fail(StrCat("has labels for ", labels.size(), " operands and there ",
                       operands.size() == 1 ? "is " : "are ", operands.size()));
  }
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Value x = operands[i];
    if (const std::string wrong = WrongLabels(labels[i]); !wrong.empty()) {
      return fail(wrong);
    }
    if (static_cast<int>(labels[i].size()) != x.rank()) {
      return fail(StrCat("has ", labels[i].size(), " labels for operand ", i,
                         ", which is ", x.type().ToString()));
    }
    for (int axis = 0; axis < x.rank(); ++axis) {
      const char label = labels[i][static_cast<size_t>(axis)];
      const auto [at, is_new] = sizes.emplace(label, x.dim(axis));
      if (!is_new && at->second != x.dim(axis)) {
        return fail(StrCat("has axes ", Quoted(std::string(1, label)), " of ",
                           at->second, " and ", x.dim(axis),
                           "; they must be equal"));
      }
    }
  }
  if (const std::string wrong = WrongLabels(result); !wrong.empty()) {
    return fail(wrong);
  }
  for (const char label : result) {
    if (!sizes.contains(label)) {
      return fail(StrCat("asks for ", Quoted(std::string(1, label)),
                         ", which no operand has"));
    }
  }

  const Contraction contraction(sizes, loc);
  Term term = {operands[0], labels[0]};
  for (size_t i = 1; i < labels.size(); ++i) {
    std::string kept = result;
    for (size_t k = i + 1; k < labels.size(); ++k) kept += labels[k];
    term = contraction.Multiply(term, {operands[i], labels[i]}, kept);
  }
  return contraction.InOrder(contraction.Reduce(term, result), result);
}

Value Einsum(std::string_view equation, std::initializer_list<Value> operands,
             SourceLoc loc) {
  return Einsum(equation, std::span(operands.begin(), operands.size()), loc);
}

}  // namespace stowage

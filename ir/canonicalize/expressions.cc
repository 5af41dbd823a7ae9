#include "ir/canonicalize/expressions.h"

#include <cmath>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "base/strings.h"

namespace stowage::canonical {
namespace {

// Limits on the size of a formula, which bound the time per value.
constexpr int kMaxFactors = 8;
constexpr int kMaxDepth = 16;
constexpr int kMaxSteps = 64;

std::optional<Polynomial> Multiplied(const Polynomial& a, const Polynomial& b) {
  Polynomial y = {};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      const double term = a[i] * b[j];
      if (term == 0) continue;
      if (i + j >= y.size()) return {};
      y[i + j] += term;
    }
  }
  return y;
}

// The one element of a constant of floats.
std::optional<double> ElementOf(const Node& constant, const TensorType& type) {
  if (type.shape.num_elements() != 1) return {};
  const std::string& data = constant.attrs.Data("data");
  const auto read = [&](auto number) -> std::optional<double> {
    if (data.size() != sizeof number) return {};
    std::memcpy(&number, data.data(), sizeof number);
    return static_cast<double>(number);
  };
  if (type.dtype == DType::kF32) return read(float{});
  if (type.dtype == DType::kF64) return read(double{});
  return {};
}

}  // namespace

bool IsNear(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

std::optional<ValueId> TakeBelowRoot(const Expressions& e, Product* product) {
  const auto below_root = [&](ValueId id) -> std::optional<ValueId> {
    if (const Node* node = e.Made(id, OpKind::kRsqrt)) return node->inputs[0];
    const Node* node = e.Made(id, OpKind::kReciprocal);
    const Node* root =
        node == nullptr ? nullptr : e.Made(node->inputs[0], OpKind::kSqrt);
    return root == nullptr ? std::optional<ValueId>() : root->inputs[0];
  };
  std::optional<ValueId> below;
  for (const ValueId divisor : product->divisors) {
    const Node* root = e.Made(e.Unrepeated(divisor), OpKind::kSqrt);
    if (root == nullptr || below) return {};
    below = root->inputs[0];
  }
  product->divisors.clear();
  for (size_t i = 0; i < product->values.size() && !below; ++i) {
    below = below_root(e.Unrepeated(product->values[i]));
    if (!below) continue;
    product->values.erase(product->values.begin() + static_cast<long>(i));
  }
  return below;
}

bool IsOfFeatures(const Expressions& e, ValueId id, int64_t features) {
  const Shape& shape = e.graph().value(e.Unrepeated(id)).type.shape;
  return shape.rank() >= 1 && shape.back() == features &&
         shape.num_elements() == features;
}

Expressions::Expressions(const Graph& graph)
    : graph_(graph), uses_(static_cast<size_t>(graph.num_values())) {
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) ++uses_[Index(input)];
  }
  for (const GraphOutput& output : graph.outputs()) {
    ++uses_[Index(output.value)];
  }
}

const Node* Expressions::Made(ValueId id, OpKind op) const {
  const NodeId producer = graph_.value(id).producer;
  if (producer == kNoNode || graph_.node(producer).op != op) return nullptr;
  return &graph_.node(producer);
}

ValueId Expressions::Unrepeated(ValueId id) const {
  while (const Node* node = Made(id, OpKind::kBroadcast)) id = node->inputs[0];
  return id;
}

std::optional<double> Expressions::Number(ValueId id) const {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const NodeId producer = graph_.value(id).producer;
    if (producer == kNoNode) return {};
    const Node& node = graph_.node(producer);
    switch (node.op) {
      case OpKind::kFill:
        return node.attrs.Float("value");
      case OpKind::kConstant:
        return ElementOf(node, graph_.value(id).type);
      case OpKind::kBroadcast:
      case OpKind::kReshape:
        id = node.inputs[0];
        break;
      default:
        return {};
    }
  }
  return {};
}

Product Expressions::Factors(ValueId id) const {
  Product product;
  AddFactors(id, 0, &product);
  return product;
}

void Expressions::AddFactors(ValueId id, int depth, Product* product) const {
  if (const std::optional<double> number = Number(id)) {
    product->number *= *number;
    return;
  }
  if (depth < kMaxFactors) {
    if (const Node* node = Made(id, OpKind::kMul)) {
      AddFactors(node->inputs[0], depth + 1, product);
      AddFactors(node->inputs[1], depth + 1, product);
      return;
    }
    if (const Node* node = Made(id, OpKind::kDiv)) {
      const std::optional<double> by = Number(node->inputs[1]);
      if (by) {
        product->number /= *by;
      } else {
        product->divisors.push_back(node->inputs[1]);
      }
      AddFactors(node->inputs[0], depth + 1, product);
      return;
    }
  }
  product->values.push_back(id);
}

std::optional<Expressions::Shifted> Expressions::SumWithNumber(
    ValueId id) const {
  const Node* node = Made(id, OpKind::kAdd);
  if (node == nullptr) return {};
  for (const size_t i : {0, 1}) {
    if (const auto number = Number(node->inputs[i])) {
      return Shifted{node->inputs[1 - i], *number};
    }
  }
  return {};
}

void Expressions::Miss(std::string_view pattern, ValueId id,
                       std::string_view why) const {
  misses_.push_back(
      StrCat(pattern, " at ", Quoted(graph_.value(id).name), ": ", why));
}

std::optional<Polynomial> Expressions::PolynomialIn(ValueId id,
                                                    ValueId x) const {
  int steps = 0;
  return PolynomialIn(id, x, &steps);
}

std::optional<Polynomial> Expressions::PolynomialIn(ValueId id, ValueId x,
                                                    int* steps) const {
  if (++*steps > kMaxSteps) return {};
  if (id == x) return Polynomial{0, 1, 0, 0};
  if (const auto number = Number(id)) return Polynomial{*number, 0, 0, 0};
  const NodeId producer = graph_.value(id).producer;
  if (producer == kNoNode) return {};
  const Node& node = graph_.node(producer);
  const auto operand = [&](size_t i) {
    return PolynomialIn(node.inputs[i], x, steps);
  };
  switch (node.op) {
    case OpKind::kAdd:
    case OpKind::kSub: {
      auto a = operand(0);
      const auto b = operand(1);
      if (!a || !b) return {};
      for (size_t i = 0; i < a->size(); ++i) {
        (*a)[i] += node.op == OpKind::kAdd ? (*b)[i] : -(*b)[i];
      }
      return a;
    }
    case OpKind::kMul: {
      const auto a = operand(0);
      const auto b = operand(1);
      if (!a || !b) return {};
      return Multiplied(*a, *b);
    }
    case OpKind::kDiv: {
      const auto by = Number(node.inputs[1]);
      auto a = operand(0);
      if (!a || !by || *by == 0) return {};
      for (double& each : *a) each /= *by;
      return a;
    }
    case OpKind::kSquare: {
      const auto a = operand(0);
      if (!a) return {};
      return Multiplied(*a, *a);
    }
    case OpKind::kPow: {
      const auto exponent = Number(node.inputs[1]);
      const auto a = operand(0);
      if (!a || !exponent) return {};
      if (*exponent == 2) return Multiplied(*a, *a);
      if (*exponent != 3) return {};
      const auto square = Multiplied(*a, *a);
      if (!square) return {};
      return Multiplied(*square, *a);
    }
    default:
      return {};
  }
}

}  // namespace stowage::canonical

#include "onnx/ops.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "formats/array.h"
#include "onnx/node.h"

namespace stowage::onnx {
namespace {

constexpr ImportedOp kOps[] = {
#define STOWAGE_ONNX_OP(Name, operands, since, changed, limits) \
  {#Name, operands, since, changed, limits, Convert##Name},
#define STOWAGE_ONNX_BODY_OP(Name, operands, since, changed, limits) \
  {#Name, operands, since, changed, limits, nullptr},
#include "onnx/ops.def"
#undef STOWAGE_ONNX_OP
};

constexpr bool ByName(const ImportedOp& a, const ImportedOp& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(std::begin(kOps), std::end(kOps), ByName));

}  // namespace

std::span<const ImportedOp> ImportedOps() { return kOps; }

const ImportedOp* FindOp(std::string_view domain, std::string_view name) {
  if (!domain.empty() && domain != "ai.onnx") return nullptr;
  const auto* const found = std::lower_bound(
      std::begin(kOps), std::end(kOps), name,
      [](const ImportedOp& op, std::string_view n) { return op.name < n; });
  return found != std::end(kOps) && found->name == name ? found : nullptr;
}

Value Like(Value x, double number) {
  return x.ok() ? Fill(*x.builder(), number, x.dtype(), {}) : x;
}

Value ConstantInts(GraphBuilder& g, const std::vector<int64_t>& ints) {
  const Array array =
      ArrayOf(DType::kI64, {static_cast<int64_t>(ints.size())}, ints);
  return Constant(g, array.type.dtype, array.type.shape, array.data());
}

namespace {

// The elements of x at the indices `places` along `axis`.
Value Rows(Value x, int axis, Value places) {
  Axes first(static_cast<size_t>(x.rank()));
  std::iota(first.begin(), first.end(), 0);
  std::swap(first[0], first[static_cast<size_t>(axis)]);
  return Permute(Gather(Permute(x, first), places), first);
}

}  // namespace

Value TakeAlong(Value x, int axis, int64_t start, int64_t step, int64_t count) {
  if (!x.ok()) return x;
  return Rows(x, axis,
              Iota(*x.builder(), DType::kI64, static_cast<double>(start),
                   static_cast<double>(step), count));
}

Value TakeAt(Value x, int axis, const std::vector<int64_t>& places) {
  if (!x.ok()) return x;
  return Rows(x, axis, ConstantInts(*x.builder(), places));
}

Axes SwappedWithLast(int rank, int64_t axis) {
  Axes order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  return order;
}

Draws NextDraws(ImportedNode& node) {
  ImportContext& context = node.context();
  for (Operand* const number : {&context.seed, &context.step}) {
    if (number->value.ok()) continue;
    number->name = number == &context.seed ? "seed" : "step";
    number->type = {DType::kI64, {}};
    number->value = context.model->Input(number->name, DType::kI64, {});
  }
  Draws draws = {context.seed.value, context.step.value, context.draws++};
  if (Body* const body = context.body) {
    draws.seed = body->LeafFor(*body->CaptureOfModel(&context.seed));
    draws.step = body->StepOfDraws(&context.step);
  }
  return draws;
}

Value PerChannel(Value v, int rank) {
  if (!v.ok()) return v;
  Shape shape = {v.shape().num_elements()};
  while (shape.rank() < rank - 1) shape.push_back(1);
  return Reshape(v, shape);
}

// Ops that are supported only if they can be folded (onnx/fold.h).

namespace {

Error NotKnown(const ImportedNode& node) {
  return node.Unsupported(
      "depends on what is computed in each step; it is there only where its "
      "result "
      "is known when a plan is made");
}

}  // namespace

Result<Values> ConvertConstant(ImportedNode& node) { return NotKnown(node); }
Result<Values> ConvertNonZero(ImportedNode& node) { return NotKnown(node); }
Result<Values> ConvertShape(ImportedNode& node) { return NotKnown(node); }
Result<Values> ConvertSize(ImportedNode& node) { return NotKnown(node); }

}  // namespace stowage::onnx

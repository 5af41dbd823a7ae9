#include "onnx/body.h"

#include <cstddef>
#include <span>

#include "base/strings.h"
#include "ir/ops.h"

namespace stowage::onnx {

Body::Body(const std::string& name, ImportContext& context)
    : context_(context),
      graph_(name),
      outer_graph_(context.graph),
      outer_(context.body) {
  graph_.SetOrigin(Phase::kForward, "", context.source);
  context_.graph = &graph_;
  context_.body = this;
}

void Body::Leave() {
  if (!inside_) return;
  inside_ = false;
  context_.graph = outer_graph_;
  context_.body = outer_;
}

Value Body::Leaf(const std::string& name, const TensorType& type) {
  std::string free = name.empty() ? "x" : name;
  for (int i = 2; graph_.Find(free); ++i) free = StrCat(name, ".", i);
  return graph_.Input(free, type.dtype, type.shape);
}

void Body::Name(const std::string& name, Value value) {
  if (graph_.info(value).is_leaf() || graph_.Find(name)) return;
  if (named_.insert(value.id()).second) graph_.Name(name, value);
}

Operand* Body::Capture(Operand* outer) {
  Operand*& captured = captured_[outer];
  if (!captured) {
    operands_.push_back(*outer);
    captured = &operands_.back();
    captured->value = {};
    captured->kept = false;
    captured->outer = outer;
  }
  return captured;
}

Operand* Body::CaptureOfModel(Operand* operand) {
  return Capture(outer_ ? outer_->CaptureOfModel(operand) : operand);
}

Value Body::LeafFor(const Operand& captured) {
  Value& leaf = leaves_[captured.outer];
  if (!leaf.ok()) {
    leaf = Leaf(captured.name, captured.type);
    reads_.push_back({leaf, captured.outer});
  }
  return leaf;
}

void Body::SetTrip(Value trip, int64_t trips) {
  trip_ = trip;
  trips_ = trips;
}

Value Body::StepOfDraws(Operand* step_of_model) {
  if (!step_) {
    if (outer_) outer_->StepOfDraws(step_of_model);
    step_ = Capture(outer_ ? outer_->step_ : step_of_model);
    step_->value = LeafFor(*step_);
    if (trip_.ok()) {
      const Value trips = Constant(graph_, DType::kI64, {},
                                   std::as_bytes(std::span(&trips_, 1)));
      operands_.push_back(*step_);
      step_ = &operands_.back();
      step_->value = Add(Mul(step_->value, trips), trip_);
    }
  }
  return step_->value;
}

}  // namespace stowage::onnx

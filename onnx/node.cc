#include "onnx/node.h"

#include <span>
#include <utility>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/ops.h"
#include "onnx/tensor.h"

namespace stowage::onnx {

namespace {

template <typename T, typename List>
std::vector<T> Copied(const List& list) {
  return std::vector<T>(list.begin(), list.end());
}

}  // namespace

Result<const Array*> ContentsOf(Operand& operand, const std::string& path) {
  if (!operand.contents && operand.initializer) {
    STOWAGE_ASSIGN_OR_RETURN(Array array,
                             ReadTensor(*operand.initializer, path));
    operand.contents = std::make_shared<const Array>(std::move(array));
  }
  return operand.contents.get();
}

Value ValueOf(Operand& operand, ImportContext& context) {
  if (operand.value.ok()) return operand.value;
  if (operand.outer) return operand.value = context.body->LeafFor(operand);
  GraphBuilder& g = *context.graph;
  if (operand.initializer && !operand.fixed) {
    return operand.value =
               g.Param(operand.name, operand.type.dtype, operand.type.shape);
  }
  const Result<const Array*> contents = ContentsOf(operand, context.path);
  if (!contents.ok()) return g.Fail(contents.error());
  if (!*contents) return Value();  // of a node that failed
  const Array& array = **contents;
  return operand.value =
             Constant(g, array.type.dtype, array.type.shape, array.data());
}

Operand Passed(Operand& operand, ImportContext& context) {
  if (!operand.fixed) ValueOf(operand, context);
  return operand;
}

ImportedNode::ImportedNode(const pb::NodeProto& node, int64_t version,
                           std::vector<Operand*> operands,
                           ImportContext& context)
    : node_(node),
      version_(version),
      operands_(std::move(operands)),
      context_(context) {}

Value ImportedNode::In(int i) {
  return Has(i) ? ValueOf(*operands_[At(i)], context_) : Value();
}

Value ImportedNode::Keep(int i) {
  if (!Has(i)) return Value();
  Operand& operand = *operands_[At(i)];
  if (operand.outer && operand.initializer && context_.training) {
    return graph().Fail(Unsupported(
        StrCat("follows ", Quoted(operand.name),
               " within a loop or a branch, which cannot keep anything")));
  }
  if (!operand.value.ok() && operand.initializer && !operand.fixed &&
      !operand.outer) {
    operand.value =
        graph().State(operand.name, operand.type.dtype, operand.type.shape);
    operand.kept = true;
  }
  return In(i);
}

bool ImportedNode::IsKept(int i) const {
  return Has(i) && operands_[At(i)]->kept;
}

const Array* ImportedNode::Fixed(int i) {
  if (!Has(i) || !operands_[At(i)]->fixed) return nullptr;
  const Result<const Array*> contents =
      ContentsOf(*operands_[At(i)], context_.path);
  return contents.ok() ? *contents : nullptr;
}

Result<const Array*> ImportedNode::Known(int i, std::string_view what) {
  if (!Has(i)) return Wrong(StrCat("lacks operand ", i, ", its ", what));
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents,
                           ContentsOf(*operands_[At(i)], context_.path));
  if (!contents) {
    return Unsupported(StrCat("takes its ", what, " from ",
                              Quoted(operands_[At(i)]->name),
                              ", which is computed in each step; a plan must "
                              "know it. If it is an input "
                              "of the model, give it a value"));
  }
  return contents;
}

Result<std::vector<int64_t>> ImportedNode::Ints(int i, std::string_view what) {
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents, Known(i, what));
  return IntsOf(*contents);
}

Result<std::vector<double>> ImportedNode::Reals(int i, std::string_view what) {
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents, Known(i, what));
  return RealsOf(*contents);
}

Result<std::optional<std::vector<int64_t>>> ImportedNode::IntsOrAttribute(
    int i, std::string_view name) {
  if (Has(i)) {
    STOWAGE_ASSIGN_OR_RETURN(std::vector<int64_t> ints, Ints(i, name));
    return std::optional(std::move(ints));
  }
  if (Find(name)) return std::optional(IntList(name));
  return std::optional<std::vector<int64_t>>();
}

Result<int64_t> ImportedNode::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    return Wrong(StrCat("has the axis ", axis, "; expected one of ", rank,
                        " dimensions"));
  }
  return axis < 0 ? axis + rank : axis;
}

const pb::AttributeProto* ImportedNode::Find(std::string_view name) const {
  for (const pb::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t ImportedNode::Int(std::string_view name, int64_t otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? found->i() : otherwise;
}

double ImportedNode::Float(std::string_view name, double otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? static_cast<double>(found->f()) : otherwise;
}

std::string ImportedNode::Text(std::string_view name,
                               std::string_view otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? found->s() : std::string(otherwise);
}

std::vector<int64_t> ImportedNode::IntList(
    std::string_view name, std::vector<int64_t> otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? Copied<int64_t>(found->ints()) : std::move(otherwise);
}

std::vector<double> ImportedNode::FloatList(std::string_view name) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? Copied<double>(found->floats()) : std::vector<double>();
}

std::vector<std::string> ImportedNode::TextList(std::string_view name) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? Copied<std::string>(found->strings())
               : std::vector<std::string>();
}

std::string ImportedNode::Place() const {
  const std::string& name = node_.name().empty() && node_.output_size() > 0
                                ? node_.output(0)
                                : node_.name();
  return StrCat("[onnx] node ", Quoted(name), " (", op(), ") ");
}

Error ImportedNode::Unsupported(std::string_view what) const {
  return {ErrorCode::kUnsupported, StrCat(Place(), what)};
}

Error ImportedNode::Wrong(std::string_view what) const {
  return {ErrorCode::kInvalidArgument, StrCat(Place(), what)};
}

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

void Body::SetIteration(Value iteration, int64_t iterations) {
  iteration_ = iteration;
  iterations_ = iterations;
}

Value Body::StepOfDraws(Operand* step_of_model) {
  if (!step_) {
    if (outer_) outer_->StepOfDraws(step_of_model);
    step_ = Capture(outer_ ? outer_->step_ : step_of_model);
    step_->value = LeafFor(*step_);
    if (iteration_.ok()) {
      const Value iterations = Constant(
          graph_, DType::kI64, {}, std::as_bytes(std::span(&iterations_, 1)));
      operands_.push_back(*step_);
      step_ = &operands_.back();
      step_->value = Add(Mul(step_->value, iterations), iteration_);
    }
  }
  return step_->value;
}

}  // namespace stowage::onnx

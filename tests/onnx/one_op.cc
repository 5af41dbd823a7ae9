#include "tests/onnx/one_op.h"

#include "base/strings.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/tensor.h"
#include "tests/onnx/run_onnx.h"

namespace stowage {
namespace {

// The TensorProto.DataType of a dtype: the inverse of DTypeOfElement.
int32_t ElementOf(DType dtype) {
  for (int32_t element = 1;; ++element) {
    const Result<DType> known = onnx::DTypeOfElement(element);
    if (known.ok() && *known == dtype) return element;
  }
}

using onnx::pb::AttributeProto;
using onnx::pb::ModelProto;
using onnx::pb::NodeProto;

AttributeProto* Added(NodeProto& node, const std::string& name,
                      AttributeProto::AttributeType type) {
  AttributeProto* const attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

void AddInput(ModelProto& model, const NamedArray& array) {
  auto* const input = model.mutable_graph()->add_input();
  input->set_name(array.name);
  auto* const type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(ElementOf(array.array.type.dtype));
  for (const int64_t dim : array.array.type.shape) {
    type->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  if (array.array.type.shape.rank() == 0) type->mutable_shape();
}

}  // namespace

Result<std::vector<Array>> Run(const OneOp& op) {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(op.version);
  NodeProto* const node = model.mutable_graph()->add_node();
  node->set_op_type(op.op);
  node->set_name(StrCat("the_", op.op));
  for (const std::string& operand : op.operands) node->add_input(operand);
  for (int i = 0; i < op.results; ++i) {
    node->add_output(StrCat("y", i));
    model.mutable_graph()->add_output()->set_name(StrCat("y", i));
  }
  if (op.attributes) op.attributes(*node);
  OnnxBuildOptions options;
  for (const NamedArray& input : op.inputs) AddInput(model, input);
  for (const NamedArray& constant : op.constants) {
    AddInput(model, constant);
    options.constants[constant.name] = constant.array;
  }
  STOWAGE_ASSIGN_OR_RETURN(const OnnxModel read,
                           ParseOnnx(model.SerializeAsString(), "one.onnx"));
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, read.Build(options));
  std::vector<NamedArray> inputs = op.inputs;
  if (graph.Find("seed")) {
    inputs.push_back({"seed", Ints({}, {op.seed})});
    inputs.push_back({"step", Ints({}, {op.step})});
  }
  return RunOnnx(read, graph, inputs);
}

Array Floats(const Shape& shape, const std::vector<float>& numbers) {
  return ArrayOf(DType::kF32, shape,
                 std::vector<double>(numbers.begin(), numbers.end()));
}
Array Ints(const Shape& shape, const std::vector<int64_t>& numbers) {
  return ArrayOf(DType::kI64, shape, numbers);
}

void SetInt(NodeProto& node, const std::string& name, int64_t value) {
  Added(node, name, AttributeProto::INT)->set_i(value);
}
void SetFloat(NodeProto& node, const std::string& name, float value) {
  Added(node, name, AttributeProto::FLOAT)->set_f(value);
}
void SetText(NodeProto& node, const std::string& name,
             const std::string& value) {
  Added(node, name, AttributeProto::STRING)->set_s(value);
}
void SetInts(NodeProto& node, const std::string& name,
             const std::vector<int64_t>& values) {
  AttributeProto* const attribute = Added(node, name, AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

}  // namespace stowage

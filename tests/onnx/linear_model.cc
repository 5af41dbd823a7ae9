#include "tests/onnx/linear_model.h"

#include <cstdlib>
#include <fstream>

#include "base/strings.h"

namespace stowage {

using onnx::pb::ModelProto;
using onnx::pb::NodeProto;
using onnx::pb::TensorProto;

NodeProto* AddNode(google::protobuf::RepeatedPtrField<NodeProto>* nodes,
                   const std::string& op,
                   const std::vector<std::string>& operands,
                   const std::string& result) {
  NodeProto* const node = nodes->Add();
  node->set_name(StrCat("the_", op));
  node->set_op_type(op);
  for (const std::string& name : operands) node->add_input(name);
  node->add_output(result);
  return node;
}

void AddInts(ModelProto* model, const std::string& name,
             const std::vector<int64_t>& dims,
             const std::vector<int64_t>& numbers) {
  TensorProto* const tensor = model->mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::INT64);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_int64_data(Packed(numbers));
}

ModelProto LinearModel() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto* const graph = model.mutable_graph();
  graph->set_name("linear");
  auto* const x = graph->add_input();
  x->set_name("x");
  auto* const type = x->mutable_type()->mutable_tensor_type();
  type->set_elem_type(TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("batch");
  type->mutable_shape()->add_dim()->set_dim_value(2);
  for (const char* const name : {"w", "b"}) {
    TensorProto* const tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::FLOAT);
    if (std::string(name) == "w") tensor->add_dims(2);
    tensor->add_dims(2);
    const size_t count = std::string(name) == "w" ? 4 : 2;
    tensor->set_float_data(PackedReals(std::vector<float>(count, 0.5f)));
  }
  AddNode(graph->mutable_node(), "MatMul", {"x", "w"}, "h");
  AddNode(graph->mutable_node(), "Add", {"h", "b"}, "y");
  graph->add_output()->set_name("y");
  return model;
}

std::string TempFolder() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return folder ? folder : "/tmp";
}

std::string WrittenFile(const std::string& bytes) {
  const std::string path = TempFolder() + "/model.onnx";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Said(const ModelProto& model, OnnxBuildOptions options) {
  const auto read = ReadOnnx(WrittenFile(model.SerializeAsString()));
  if (!read.ok()) return read.error().message;
  if (options.dims.empty()) options.dims["batch"] = 3;
  const auto graph = read->Build(options);
  if (!graph.ok()) return graph.error().message;
  const Status weights =
      read->ForEachWeight(*graph, [](const NamedArray&) { return Status(); });
  return weights.ok() ? "" : weights.error().message;
}

}  // namespace stowage

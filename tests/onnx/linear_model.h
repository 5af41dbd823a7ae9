#ifndef STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_
#define STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_

// A small ONNX model, for tests that change one thing of it and see what is said.
//
//   ModelProto model = LinearModel();
//   AddNode(model.mutable_graph()->mutable_node(), "Relu", {"y"}, "z");
//   CHECK(Said(model) == "");

#include <string>
#include <vector>

#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"

namespace stowage {

/// y = x * w + b, of x (batch, 2); the nodes are called the_MatMul and the_Add.
onnx::pb::ModelProto LinearModel();

/// Adds a node called the_OP; returns it.
onnx::pb::NodeProto* AddNode(
    google::protobuf::RepeatedPtrField<onnx::pb::NodeProto>* nodes,
    const std::string& op, const std::vector<std::string>& operands,
    const std::string& result);

/// A constant of the model: whole numbers, or their one number where `dims` is empty.
void AddInts(onnx::pb::ModelProto* model, const std::string& name,
             const std::vector<int64_t>& dims,
             const std::vector<int64_t>& numbers);

/// Where tests may write.
std::string TempFolder();

/// The path of a file there with these contents.
std::string WrittenFile(const std::string& bytes);

/// What reading the model from a file and building its graph says; "" when nothing.
/// A batch is 3 examples where no options say otherwise.
std::string Said(const onnx::pb::ModelProto& model,
                 OnnxBuildOptions options = {});

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_

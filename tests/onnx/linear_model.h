#ifndef STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_
#define STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_

// A small ONNX model for tests that change one thing in it and check the error.
//
//   ModelProto model = LinearModel();
//   AddNode(model.mutable_graph()->mutable_node(), "Relu", {"y"}, "z");
//   CHECK(Said(model) == "");

#include <cstddef>
#include <cstdint>
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

// Fields in protobuf's wire format, for files made by hand.
//
//   const std::string graph = Within(7, nodes);  // field 7 of a model
//   tensor.set_int64_data(Packed({1, 2, 300}));

/// A number: seven bits a byte, the lowest first, and a bit that says whether more
/// follow.
inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>((value & 0x7f) | 0x80);
  }
  return bytes + static_cast<char>(value);
}

/// What stands before the so many bytes of a field.
inline std::string Header(int field, uint64_t length) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(length);
}

/// The field with these bytes.
inline std::string Within(int field, const std::string& bytes) {
  return Header(field, bytes.size()) + bytes;
}

/// A list of floats or doubles.
template <typename T>
std::string PackedReals(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(T));
}

/// A list of numbers.
inline std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) {
    bytes += Varint(static_cast<uint64_t>(number));
  }
  return bytes;
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_

#ifndef STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_
#define STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_

// Provides a small ONNX model, for tests that change it and check the resulting error.
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

/// Returns a model of y = matmul(x, w) + b, where x has the shape (batch, 2). Its nodes are named
/// "the_MatMul" and "the_Add".
onnx::pb::ModelProto LinearModel();

/// Adds a node named "the_<op>" and returns it.
onnx::pb::NodeProto* AddNode(
    google::protobuf::RepeatedPtrField<onnx::pb::NodeProto>* nodes,
    const std::string& op, const std::vector<std::string>& operands,
    const std::string& result);

/// Adds an int64 constant to the model. If `dims` is empty, it is a scalar.
void AddInts(onnx::pb::ModelProto* model, const std::string& name,
             const std::vector<int64_t>& dims,
             const std::vector<int64_t>& numbers);

/// Returns the folder in which tests may write.
std::string TempFolder();

/// Writes a file into that folder and returns its path.
std::string WrittenFile(const std::string& bytes);

/// Reads the model from a file, builds its graph and reads its weights. Returns the message of the
/// first error, or "" if there is none. The batch is 3 unless the options set a dimension.
std::string Said(const onnx::pb::ModelProto& model,
                 OnnxBuildOptions options = {});

// The next functions encode fields in protobuf's wire format, for hand-written files.
//
//   const std::string graph = Within(7, nodes);  // field 7 of a model
//   tensor.set_int64_data(Packed({1, 2, 300}));

/// Encodes a number as a varint. Each byte has seven bits, lowest first, and a bit that is set if
/// more bytes follow.
inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>((value & 0x7f) | 0x80);
  }
  return bytes + static_cast<char>(value);
}

/// Returns the tag and length that precede the `length` bytes of a field.
inline std::string Header(int field, uint64_t length) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(length);
}

/// Returns a length-delimited field with these bytes.
inline std::string Within(int field, const std::string& bytes) {
  return Header(field, bytes.size()) + bytes;
}

/// Encodes a packed list of floats or doubles.
template <typename T>
std::string PackedReals(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(T));
}

/// Encodes a packed list of varints.
inline std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) {
    bytes += Varint(static_cast<uint64_t>(number));
  }
  return bytes;
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_LINEAR_MODEL_H_

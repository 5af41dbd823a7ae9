#ifndef STOWAGE_ONNX_DECLARED_TYPES_H_
#define STOWAGE_ONNX_DECLARED_TYPES_H_

// What a file declares of the values of its graph, which it need not.
//
//   const DeclaredTypes declared(model.graph());
//   if (const auto type = declared.Find("h")) ...  // its elements and its shape

#include <optional>
#include <string>
#include <unordered_map>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {

class DeclaredTypes {
 public:
  /// Of `graph`, which must outlive this.
  explicit DeclaredTypes(const pb::GraphProto& graph);

  /// The type of the value of that name, read anew; absent where the file declares
  /// none, or no tensor.
  std::optional<pb::TypeProto::Tensor> Find(const std::string& name) const;

 private:
  std::unordered_map<std::string, const pb::ValueInfoProto*> outputs_;
  std::unordered_map<std::string, const std::string*> others_;  // as bytes
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_DECLARED_TYPES_H_

#ifndef STOWAGE_ONNX_TENSOR_H_
#define STOWAGE_ONNX_TENSOR_H_

// Tensors as ONNX files hold them: element types by number, contents as raw bytes, as
// lists of numbers, or in a file beside the model.
//
//   Result<Array> weight = ReadTensor(model.graph().initializer(0), "models/a.onnx");

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

// Numbers as protobuf writes them: seven bits a byte, the lowest first, and a bit that
// says whether more follow. A list of them is kept as the file has it, since a number of
// one byte there takes eight in memory, and is read when it is wanted.
//
//   std::string_view list = tensor.int64_data();
//   while (const std::optional<uint64_t> number = TakeVarint(&list)) ...

/// Takes a number off the front; absent where there is no whole one, of ten bytes at
/// most, and then takes nothing.
inline std::optional<uint64_t> TakeVarint(std::string_view* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes->size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte & 0x80) continue;
    bytes->remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

/// How many numbers a list holds; absent where it is not whole numbers alone.
inline std::optional<int64_t> CountVarints(std::string_view list) {
  int64_t count = 0;
  for (; !list.empty(); ++count) {
    if (!TakeVarint(&list)) return std::nullopt;
  }
  return count;
}

/// The element type of that number in TensorProto.DataType. Error kUnsupported, with
/// ONNX's name of it: 8 bits with a sign, unsigned of more than 8, strings, complex
/// numbers and floats of 8 bits or less.
Result<DType> DTypeOfElement(int32_t data_type);

/// The number of a dtype in TensorProto.DataType.
int32_t ElementOfDType(DType dtype);

/// What `tensor` is made of; a dimension may be 0 here. Errors: DTypeOfElement's; a
/// negative dimension, more than kMaxRank of them, more bytes than 63 bits count.
Result<TensorType> TypeOfTensor(const pb::TensorProto& tensor);

/// That its contents have as many bytes as its shape takes, and those beside the file
/// `model` a place within its folder, which is not looked at. Reads nothing, so that a
/// tensor that nobody needs is checked, too. Errors, naming the tensor: those of
/// ReadTensor.
Status CheckTensor(const pb::TensorProto& tensor, const std::string& model);

/// The file beside the file `model` that holds it; absent where it is within, or where its
/// place is wrong (CheckTensor).
std::optional<std::string> FileOfTensor(const pb::TensorProto& tensor,
                                        const std::string& model);

/// Its contents. Those beside the file `model` lie in a file within its folder; a link
/// may lead from there to the folder that `model` is itself a link to. Errors, naming the
/// tensor: TypeOfTensor's; another number of elements than the shape has; a file outside
/// the folder, or one that ends before the tensor does. Allocates no more than what is
/// there to be read.
Result<Array> ReadTensor(const pb::TensorProto& tensor,
                         const std::string& model);

/// Gives a tensor other contents, as many bytes as it has, within the model.
void SetContents(std::string bytes, pb::TensorProto* tensor);

// What a file declares of the values of its graph, which it need not.
//
//   const DeclaredTypes declared(model.graph());
//   if (const auto type = declared.Find("h")) ...  // its elements and its shape

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

#endif  // STOWAGE_ONNX_TENSOR_H_

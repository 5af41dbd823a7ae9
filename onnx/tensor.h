#ifndef STOWAGE_ONNX_TENSOR_H_
#define STOWAGE_ONNX_TENSOR_H_

// Reads tensors of ONNX files: their element types, their contents (raw bytes, lists of numbers, or
// an external file), and the declared types of values. Also finds the tensors that are constants
// and not weights.
//
//   Result<Array> weight = ReadTensor(model.graph().initializer(0), "models/a.onnx");

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

// Lists of protobuf varints are kept encoded and are decoded on access, since a number of one byte
// takes eight bytes when decoded.
//
//   std::string_view list = tensor.int64_data();
//   while (const std::optional<uint64_t> number = TakeVarint(&list)) ...

/// Decodes and removes the first number. Returns nullopt, and removes nothing, if there is no
/// complete number of at most ten bytes.
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

/// Returns the length of a list, or nullopt if the list ends with an incomplete number.
inline std::optional<int64_t> CountVarints(std::string_view list) {
  int64_t count = 0;
  for (; !list.empty(); ++count) {
    if (!TakeVarint(&list)) return std::nullopt;
  }
  return count;
}

/// Returns the dtype of a TensorProto.DataType. Returns kUnsupported, with ONNX's name of the type,
/// for i8, unsigned types except u8, strings, complex numbers and floats of at most 8 bits.
Result<DType> DTypeOfElement(int32_t data_type);

/// Returns the type of `tensor`. A dimension may be 0. Propagates errors of DTypeOfElement. Returns
/// kInvalidArgument for a negative dimension, more than kMaxRank dimensions, or a size beyond 63
/// bits.
Result<TensorType> TypeOfTensor(const pb::TensorProto& tensor);

/// Checks that the contents have the size of the shape, and that an external file is in the folder
/// of the file `model`. Does not read the external file. Returns the same errors as ReadTensor,
/// with the name of the tensor.
Status CheckTensor(const pb::TensorProto& tensor, const std::string& model);

/// Returns the path of the tensor's external file, or nullopt if it has none or an invalid one
/// (CheckTensor).
std::optional<std::string> FileOfTensor(const pb::TensorProto& tensor,
                                        const std::string& model);

/// Returns the contents of the tensor. An external file must be in the folder of the file `model`,
/// or be a link into the folder to which `model` links. Errors name the tensor. Propagates errors
/// of TypeOfTensor and InputFile. Returns kInvalidArgument if the number of elements does not match
/// the shape, or if an external file is outside of the folder or too short. Allocates at most the
/// size of the data.
Result<Array> ReadTensor(const pb::TensorProto& tensor,
                         const std::string& model);

/// Replaces the contents of a tensor by `bytes`, stored in the model. The size must not change.
void SetContents(std::string bytes, pb::TensorProto* tensor);

/// The types that a file declares for values of its graph. The declarations are optional.
///
///   const DeclaredTypes declared(model.graph());
///   if (const auto type = declared.Find("h")) ...  // element type and shape
class DeclaredTypes {
 public:
  /// `graph` must outlive this object.
  explicit DeclaredTypes(const pb::GraphProto& graph);

  /// Returns the type of the value `name`, which is decoded at each call. Returns nullopt if the
  /// file declares no type or a type that is not a tensor.
  std::optional<pb::TypeProto::Tensor> Find(const std::string& name) const;

 private:
  std::unordered_map<std::string, const pb::ValueInfoProto*> outputs_;
  std::unordered_map<std::string, const std::string*> others_;  // as bytes
};

/// Returns the float tensors that are constants of the model's code and not weights, with the kind
/// of each, by name in TensorsOf (onnx/import.h). Files do not distinguish constants from weights.
/// The following tensors are recognized as constants.
///
/// - A single number, of rank 0 or 1, with a name that an exporter generates: a numbered name such
///   as "val_155", "onnx::Mul_12", "/h.0/Constant_3_output_0" or "model/scale/y:0", or the name of
///   the function that created it, "zeros" or "full_3", or cast it, "p_cast".
/// - A mask: zeros and a single other value of at most -100, values that are zero or at most
///   -10,000, or a lower triangle of ones.
/// - Zeros named like "val_7" that are the scale or shift of a norm, or the initial state of an
///   LSTM, a GRU or an RNN. Ones that are such a scale or shift.
/// - Frequencies of rotary embeddings, whose name ends in "inv_freq", and tables in which each
///   column is the sine or cosine of positions times an angle.
///
/// Numbers, masks and tables that a matmul, a convolution, a norm, a PReLU or a recurrent op reads
/// are weights, and so are numbers and masks that a Gather reads. An exporter may have folded
/// weights under such a name. A tensor that cannot be read is not a constant. Reads each tensor at
/// most once.
///
///   const auto constants = ConstantTensors(model.graph(), path);
///   constants.at("val_161");  // returns "a mask"
std::map<std::string, std::string> ConstantTensors(const pb::GraphProto& graph,
                                                   const std::string& path);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_TENSOR_H_

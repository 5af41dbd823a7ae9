#ifndef STOWAGE_ONNX_TENSOR_H_
#define STOWAGE_ONNX_TENSOR_H_

// Tensors in ONNX files: element types, contents (raw bytes, lists of numbers, or an external
// file), declared types of values, and which tensors are constants rather than weights.
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

// Lists of protobuf varints are kept encoded, since a number of one byte takes eight when
// decoded, and are decoded on access.
//
//   std::string_view list = tensor.int64_data();
//   while (const std::optional<uint64_t> number = TakeVarint(&list)) ...

/// Decodes and removes the first number; absent, with nothing removed, if there is no
/// complete one of at most ten bytes.
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

/// The length of a list; absent if it ends with an incomplete number.
inline std::optional<int64_t> CountVarints(std::string_view list) {
  int64_t count = 0;
  for (; !list.empty(); ++count) {
    if (!TakeVarint(&list)) return std::nullopt;
  }
  return count;
}

/// The dtype of a TensorProto.DataType. Error kUnsupported, with ONNX's name of it, for i8,
/// unsigned types other than u8, strings, complex numbers and floats of at most 8 bits.
Result<DType> DTypeOfElement(int32_t data_type);

/// The type of `tensor`; a dimension may be 0. Errors: those of DTypeOfElement; a negative
/// dimension, more than kMaxRank of them, a size beyond 63 bits.
Result<TensorType> TypeOfTensor(const pb::TensorProto& tensor);

/// Checks that the contents have the size of the shape, and that an external file is in the
/// folder of the file `model`, without reading either. Errors, naming the tensor: those of
/// ReadTensor.
Status CheckTensor(const pb::TensorProto& tensor, const std::string& model);

/// The external file of the tensor; absent if it has none or an invalid one (CheckTensor).
std::optional<std::string> FileOfTensor(const pb::TensorProto& tensor,
                                        const std::string& model);

/// The contents of the tensor. An external file must be in the folder of the file `model`,
/// or be a link to the folder that `model` links to. Errors, naming the tensor: those of
/// TypeOfTensor; another number of elements than the shape's; an external file outside of
/// the folder, or one that is too short. Allocates at most the size of the data.
Result<Array> ReadTensor(const pb::TensorProto& tensor,
                         const std::string& model);

/// Replaces the contents of a tensor, within the model, by as many bytes.
void SetContents(std::string bytes, pb::TensorProto* tensor);

/// The types that a file declares for values of its graph, which is optional.
///
///   const DeclaredTypes declared(model.graph());
///   if (const auto type = declared.Find("h")) ...  // element type and shape
class DeclaredTypes {
 public:
  /// `graph` must outlive this object.
  explicit DeclaredTypes(const pb::GraphProto& graph);

  /// The type of the value of that name, decoded at each call; absent if the file declares
  /// none, or not a tensor.
  std::optional<pb::TypeProto::Tensor> Find(const std::string& name) const;

 private:
  std::unordered_map<std::string, const pb::ValueInfoProto*> outputs_;
  std::unordered_map<std::string, const std::string*> others_;  // as bytes
};

/// The float tensors that are constants of the model's code rather than weights, with the
/// kind of each, by their names in TensorsOf (onnx/import.h). Files do not distinguish them;
/// recognized are
///
/// - a single number, of rank 0 or 1, with a name that an exporter has numbered, "val_155",
///   "onnx::Mul_12", "/h.0/Constant_3_output_0", "model/scale/y:0", or with that of the
///   function that created it, "zeros", "full_3", or that cast it, "p_cast";
/// - a mask: zeros and one number of -100 or below, or several of -10,000 and below, or a
///   lower triangle of ones;
/// - zeros named "val_7" as the scale or shift of a norm, or as the initial state of an LSTM, a
///   GRU or an RNN; ones as the scale;
/// - frequencies of rotary embeddings, by the name "inv_freq", and tables in which each
///   column is the sine or cosine of positions times an angle;
///
/// unless a matmul, convolution, norm or PReLU reads them, or a Gather reads a mask: an
/// exporter may have folded weights under such a name. A tensor that cannot be read is not
/// a constant. Reads each tensor at most once.
///
///   const auto constants = ConstantTensors(model.graph(), path);
///   constants.at("val_161");  // "a mask"
std::map<std::string, std::string> ConstantTensors(const pb::GraphProto& graph,
                                                   const std::string& path);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_TENSOR_H_

#ifndef STOWAGE_ONNX_TENSOR_H_
#define STOWAGE_ONNX_TENSOR_H_

// Reads the types and contents of tensors of ONNX files. Contents are raw bytes, lists of numbers,
// or part of an external file. Also reads the declared types of values, and finds the tensors that
// are constants and not weights.
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

// Lists of protobuf varints stay encoded in memory and are decoded on access, because a number of
// one byte would take eight bytes when decoded.
//
//   std::string_view list = tensor.int64_data();
//   while (const std::optional<uint64_t> number = TakeVarint(&list)) ...

/// Decodes and removes the first number of `bytes`. If `bytes` does not begin with a complete
/// number of at most ten bytes, returns nullopt and removes nothing.
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

/// Returns the number of varints in `list`, or nullopt if one of them is incomplete or longer than
/// ten bytes.
inline std::optional<int64_t> CountVarints(std::string_view list) {
  int64_t count = 0;
  for (; !list.empty(); ++count) {
    if (!TakeVarint(&list)) return std::nullopt;
  }
  return count;
}

/// Returns the dtype for a TensorProto.DataType. Returns kUnsupported, with ONNX's name of the
/// type, for all types without a DType, such as 8-bit and 4-bit integers (except u8), u16, strings,
/// complex numbers and 8-bit floats.
Result<DType> DTypeOfElement(int32_t data_type);

/// Returns the type of `tensor`. A dimension may be 0. Propagates errors of DTypeOfElement. Returns
/// kInvalidArgument for a negative dimension, more than kMaxRank dimensions, or a size beyond 63
/// bits.
Result<TensorType> TypeOfTensor(const pb::TensorProto& tensor);

/// Checks that the contents have the size of the type, and that an external file is in an allowed
/// folder (ReadTensor). Does not read an external file, but registers it as an input of the run
/// (NoteInput in base/files.h). Returns the same errors as ReadTensor, except those of reading the
/// external file.
Status CheckTensor(const pb::TensorProto& tensor, const std::string& model);

/// Returns the path of the tensor's external file. Returns nullopt if the tensor has none, or if
/// the offset or length is not a number. The path is not checked.
std::optional<std::string> FileOfTensor(const pb::TensorProto& tensor,
                                        const std::string& model);

/// Returns the contents of the tensor. An external file must be, after links are followed, in the
/// folder of the file `model` or in the folder of the file to which `model` links. Errors name the
/// tensor. Propagates errors of TypeOfTensor, NoteInput and InputFile (base/files.h). Returns
/// kInvalidArgument if the number of elements does not match the shape, or if an external file is
/// in another folder or too short. Allocates memory only after the size of internal data, or of the
/// external file, has been checked.
Result<Array> ReadTensor(const pb::TensorProto& tensor,
                         const std::string& model);

/// Replaces the contents of a float tensor by `bytes`, which are stored in the model. `bytes` must
/// have the size of the tensor's type.
void SetContents(std::string bytes, pb::TensorProto* tensor);

/// The types that a file declares for values of its graph. A file need not declare them.
///
///   const DeclaredTypes declared(model.graph());
///   if (const auto type = declared.Find("h")) ...  // element type and shape
class DeclaredTypes {
 public:
  /// `graph` must outlive this object.
  explicit DeclaredTypes(const pb::GraphProto& graph);

  /// Returns the declared type of the value `name`, or nullopt if the file declares none or a type
  /// that is not a tensor. Each call decodes the declaration.
  std::optional<pb::TypeProto::Tensor> Find(const std::string& name) const;

 private:
  std::unordered_map<std::string, const pb::ValueInfoProto*> outputs_;
  std::unordered_map<std::string, const std::string*> others_;  // as bytes
};

/// Returns the float tensors that are constants of the model's code and not weights. The result
/// maps the name in TensorsOf (onnx/import.h) to the kind of constant. Files do not distinguish
/// constants from weights. The following tensors are recognized as constants.
///
/// - A single number, of rank 0 or 1, with a name that an exporter generates. Such a name is
///   numbered, as "val_155", "onnx::Mul_12", "/h.0/Constant_3_output_0" or "model/scale/y:0", or is
///   that of the function that created the number ("zeros", "full_3") or cast it ("p_cast").
/// - A mask of rank 2 or more. It has zeros and one other value, which is at most -100, or it has
///   only zeros and values of at most -10,000 (at least one of them), or each of its matrices is a
///   lower triangle of ones.
/// - Zeros or ones with a name such as "val_7" that are read only as the scale or shift of norms,
///   and zeros with such a name that are read only as the initial state of an LSTM, a GRU or an
///   RNN.
/// - Frequencies of rotary embeddings, which are all tensors of two or more elements whose name
///   ends in "inv_freq", and tables in which each column is the sine or cosine of the position
///   times an angle.
///
/// Exceptions are numbers, masks and tables that a matmul, a convolution, a norm, a PReLU or a
/// recurrent op reads, and numbers and masks of which a Gather selects elements. They are weights,
/// because an exporter may have folded weights and named the result like a constant. A tensor is a
/// weight if its contents are needed for the decision but cannot be read. Reads each tensor at most
/// once.
///
///   const auto constants = ConstantTensors(model.graph(), path);
///   constants.at("val_161");  // returns "a mask"
std::map<std::string, std::string> ConstantTensors(const pb::GraphProto& graph,
                                                   const std::string& path);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_TENSOR_H_

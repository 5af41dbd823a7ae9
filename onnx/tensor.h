#ifndef STOWAGE_ONNX_TENSOR_H_
#define STOWAGE_ONNX_TENSOR_H_

// Tensors as ONNX files hold them: element types by number, contents as raw bytes, as
// lists of numbers, or in a file beside the model.
//
//   Result<Array> weight = ReadTensor(model.graph().initializer(0), "models/a.onnx");

#include <cstdint>
#include <string>

#include "base/result.h"
#include "formats/array.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

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

/// Its contents. Those beside the file `model` lie in a file within its folder; a link
/// may lead from there to the folder that `model` is itself a link to. Errors, naming the
/// tensor: TypeOfTensor's; another number of elements than the shape has; a file outside
/// the folder, or one that ends before the tensor does. Allocates no more than what is
/// there to be read.
Result<Array> ReadTensor(const pb::TensorProto& tensor,
                         const std::string& model);

/// Gives a tensor other contents, as many bytes as it has, within the model.
void SetContents(std::string bytes, pb::TensorProto* tensor);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_TENSOR_H_

#include "onnx/message_bytes.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {
namespace {

// Protobuf refuses messages in one another beyond these.
constexpr int kMostDepth = 100;
// What a heap adds to what it hands out, and a list that has doubled to its elements.
constexpr Bytes kBeside = 32;

enum class Kind : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kEntry,
  kFunction,
  kOpset,
  kTraining,
  kText,
};

constexpr size_t SizeOf(Kind kind) {
  switch (kind) {
    case Kind::kModel:
      return sizeof(pb::ModelProto);
    case Kind::kGraph:
      return sizeof(pb::GraphProto);
    case Kind::kNode:
      return sizeof(pb::NodeProto);
    case Kind::kAttribute:
      return sizeof(pb::AttributeProto);
    case Kind::kTensor:
      return sizeof(pb::TensorProto);
    case Kind::kSparseTensor:
      return sizeof(pb::SparseTensorProto);
    case Kind::kValueInfo:
      return sizeof(pb::ValueInfoProto);
    case Kind::kType:
      return sizeof(pb::TypeProto);
    case Kind::kTensorType:
      return sizeof(pb::TypeProto_Tensor);
    case Kind::kShape:
      return sizeof(pb::TensorShapeProto);
    case Kind::kDim:
      return sizeof(pb::TensorShapeProto_Dimension);
    case Kind::kEntry:
      return sizeof(pb::TensorAnnotation);
    case Kind::kFunction:
      return sizeof(pb::FunctionProto);
    case Kind::kOpset:
      return sizeof(pb::OperatorSetIdProto);
    case Kind::kTraining:
      return sizeof(pb::TrainingInfoProto);
    case Kind::kText:
      return sizeof(std::string);
  }
  return 0;
}

// The fields of onnx.proto that are messages, or lists of texts.
constexpr struct {
  Kind within;
  uint64_t number;
  Kind kind;
} kFields[] = {
    {Kind::kModel, 7, Kind::kGraph},
    {Kind::kModel, 8, Kind::kOpset},
    {Kind::kModel, 14, Kind::kEntry},
    {Kind::kModel, 20, Kind::kTraining},
    {Kind::kModel, 25, Kind::kFunction},
    {Kind::kModel, 26, Kind::kEntry},
    {Kind::kGraph, 1, Kind::kNode},
    {Kind::kGraph, 5, Kind::kTensor},
    {Kind::kGraph, 11, Kind::kValueInfo},
    {Kind::kGraph, 12, Kind::kValueInfo},
    {Kind::kGraph, 13, Kind::kValueInfo},
    {Kind::kGraph, 14, Kind::kEntry},
    {Kind::kGraph, 15, Kind::kSparseTensor},
    {Kind::kGraph, 16, Kind::kEntry},
    {Kind::kNode, 1, Kind::kText},
    {Kind::kNode, 2, Kind::kText},
    {Kind::kNode, 5, Kind::kAttribute},
    {Kind::kNode, 9, Kind::kEntry},
    {Kind::kNode, 10, Kind::kEntry},
    {Kind::kAttribute, 5, Kind::kTensor},
    {Kind::kAttribute, 6, Kind::kGraph},
    {Kind::kAttribute, 9, Kind::kText},
    {Kind::kAttribute, 10, Kind::kTensor},
    {Kind::kAttribute, 11, Kind::kGraph},
    {Kind::kAttribute, 14, Kind::kType},
    {Kind::kAttribute, 15, Kind::kType},
    {Kind::kAttribute, 22, Kind::kSparseTensor},
    {Kind::kAttribute, 23, Kind::kSparseTensor},
    {Kind::kTensor, 6, Kind::kText},
    {Kind::kTensor, 13, Kind::kEntry},
    {Kind::kTensor, 16, Kind::kEntry},
    {Kind::kSparseTensor, 1, Kind::kTensor},
    {Kind::kSparseTensor, 2, Kind::kTensor},
    {Kind::kValueInfo, 2, Kind::kType},
    {Kind::kValueInfo, 4, Kind::kEntry},
    {Kind::kType, 1, Kind::kTensorType},
    {Kind::kType, 8, Kind::kTensorType},
    {Kind::kTensorType, 2, Kind::kShape},
    {Kind::kShape, 1, Kind::kDim},
    {Kind::kFunction, 4, Kind::kText},
    {Kind::kFunction, 5, Kind::kText},
    {Kind::kFunction, 6, Kind::kText},
    {Kind::kFunction, 7, Kind::kNode},
    {Kind::kFunction, 9, Kind::kOpset},
    {Kind::kFunction, 11, Kind::kAttribute},
    {Kind::kFunction, 12, Kind::kValueInfo},
    {Kind::kFunction, 14, Kind::kEntry},
    {Kind::kTraining, 1, Kind::kGraph},
    {Kind::kTraining, 2, Kind::kGraph},
    {Kind::kTraining, 3, Kind::kEntry},
    {Kind::kTraining, 4, Kind::kEntry},
};

// Takes a number off the front, seven bits a byte; absent where it does not end.
std::optional<uint64_t> TakeVarint(std::string_view* bytes) {
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

Bytes CountWithin(Kind kind, std::string_view bytes, int depth) {
  Bytes count = 0;
  while (!bytes.empty()) {
    const std::optional<uint64_t> tag = TakeVarint(&bytes);
    if (!tag) break;
    std::optional<uint64_t> length;  // of what follows
    switch (*tag & 7) {
      case 0:
        if (TakeVarint(&bytes)) length = 0;
        break;
      case 1:
        length = 8;
        break;
      case 2:
        length = TakeVarint(&bytes);
        break;
      case 5:
        length = 4;
        break;
      default:  // groups, which ONNX has none of
        break;
    }
    if (!length || *length > bytes.size()) break;
    const std::string_view contents = bytes.substr(0, *length);
    bytes.remove_prefix(*length);
    if ((*tag & 7) != 2) continue;
    for (const auto& field : kFields) {
      if (field.within != kind || field.number != *tag >> 3) continue;
      count += static_cast<Bytes>(SizeOf(field.kind)) + kBeside;
      if (depth < kMostDepth) {
        count += CountWithin(field.kind, contents, depth + 1);
      }
    }
  }
  return count;
}

}  // namespace

Bytes BytesOfMessages(std::string_view model) {
  return CountWithin(Kind::kModel, model, 1);
}

}  // namespace stowage::onnx

#include "onnx/message_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "onnx/onnx.pb.h"
#include "onnx/varint.h"

namespace stowage::onnx {
namespace {

// Protobuf refuses messages in one another beyond these.
constexpr int kMostDepth = 100;
// What a heap adds to what it hands out.
constexpr Bytes kOfHeap = 16;
// A list of four pointers, the smallest, and one of a list that has doubled.
constexpr Bytes kOfList = 48;
constexpr Bytes kOfPointer = 16;
// Of a number in a list that grows: the list before, of half as many, and after.
constexpr Bytes kOfInt = 24;
constexpr Bytes kOfFloat = 12;
// Of a message whose bytes are not all known: what keeps the others.
constexpr Bytes kOfUnknown = 48 + kOfHeap;

enum class Kind : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kEntry,
  kFunction,
  kOpset,
  // What is no message.
  kNumber,
  kText,
  kInts,
  kFloats,
  kDoubles,
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
      return sizeof(pb::StringStringEntryProto);
    case Kind::kFunction:
      return sizeof(pb::FunctionProto);
    case Kind::kOpset:
      return sizeof(pb::OperatorSetIdProto);
    case Kind::kText:
      return sizeof(std::string);
    case Kind::kNumber:
    case Kind::kInts:
    case Kind::kFloats:
    case Kind::kDoubles:
      break;
  }
  return 0;
}

// The fields of onnx.proto, and whether there is a list of them.
constexpr struct {
  Kind within;
  uint64_t number;
  Kind kind;
  bool many = false;
} kFields[] = {
    {Kind::kModel, 1, Kind::kNumber},
    {Kind::kModel, 2, Kind::kText},
    {Kind::kModel, 3, Kind::kText},
    {Kind::kModel, 4, Kind::kText},
    {Kind::kModel, 5, Kind::kNumber},
    {Kind::kModel, 6, Kind::kText},
    {Kind::kModel, 7, Kind::kGraph},
    {Kind::kModel, 8, Kind::kOpset, true},
    {Kind::kModel, 14, Kind::kText, true},
    {Kind::kModel, 20, Kind::kText, true},
    {Kind::kModel, 25, Kind::kFunction, true},
    {Kind::kGraph, 1, Kind::kNode, true},
    {Kind::kGraph, 2, Kind::kText},
    {Kind::kGraph, 5, Kind::kTensor, true},
    {Kind::kGraph, 10, Kind::kText},
    {Kind::kGraph, 11, Kind::kValueInfo, true},
    {Kind::kGraph, 12, Kind::kValueInfo, true},
    {Kind::kGraph, 13, Kind::kText, true},
    {Kind::kGraph, 14, Kind::kText, true},
    {Kind::kGraph, 15, Kind::kText, true},
    {Kind::kNode, 1, Kind::kText, true},
    {Kind::kNode, 2, Kind::kText, true},
    {Kind::kNode, 3, Kind::kText},
    {Kind::kNode, 4, Kind::kText},
    {Kind::kNode, 5, Kind::kAttribute, true},
    {Kind::kNode, 6, Kind::kText},
    {Kind::kNode, 7, Kind::kText},
    {Kind::kNode, 8, Kind::kText},
    {Kind::kAttribute, 1, Kind::kText},
    {Kind::kAttribute, 2, Kind::kNumber},
    {Kind::kAttribute, 3, Kind::kNumber},
    {Kind::kAttribute, 4, Kind::kText},
    {Kind::kAttribute, 5, Kind::kTensor},
    {Kind::kAttribute, 6, Kind::kGraph},
    {Kind::kAttribute, 7, Kind::kFloats, true},
    {Kind::kAttribute, 8, Kind::kInts, true},
    {Kind::kAttribute, 9, Kind::kText, true},
    {Kind::kAttribute, 20, Kind::kNumber},
    {Kind::kAttribute, 21, Kind::kText},
    {Kind::kTensor, 1, Kind::kInts, true},
    {Kind::kTensor, 2, Kind::kNumber},
    {Kind::kTensor, 4, Kind::kFloats, true},
    {Kind::kTensor, 5, Kind::kText},
    {Kind::kTensor, 6, Kind::kText, true},
    {Kind::kTensor, 7, Kind::kText},
    {Kind::kTensor, 8, Kind::kText},
    {Kind::kTensor, 9, Kind::kText},
    {Kind::kTensor, 10, Kind::kDoubles, true},
    {Kind::kTensor, 11, Kind::kText},
    {Kind::kTensor, 12, Kind::kText},
    {Kind::kTensor, 13, Kind::kEntry, true},
    {Kind::kTensor, 14, Kind::kNumber},
    {Kind::kValueInfo, 1, Kind::kText},
    {Kind::kValueInfo, 2, Kind::kType},
    {Kind::kType, 1, Kind::kTensorType},
    {Kind::kTensorType, 1, Kind::kNumber},
    {Kind::kTensorType, 2, Kind::kShape},
    {Kind::kShape, 1, Kind::kDim, true},
    {Kind::kDim, 1, Kind::kNumber},
    {Kind::kDim, 2, Kind::kText},
    {Kind::kEntry, 1, Kind::kText},
    {Kind::kEntry, 2, Kind::kText},
    {Kind::kFunction, 1, Kind::kText},
    {Kind::kFunction, 4, Kind::kText, true},
    {Kind::kFunction, 5, Kind::kText, true},
    {Kind::kFunction, 6, Kind::kText, true},
    {Kind::kFunction, 7, Kind::kNode, true},
    {Kind::kFunction, 8, Kind::kText},
    {Kind::kFunction, 9, Kind::kOpset, true},
    {Kind::kFunction, 10, Kind::kText},
    {Kind::kFunction, 11, Kind::kAttribute, true},
    {Kind::kFunction, 12, Kind::kText, true},
    {Kind::kFunction, 13, Kind::kText},
    {Kind::kOpset, 1, Kind::kText},
    {Kind::kOpset, 2, Kind::kNumber},
};

// A field of a message: its number, how it is written, and what it holds.
struct Field {
  uint64_t number = 0;
  bool packed = false;  // has a length of its own
  std::string_view contents = {};
};

// Takes a field off the front; absent where it is not whole.
std::optional<Field> TakeField(std::string_view* bytes) {
  const std::optional<uint64_t> tag = TakeVarint(bytes);
  if (!tag) return std::nullopt;
  Field field{.number = *tag >> 3, .packed = (*tag & 7) == 2};
  std::optional<uint64_t> length;
  switch (*tag & 7) {
    case 0:
      if (TakeVarint(bytes)) length = 0;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      length = TakeVarint(bytes);
      break;
    case 5:
      length = 4;
      break;
    default:  // groups, which ONNX has none of
      break;
  }
  if (!length || *length > bytes->size()) return std::nullopt;
  field.contents = bytes->substr(0, *length);
  bytes->remove_prefix(*length);
  return field;
}

Bytes BytesOfText(std::string_view text) {
  const auto contents = static_cast<Bytes>(text.size());
  // Up to 15 bytes lie within the text itself; else there is place for 30.
  return static_cast<Bytes>(sizeof(std::string)) + kOfHeap +
         (contents > 15 ? std::max<Bytes>(contents, 30) + kOfHeap : 0);
}

// The numbers of a list: each by itself, or those of `contents`.
Bytes BytesOfList(Kind kind, const Field& field) {
  const std::string_view list = field.contents;
  switch (kind) {
    case Kind::kFloats:
      return kOfFloat * (field.packed ? std::ssize(list) / 4 + 1 : 1);
    case Kind::kDoubles:
      return kOfInt * (field.packed ? std::ssize(list) / 8 + 1 : 1);
    default: {
      int64_t ends = 1;
      for (const char byte : list) ends += (byte & 0x80) == 0;
      return kOfInt * ends;
    }
  }
}

std::optional<Bytes> BytesWithin(Kind kind, std::string_view bytes, int depth);

std::optional<Bytes> BytesOfField(Kind kind, const Field& field, int depth) {
  switch (kind) {
    case Kind::kNumber:
      return 0;
    case Kind::kInts:
    case Kind::kFloats:
    case Kind::kDoubles:
      return BytesOfList(kind, field);
    case Kind::kText:
      return BytesOfText(field.contents);
    default: {
      const Bytes own = static_cast<Bytes>(SizeOf(kind)) + kOfHeap;
      if (depth == kMostDepth) return own;
      const auto within = BytesWithin(kind, field.contents, depth + 1);
      if (!within) return std::nullopt;
      return own + *within;
    }
  }
}

std::optional<Bytes> BytesWithin(Kind kind, std::string_view bytes, int depth) {
  Bytes count = 0;
  Bytes unknown = 0;
  uint64_t last = 0;  // the field before
  while (!bytes.empty()) {
    const auto before = bytes.size();
    const std::optional<Field> field = TakeField(&bytes);
    if (!field) return std::nullopt;
    const auto* const known = std::find_if(
        std::begin(kFields), std::end(kFields), [&](const auto& f) {
          return f.within == kind && f.number == field->number;
        });
    if (known == std::end(kFields)) {
      unknown += static_cast<Bytes>(before - bytes.size());
    } else {
      const auto taken = BytesOfField(known->kind, *field, depth);
      if (!taken) return std::nullopt;
      count += *taken;
      if (known->many) count += last == field->number ? kOfPointer : kOfList;
    }
    last = field->number;
  }
  // Unknown fields are kept as bytes, in a text that doubles.
  return unknown > 0 ? count + 3 * unknown + kOfUnknown : count;
}

}  // namespace

std::optional<Bytes> BytesOfMessages(std::string_view model) {
  return BytesWithin(Kind::kModel, model, 1);
}

}  // namespace stowage::onnx

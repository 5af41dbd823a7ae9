#include "onnx/tensor.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/files.h"
#include "base/strings.h"

namespace stowage::onnx {

namespace {

using pb::TensorProto;

constexpr std::pair<DType, TensorProto::DataType> kElements[] = {
    {DType::kF32, TensorProto::FLOAT},   {DType::kF64, TensorProto::DOUBLE},
    {DType::kF16, TensorProto::FLOAT16}, {DType::kBF16, TensorProto::BFLOAT16},
    {DType::kI16, TensorProto::INT16},   {DType::kI32, TensorProto::INT32},
    {DType::kI64, TensorProto::INT64},   {DType::kU8, TensorProto::UINT8},
    {DType::kBool, TensorProto::BOOL},
};

Error WrongTensor(const TensorProto& tensor, std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[onnx] tensor ", Quoted(tensor.name()), " ", what)};
}

// A packed list of whole numbers, each as a T: so many bytes.
template <typename T>
std::string PackedAs(std::string_view list, Bytes size) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(size));
  while (const std::optional<uint64_t> number = TakeVarint(&list)) {
    const auto value = static_cast<T>(*number);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return bytes;
}

// The numbers that stand in lists instead of raw bytes; which list is ONNX's rule.
std::string ListedBytes(const TensorProto& tensor, const TensorType& type) {
  switch (type.dtype) {
    case DType::kF32:
      return tensor.float_data();
    case DType::kF64:
      return tensor.double_data();
    case DType::kF16:
    case DType::kBF16:  // the bits of each, in an int32
    case DType::kI16:
      return PackedAs<uint16_t>(tensor.int32_data(), type.bytes());
    case DType::kI32:
      return PackedAs<int32_t>(tensor.int32_data(), type.bytes());
    case DType::kI64:
      return PackedAs<int64_t>(tensor.int64_data(), type.bytes());
    case DType::kU8:
    case DType::kBool:
      return PackedAs<uint8_t>(tensor.int32_data(), type.bytes());
  }
  return {};
}

// The numbers of a list of so many bytes each; absent where it ends within one.
template <typename T>
std::optional<int64_t> CountOf(std::string_view list) {
  if (list.size() % sizeof(T) != 0) return std::nullopt;
  return static_cast<int64_t>(list.size() / sizeof(T));
}

// Absent where a list ends within a number.
std::optional<int64_t> CountListed(const TensorProto& tensor, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CountOf<float>(tensor.float_data());
    case DType::kF64:
      return CountOf<double>(tensor.double_data());
    case DType::kI64:
      return CountVarints(tensor.int64_data());
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kI32:
    case DType::kU8:
    case DType::kBool:
      return CountVarints(tensor.int32_data());
  }
  return 0;
}

struct ExternalPlace {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

Result<ExternalPlace> PlaceOfTensor(const TensorProto& tensor) {
  ExternalPlace place;
  for (const pb::StringStringEntryProto& entry : tensor.external_data()) {
    const auto number = [&]() -> Result<uint64_t> {
      uint64_t value = 0;
      for (const char c : entry.value()) {
        if (c < '0' || c > '9' || value > (uint64_t{1} << 59)) {
          return WrongTensor(tensor, StrCat("has the ", entry.key(), " ",
                                            Quoted(entry.value()),
                                            "; expected a number of bytes"));
        }
        value = 10 * value + static_cast<uint64_t>(c - '0');
      }
      return value;
    };
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset") {
      STOWAGE_ASSIGN_OR_RETURN(place.offset, number());
    } else if (entry.key() == "length") {
      STOWAGE_ASSIGN_OR_RETURN(place.length, number());
    }
  }
  return place;
}

// Whether `path`, all links followed, lies in `folder`, which is followed likewise.
bool LiesWithin(const std::filesystem::path& path,
                const std::filesystem::path& folder) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(path, error);
  if (error) return false;
  const auto within = std::filesystem::weakly_canonical(
      folder.empty() ? std::filesystem::path(".") : folder, error);
  if (error) return false;
  const auto relative = whole.lexically_relative(within);
  return !relative.empty() && *relative.begin() != "..";
}

// The folder that `model` lies in once links are followed: of Hugging Face's cache that
// is another than that of the name, and the tensors beside the model are links into it.
std::filesystem::path FolderOfTarget(const std::string& model) {
  std::error_code error;
  return std::filesystem::weakly_canonical(model, error).parent_path();
}

// The place of a tensor of so many bytes, of which the file alone may be wrong yet.
Result<ExternalPlace> PlaceWithin(const TensorProto& tensor,
                                  const std::string& model, Bytes size) {
  STOWAGE_ASSIGN_OR_RETURN(ExternalPlace place, PlaceOfTensor(tensor));
  const std::filesystem::path relative(place.location);
  const auto folder = std::filesystem::path(model).parent_path();
  const auto path = folder / relative;
  if (relative.empty() || relative.is_absolute() ||
      *relative.lexically_normal().begin() == ".." ||
      !(LiesWithin(path, folder) || LiesWithin(path, FolderOfTarget(model)))) {
    return WrongTensor(tensor,
                       StrCat("lies in ", Quoted(place.location),
                              "; expected a file in the folder of the model"));
  }
  if (place.length && *place.length != static_cast<uint64_t>(size)) {
    return WrongTensor(
        tensor, StrCat("has ", *place.length, " bytes in ",
                       Quoted(place.location), "; its shape takes ", size));
  }
  // Also where it is not read, as for a plan: it is a part of the model.
  STOWAGE_RETURN_IF_ERROR(NoteInput(path.string()));
  return place;
}

Result<std::string> ExternalBytes(const TensorProto& tensor,
                                  const std::string& model, Bytes size) {
  STOWAGE_ASSIGN_OR_RETURN(const ExternalPlace place,
                           PlaceWithin(tensor, model, size));
  const auto path = std::filesystem::path(model).parent_path() / place.location;
  const Result<InputFile> file = InputFile::Open(path.string(), "onnx");
  if (!file.ok()) {
    return Error{file.error().code,
                 StrCat(file.error().message, "; tensor ",
                        Quoted(tensor.name()), " lies there")};
  }
  const auto whole = static_cast<uint64_t>(file->size());
  if (place.offset > whole ||
      whole - place.offset < static_cast<uint64_t>(size)) {
    return WrongTensor(
        tensor, StrCat("takes ", size, " bytes from ", place.offset, " on of ",
                       Quoted(place.location), ", which has ", whole));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  STOWAGE_RETURN_IF_ERROR(
      file->ReadAt(static_cast<Bytes>(place.offset),
                   std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace

Result<DType> DTypeOfElement(int32_t data_type) {
  for (const auto& [dtype, element] : kElements) {
    if (element == data_type) return dtype;
  }
  const std::string name =
      TensorProto::DataType_IsValid(data_type)
          ? TensorProto::DataType_Name(
                static_cast<TensorProto::DataType>(data_type))
          : StrCat(data_type);
  return Error{ErrorCode::kUnsupported,
               StrCat("[onnx] elements of type ", name,
                      " are not supported; expected FLOAT, DOUBLE, FLOAT16, "
                      "BFLOAT16, INT16, INT32, INT64, UINT8 or BOOL")};
}

int32_t ElementOfDType(DType dtype) {
  for (const auto& [known, element] : kElements) {
    if (known == dtype) return element;
  }
  return TensorProto::UNDEFINED;
}

Result<TensorType> TypeOfTensor(const TensorProto& tensor) {
  STOWAGE_ASSIGN_OR_RETURN(const DType dtype,
                           DTypeOfElement(tensor.data_type()));
  if (tensor.dims_size() > kMaxRank) {
    return WrongTensor(
        tensor, StrCat("has ", tensor.dims_size(), " dimensions; at most ",
                       kMaxRank, " are supported"));
  }
  TensorType type{dtype, {}};
  Bytes bytes = SizeOf(dtype);
  for (const int64_t dim : tensor.dims()) {
    type.shape.push_back(dim);
    const auto product =
        dim < 0 ? std::optional<Bytes>() : CheckedMul(bytes, dim);
    if (!product) {
      return WrongTensor(tensor,
                         StrCat("has the dimension ", dim, " after ", bytes,
                                " bytes; sizes must be at least 0 and fit "
                                "63 bits"));
    }
    bytes = *product;
  }
  return type;
}

Status CheckTensor(const TensorProto& tensor, const std::string& model) {
  STOWAGE_ASSIGN_OR_RETURN(const TensorType type, TypeOfTensor(tensor));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    const Result<ExternalPlace> place =
        PlaceWithin(tensor, model, type.bytes());
    return place.ok() ? Status() : place.error();
  }
  auto held = static_cast<Bytes>(tensor.raw_data().size());
  if (!tensor.has_raw_data()) {
    const std::optional<int64_t> count = CountListed(tensor, type.dtype);
    if (!count)
      return WrongTensor(tensor, "has a list that ends within a number");
    held = *count * SizeOf(type.dtype);
  }
  if (held == type.bytes()) return {};
  return WrongTensor(tensor, StrCat("has ", held, " bytes of contents; ",
                                    type.ToString(), " takes ", type.bytes()));
}

std::optional<std::string> FileOfTensor(const TensorProto& tensor,
                                        const std::string& model) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return std::nullopt;
  const Result<ExternalPlace> place = PlaceOfTensor(tensor);
  if (!place.ok()) return std::nullopt;
  return (std::filesystem::path(model).parent_path() / place->location)
      .string();
}

Result<Array> ReadTensor(const TensorProto& tensor, const std::string& model) {
  STOWAGE_RETURN_IF_ERROR(CheckTensor(tensor, model));
  Array array;
  STOWAGE_ASSIGN_OR_RETURN(array.type, TypeOfTensor(tensor));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    STOWAGE_ASSIGN_OR_RETURN(array.bytes,
                             ExternalBytes(tensor, model, array.type.bytes()));
  } else if (tensor.has_raw_data()) {
    array.bytes = tensor.raw_data();
  } else {
    array.bytes = ListedBytes(tensor, array.type);
  }
  return array;
}

void SetContents(std::string bytes, TensorProto* tensor) {
  tensor->clear_float_data();
  tensor->clear_double_data();
  tensor->clear_int32_data();
  tensor->clear_external_data();
  tensor->clear_data_location();
  tensor->set_raw_data(std::move(bytes));
}

DeclaredTypes::DeclaredTypes(const pb::GraphProto& graph) {
  for (const std::string& bytes : graph.value_info()) {
    pb::ValueInfoProto info;
    if (info.ParseFromString(bytes)) others_[info.name()] = &bytes;
  }
  for (const pb::ValueInfoProto& info : graph.output()) {
    outputs_[info.name()] = &info;
  }
}

std::optional<pb::TypeProto::Tensor> DeclaredTypes::Find(
    const std::string& name) const {
  pb::ValueInfoProto info;
  if (const auto output = outputs_.find(name); output != outputs_.end()) {
    info = *output->second;
  } else if (const auto other = others_.find(name); other != others_.end()) {
    info.ParseFromString(*other->second);
  }
  if (!info.type().has_tensor_type()) return std::nullopt;
  return info.type().tensor_type();
}

}  // namespace stowage::onnx

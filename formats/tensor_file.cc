#include "formats/tensor_file.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "formats/npz.h"

namespace stowage {
namespace {

// Whether it begins as a ZIP archive, if only as one of nothing.
Result<bool> IsArchive(const InputFile& file) {
  std::array<char, 4> first = {};
  if (file.size() < static_cast<Bytes>(first.size())) return false;
  STOWAGE_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(first))));
  const std::string_view begin(first.data(), first.size());
  return begin == "PK\3\4" || begin == "PK\5\6";
}

}  // namespace

Result<TensorFile> TensorFile::Open(const std::string& path,
                                    std::string_view room) {
  STOWAGE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path, room));
  STOWAGE_ASSIGN_OR_RETURN(const bool is_archive, IsArchive(file));
  if (!is_archive) {
    STOWAGE_ASSIGN_OR_RETURN(SafetensorsFile tensors,
                             SafetensorsFile::Open(path, room));
    return TensorFile(std::move(tensors));
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  STOWAGE_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  STOWAGE_ASSIGN_OR_RETURN(std::vector<NamedArray> arrays,
                           ParseNpz(bytes, path));
  std::vector<SafeTensor> tensors;
  for (const NamedArray& array : arrays) {
    tensors.push_back({.name = array.name, .type = array.array.type});
  }
  return TensorFile(
      Npz{std::move(file), std::move(arrays), std::move(tensors)});
}

const std::vector<SafeTensor>& TensorFile::tensors() const {
  if (const Npz* npz = std::get_if<Npz>(&file_)) return npz->tensors;
  return std::get<SafetensorsFile>(file_).header().tensors;
}

Status TensorFile::Read(const SafeTensor& tensor,
                        std::span<std::byte> to) const {
  const Npz* const npz = std::get_if<Npz>(&file_);
  if (npz == nullptr) return std::get<SafetensorsFile>(file_).Read(tensor, to);
  const auto index = static_cast<size_t>(&tensor - npz->tensors.data());
  std::ranges::copy(npz->arrays.at(index).array.data(), to.begin());
  return {};
}

Error TensorFile::Fail(std::string_view message, ErrorCode code) const {
  return std::visit(
      [&](const auto& file) {
        if constexpr (requires { file.Fail(message, code); }) {
          return file.Fail(message, code);
        } else {
          return file.file.Fail(message, code);
        }
      },
      file_);
}

}  // namespace stowage

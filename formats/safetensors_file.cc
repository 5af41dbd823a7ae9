#include "formats/safetensors_file.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr Bytes kMaxHeaderBytes = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little,
              "the files hold little-endian bytes");

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path,
                                              std::string_view room) {
  STOWAGE_ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(path, room));
  SafetensorsFile file(std::move(opened));
  STOWAGE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Status SafetensorsFile::ReadHeader() {
  const Bytes size = file_.size();
  if (size < 8) {
    return Fail(StrCat("has ", size,
                       " bytes, too few for a header; it is truncated or no "
                       "safetensors file"));
  }
  uint64_t length = 0;
  STOWAGE_RETURN_IF_ERROR(
      file_.ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > static_cast<uint64_t>(kMaxHeaderBytes) ||
      static_cast<Bytes>(length) > size - 8) {
    return Fail(StrCat("states a header of ", length, " bytes and has ", size,
                       "; it is truncated or no safetensors file"));
  }
  std::string text(length, '\0');
  STOWAGE_RETURN_IF_ERROR(
      file_.ReadAt(8, std::as_writable_bytes(std::span(text))));
  data_begin_ = 8 + static_cast<Bytes>(length);
  data_bytes_ = size - data_begin_;
  auto header = ParseSafetensorsHeader(text, data_bytes_);
  if (!header.ok()) {
    return Fail(StrCat("is damaged: ", header.error().message));
  }
  header_ = *std::move(header);
  return {};
}

Status SafetensorsFile::Read(Bytes begin, std::span<std::byte> to) const {
  STOWAGE_CHECK(begin >= 0 && static_cast<Bytes>(to.size()) <= data_bytes_ &&
                begin <= data_bytes_ - static_cast<Bytes>(to.size()));
  return file_.ReadAt(data_begin_ + begin, to);
}

Status SafetensorsFile::Read(const SafeTensor& tensor,
                             std::span<std::byte> to) const {
  STOWAGE_CHECK(tensor.end - tensor.begin == static_cast<Bytes>(to.size()));
  return Read(tensor.begin, to);
}

}  // namespace stowage

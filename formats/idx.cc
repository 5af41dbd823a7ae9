#include "formats/idx.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/strings.h"
#include "formats/gzip.h"

namespace stowage {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kDimBytes = 4;

std::optional<DType> TypeOf(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::kU8;
    case 0x0B:
      return DType::kI16;
    case 0x0C:
      return DType::kI32;
    case 0x0D:
      return DType::kF32;
    case 0x0E:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

Result<Array> Parse(std::string_view bytes, std::string_view origin) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[idx] ", Quoted(origin), " ", why)};
  };
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < kMagicBytes) {
    return fail(StrCat("has ", bytes.size(),
                       " bytes; an IDX file begins with 4 that say its type"));
  }
  if (byte(0) != 0 || byte(1) != 0) {
    return fail(StrCat("is no IDX file: its first bytes are ", byte(0), ", ",
                       byte(1), "; expected 0, 0"));
  }
  const std::optional<DType> dtype = TypeOf(byte(2));
  if (!dtype) {
    return fail(StrCat("has elements of IDX type ", byte(2),
                       "; expected 8 (u8), 11 (i16), 12 (i32), 13 (f32) or 14 "
                       "(f64)"));
  }
  const int rank = byte(3);
  if (rank > kMaxRank) {
    return fail(
        StrCat("has ", rank, " dimensions; at most ", kMaxRank, " are read"));
  }
  const size_t header = kMagicBytes + static_cast<size_t>(rank) * kDimBytes;
  if (bytes.size() < header) {
    return fail(StrCat("has ", bytes.size(), " bytes; the header of ", rank,
                       " dimensions alone takes ", header));
  }
  TensorType type{*dtype, {}};
  for (size_t at = kMagicBytes; at < header; at += kDimBytes) {
    type.shape.push_back(int64_t{byte(at)} << 24 | byte(at + 1) << 16 |
                         byte(at + 2) << 8 | byte(at + 3));
  }
  const std::optional<int64_t> elements = type.shape.CheckedNumElements();
  const std::optional<Bytes> size =
      elements ? CheckedMul(*elements, SizeOf(*dtype)) : std::nullopt;
  if (!size) {
    return fail(StrCat("is of shape ", type.shape.ToString(),
                       ", which has no element or too many"));
  }
  const std::string_view body = bytes.substr(header);
  if (static_cast<size_t>(*size) != body.size()) {
    return fail(StrCat("has ", body.size(), " bytes after its header; ",
                       type.ToString(), " takes ", *size));
  }
  Array array{type, std::string(body)};
  const Bytes width = SizeOf(*dtype);
  if (std::endian::native == std::endian::little && width > 1) {
    for (auto at = array.bytes.begin(); at != array.bytes.end(); at += width) {
      std::reverse(at, at + width);
    }
  }
  return array;
}

}  // namespace

Result<Array> ParseIdx(std::string_view bytes, std::string_view origin) {
  if (!IsGzip(bytes)) return Parse(bytes, origin);
  STOWAGE_ASSIGN_OR_RETURN(const std::string unpacked, Gunzip(bytes, origin));
  return Parse(unpacked, origin);
}

}  // namespace stowage

#include "base/byte_stream.h"

#include <bit>

#include "base/strings.h"

namespace stowage {

void ByteWriter::Real(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) {
    bytes_.push_back(static_cast<char>(bits >> shift & 0xff));
  }
}

void ByteWriter::Interned(std::string_view text) {
  const auto [entry, is_new] =
      interned_.try_emplace(std::string(text), interned_.size());
  Unsigned(entry->second);
  if (is_new) Text(text);
}

void ByteReader::Fail(std::string_view what) {
  if (ok()) {
    error_ = StrCat("[", package_, "] byte ", at_, " of ", bytes_.size(), ": ",
                    what, "; the bytes are damaged, or of another kind");
  }
  at_ = bytes_.size();
}

Status ByteReader::status() const {
  if (ok()) return {};
  return Error{ErrorCode::kInvalidArgument, error_};
}

uint64_t ByteReader::LongUnsigned() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) {
      Fail("they end within a number");
      return 0;
    }
    const auto byte = static_cast<uint8_t>(bytes_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  Fail("a number does not fit 64 bits");
  return 0;
}

void ByteReader::FailRange(int64_t value, int64_t least, int64_t most,
                           std::string_view what) {
  Fail(StrCat(what, " is ", value, "; expected ", least, " to ", most));
}

void ByteReader::FailBelow(uint64_t value, size_t end, std::string_view what) {
  Fail(StrCat(what, " is ", value, "; expected one below ", end));
}

double ByteReader::Real() {
  if (bytes_.size() - at_ < 8) {
    Fail("they end within a real");
    return 0;
  }
  uint64_t bits = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[at_++])) << shift;
  }
  return std::bit_cast<double>(bits);
}

std::string_view ByteReader::Text() {
  const size_t size = Count("the length of a text");
  const std::string_view text = bytes_.substr(at_, size);
  at_ += text.size();
  return text;
}

std::string_view ByteReader::Interned() {
  const size_t index = Below(interned_.size() + 1, "the number of a text");
  if (index == interned_.size()) interned_.push_back(Text());
  return interned_[index];
}

}  // namespace stowage

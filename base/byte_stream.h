#ifndef STOWAGE_BASE_BYTE_STREAM_H_
#define STOWAGE_BASE_BYTE_STREAM_H_

// Serializes numbers and strings to bytes, and reads them back. Unsigned integers have a
// variable length (LEB128, DWARF 5, section 7.6). Signed integers are first mapped to unsigned
// ones in zigzag order (0, -1, 1, ...), so that small magnitudes are short. Reals are stored as
// their bits.
//
// A reader never reads past the end. After the first error, a reader is at the end, every read
// returns a default such as 0 or "", and status() returns that error. Callers can therefore check
// for errors once, after the last read.
//
//   ByteWriter out;
//   out.Unsigned(300);  out.Text("fc2");
//   ByteReader in(out.bytes(), "cache");
//   in.Unsigned() == 300;  in.Text() == "fc2";  in.status().ok();

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace stowage {

class ByteWriter {
 public:
  void Unsigned(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_.push_back(static_cast<char>(value | 0x80));
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void Signed(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    Unsigned(value < 0 ? ~(bits << 1) : bits << 1);
  }
  /// Writes a size or an index.
  void Count(size_t value) { Unsigned(value); }
  void Real(double value);
  void Text(std::string_view text) {
    Unsigned(text.size());
    bytes_.append(text);
  }
  /// Writes the index of `text` among the distinct strings that this function has written. The
  /// first time, `text` itself follows.
  void Interned(std::string_view text);

  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
  std::unordered_map<std::string, size_t> interned_;
};

class ByteReader {
 public:
  /// Reads `bytes`, which must outlive this object and the views that Text and Interned
  /// return. Error messages begin with `[package]`.
  ByteReader(std::string_view bytes, std::string_view package)
      : bytes_(bytes), package_(package) {}

  uint64_t Unsigned() {
    if (at_ < bytes_.size() && (bytes_[at_] & 0x80) == 0) {
      return static_cast<uint8_t>(bytes_[at_++]);
    }
    return LongUnsigned();
  }
  int64_t Signed() {
    const uint64_t bits = Unsigned();
    return static_cast<int64_t>((bits & 1) == 0 ? bits >> 1 : ~(bits >> 1));
  }
  /// Reads a signed integer, which must be in [least, most]. After an error, returns a number in
  /// this range. In Int, Below and Count, `what` names the number in the error message.
  int64_t Int(int64_t least, int64_t most, std::string_view what) {
    const int64_t value = Signed();
    if (value >= least && value <= most) return value;
    FailRange(value, least, most, what);
    return least;
  }
  /// Reads an unsigned integer, which must be less than `end`. Returns 0 on an error.
  size_t Below(size_t end, std::string_view what) {
    return Check(Unsigned(), end, what);
  }
  /// Reads a number of items, such as the length of a list. Fails if fewer bytes than items remain,
  /// since each item has at least one byte.
  size_t Count(std::string_view what) {
    const uint64_t value = Unsigned();
    return Check(value, bytes_.size() - at_ + 1, what);
  }
  double Real();
  std::string_view Text();
  std::string_view Interned();

  bool ok() const { return error_.empty(); }
  bool AtEnd() const { return at_ == bytes_.size(); }
  /// Returns the first error, whose code is kInvalidArgument, or OK.
  Status status() const;
  /// Records an error at the current position, unless an earlier error is recorded, and moves to
  /// the end, so that all later reads fail.
  void Fail(std::string_view what);

 private:
  uint64_t LongUnsigned();
  void FailRange(int64_t value, int64_t least, int64_t most,
                 std::string_view what);
  size_t Check(uint64_t value, size_t end, std::string_view what) {
    if (value < end) return static_cast<size_t>(value);
    FailBelow(value, end, what);
    return 0;
  }
  void FailBelow(uint64_t value, size_t end, std::string_view what);

  std::string_view bytes_;
  std::string_view package_;
  size_t at_ = 0;
  std::string error_;
  std::vector<std::string_view> interned_;
};

}  // namespace stowage

#endif  // STOWAGE_BASE_BYTE_STREAM_H_

#include "formats/gzip.h"

#ifdef STOWAGE_HAS_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/memory.h"
#include "base/strings.h"

namespace stowage {

bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

#ifdef STOWAGE_HAS_ZLIB

namespace {

constexpr size_t kMax = 2'147'483'647;
constexpr int kGzip = 15 + 16;  // inflateInit2: the largest window, .gz
constexpr int kRaw = -15;       // the same, without header and checksum

// Deflate expands a byte to at most 1032 (RFC 1951).
constexpr size_t kMaxOfOneByte = 1032;

// A zlib stream, fed in blocks of at most 4 GiB.
class Inflater {
 public:
  Inflater(std::string_view input, int window_bits) : rest_(input) {
    ready_ = inflateInit2(&stream_, window_bits) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Writes at most `room` bytes to `out`; returns zlib's code.
  int Fill(char* out, size_t room, size_t* written) {
    if (!ready_) return Z_MEM_ERROR;
    constexpr size_t kBlock = std::numeric_limits<uInt>::max();
    const size_t given = std::min(rest_.size(), kBlock);
    const size_t asked = std::min(room, kBlock);
    // zlib's pointer is not const, but it does not write.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(asked);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    rest_.remove_prefix(given - stream_.avail_in);
    *written = asked - stream_.avail_out;
    return code;
  }

  bool Restart() { return inflateReset(&stream_) == Z_OK; }
  std::string_view rest() const { return rest_; }
  std::string_view message() const {
    return stream_.msg != nullptr ? stream_.msg : "no further word";
  }

 private:
  std::string_view rest_;
  z_stream stream_ = {};
  bool ready_ = false;
};

Error Fail(std::string_view origin, std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[gzip] ", Quoted(origin), " ", why)};
}

Error Damaged(std::string_view origin, const Inflater& inflater, int code) {
  if (code == Z_MEM_ERROR) {
    return {ErrorCode::kDevice,
            StrCat("[gzip] there is no memory to read ", Quoted(origin))};
  }
  return Fail(origin, StrCat("is damaged: ", inflater.message()));
}

}  // namespace

Result<std::string> Gunzip(std::string_view bytes, std::string_view origin) {
  Inflater inflater(bytes, kGzip);
  std::string out;
  size_t size = 0;
  while (true) {
    if (size == out.size()) {
      const size_t more = std::max<size_t>(size, 1 << 16);
      STOWAGE_RETURN_IF_ERROR(CheckMemory(StrCat("unpacking ", Quoted(origin)),
                                          static_cast<Bytes>(more)));
      out.resize(size + more);
    }
    size_t written = 0;
    const int code =
        inflater.Fill(out.data() + size, out.size() - size, &written);
    size += written;
    if (size > kMax) {
      return Fail(origin, StrCat("holds more than ", kMax,
                                 " bytes, the most that are read"));
    }
    if (code == Z_STREAM_END) {
      if (inflater.rest().empty()) break;
      if (!IsGzip(inflater.rest())) {
        return Fail(origin, StrCat("goes on for ", inflater.rest().size(),
                                   " bytes after its end"));
      }
      if (!inflater.Restart()) return Damaged(origin, inflater, Z_MEM_ERROR);
    } else if (code == Z_BUF_ERROR ||
               (code == Z_OK && inflater.rest().empty() && size < out.size())) {
      return Fail(origin, StrCat("ends early: its ", bytes.size(),
                                 " bytes hold ", size, " and no end"));
    } else if (code != Z_OK) {
      return Damaged(origin, inflater, code);
    }
  }
  out.resize(size);
  return out;
}

Result<std::string> Inflate(std::string_view bytes, Bytes size,
                            std::string_view origin) {
  const auto wanted = static_cast<size_t>(size);
  const auto differs = [&](std::string_view how) {
    return Fail(origin, StrCat("is said to hold ", size, " bytes; its ",
                               bytes.size(), " bytes hold ", how));
  };
  if (wanted / kMaxOfOneByte > bytes.size()) return differs("fewer");
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory(StrCat("unpacking ", Quoted(origin)), size));
  // One byte more, to detect a longer stream.
  std::string out(wanted + 1, '\0');
  Inflater inflater(bytes, kRaw);
  size_t got = 0;
  while (true) {
    size_t written = 0;
    const int code =
        inflater.Fill(out.data() + got, out.size() - got, &written);
    got += written;
    if (got > wanted) return differs("more");
    if (code == Z_STREAM_END) break;
    if (code == Z_BUF_ERROR) return differs(StrCat(got, " and no end"));
    if (code != Z_OK) return Damaged(origin, inflater, code);
  }
  if (got < wanted) return differs(StrCat(got));
  if (!inflater.rest().empty()) {
    return Fail(origin, StrCat("goes on for ", inflater.rest().size(),
                               " bytes after its end"));
  }
  out.resize(wanted);
  return out;
}

#else  // without zlib

namespace {

Error Absent(std::string_view origin) {
  return {ErrorCode::kUnsupported,
          StrCat("[gzip] ", Quoted(origin),
                 " is compressed, and this build has no zlib; install "
                 "zlib1g-dev and build again, or unpack it")};
}

}  // namespace

Result<std::string> Gunzip(std::string_view, std::string_view origin) {
  return Absent(origin);
}

Result<std::string> Inflate(std::string_view, Bytes, std::string_view origin) {
  return Absent(origin);
}

#endif  // STOWAGE_HAS_ZLIB

}  // namespace stowage

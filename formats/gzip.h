#ifndef STOWAGE_FORMATS_GZIP_H_
#define STOWAGE_FORMATS_GZIP_H_

// Decompression by zlib: .gz files, and the members of .npz files. In a build without zlib
// both are errors that name the package to install.
//
//   if (IsGzip(bytes)) bytes = *Gunzip(bytes, "labels.gz");

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Returns whether the bytes have the magic of a .gz file.
bool IsGzip(std::string_view bytes);

/// The content of a .gz file of one member or several. `origin` names the file in errors,
/// kInvalidArgument: it is truncated, damaged, followed by other bytes or holds more than
/// 2^31 - 1 bytes. kUnsupported without zlib.
Result<std::string> Gunzip(std::string_view bytes, std::string_view origin);

/// The content, of `size` bytes, of a raw deflate stream (RFC 1951). Errors as Gunzip's, and
/// if the stream has another size or does not end with `bytes`.
Result<std::string> Inflate(std::string_view bytes, Bytes size,
                            std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GZIP_H_

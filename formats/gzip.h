#ifndef STOWAGE_FORMATS_GZIP_H_
#define STOWAGE_FORMATS_GZIP_H_

// Decompresses .gz files and the members of .npz files with zlib. In a build without zlib, Gunzip
// and Inflate return kUnsupported, naming the package to install.
//
//   if (IsGzip(bytes)) bytes = *Gunzip(bytes, "labels.gz");

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Returns whether the bytes begin with the magic number of .gz files.
bool IsGzip(std::string_view bytes);

/// Returns the content of the .gz file `bytes`, which may have several members. `origin` names the
/// file in errors. Returns kInvalidArgument if the file is truncated, damaged or followed by other
/// bytes, or if its content has more than 2^31 - 1 bytes. Returns kDevice if memory is
/// insufficient, and kUnsupported without zlib.
Result<std::string> Gunzip(std::string_view bytes, std::string_view origin);

/// Returns the content of the raw deflate stream `bytes` (RFC 1951). Returns the errors of Gunzip.
/// Also returns kInvalidArgument if the content does not have `size` bytes, or if the stream does
/// not end where `bytes` ends.
Result<std::string> Inflate(std::string_view bytes, Bytes size,
                            std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GZIP_H_

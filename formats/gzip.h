#ifndef STOWAGE_FORMATS_GZIP_H_
#define STOWAGE_FORMATS_GZIP_H_

// Decompresses .gz files and the members of .npz files with zlib. In a build without zlib, both
// functions return an error that names the package to install.
//
//   if (IsGzip(bytes)) bytes = *Gunzip(bytes, "labels.gz");

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Returns whether the bytes begin with the magic number of .gz files.
bool IsGzip(std::string_view bytes);

/// Returns the content of a .gz file, which may have several members. `origin` names the file in
/// errors. Returns kInvalidArgument if the file is truncated, is damaged, is followed by other
/// bytes or holds more than 2^31 - 1 bytes. Returns kDevice if memory is insufficient, and
/// kUnsupported without zlib.
Result<std::string> Gunzip(std::string_view bytes, std::string_view origin);

/// Returns the content of a raw deflate stream (RFC 1951), which must have `size` bytes. Returns
/// the same errors as Gunzip, and kInvalidArgument if the content has another size or the stream
/// does not end with `bytes`.
Result<std::string> Inflate(std::string_view bytes, Bytes size,
                            std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GZIP_H_

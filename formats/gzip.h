#ifndef STOWAGE_FORMATS_GZIP_H_
#define STOWAGE_FORMATS_GZIP_H_

// What zlib has compressed: .gz files, and the members of .npz files. In a build
// without zlib both are refused, and the error names the package.
//
//   if (IsGzip(bytes)) bytes = *Gunzip(bytes, "labels.gz");

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Whether the bytes begin as those of a .gz file do.
bool IsGzip(std::string_view bytes);

/// What the file holds, of one member or several. `origin` names it in errors,
/// kInvalidArgument: it ends early, is damaged, is followed by something else or
/// holds more than 2^31 - 1 bytes. kUnsupported without zlib.
Result<std::string> Gunzip(std::string_view bytes, std::string_view origin);

/// `size` bytes from a raw deflate stream (RFC 1951) that takes all of `bytes`.
/// Errors as Gunzip's, and where the stream holds fewer or more bytes.
Result<std::string> Inflate(std::string_view bytes, Bytes size,
                            std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GZIP_H_

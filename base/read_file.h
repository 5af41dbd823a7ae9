#ifndef STOWAGE_BASE_READ_FILE_H_
#define STOWAGE_BASE_READ_FILE_H_

// A whole file as a string.

#include <string>

#include "base/result.h"

namespace stowage {

/// The bytes of the file at `path`. Errors: kNotFound when there is none, kIo
/// when it is no regular file, has more than 2^31 - 1 bytes or reading fails,
/// kDevice when there is no memory for it.
Result<std::string> ReadFile(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_BASE_READ_FILE_H_

#ifndef STOWAGE_BASE_BASE_H_
#define STOWAGE_BASE_BASE_H_

// The umbrella header of base/, which provides errors and checks, byte counts, hashes, strings and
// glob patterns, and files.

#include "base/bytes.h"    // IWYU pragma: export
#include "base/files.h"    // IWYU pragma: export
#include "base/hash.h"     // IWYU pragma: export
#include "base/result.h"   // IWYU pragma: export
#include "base/strings.h"  // IWYU pragma: export

#endif  // STOWAGE_BASE_BASE_H_

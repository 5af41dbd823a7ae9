#ifndef STOWAGE_BASE_BASE_H_
#define STOWAGE_BASE_BASE_H_

// The package's umbrella header: Result and Error, internal checks, byte counts, hashes,
// strings, patterns over names, files that are replaced whole.

#include "base/bytes.h"        // IWYU pragma: export
#include "base/check.h"        // IWYU pragma: export
#include "base/glob.h"         // IWYU pragma: export
#include "base/hash.h"         // IWYU pragma: export
#include "base/output_file.h"  // IWYU pragma: export
#include "base/result.h"       // IWYU pragma: export
#include "base/strings.h"      // IWYU pragma: export

#endif  // STOWAGE_BASE_BASE_H_

#ifndef STOWAGE_FORMATS_NPZ_H_
#define STOWAGE_FORMATS_NPZ_H_

// NPZ, NumPy's file of several arrays: a ZIP archive of NPY files, stored
// (numpy.savez) or deflated (numpy.savez_compressed, which takes zlib).
//
//   Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "batches.npz");

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"

namespace stowage {

/// The arrays in `bytes`, in the order of the archive, by their names without
/// ".npy". `origin` names the file in errors, kInvalidArgument: no archive, one
/// that ends early, contradicts itself or is of a kind that is not read (several
/// disks, ZIP64, encrypted), a name that comes twice, a checksum that differs; and
/// those of ParseNpy and Inflate.
Result<std::vector<NamedArray>> ParseNpz(std::string_view bytes,
                                         std::string_view origin);

/// An archive as numpy.savez writes it, stored. Errors: a name that comes twice
/// or is longer than 65,531 bytes, more than 65,534 arrays, 4 GiB or more, and
/// NpyBytes'.
Result<std::string> NpzBytes(std::span<const NamedArray> arrays);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_NPZ_H_

#ifndef STOWAGE_RUNTIME_FINITE_H_
#define STOWAGE_RUNTIME_FINITE_H_

// NaN and infinity among the elements of a tensor's bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ir/dtype.h"

namespace stowage {

/// The index of the first element that is NaN or infinite; nothing where all are
/// finite, as integers are. `data` holds whole elements, aligned or not.
std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data);

/// The float at `index`, for messages: "nan", "-inf", "0.5".
std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_FINITE_H_

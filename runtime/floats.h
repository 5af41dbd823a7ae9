#ifndef STOWAGE_RUNTIME_FLOATS_H_
#define STOWAGE_RUNTIME_FLOATS_H_

// Writes floats into a param, and reads floats from any value that is live, of any float
// type.
//
//   WriteFloats(runner, "model.norm.weight", /*first=*/0, numbers);
//   Result<std::vector<float>> logits = ReadFloats(runner, "logits");

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/tensor_type.h"
#include "runtime/session.h"

namespace stowage {

/// Writes elements [first, first + numbers) of a param or state, each rounded to its
/// type, a few kilobytes at a time. Errors: those of Runner::WritePart; a type that is
/// not a float.
Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers);

/// All elements of a value, in row-major order; f64 is rounded to the nearest float.
/// Errors: those of Runner::ReadBytes; a type that is not a float.
Result<std::vector<float>> ReadFloats(const Runner& runner,
                                      std::string_view name);

// Finds NaN and infinity among the elements of a tensor's bytes.

/// The index of the first element that is NaN or infinite; nothing if all are finite, as
/// integers are. `data` holds whole elements, aligned or not.
std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data);

/// The float at `index`, for messages: "nan", "-inf", "0.5".
std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_FLOATS_H_

#ifndef STOWAGE_RUNTIME_WRITE_FLOATS_H_
#define STOWAGE_RUNTIME_WRITE_FLOATS_H_

// Floats into a param of any float type.
//
//   WriteFloats(runner, "model.norm.weight", /*first=*/0, numbers);

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

/// Writes elements [first, first + numbers) of a param or state, each rounded to its
/// type, by a few kilobytes at a time. Errors: those of Runner::WritePart; a type that
/// is no float.
Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WRITE_FLOATS_H_

#ifndef STOWAGE_RUNTIME_INITIAL_VALUES_H_
#define STOWAGE_RUNTIME_INITIAL_VALUES_H_

// The bytes that a param or state starts with.
//
// Each element is a function of the seed, the value's name and the element's
// index alone (Philox4x32-10), so a param starts equal in every program, plan
// and backend, and adding a layer changes no other layer's start. Of an orthogonal
// one, it is a function of the shape besides.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage {

/// Hands the starting bytes of `value`, of its type, row-major, to `take` in order: a
/// mebibyte at most at a time, from byte `begin` of the value on, so that they lie
/// nowhere else as a whole; of an orthogonal one, all at once. Normal values by the
/// Box-Muller transform in double precision. Integers start at zero or one.
void MakeInitialValues(
    const ValueInfo& value, uint64_t seed,
    const std::function<void(Bytes begin, std::span<const std::byte> bytes)>&
        take);

/// All of them, for who needs the whole.
std::vector<std::byte> InitialValues(const ValueInfo& value, uint64_t seed);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_INITIAL_VALUES_H_

#ifndef STOWAGE_RUNTIME_INITIAL_VALUES_H_
#define STOWAGE_RUNTIME_INITIAL_VALUES_H_

// The initial bytes of a param or state.
//
// Each element is a function of only the seed, the value's name and the element's index
// (Philox4x32-10), so a param has the same initial values in every program, plan and
// backend, and adding a layer changes those of no other layer. Orthogonal values also
// depend on the shape.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage {

/// Passes the initial bytes of `value`, of its type, row-major, to `take` in order: at
/// most a mebibyte at a time, from byte `begin` of the value on, so that the whole is
/// never in memory; an orthogonal value is passed all at once. Normal values use the
/// Box-Muller transform in double precision. Integers start at zero or one.
void MakeInitialValues(
    const ValueInfo& value, uint64_t seed,
    const std::function<void(Bytes begin, std::span<const std::byte> bytes)>&
        take);

/// Returns all bytes at once.
std::vector<std::byte> InitialValues(const ValueInfo& value, uint64_t seed);

// How a rank keeps the params and states of a step: whole, or a block of each, of which
// rank r has the r-th. Blocks are flat and of equal size on all ranks; the last are
// padded beyond the value's end.
//
//   const RankValues values{.whole = step_of_one_rank, .rank = 2, .ranks = 4,
//                           .own_name = &OwnName};
//   BlockOf(values, runner.graph(), w);  // 25, where "own:w" has 25 elements

struct RankValues {
  const Graph& whole;  // has all of them, under their names and in their order
  int64_t rank = 0;
  int64_t ranks = 1;
  /// A rank's name for its block of a value; null if nothing is split.
  std::string (*own_name)(std::string_view name) = nullptr;
};

/// The elements of a block of `value`, a param or state of `values.whole`, in the step of
/// a rank; none if the step keeps it whole.
std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value);

/// Params, then states, in the order of `graph`.
std::vector<ValueId> PersistentValues(const Graph& graph);

// Params and states by parts, so that saving, loading or checking them takes little
// memory outside the arena, at any size.
//
//   Status sent = ReadInParts(runner, value, [&](Bytes, std::span<const std::byte> part) {
//     return write(part);
//   });

/// Maximum size of a part: whole elements of every type.
inline constexpr Bytes kPartBytes = 256 * 1024;

/// Passes `use` a buffer for each part of `bytes` bytes, in order, with its offset; the
/// first error of `use` ends it.
Status InParts(
    Bytes bytes,
    const std::function<Status(Bytes begin, std::span<std::byte>)>& use);

/// Passes each part of a param or state of `runner` to `take`, in order. Errors: those of
/// Runner::ReadPart, and the first error of `take`, which ends it.
Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes begin, std::span<const std::byte>)>& take);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_INITIAL_VALUES_H_

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

// How a rank keeps the params and states of a step: whole, or a block of each, of which
// rank r has the r-th. Blocks are flat, of as many elements at all ranks; the last are
// filled up behind the value's end.
//
//   const RankValues values{.whole = step_of_one_rank, .rank = 2, .ranks = 4,
//                           .own_name = &OwnName};
//   BlockOf(values, runner.graph(), w);  // 25, where "own:w" has 25 elements

struct RankValues {
  const Graph& whole;  // has them all, under their names and in their order
  int64_t rank = 0;
  int64_t ranks = 1;
  /// What a rank calls its block of a value; null where nothing is split.
  std::string (*own_name)(std::string_view name) = nullptr;
};

/// The elements of a block of `value`, a param or state of `values.whole`, in the step of
/// a rank; none where the step keeps it whole.
std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value);

/// Params, then states, in the order of `graph`.
std::vector<ValueId> PersistentValues(const Graph& graph);

// Params and states by parts, so that to save, load or look at them takes a small part
// of memory beside the arena, however large they are.
//
//   Status sent = ReadInParts(runner, value, [&](Bytes, std::span<const std::byte> part) {
//     return write(part);
//   });

/// Of a part, at most: whole elements of every type.
inline constexpr Bytes kPartBytes = 256 * 1024;

/// Hands `use` room for each part of `bytes` bytes, in order, with where it begins; the
/// first error of `use` ends it all.
Status InParts(
    Bytes bytes,
    const std::function<Status(Bytes begin, std::span<std::byte>)>& use);

/// Hands `take` each part of a param or state of `runner`, in order. Errors: those of
/// Runner::ReadPart, and of `take`, the first of which ends it all.
Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes begin, std::span<const std::byte>)>& take);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_INITIAL_VALUES_H_

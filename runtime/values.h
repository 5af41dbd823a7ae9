#ifndef STOWAGE_RUNTIME_VALUES_H_
#define STOWAGE_RUNTIME_VALUES_H_

// The values of params and states: initial ones, those of a rank, and access to them in
// parts or as floats.
//
// Each initial element is a function of only the seed, the value's name and the element's
// index (Philox4x32-10), so a param has the same initial values in every program, plan and
// backend, and adding a layer changes those of no other layer. Orthogonal values also
// depend on the shape.
//
//   WriteFloats(runner, "model.norm.weight", /*first=*/0, numbers);
//   Result<std::vector<float>> logits = ReadFloats(runner, "logits");

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
#include "ir/tensor_type.h"
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

/// How a rank keeps the params and states of a step: whole, or a block of each, of which
/// rank r has the r-th. Blocks are flat and of equal size on all ranks; the last are
/// padded beyond the value's end.
///
///   const RankValues values{.whole = step_of_one_rank, .rank = 2, .ranks = 4,
///                           .own_name = &OwnName};
///   BlockOf(values, runner.graph(), w);  // 25, if "own:w" has 25 elements
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

/// Maximum size of a part; whole elements of every type. Saving, loading and checking in
/// parts takes little memory outside the arena.
inline constexpr Bytes kPartBytes = 256 * 1024;

/// Passes `use` a buffer for each part of `bytes` bytes, in order, with its offset; the
/// first error of `use` ends it.
Status InParts(
    Bytes bytes,
    const std::function<Status(Bytes begin, std::span<std::byte>)>& use);

/// Passes each part of a param or state of `runner` to `take`, in order. Errors: those of
/// Runner::ReadPart, and the first error of `take`, which ends it.
///
///   Status sent = ReadInParts(runner, value, [&](Bytes, std::span<const std::byte> part) {
///     return write(part);
///   });
Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes begin, std::span<const std::byte>)>& take);

/// Writes elements [first, first + numbers) of a param or state, each rounded to its
/// type, a few kilobytes at a time. Errors: those of Runner::WritePart; a type that is
/// not a float.
Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers);

/// All elements of a value, in row-major order; f64 is rounded to the nearest float.
/// Errors: those of Runner::ReadBytes; a type that is not a float.
Result<std::vector<float>> ReadFloats(const Runner& runner,
                                      std::string_view name);

/// The index of the first element that is NaN or infinite; nothing if all are finite, as
/// integers are. `data` holds whole elements, aligned or not.
std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data);

/// The float at `index`, for messages: "nan", "-inf", "0.5".
std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index);

/// Calls `write`, which writes params and states of `runner` that belong together, `names` at
/// most, such as those of a checkpoint. If it fails, none of these has values any more
/// (Runner::Forget), and the error says so: a mixture of new and old values, which no step
/// has computed, is never used. Keeping the old values would take a second copy of all.
///
///   Status loaded = AllOrNone(runner, {"w", "b"}, [&]() -> Status {
///     STOWAGE_RETURN_IF_ERROR(runner.Write("w", w));
///     return runner.Write("b", b);
///   });
Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_VALUES_H_

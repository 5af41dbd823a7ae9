#ifndef STOWAGE_RUNTIME_VALUES_H_
#define STOWAGE_RUNTIME_VALUES_H_

// Provides the values of params and states: initial values, the values of a rank, and access in
// parts or as floats.
//
// Each initial element is a function of only the seed, the value's name and the element's index
// (Philox4x32-10). A param therefore has the same initial values in every program, plan and
// backend, and adding a layer does not change the values of other layers. Orthogonal values
// also depend on the shape.
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

/// Passes the initial bytes of `value` to `take` in order, in its type and row-major. Each call
/// passes at most one mebibyte, which starts at byte `begin` of the value, so the whole value
/// is never in memory. An orthogonal value is passed in one call. Normal values use the
/// Box-Muller transform in double precision. Integers are initialized to zero or one.
void MakeInitialValues(
    const ValueInfo& value, uint64_t seed,
    const std::function<void(Bytes begin, std::span<const std::byte> bytes)>&
        take);

/// Returns the initial bytes of the whole value.
std::vector<std::byte> InitialValues(const ValueInfo& value, uint64_t seed);

/// Describes the params and states that a rank stores. A rank stores a value whole, or only the
/// block of the value whose index is its rank. Blocks are flat and have the same size on all
/// ranks. The last blocks are padded beyond the value's end.
///
///   const RankValues values{.whole = step_of_one_rank, .rank = 2, .ranks = 4,
///                           .own_name = &OwnName};
///   BlockOf(values, runner.graph(), w);  // 25, if "own:w" has 25 elements.
struct RankValues {
  // A step that has all params and states whole, with their names and in their order.
  const Graph& whole;
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Returns a rank's name for its block of a value. Null if no value is split.
  std::string (*own_name)(std::string_view name) = nullptr;
};

/// Returns the number of elements in a block of `value` in the step of a rank, or nullopt if
/// the step has it whole. `value` must be a param or state of `values.whole`.
std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value);

/// Returns the params, then the states, in the order of `graph`.
std::vector<ValueId> PersistentValues(const Graph& graph);

/// The maximum size of a part in bytes, which is a multiple of every element size. Saving,
/// loading and checking in parts uses little memory outside the arena.
inline constexpr Bytes kPartBytes = 256 * 1024;

/// Calls `use` for each part of `bytes` bytes, in order, with its offset and a buffer. Stops at
/// the first error of `use` and returns it.
Status InParts(
    Bytes bytes,
    const std::function<Status(Bytes begin, std::span<std::byte>)>& use);

/// Passes each part of a param or state of `runner` to `take`, in order. Propagates errors of
/// Runner::ReadPart. Stops at the first error of `take` and returns it.
///
///   Status sent = ReadInParts(runner, value, [&](Bytes, std::span<const std::byte> part) {
///     return write(part);
///   });
Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes begin, std::span<const std::byte>)>& take);

/// Writes `numbers` to the elements of a param or state that start at `first`. Rounds each
/// number to the value's type, a few kilobytes at a time. Propagates errors of
/// Runner::WritePart. Returns an error if the type is not a float.
Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers);

/// Returns all elements of a value, in row-major order. Elements of f64 are rounded to the
/// nearest float. Propagates errors of Runner::ReadBytes. Returns an error if the type is not a
/// float.
Result<std::vector<float>> ReadFloats(const Runner& runner,
                                      std::string_view name);

/// Returns the index of the first element that is NaN or infinite, or nullopt if all elements
/// are finite. Integers are always finite. `data` must consist of whole elements, which need
/// not be aligned.
std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data);

/// Returns the float at `index` as text for messages, such as "nan", "-inf" or "0.5".
std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index);

/// Calls `write`, which must write only the params and states `names` of `runner`, such as the
/// values of a checkpoint. If `write` fails, none of these values is set any longer
/// (Runner::Forget), and the error says so. A mixture of new and old values, which no step has
/// computed, is therefore never used. Keeping the old values would require a second copy of all
/// of them.
///
///   Status loaded = AllOrNone(runner, {"w", "b"}, [&]() -> Status {
///     STOWAGE_RETURN_IF_ERROR(runner.Write("w", w));
///     return runner.Write("b", b);
///   });
Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_VALUES_H_

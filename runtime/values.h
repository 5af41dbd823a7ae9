#ifndef STOWAGE_RUNTIME_VALUES_H_
#define STOWAGE_RUNTIME_VALUES_H_

// Provides functions for the values of params and states: their initial values, the blocks that a
// rank stores, and access in parts or as floats.
//
// Each initial element is a function of only the seed, the value's name, its Init and the element's
// index (Philox4x32-10). A param therefore has the same initial values in every program, plan and
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

/// Passes the initial bytes of `value` to `take` in row-major order, in the value's type. Each call
/// passes at most one mebibyte, which starts at byte `begin` of the value, so the whole value
/// is not in memory at one time. An orthogonal value is an exception: it is passed in one call.
/// Normal values use the Box-Muller transform in double precision. Integers and bools are
/// initialized to a constant.
void MakeInitialValues(
    const ValueInfo& value, uint64_t seed,
    const std::function<void(Bytes begin, std::span<const std::byte> bytes)>&
        take);

/// Returns the initial bytes of the whole value.
std::vector<std::byte> InitialValues(const ValueInfo& value, uint64_t seed);

/// Describes the params and states that a rank stores. A rank stores either a whole value or only
/// one block of it. A block is a range of the value's elements in row-major order. Rank r stores
/// block r. Blocks have the same size on all ranks, and the last blocks are padded beyond the
/// value's end.
///
///   const RankValues values{.whole = step_of_one_rank, .rank = 2, .ranks = 4,
///                           .own_name = &OwnName};
///   BlockOf(values, runner.graph(), w);  // 25, if "own:w" has 25 elements.
struct RankValues {
  // The graph of a step on one rank, which has all params and states as whole values.
  const Graph& whole;
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Returns the name that the step of a rank gives its block of the value `name`. Null if no value
  /// is split.
  std::string (*own_name)(std::string_view name) = nullptr;
};

/// Returns the number of elements in a block of `value`, including padding, if `step`, the step of
/// a rank, splits the value. Returns nullopt if the step has the whole value. `value` must be a
/// param or state of `values.whole`.
std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value);

/// Returns the params of `graph` followed by its states, both in the order of declaration.
std::vector<ValueId> PersistentValues(const Graph& graph);

/// The maximum size of a part in bytes, which is a multiple of every element size. Values are
/// saved, loaded and checked in parts, so that little memory outside the arena is used.
inline constexpr Bytes kPartBytes = 256 * 1024;

/// Divides `bytes` bytes into parts of kPartBytes, the last of which may be smaller. Calls `use`
/// for each part, in order, with the part's offset and a buffer of its size. All calls use one
/// buffer. Stops at the first error of `use` and returns it.
Status InParts(
    Bytes bytes,
    const std::function<Status(Bytes begin, std::span<std::byte>)>& use);

/// Passes each part of `value`, a param or state of `runner`, to `take`, in order. Propagates
/// errors of Runner::ReadPart. Stops at the first error of `take` and returns it.
///
///   Status sent = ReadInParts(runner, value, [&](Bytes, std::span<const std::byte> part) {
///     return write(part);
///   });
Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes begin, std::span<const std::byte>)>& take);

/// Writes `numbers` to the elements of the param or state `name` from element `first` on. Rounds
/// each number to the value's type, a few kilobytes at a time. Propagates errors of
/// Runner::WritePart. Returns kInvalidArgument if the value's type is not a float type.
Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers);

/// Returns all elements of the value `name`, in row-major order. Elements of f64 are rounded to the
/// nearest float. Propagates errors of Runner::ReadBytes. Returns kInvalidArgument if the value's
/// type is not a float type.
Result<std::vector<float>> ReadFloats(const Runner& runner,
                                      std::string_view name);

/// Returns the index of the first element of `data` that is NaN or infinite, or nullopt if all
/// elements are finite. Integers are always finite. `data` must consist of whole elements of type
/// `dtype`, which need not be aligned.
std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data);

/// Returns element `index` of `data` as text for messages, such as "nan", "-inf" or "0.5". `dtype`,
/// the type of the elements, must be a float type.
std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index);

/// Calls `write`, which must write only the params and states `names` of `runner`, such as the
/// values of a checkpoint. If `write` fails, marks all these values as not set (Runner::Forget) and
/// returns its error with a message that says so. A mixture of new and old values is therefore
/// never used. The old values are not kept, because this would require a second copy of them.
///
///   Status loaded = AllOrNone(runner, {"w", "b"}, [&]() -> Status {
///     STOWAGE_RETURN_IF_ERROR(runner.Write("w", w));
///     return runner.Write("b", b);
///   });
Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_VALUES_H_

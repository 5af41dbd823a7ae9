#include "planner/packing/packer.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "planner/packing/best.h"
#include "planner/packing/greedy.h"
#include "planner/packing/part.h"
#include "planner/packing/validate.h"

namespace stowage::packing {
namespace {

constexpr Packer kPackers[] = {Packer::kLinear, Packer::kGreedy, Packer::kBest};
constexpr size_t kLargestNamed = 3;

// "64.0 MiB (67108864 bytes)", or "5 B" where both would be the same.
std::string Exact(Bytes bytes) {
  if (bytes < 1024) return FormatBytes(bytes);
  return StrCat(FormatBytes(bytes), " (", bytes, " bytes)");
}

// What in the problem itself makes any packing as high as the bound.
std::string Cause(const Problem& problem, const LowerBound& bound) {
  if (bound.fixed) {
    const Buffer& b = problem.buffers[*bound.fixed];
    return StrCat("the end of buffer ", BufferName(problem, *bound.fixed),
                  ", fixed at offset ", *b.offset, " with ", b.size, " bytes");
  }
  const std::vector<size_t> live = LiveAt(problem, bound.time);
  std::string text =
      StrCat("the bytes alive at time ", bound.time, "; largest live: ");
  const size_t named = std::min(live.size(), kLargestNamed);
  for (size_t k = 0; k < named; ++k) {
    text += StrCat(k > 0 ? ", " : "", BufferName(problem, live[k]), " ",
                   FormatBytes(problem.buffers[live[k]].size));
  }
  if (named < live.size())
    text += StrCat(" and ", live.size() - named, " more");
  return text;
}

// Who cannot fit together. All of a small set are named, for each counts.
std::string Named(const Problem& problem, const Misfit& misfit) {
  constexpr size_t kMaxNamed = 12;
  const size_t count = misfit.buffers.size();
  std::string text = StrCat(count, " buffers that cannot fit together: ");
  const size_t named = std::min(count, kMaxNamed);
  for (size_t k = 0; k < named; ++k) {
    text += StrCat(k > 0 ? ", " : "", BufferName(problem, misfit.buffers[k]));
  }
  if (named < count) text += StrCat(" and ", count - named, " more");
  if (misfit.irreducible) text += "; without any one of them the others would";
  return text;
}

Error OverCapacity(const Problem& problem, const LowerBound& bound,
                   const Packing& packing, const Misfit& misfit) {
  const Bytes capacity = *problem.capacity;
  if (bound.bytes > capacity) {
    return Error{
        ErrorCode::kBudgetTooSmall,
        StrCat("[pack] no packing fits the capacity of ", Exact(capacity),
               ": it is below the lower bound of ", Exact(bound.bytes), ", ",
               Cause(problem, bound), "; the ", packing.packer,
               " packer reaches ", Exact(packing.solution.height))};
  }
  if (!misfit.buffers.empty()) {
    return Error{
        ErrorCode::kBudgetTooSmall,
        StrCat("[pack] no packing fits the capacity of ", Exact(capacity),
               ": a complete search found none, although the lower bound is ",
               Exact(bound.bytes), "; it has ", Named(problem, misfit),
               "; the ", packing.packer, " packer reaches ",
               Exact(packing.solution.height))};
  }
  return Error{
      ErrorCode::kBudgetTooSmall,
      StrCat("[pack] the ", packing.packer,
             " packer does not fit the capacity of ", Exact(capacity),
             ": it reaches ", Exact(packing.solution.height),
             "; the lower bound is ", Exact(bound.bytes),
             ", so a better packing may exist; raise the capacity to the height"
             " reached")};
}

}  // namespace

const char* PackerName(Packer packer) {
  switch (packer) {
    case Packer::kLinear:
      return "linear";
    case Packer::kGreedy:
      return "greedy";
    case Packer::kBest:
      return "best";
  }
  STOWAGE_CHECK(false);
}

Result<Packer> ParsePacker(std::string_view name) {
  std::string names;
  for (const Packer packer : kPackers) {
    if (name == PackerName(packer)) return packer;
    names += StrCat(names.empty() ? "" : ", ", PackerName(packer));
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[pack] there is no packer ", Quoted(name),
                      "; expected one of: ", names)};
}

Result<Packing> Pack(const Problem& problem, const PackOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(PackAttempt attempt, TryPack(problem, options));
  if (attempt.refusal) return *std::move(attempt.refusal);
  return std::move(attempt.packing);
}

Result<PackAttempt> TryPack(const Problem& problem,
                            const PackOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckProblem(problem));
  const LowerBound bound = ComputeLowerBound(problem);

  Packing packing;
  packing.packer = PackerName(options.packer);
  Bytes proven = bound.bytes;
  Misfit misfit;
  switch (options.packer) {
    case Packer::kLinear:
      packing.solution = PackLinearly(problem);
      break;
    case Packer::kGreedy: {
      GreedyPacking greedy = PackGreedily(problem, bound.bytes);
      packing.solution = std::move(greedy.solution);
      packing.packer += StrCat(": ", greedy.order);
      break;
    }
    case Packer::kBest: {
      BestPacking best =
          PackBest(problem, bound.bytes, {.deadline = options.deadline});
      packing.solution = std::move(best.solution);
      packing.packer += StrCat(": ", best.method);
      proven = best.proven;
      misfit = std::move(best.misfit);
      break;
    }
  }
  packing.lower_bound = proven;
  packing.optimal = packing.solution.height == proven;
  std::optional<Error> refusal;
  if (problem.capacity && packing.solution.height > *problem.capacity) {
    refusal = OverCapacity(problem, bound, packing, misfit);
  }
  return PackAttempt{std::move(packing), std::move(refusal)};
}

}  // namespace stowage::packing

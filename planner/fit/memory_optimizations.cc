#include "planner/fit/memory_optimizations.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

template <typename T>
using Names = std::span<const std::pair<std::string_view, T>>;

constexpr std::array<std::pair<std::string_view, Recompute>, 3> kRecomputes = {
    {{"none", Recompute::kNone},
     {"cheap", Recompute::kCheap},
     {"auto", Recompute::kAuto}}};
constexpr std::array<std::pair<std::string_view, OffloadChoice>, 3> kOffloads =
    {{{"none", OffloadChoice::kNone},
      {"auto", OffloadChoice::kAuto},
      {"disk", OffloadChoice::kDisk}}};
constexpr std::array<std::pair<std::string_view, Tiles>, 2> kTiles = {
    {{"none", Tiles::kNone}, {"auto", Tiles::kAuto}}};
constexpr std::array<std::pair<std::string_view, NodeOrder>, 2> kOrders = {
    {{"given", NodeOrder::kGiven}, {"memory", NodeOrder::kMemory}}};

template <typename T>
std::string_view NameOf(Names<T> names, T choice) {
  for (const auto& [name, each] : names) {
    if (each == choice) return name;
  }
  STOWAGE_CHECK(false);
}

template <typename T>
Result<T> Parse(Names<T> names, std::string_view name,
                std::string_view optimization, std::string_view noun) {
  std::string expected;
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k].first == name) return names[k].second;
    const bool is_last = k + 1 == names.size();
    expected += StrCat(k == 0 ? "" : is_last ? " or " : ", ", names[k].first);
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[", optimization, "] there is no ", noun, " ",
                      Quoted(name), "; expected ", expected)};
}

}  // namespace

std::string_view RecomputeName(Recompute recompute) {
  return NameOf<Recompute>(kRecomputes, recompute);
}
Result<Recompute> ParseRecompute(std::string_view name) {
  return Parse<Recompute>(kRecomputes, name, "recompute", "choice");
}

std::string_view OffloadName(OffloadChoice choice) {
  return NameOf<OffloadChoice>(kOffloads, choice);
}
Result<OffloadChoice> ParseOffload(std::string_view name) {
  return Parse<OffloadChoice>(kOffloads, name, "offload", "choice");
}

std::string_view TilesName(Tiles tiles) { return NameOf<Tiles>(kTiles, tiles); }
Result<Tiles> ParseTiles(std::string_view name) {
  return Parse<Tiles>(kTiles, name, "tiles", "choice");
}

std::string_view NodeOrderName(NodeOrder order) {
  return NameOf<NodeOrder>(kOrders, order);
}
Result<NodeOrder> ParseNodeOrder(std::string_view name) {
  return Parse<NodeOrder>(kOrders, name, "order", "order");
}

std::span<const OptimizationInfo> OptimizationTable() {
  static constexpr OptimizationInfo kTable[] = {
      {.name = "recompute",
       .help = "Values that may be recomputed to fit the budget: none, cheap "
               "(up to "
               "1 % more operations) or auto",
       .set = [](MemoryOptimizations& optimizations,
                 std::string_view choice) -> Status {
         STOWAGE_ASSIGN_OR_RETURN(optimizations.recompute,
                                  ParseRecompute(choice));
         return {};
       },
       .get =
           [](const MemoryOptimizations& optimizations) {
             return RecomputeName(optimizations.recompute);
           }},
      {.name = "offload",
       .help = "Values that may be offloaded to fit the budget: none; auto, "
               "states, saved values and frozen weights to host memory; or "
               "disk, these and trained weights to a file",
       .set = [](MemoryOptimizations& optimizations,
                 std::string_view choice) -> Status {
         STOWAGE_ASSIGN_OR_RETURN(optimizations.offload, ParseOffload(choice));
         return {};
       },
       .get =
           [](const MemoryOptimizations& optimizations) {
             return OffloadName(optimizations.offload);
           }},
      {.name = "tiles",
       .help = "Tiles of logits: none, as in the step, or auto, smaller ones "
               "to fit the budget",
       .set = [](MemoryOptimizations& optimizations,
                 std::string_view choice) -> Status {
         STOWAGE_ASSIGN_OR_RETURN(optimizations.tiles, ParseTiles(choice));
         return {};
       },
       .get =
           [](const MemoryOptimizations& optimizations) {
             return TilesName(optimizations.tiles);
           }},
      {.name = "order",
       .help = "Order of the nodes: given, or memory, which searches for an "
               "order that needs less",
       .set = [](MemoryOptimizations& optimizations,
                 std::string_view choice) -> Status {
         STOWAGE_ASSIGN_OR_RETURN(optimizations.order, ParseNodeOrder(choice));
         return {};
       },
       .get =
           [](const MemoryOptimizations& optimizations) {
             return NodeOrderName(optimizations.order);
           }},
  };
  return kTable;
}

std::string ToText(const MemoryOptimizations& optimizations) {
  std::string text = "micro_batches";
  for (const int64_t micro_batches : optimizations.micro_batches)
    text += StrCat(" ", micro_batches);
  for (const OptimizationInfo& optimization : OptimizationTable()) {
    text +=
        StrCat("\n", optimization.name, " ", optimization.get(optimizations));
  }
  text += "\nkept";
  for (const std::string& name : optimizations.always_kept) {
    text += StrCat(" ", Quoted(name));
  }
  text += "\nrecomputed";
  for (const std::string& name : optimizations.always_recomputed) {
    text += StrCat(" ", Quoted(name));
  }
  return text + "\n";
}

MemoryOptimizations AllOptimizations(int64_t batch) {
  return {.micro_batches = MicroBatchesToTry(batch)};
}

std::vector<int64_t> MicroBatchesToTry(int64_t batch) {
  std::vector<int64_t> tries;
  const int64_t most = std::min(batch, kMaxMicroBatches);
  for (int64_t micro_batches = 1; micro_batches < most; micro_batches *= 2)
    tries.push_back(micro_batches);
  tries.push_back(most);
  return tries;
}

}  // namespace stowage

#include "planner/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/selection.h"
#include "planner/packing/validate.h"

namespace stowage {
namespace {

// How often placing is repeated with less space in the slower regions, after buffers whose sum
// would fit could not be packed there.
constexpr int kRetries = 4;

// A buffer to place, in the time of all programs one after another.
struct PlacedItem {
  std::string_view name;
  Bytes size = 0;
  Time lower = 0;
  Time upper = 0;
  double traffic = 0;
  std::vector<PlacedBuffer*> places = {};  // of each program that has it
};

// The items in which a value's bytes are, with the parts of its accesses that go to each: a
// carry of a loop alternates between two.
using ItemShares = std::vector<std::pair<size_t, double>>;

// Lists the buffers of programs and their bodies. A node takes one unit of time, one with bodies
// the time of all of them; at the end of a graph, one unit remains in which outputs are read.
class ItemList {
 public:
  ItemList(const TrafficFn& traffic, Time end) : traffic_(traffic), end_(end) {}

  // Adds the buffers of a program that runs from `begin` on, and their places in `placed`.
  Status AddProgram(const ProgramPlan& program, Time begin,
                    PlacedPlan* placed) {
    const bool is_first = items_.empty();
    Frame frame{.graph = program.graph,
                .plan = program.plan,
                .layouts = ComputeLayouts(program.graph)};
    for (const Role role : {Role::kParam, Role::kState}) {
      for (const ValueId id : program.graph.Leaves(role)) {
        const ValueInfo& value = program.graph.value(id);
        const int32_t buffer = program.plan.buffer_of[Index(id)];
        const PlannedBuffer& slot = program.plan.buffers[Index(buffer)];
        if (!IsPlaced(slot)) continue;
        if (is_first) {
          shared_[value.name] = items_.size();
          items_.push_back({.name = slot.name,
                            .size = slot.size,
                            .lower = 0,
                            .upper = end_});
        }
        const auto at = shared_.find(value.name);
        if (at == shared_.end() || items_[at->second].size != slot.size) {
          return InvalidArgumentError(
              "[place] ", RoleName(role), " ", Quoted(value.name), " of ",
              Quoted(program.graph.name()), " with ", slot.size, " bytes is ",
              at == shared_.end() ? std::string("no param or state of the step")
                                  : StrCat("one of ", items_[at->second].size,
                                           " bytes in the step"),
              "; place programs over one model");
        }
        frame.of_buffer[buffer] = at->second;
      }
    }
    AddGraph(&frame, begin, 1, placed);
    return {};
  }

  static Time Duration(const Graph& graph) {
    Time sum = 1;
    for (const Node& node : graph.nodes()) sum += Duration(node);
    return sum;
  }

  const std::vector<PlacedItem>& items() const { return items_; }

 private:
  // A graph whose buffers are being added.
  struct Frame {
    const Graph& graph;
    const Plan& plan;
    Layouts layouts;
    std::map<int32_t, size_t> of_buffer = {};  // its buffers that have an item
    // For values of a body whose buffers are outside of it, by root: leaves and outputs.
    std::map<ValueId, ItemShares> of_leaf = {};
    std::map<int32_t, ItemShares> of_outside = {};
  };

  static bool IsPlaced(const PlannedBuffer& slot) {
    return !IsOnHost(slot.region) && slot.region != Region::kOutside;
  }

  static Time Duration(const Node& node) {
    Time sum = 0;
    for (const auto& body : BodiesOf(node)) sum += Duration(*body);
    return std::max<Time>(sum, 1);
  }

  // Adds the buffers of a graph of which each node runs `times` times, from `begin` on.
  void AddGraph(Frame* frame, Time begin, double times, PlacedPlan* placed) {
    const Graph& graph = frame->graph;
    const Plan& plan = frame->plan;
    std::vector<Time> starts = {begin};
    for (const Node& node : graph.nodes()) {
      starts.push_back(starts.back() + Duration(node));
    }
    starts.push_back(starts.back() + 1);
    placed->buffers.resize(plan.buffers.size());
    placed->bodies.resize(plan.bodies.size());
    std::set<int32_t> split;  // the workspaces whose parts are placed
    for (const BodyPlan& body : plan.bodies) {
      split.insert(plan.workspace_of[Index(body.node)]);
    }
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      const PlannedBuffer& slot = plan.buffers[i];
      if (!IsPlaced(slot) || split.contains(index)) continue;
      const auto [at, is_new] =
          frame->of_buffer.try_emplace(index, items_.size());
      if (is_new) {
        const Time lower = starts[Index(slot.lower)];
        items_.push_back(
            {.name = slot.name,
             .size = slot.size,
             .lower = lower,
             .upper = std::max(starts[Index(slot.upper)], lower + 1)});
      }
      items_[at->second].places.push_back(&placed->buffers[i]);
    }
    size_t next_body = 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (GetOpDef(node.op).is_view()) continue;
      if (BodiesOf(node).empty()) {
        AddTraffic(*frame, id, times);
        continue;
      }
      const size_t count = BodiesOf(node).size();
      const double iterations = static_cast<double>(IterationsOf(node));
      Time body_begin = starts[Index(id)];
      for (const auto& body : BodiesOf(node)) {
        Frame inner{.graph = *body,
                    .plan = plan.bodies[next_body].plan,
                    .layouts = ComputeLayouts(*body)};
        LinkBody(*frame, node, plan.bodies[next_body], body_begin, &inner);
        AddGraph(&inner, body_begin,
                 times * iterations / static_cast<double>(count),
                 &placed->bodies[next_body]);
        body_begin += Duration(*body);
        ++next_body;
      }
    }
  }

  // Adds the second buffers of carries, and finds the items of values outside the body.
  void LinkBody(const Frame& outer, const Node& node, const BodyPlan& body,
                Time begin, Frame* inner) {
    const std::vector<ValueId> leaves = LeavesOf(inner->graph);
    const auto buffer_of = [&](ValueId id) {
      return inner->plan.buffer_of[Index(id)];
    };
    const auto output = [&](size_t i) {
      return inner->graph.outputs()[i].value;
    };
    if (node.op == OpKind::kCond) {
      for (size_t i = 0; i < leaves.size(); ++i) {
        inner->of_leaf[leaves[i]] = SharesOf(outer, node.inputs[i + 1]);
        inner->of_outside[buffer_of(leaves[i])] = inner->of_leaf[leaves[i]];
      }
      for (size_t i = 0; i < node.results.size(); ++i) {
        inner->of_outside[buffer_of(output(i))] =
            SharesOf(outer, node.results[i]);
      }
      return;
    }
    const LoopParts loop = PartsOfLoop(node);
    for (size_t i = 0; i < loop.operands(); ++i) {
      inner->of_leaf[leaves[i]] = SharesOf(outer, node.inputs[i]);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      inner->of_outside[buffer_of(output(i))] =
          SharesOf(outer, node.results[i]);
    }
    const Time end = begin + Duration(inner->graph);
    for (size_t i = 0; i < loop.handed_on(); ++i) {
      const ItemShares result = SharesOf(outer, node.results[i]);
      ItemShares both = result;
      if (const int32_t second = body.second_of[i]; second >= 0) {
        const PlannedBuffer& slot = inner->plan.buffers[Index(second)];
        inner->of_buffer[second] = items_.size();
        both = Scaled(result, 0.5);
        both.emplace_back(items_.size(), 0.5);
        items_.push_back({.name = slot.name,
                          .size = slot.size,
                          .lower = begin,
                          .upper = end});
        inner->of_outside[buffer_of(output(i))] = both;
      }
      // The first iteration reads a carry where the operand is.
      const double first =
          i < loop.carried ? 1.0 / static_cast<double>(loop.iterations) : 0;
      ItemShares& leaf = inner->of_leaf[leaves[loop.leaf_of(i)]];
      leaf = Scaled(leaf, first);
      for (const auto& share : Scaled(both, 1 - first)) leaf.push_back(share);
    }
  }

  static ItemShares Scaled(ItemShares shares, double factor) {
    for (auto& [item, share] : shares) share *= factor;
    return shares;
  }

  // The items of a value; none on the host or outside of all.
  static ItemShares SharesOf(const Frame& frame, ValueId id) {
    const ValueId root = frame.layouts[Index(id)].root;
    if (const auto at = frame.of_leaf.find(root); at != frame.of_leaf.end()) {
      return at->second;
    }
    int32_t buffer = frame.plan.buffer_of[Index(root)];
    const PlannedBuffer& slot = frame.plan.buffers[Index(buffer)];
    if (slot.within >= 0) buffer = slot.within;
    if (const auto at = frame.of_outside.find(buffer);
        at != frame.of_outside.end()) {
      return at->second;
    }
    const auto at = frame.of_buffer.find(buffer);
    if (at == frame.of_buffer.end()) return {};
    return {{at->second, 1.0}};
  }

  void AddTraffic(const Frame& frame, NodeId id, double times) {
    const Node& node = frame.graph.node(id);
    const int32_t workspace = frame.plan.workspace_of[Index(id)];
    const NodeTraffic traffic =
        traffic_(frame.graph, frame.layouts, node,
                 workspace < 0 ? 0 : frame.plan.buffers[Index(workspace)].size);
    const auto add = [&](const ItemShares& shares, double bytes) {
      for (const auto& [item, share] : shares) {
        items_[item].traffic += times * share * bytes;
      }
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      add(SharesOf(frame, node.inputs[i]), traffic.operands[i]);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      add(SharesOf(frame, node.results[r]), traffic.results[r]);
    }
    if (workspace >= 0) {
      add({{frame.of_buffer.at(workspace), 1.0}}, traffic.workspace);
    }
  }

  const TrafficFn& traffic_;
  const Time end_;
  std::map<std::string, size_t, std::less<>> shared_;  // params and states
  std::vector<PlacedItem> items_;
};

// "sram 262144 and psram 8388608 bytes"
std::string RegionsText(const std::vector<MemoryRegion>& regions) {
  std::string text;
  for (size_t r = 0; r < regions.size(); ++r) {
    const bool is_last = r + 1 == regions.size();
    text += StrCat(r == 0    ? ""
                   : is_last ? " and "
                             : ", ",
                   regions[r].name, " ", regions[r].bytes);
  }
  return text + " bytes";
}

class Placer {
 public:
  Placer(const std::vector<PlacedItem>& items, Bytes alignment,
         const std::vector<MemoryRegion>& regions)
      : items_(items), alignment_(alignment), regions_(regions) {}

  // Writes the places of all items, and the rest of `placement`.
  Status Place(Placement* placement) {
    STOWAGE_RETURN_IF_ERROR(CheckFits());
    Bytes reserve = 0;  // of the slower regions, for what cannot be packed
    for (int retry = 0;; ++retry) {
      const std::optional<Misplaced> misplaced = Try(reserve);
      if (!misplaced) break;
      if (retry == kRetries || !misplaced->fits_in_sum) {
        return Refusal(*misplaced);
      }
      reserve += std::max(misplaced->excess, alignment_);
    }
    placement->use.resize(regions_.size());
    for (size_t i = 0; i < items_.size(); ++i) {
      const PlacedItem& item = items_[i];
      RegionUse& use = placement->use[Index(places_[i].region)];
      use.bytes = std::max(use.bytes, places_[i].offset + item.size);
      use.traffic += item.traffic;
      placement->traffic += item.traffic;
      for (PlacedBuffer* const place : item.places) *place = places_[i];
    }
    placement->fastest_bound =
        regions_.size() > 1 ? fastest_bound_ : placement->traffic;
    return {};
  }

 private:
  // The buffers that are left for a region and that do not fit there.
  struct Misplaced {
    std::vector<size_t> items;
    size_t region = 0;  // the first of those that are left
    Bytes excess = 0;
    bool fits_in_sum = false;  // what is live at once, at all times
  };

  packing::Problem ProblemOf(const std::vector<size_t>& items) const {
    packing::Problem problem;
    for (const size_t i : items) {
      problem.buffers.push_back({.id = "",
                                 .lower = items_[i].lower,
                                 .upper = items_[i].upper,
                                 .size = items_[i].size,
                                 .alignment = alignment_,
                                 .offset = std::nullopt});
    }
    return problem;
  }

  // Errors that no choice can avoid.
  Status CheckFits() const {
    Bytes sum = 0, largest = 0;
    for (const MemoryRegion& region : regions_) {
      sum = CheckedAdd(sum, region.bytes)
                .value_or(std::numeric_limits<Bytes>::max());
      largest = std::max(largest, region.bytes);
    }
    std::vector<size_t> all;
    for (size_t i = 0; i < items_.size(); ++i) {
      all.push_back(i);
      if (items_[i].size <= largest) continue;
      return Error{
          ErrorCode::kBudgetTooSmall,
          StrCat("[place] ", Quoted(items_[i].name), " of ", items_[i].size,
                 " bytes is larger than every region: ", RegionsText(regions_),
                 "; a buffer is in one region: give a larger one")};
    }
    const packing::Problem problem = ProblemOf(all);
    STOWAGE_RETURN_IF_ERROR(packing::CheckProblem(problem));
    const packing::LowerBound bound = packing::ComputeLowerBound(problem);
    if (bound.bytes <= sum) return {};
    std::string live;
    int named = 0;
    for (const size_t i : packing::LiveAt(problem, bound.time)) {
      if (named++ == 3) break;
      live += StrCat(live.empty() ? "" : ", ", Quoted(items_[i].name), " ",
                     items_[i].size);
    }
    return Error{
        ErrorCode::kBudgetTooSmall,
        StrCat("[place] ", bound.bytes, " bytes are live at once, the largest ",
               live, "; the regions have ", sum, ": ", RegionsText(regions_),
               "; give more, or a plan with a smaller budget")};
  }

  std::optional<Misplaced> Try(Bytes reserve) {
    places_.assign(items_.size(), {});
    std::vector<size_t> left;
    for (size_t i = 0; i < items_.size(); ++i) left.push_back(i);
    for (size_t r = 0; r + 1 < regions_.size(); ++r) {
      packing::Problem problem = ProblemOf(left);
      problem.capacity = regions_[r].bytes;
      packing::SelectionOptions options{.rest = 0, .largest_of_rest = 0};
      for (size_t later = r + 1; later < regions_.size(); ++later) {
        options.rest = CheckedAdd(options.rest, regions_[later].bytes)
                           .value_or(std::numeric_limits<Bytes>::max());
        options.largest_of_rest =
            std::max(options.largest_of_rest, regions_[later].bytes);
      }
      options.rest = std::max<Bytes>(options.rest - reserve, 0);
      std::vector<double> values;
      for (const size_t i : left) values.push_back(items_[i].traffic);
      const packing::Selection selection =
          packing::SelectByValue(problem, values, options);
      if (r == 0 && reserve == 0) fastest_bound_ = selection.bound;
      std::vector<size_t> others;
      for (size_t k = 0; k < left.size(); ++k) {
        if (selection.offsets[k] == packing::kNotSelected) {
          others.push_back(left[k]);
        } else {
          places_[left[k]] = {static_cast<int32_t>(r), selection.offsets[k]};
        }
      }
      left = std::move(others);
      if (selection.excess > reserve) {
        return Misplaced{.items = std::move(left),
                         .region = r + 1,
                         .excess = selection.excess - reserve};
      }
    }
    return PackLast(left);
  }

  std::optional<Misplaced> PackLast(const std::vector<size_t>& left) {
    const size_t last = regions_.size() - 1;
    packing::Problem problem = ProblemOf(left);
    problem.capacity = regions_[last].bytes;
    // The problem has been checked.
    const packing::PackAttempt attempt = *packing::TryPack(problem);
    const packing::Solution& solution = attempt.packing.solution;
    for (size_t k = 0; k < left.size(); ++k) {
      places_[left[k]] = {static_cast<int32_t>(last), solution.offsets[k]};
    }
    if (!attempt.refusal) return std::nullopt;
    return Misplaced{.items = left,
                     .region = last,
                     .excess = solution.height - regions_[last].bytes,
                     .fits_in_sum = true};
  }

  Error Refusal(const Misplaced& misplaced) const {
    const PlacedItem& largest = items_[*std::ranges::max_element(
        misplaced.items, {}, [&](size_t i) { return items_[i].size; })];
    const bool is_last = misplaced.region + 1 == regions_.size();
    return {
        ErrorCode::kBudgetTooSmall,
        StrCat("[place] no placement was found in ", RegionsText(regions_),
               ": what is left for ", regions_[misplaced.region].name,
               is_last ? "" : " and the slower regions", " needs ",
               misplaced.excess, " bytes more than there are; the largest is ",
               Quoted(largest.name), " of ", largest.size,
               "; give more bytes, or a plan with a smaller budget")};
  }

  const std::vector<PlacedItem>& items_;
  const Bytes alignment_;
  const std::vector<MemoryRegion>& regions_;
  std::vector<PlacedBuffer> places_;  // by item
  double fastest_bound_ = 0;
};

Status CheckRegions(const std::vector<MemoryRegion>& regions) {
  if (regions.empty()) {
    return InvalidArgumentError("[place] no region is given; give at least 1");
  }
  std::set<std::string_view> names;
  for (const MemoryRegion& region : regions) {
    if (region.name.empty() || !names.insert(region.name).second) {
      return InvalidArgumentError("[place] ",
                                  region.name.empty() ? "a" : "more than one",
                                  " region has the name ", Quoted(region.name),
                                  "; each needs a name of its own");
    }
    if (region.bytes > 0) continue;
    return InvalidArgumentError("[place] region ", Quoted(region.name), " has ",
                                region.bytes, " bytes; expected at least 1");
  }
  return {};
}

}  // namespace

Bytes Placement::bytes() const {
  Bytes sum = 0;
  for (const RegionUse& each : use) sum += each.bytes;
  return sum;
}

Result<Placement> PlaceInRegions(std::span<const ProgramPlan> programs,
                                 const std::vector<MemoryRegion>& regions,
                                 const TrafficFn& traffic) {
  STOWAGE_RETURN_IF_ERROR(CheckRegions(regions));
  if (programs.empty()) {
    return InvalidArgumentError("[place] no program is given; give at least 1");
  }
  const Bytes alignment = programs.front().plan.alignment;
  Time end = 0;
  for (const ProgramPlan& program : programs) {
    STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(program.plan, program.graph));
    if (program.plan.alignment != alignment) {
      return InvalidArgumentError(
          "[place] the plan of ", Quoted(program.graph.name()),
          " is aligned to ", program.plan.alignment, " bytes, that of ",
          Quoted(programs.front().graph.name()), " to ", alignment,
          "; plan both with one alignment");
    }
    end += ItemList::Duration(program.graph);
  }
  Placement placement{.regions = regions};
  placement.programs.resize(programs.size());
  ItemList list(traffic, end);
  Time begin = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    STOWAGE_RETURN_IF_ERROR(
        list.AddProgram(programs[p], begin, &placement.programs[p]));
    begin += ItemList::Duration(programs[p].graph);
  }
  STOWAGE_RETURN_IF_ERROR(
      Placer(list.items(), alignment, regions).Place(&placement));
  return placement;
}

}  // namespace stowage

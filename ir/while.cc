#include "ir/while.h"

#include <utility>

#include "base/strings.h"
#include "ir/control_flow.h"
#include "ir/dtype.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// The operands of a branch: what is carried, then what is whole.
WhileValues ValuesOf(CondBody& branch, const WhileOperands& operands) {
  WhileValues values = {branch.builder(), {}, {}};
  const size_t carried = operands.carried.size();
  for (size_t i = 0; i < carried; ++i) {
    values.carried.push_back(branch.operand(i));
  }
  for (size_t i = 0; i < operands.whole.size(); ++i) {
    values.whole.push_back(branch.operand(carried + i));
  }
  return values;
}

// One trip: the body, or nothing.
void BuildTrip(
    LoopBody& trip, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc) {
  GraphBuilder& g = trip.builder();
  const size_t carried = operands.carried.size();
  WhileValues values = {g, {}, {}};
  for (size_t i = 0; i < carried; ++i) {
    values.carried.push_back(trip.carried(i));
  }
  for (size_t i = 0; i < operands.whole.size(); ++i) {
    values.whole.push_back(trip.whole(i));
  }
  const Value runs = holds(values);
  if (!runs.ok() || runs.builder() != &g ||
      runs.type() != TensorType{DType::kBool, {}}) {
    g.Fail(StrCat("[while] the condition is ",
                  runs.ok() && runs.builder() == &g ? runs.type().ToString()
                                                    : "no value of its graph",
                  "; expected bool()"),
           loc);
    return;
  }
  std::vector<Value> all = values.carried;
  all.insert(all.end(), values.whole.begin(), values.whole.end());
  const std::function<std::vector<Value>(CondBody&)> branches[] = {
      [&](CondBody& branch) { return ValuesOf(branch, operands).carried; },
      [&](CondBody& branch) {
        std::vector<Value> next = body(ValuesOf(branch, operands));
        if (next.size() != carried) {
          branch.builder().Fail(
              StrCat("[while] the body returns ", next.size(),
                     " values; expected as many as are carried, ", carried),
              loc);
          next.resize(carried);
        }
        return next;
      }};
  const std::vector<Value> next = Cond(g, runs, all, branches, loc);
  if (g.error()) return;
  for (size_t i = 0; i < carried; ++i) trip.Next(i, next[i]);
  trip.Sum(Cast(runs, DType::kI64, loc));
}

}  // namespace

WhileResults While(
    GraphBuilder& g, int64_t most, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc) {
  LoopResults results = Loop(
      g, most, {.carried = operands.carried, .whole = operands.whole},
      [&](LoopBody& trip) { BuildTrip(trip, operands, holds, body, loc); },
      {.name = "while"}, loc);
  WhileResults made = {.carried = std::move(results.carried)};
  if (!results.summed.empty()) made.trips = results.summed[0];
  return made;
}

}  // namespace stowage

#include <doctest/doctest.h>

#include <vector>

#include "planner/fit/offload/offload.h"

namespace stowage::fit {
namespace {

Offloadable State(ValueId value, Bytes bytes) {
  return {.value = value, .bytes = bytes, .to = 9};
}
Offloadable Forward(ValueId value, Bytes bytes) {
  return {.value = value, .bytes = bytes, .from = 1, .to = 9};
}

std::vector<ValueId> Moved(const std::vector<Offloadable>& all, Share share,
                           int64_t micro_batches = 1) {
  std::vector<ValueId> values;
  for (const Offloadable& each : Select(all, share, micro_batches)) {
    values.push_back(each.value);
  }
  return values;
}

using Shares = std::vector<Share>;
using Values = std::vector<ValueId>;

TEST_CASE("shares go from nothing to everything, by halves of the bytes") {
  // Of the states' 100 bytes the first two have half, the first has not.
  const std::vector<Offloadable> all = {State(1, 40),   State(2, 30),
                                        State(3, 30),   Forward(4, 10),
                                        Forward(5, 50), Forward(6, 40)};
  CHECK(CountStates(all) == 3);
  CHECK(SharesToTry(all) == Shares{{},
                                   {.states = 2},
                                   {.states = 3},
                                   {.states = 3, .halves = 1},
                                   {.states = 3, .halves = 2}});
  CHECK(Moved(all, {}).empty());
  CHECK(Moved(all, {.states = 2}) == Values{1, 2});
  CHECK(Moved(all, {.states = 3, .halves = 1}) == Values{1, 2, 3, 4, 5});
  CHECK(Moved(all, {.states = 3, .halves = 2}) == Values{1, 2, 3, 4, 5, 6});
  CHECK(Moved(all, {.halves = 1}) == Values{4, 5});
}

TEST_CASE(
    "in micro-batches of a batch a half is all, for the micro-batches are "
    "alike") {
  const std::vector<Offloadable> all = {State(1, 8), Forward(2, 8),
                                        Forward(3, 8)};
  CHECK(Moved(all, {.states = 1, .halves = 1}) == Values{1, 2});
  CHECK(Moved(all, {.states = 1, .halves = 1}, /*micro_batches=*/4) ==
        Values{1, 2, 3});
  CHECK(Moved(all, {.states = 1}, /*micro_batches=*/4) == Values{1});
}

TEST_CASE(
    "everything is also tried reloaded anew, where a value has two readers") {
  std::vector<Offloadable> all = {State(1, 8), Forward(2, 8)};
  all[1].again = {12};
  const Share anew = {.states = 1, .halves = 2, .again = true};
  CHECK(SharesToTry(all).size() == 5);
  CHECK(SharesToTry(all).back() == anew);
  CHECK(Select(all, anew, /*micro_batches=*/1)[1].again ==
        std::vector<NodeId>{12});
  CHECK(Select(all, {.states = 1, .halves = 2}, 1)[1].again.empty());
}

TEST_CASE("nothing, all states and everything are tried with bodies as well") {
  const std::vector<Offloadable> all = {State(1, 8), Forward(2, 8)};
  Shares expected = SharesToTry(all);
  for (const Share& share :
       {Share{.inside = true}, Share{.states = 1, .inside = true},
        Share{.states = 1, .halves = 2, .inside = true}}) {
    expected.push_back(share);
  }
  CHECK(SharesToTry(all, /*bodies=*/true) == expected);
  // Where there is nothing else to move, bodies are.
  CHECK(SharesToTry({}, /*bodies=*/true) == Shares{{}, {.inside = true}});
}

TEST_CASE("each share is tried once, however little there is to move") {
  // Half of one state's bytes is the state.
  const std::vector<Offloadable> two = {State(1, 8), Forward(2, 8)};
  CHECK(SharesToTry(two) == Shares{{},
                                   {.states = 1},
                                   {.states = 1, .halves = 1},
                                   {.states = 1, .halves = 2}});
  // More states than there are: all of them.
  CHECK(Moved(two, {.states = 7}) == Values{1});
}

}  // namespace
}  // namespace stowage::fit

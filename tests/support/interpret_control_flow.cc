// loop and cond by plain recursion: each iteration interprets the body from scratch.
// What is what is read from the node's attributes here, not from ir/bodies.h.

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/result.h"
#include "tests/support/interpret.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

// Runs `body` on what its leaves hold, in their order; gives its outputs.
std::vector<Numbers> RunBody(const Graph& body,
                             const std::vector<Numbers>& leaves,
                             Rounding rounding) {
  Tensors given;
  size_t next = 0;
  for (const ValueInfo& value : body.values()) {
    if (value.is_leaf()) given[value.name] = leaves.at(next++);
  }
  STOWAGE_CHECK(next == leaves.size());
  Tensors values = Interpret(body, given, rounding);
  std::vector<Numbers> outputs;
  for (const GraphOutput& output : body.outputs()) {
    outputs.push_back(values.at(output.name));
  }
  return outputs;
}

}  // namespace

void Loop(Call& c) {
  const Graph& body = *c.node.attrs.Graphs("bodies").at(0);
  const int64_t iterations = c.Int("iterations");
  const auto carried = static_cast<size_t>(c.Int("carried"));
  const auto sliced = static_cast<size_t>(c.Int("sliced"));
  const auto summed = static_cast<size_t>(c.Int("summed"));
  std::vector<Numbers> handed;  // carried, then summed
  for (size_t i = 0; i < carried; ++i) handed.push_back(c.input(i).data);
  for (size_t i = 0; i < summed; ++i) {
    handed.emplace_back(c.out.at(carried + i).data.size(), -0.0);
  }
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    const int64_t slice =
        c.Int("reverse") != 0 ? iterations - 1 - iteration : iteration;
    std::vector<Numbers> leaves(handed.begin(),
                                handed.begin() + c.Int("carried"));
    for (size_t i = carried; i < c.in.size(); ++i) {
      const Numbers& all = c.input(i).data;
      if (i >= carried + sliced) {
        leaves.push_back(all);
        continue;
      }
      const auto size = static_cast<int64_t>(all.size()) / iterations;
      leaves.emplace_back(all.begin() + slice * size,
                          all.begin() + (slice + 1) * size);
    }
    leaves.insert(leaves.end(), handed.begin() + c.Int("carried"),
                  handed.end());
    const std::vector<Numbers> outputs = RunBody(body, leaves, c.rounding);
    for (size_t r = 0; r < outputs.size(); ++r) {
      if (r < handed.size()) {
        handed[r] = outputs[r];
        continue;
      }
      const auto size = static_cast<int64_t>(outputs[r].size());
      std::copy(outputs[r].begin(), outputs[r].end(),
                c.out.at(r).data.begin() + slice * size);
    }
  }
  for (size_t r = 0; r < handed.size(); ++r) c.out.at(r).data = handed[r];
}

void Cond(Call& c) {
  const auto index = static_cast<size_t>(c.input(0).data.at(0));
  std::vector<Numbers> leaves;
  for (size_t i = 1; i < c.in.size(); ++i) leaves.push_back(c.input(i).data);
  const std::vector<Numbers> outputs =
      RunBody(*c.node.attrs.Graphs("bodies").at(index), leaves, c.rounding);
  for (size_t r = 0; r < outputs.size(); ++r) c.out.at(r).data = outputs[r];
}

}  // namespace stowage::interpret

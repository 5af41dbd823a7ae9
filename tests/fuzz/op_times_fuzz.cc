// Tables of op times: what parses tells the times of any graph.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/fit/cost.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

namespace {

Graph Example() {
  GraphBuilder g("example");
  const Value a = g.Input("a", DType::kF32, {4, 8});
  const Value b = g.Param("b", DType::kF32, {8, 2});
  g.Output("y", Relu(MatMul(a, b)));
  return g.Finish().value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const Graph graph = Example();
  const Result<OpTimes> times = OpTimes::Parse(text);
  if (!times.ok()) return 0;
  Check(OpTimes::Parse(times->ToText()).ok());
  for (const double nanoseconds : times->Nanoseconds(graph, Bytes{1} << 20)) {
    Check(std::isfinite(nanoseconds) && nanoseconds >= 1);
  }
  return 0;
}

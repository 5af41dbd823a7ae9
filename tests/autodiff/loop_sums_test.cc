// The gradient of a loop whose running sum is handed back of every iteration as well: it is
// no plain sum, since each addend is in all that comes after it.

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

TEST_CASE("a sum that is stacked too passes each addend what follows it") {
  constexpr DType kF64 = DType::kF64;
  GraphBuilder inner("body");
  const Value x_slice = inner.Input("x", kF64, {});
  const Value so_far = inner.Input("so_far", kF64, {});
  const Value sum = Add(so_far, x_slice);
  Result<Graph> body =
      MakeBody(inner.graph(), std::vector{x_slice.id(), so_far.id()},
               std::vector{sum.id(), sum.id()});
  REQUIRE_MESSAGE(body.ok(), body.error().message);

  GraphBuilder g("sums");
  const Value x = g.Param("x", kF64, {3});
  const Value w = g.Input("w", kF64, {3});
  const std::vector<Value> run = g.Emit(
      OpKind::kLoop, std::vector{x},
      {{"iterations", int64_t{3}},
       {"carried", int64_t{0}},
       {"sliced", int64_t{1}},
       {"summed", int64_t{1}},
       {"reverse", int64_t{0}},
       {"bodies", SubGraphs{std::make_shared<const Graph>(*std::move(body))}}});
  g.Output("loss", g.Name("loss", Add(ReduceSum(Mul(run.at(1), w)),
                                      MulScalar(run.at(0), 1000))));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> backward = BuildBackward(*forward, "loss", {});
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  const Result<Graph> linked = LinkBackward(*forward, *backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  const Tensors results =
      Interpret(*linked, {{"x", {0.5, -2, 4}}, {"w", {1, 10, 100}}});
  CHECK(results.at("loss") == std::vector<double>{0.5 - 15 + 250 + 2500});
  CHECK(results.at("grad:x") == std::vector<double>{1111, 1110, 1100});
}

}  // namespace
}  // namespace stowage
